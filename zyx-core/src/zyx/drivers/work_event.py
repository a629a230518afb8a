"""Events of work that is queued in places which the pool knows by itself: commands, tickets, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from zyx.backend.event import Event
from zyx.errors import DeviceLostError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.errors import BackendError

WorkT = TypeVar("WorkT")


class WorkEvent(Event, Generic[WorkT]):
    """The completion of some pieces of work.

    Attributes:
        owner: The pool that the event belongs to.
        work: What has to be complete.
    """

    __slots__ = ("owner", "work")

    complete_when_made: ClassVar[bool] = False

    def __init__(self, owner: object, work: Sequence[WorkT] = ()) -> None:
        self.owner = owner
        self.work = work

    def again(self) -> WorkEvent[WorkT]:
        return type(self)(self.owner, self.work)


class QueuedEvent(WorkEvent[WorkT]):
    """Work in a queue that does one piece after another; see `Event.queue`."""

    __slots__ = ("queue", "segment")

    def __init__(self, owner: object, work: WorkT, queue: object) -> None:
        self.owner = owner
        self.work = (work,)
        self.queue = queue
        self.segment = work

    def again(self) -> QueuedEvent[WorkT]:
        return QueuedEvent(self.owner, self.work[0], self.queue)


class CompletedEvent(WorkEvent[WorkT]):
    """Work that was done before anybody could wait for it."""

    __slots__ = ()

    complete_when_made: ClassVar[bool] = True


def dependent(what: str, cause: BackendError) -> BackendError:
    """Return the error of something that could not run because of another failure, which may be another device's."""
    error = type(cause)(f"{what} did not run, since work before it failed: {cause}")
    if isinstance(error, DeviceLostError) and isinstance(cause, DeviceLostError):
        error.place = cause.place
    return error
