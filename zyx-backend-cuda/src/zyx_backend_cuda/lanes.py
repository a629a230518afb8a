"""Work that was queued: streams, and how far they have come.

A stream does things in the order in which it was given them. So work on it needs no event of its own: a number says
where in the stream it is, and work on the same stream that comes after it need not wait for it. A driver's event is
made where another stream or the host has to wait; then it may stand for a place further on. That makes nothing wrong,
and launches cheaper. Every so many pieces of work one is made in any case, so that waits do not last much longer.

One thread may wait while others queue work: a lane has a lock, which is free while the driver waits. The driver's event
may stand for later work by then, if somebody else has seen that what it stood for is done. So the wait lasts longer, no
more.
"""

from __future__ import annotations

from collections import deque
from threading import RLock
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.drivers.faults import Fault
from zyx.drivers.watching import wait_watched
from zyx.drivers.work_event import QueuedEvent
from zyx.errors import LaunchError
from zyx_backend_cuda.errors import failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.drivers.watching import Watcher
    from zyx_backend_cuda.driver import NativeEvent, Session

#: After so many pieces of work, an event is recorded unasked.
_MARK_EVERY: Final = 32


class Ticket:
    """A place in a stream; that of the latest work in its segment moves on as more comes.

    Attributes:
        lane: Whose.
        number: Which: how many pieces of work there are up to it.
    """

    __slots__ = ("lane", "number")

    def __init__(self, lane: Lane, number: int) -> None:
        self.lane = lane
        self.number = number

    @property
    def is_done(self) -> bool:
        """Whether that much is known to be done."""
        return self.number <= self.lane.done


Tickets: TypeAlias = "Sequence[Ticket]"


class Lane:
    """A stream of a device: a `zyx.backend.device.Queue`. Methods must be called while the session is current.

    Attributes:
        stream: The driver's stream.
        owner: The pool that events belong to.
        issued: How many pieces of work it was given.
        done: How many of them are known to be done.
        last: What the last one is, for error texts.
        segment: The place of the latest work.
        tail: For the runtime.
    """

    def __init__(self, session: Session, device: str, owner: object, watchers: Sequence[Watcher] = ()) -> None:
        self.stream: Final = session.stream()
        self.owner: Final = owner
        self.issued = 0
        self.done = 0
        self.last = ""
        self.segment = Ticket(self, 0)
        self.tail: object = None
        self._session: Final = session
        self._device: Final = device
        self._watchers: Final = watchers
        self._marks: deque[tuple[int, NativeEvent]] = deque()
        self._spare: list[NativeEvent] = []
        self._seen: dict[Lane, int] = {}
        self._lock: Final = RLock()

    @property
    def pending(self) -> int:
        """How many pieces of work are not known to be done, after a look at the driver."""
        self.poll()
        return self.issued - self.done

    def queued(self, what: str) -> int:
        """Note a piece of work, and return its place."""
        with self._lock:
            self.segment.number = self.issued = self.issued + 1
            self.last = what
            if self.issued - (self._marks[-1][0] if self._marks else self.done) >= _MARK_EVERY:
                with self._session:
                    self.mark()
                    self.poll()
                self.segment = Ticket(self, self.issued)
            return self.issued

    def event(self) -> QueuedEvent[Ticket]:
        """Begin a segment, and return its event."""
        with self._lock:
            self.segment = Ticket(self, self.issued)
            return QueuedEvent(self.owner, self.segment, self)

    def mark(self) -> NativeEvent:
        """Record an event at the end of the stream, and return it."""
        with self._lock:
            if self._marks and self._marks[-1][0] == self.issued:
                return self._marks[-1][1]
            event = self._spare.pop() if self._spare else self._session.event()
            self._session.record(event, self.stream)
            self._marks.append((self.issued, event))
            return event

    def wait_for(self, tickets: Tickets) -> None:
        """Let what comes next wait for places in other streams."""
        for ticket in tickets:
            lane, number = ticket.lane, ticket.number
            if lane is self or number <= lane.done or number <= self._seen.get(lane, 0):
                continue
            place, event = lane.place(number)
            self._session.wait(self.stream, event)
            self._seen[lane] = place

    def place(self, number: int) -> tuple[int, NativeEvent]:
        """Return the first place from `number` on that has an event, with the event."""
        with self._lock:
            for place, event in self._marks:
                if place >= number:
                    return place, event
            with self._session:  # that of another device may be current
                return self.issued, self.mark()

    def finish(self, number: int | None = None, what: str = "") -> None:
        """Wait until the work up to `number` is done, or all of it.

        Raises:
            BackendError: The device failed.
        """
        for watcher in self._watchers:
            watcher.check()
        place = self.issued
        if (place if number is None else number) <= self.done:
            return
        try:
            if self._watchers:
                place, event = self.place(place if number is None else number)
                wait_watched(lambda: self._session.is_done(event), self._watchers)
            elif number is None:
                self._session.drain(self.stream)
            else:
                place, event = self.place(number)
                self._session.synchronize(event)
        except Fault as error:
            raise failure(what or f"waiting for {self._device}", error, LaunchError, self.last) from error
        self._reached(place)

    def poll(self) -> None:
        """See how far the stream has come."""
        with self._lock:
            while self._marks:
                place, event = self._marks[0]
                try:
                    if not self._session.is_done(event):
                        return
                except Fault as error:
                    raise failure(f"looking at {self._device}", error, LaunchError, self.last) from error
                self._reached(place)

    def _reached(self, place: int) -> None:
        with self._lock:
            self.done = max(self.done, place)
            while self._marks and self._marks[0][0] <= place:
                self._spare.append(self._marks.popleft()[1])


def finish_all(tickets: Iterable[Ticket], what: str) -> None:
    """Wait for places in streams. Raises `BackendError` if a device failed."""
    for ticket in tickets:
        ticket.lane.finish(ticket.number, what)
