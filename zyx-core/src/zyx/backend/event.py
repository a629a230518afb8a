"""Completion of asynchronous work."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.errors import InvalidEventError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Event:
    """The completion of one piece of queued work.

    An event has one owner and is used once: passing it in a list of events to wait for gives it away, and so do
    `MemoryPool.sync_events` and `release_events`. One that is `complete_when_made`, or has a `queue` with later work in
    it, may be dropped instead. The base class stands for work that is complete already.

    Raises:
        InvalidEventError: When it is used: it was used before.

    >>> zyx.backend.Event().complete_when_made
    True
    """

    __slots__ = ("_used",)  # set once it is used: events need no constructor, which would take longer than all the rest

    #: Whether the work is done before anybody can hold the event; classes for queued work say False.
    complete_when_made: ClassVar[bool] = True

    #: The queue that the work is in, if its queue does one piece after another: the event of a later piece stands for
    #: this one as well. Then this event may be dropped, and what is queued there next need not be told of it.
    queue: object | None = None

    #: That part of the queue of which the event tells; see `zyx.backend.device.Queue`.
    segment: object | None = None

    def take(self) -> None:
        """Mark the event as used. Backends call this for every event that they are given.

        Raises:
            InvalidEventError: It was used before.
        """
        if hasattr(self, "_used"):
            raise InvalidEventError(
                f"{type(self).__name__} was used before; an event may be waited for or released once"
            )
        self._used = True

    def again(self) -> Event | None:
        """Return another event for the same work, with an owner of its own; this one stays as it is.

        So several can wait for one piece of work: whoever gives a buffer back while others still hold the event of its
        last use, for one. It must be cheap, and must neither wait nor queue anything. None, as the default has it, says
        that there is no way; then the runtime waits for the work itself.
        """
        return None


def take_all(events: Iterable[Event]) -> None:
    """Mark all of `events` as used.

    Raises:
        InvalidEventError: One was used before.

    >>> events = [zyx.backend.Event(), zyx.backend.Event()]
    >>> zyx.backend.take_all(events)
    """
    for event in events:
        event.take()
