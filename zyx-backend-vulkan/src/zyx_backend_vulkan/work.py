"""Work that was given to a device: its queues, how far they have come, and what went wrong.

A queue does things in the order in which it was given them, one after the other: a full barrier stands in front of each
piece of work. Kernels of a program mostly need one another, and so the runtime need not tell of work that is in the
same queue. So work on a queue needs no event of its own: a number says where in the queue it is, and the queue's
timeline, how far that has come. Where another queue or the host has to wait, it waits for a number.

Pieces of work are recorded one behind the other, and submitted when the queue has nothing to do, when there are enough
of them, or when somebody waits: a submission takes many times as long as a record of a launch.

One thread may wait while others queue work: a lane has a lock, which is free while the driver waits.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from zyx.drivers.faults import NAMED, Cause, DeviceWork, Fault
from zyx.drivers.work_event import QueuedEvent, dependent
from zyx.errors import BackendError, LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx_backend_vulkan.driver import Native

    class Queue(Protocol):
        """The part of `zyx_backend_vulkan.driver_queue.Queue` that is needed here."""

        @property
        def timeline(self) -> Native: ...
        def begin(self, *, is_kept: bool = False) -> Native: ...
        def barrier(self, commands: Native) -> None: ...
        def copy(self, commands: Native, source: Native, target: Native, nbytes: int) -> None: ...
        def end(self, commands: Native) -> None: ...
        def give_back(self, commands: Native) -> None: ...
        def submit(self, commands: Sequence[Any], waits: Sequence[tuple[Any, int]], value: int) -> None: ...
        def value(self) -> int: ...
        def wait(self, value: int, timeout_ns: int) -> bool: ...


#: So many pieces of work are submitted together at most.
_TOGETHER: Final = 16
#: After so many submissions nobody waited for, the next one waits for half of them: the driver keeps what they use.
_MOST_IN_FLIGHT: Final = 256
#: How long the driver is asked to wait, before it is looked whether the device was lost to another thread: 1 s.
_PATIENCE_NS: Final = 1_000_000_000
#: How many failures are remembered, for those who wait later.
_REMEMBERED: Final = 64


class Ticket:
    """A place in a queue; that of the latest work in its segment moves on as more comes.

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


class _Submission:
    """What was submitted together.

    Attributes:
        number: Its last piece of work.
        names: What its pieces are.
        commands: The command buffers to record anew when it is done.
        buried: What to call then.
        is_refused: Whether the driver did not take it, so that nothing of it runs.
    """

    __slots__ = ("buried", "commands", "is_refused", "names", "number")

    def __init__(self) -> None:
        self.number = 0
        self.names: list[str] = []
        self.commands: list[Any] = []
        self.buried: list[Callable[[], object]] = []
        self.is_refused = False


class Work(DeviceWork):
    """What the lanes of one device have in common.

    Attributes:
        lanes: Its lanes.
        lock: For who records, in whichever lane: they wait for one another.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lock: Final = RLock()
        self.lanes: list[Lane] = []
        self._untold: BackendError | None = None

    def running(self) -> list[str]:
        return [name for lane in self.lanes for name in lane.names]

    def owe(self, error: BackendError) -> None:
        """Note a failure of work whose caller has gone on: the next wait tells it."""
        self._untold = self._untold or error

    @property
    def owes(self) -> bool:
        """Whether there is such a failure."""
        return self._untold is not None

    def tell(self, error: BackendError | None = None) -> None:
        """Raise a failure that nobody was told of yet, or `error`, if there is one."""
        untold, self._untold = self._untold, None
        if error is not None or untold is not None:
            raise error or untold  # type: ignore[misc]  # one of them is there

    def finish(self, what: str = "") -> None:
        """Return when nothing is running. Raises as `Lane.finish` does."""
        for lane in self.lanes:
            lane.finish(what=what)


class Lane:
    """A queue of a device: a `zyx.backend.device.Queue`. Any thread may call; who records has the lock.

    Args:
        queue: The driver's queue.
        work: What it shares with the other lanes of the device.
        owner: The pool that events belong to.

    Attributes:
        owner: The same.
        lock: For who records.
        issued: How many pieces of work it was given.
        done: How many of them are known to be done.
        segment: The place of the latest work.
        tail: For the runtime.
    """

    def __init__(self, queue: Queue, work: Work, owner: object) -> None:
        self.queue: Final = queue
        self.work: Final = work
        self.owner: Final = owner
        self.lock: Final = work.lock
        self.issued = 0
        self.done = 0
        self.segment = Ticket(self, 0)
        self.tail: object = None
        self._submitted = 0
        self._open: Any = None  # the command buffer that is being recorded
        self._ended: list[Any] = []  # command buffers that are submitted before it
        self._next = _Submission()
        self._waits: dict[Lane, int] = {}
        self._seen: dict[Lane, int] = {}
        self._running: deque[_Submission] = deque()
        self._failures: deque[tuple[int, int, BackendError]] = deque(maxlen=_REMEMBERED)
        work.lanes.append(self)

    @property
    def names(self) -> list[str]:
        """What may be running."""
        running = [one for one in (*self._running, self._next) if not one.is_refused]
        return [name for submission in running for name in submission.names]

    @property
    def pending(self) -> int:
        """How many pieces of work are not known to be done, after a look at the driver."""
        self.poll()
        return self.issued - self.done

    # ---- recording; the caller has the lock

    def wait_for(self, tickets: Tickets, what: str) -> None:
        """Let what comes next, which is `what`, wait for places in other queues.

        Raises:
            BackendError: Work there failed, or the device is lost.
        """
        self.work.check(what)
        for ticket in tickets:
            lane, number = ticket.lane, ticket.number
            if number <= lane.done and not lane._failures:
                continue
            error = lane.failure_at(number)
            if error is not None:
                raise dependent(what, error) from error
            if lane is self or number <= lane.done or number <= self._seen.get(lane, 0):
                continue
            lane.flush(number)
            if self._next.names:  # which need not wait
                self.flush()
            self._waits[lane] = self._seen[lane] = max(number, self._seen.get(lane, 0))

    def commands(self) -> Native:
        """Return where to record the next piece of work, behind a barrier. `queued` has to follow.

        Raises:
            Fault: The driver refused.
        """
        if self._open is None:
            self._open = self.queue.begin()
        self.queue.barrier(self._open)
        return self._open

    def copy(self, source: object, target: object, nbytes: int) -> None:
        """Record a copy; see `zyx_backend_vulkan.driver_queue.Queue.copy`. `queued` has to follow.

        Raises:
            Fault: The driver refused.
        """
        self.queue.copy(self.commands(), source, target, nbytes)

    def play(self, recording: Native) -> None:
        """Run a command buffer that was recorded before and has ended. `queued` has to follow.

        Raises:
            Fault: The driver refused.
        """
        if self._open is not None:
            self._end()
        self._ended.append(recording)

    def bury(self, free: Callable[[], object]) -> None:
        """Call `free` when all work that is known now, and the piece that is being recorded, is done."""
        with self.lock:
            if self._open is not None or self._ended or self.issued > self._submitted:
                self._next.buried.append(free)
            elif self._running:
                self._running[-1].buried.append(free)
            else:
                free()

    def queued(self, what: str, kind: type[BackendError] = LaunchError) -> int:
        """Note a piece of work, and return its place.

        Raises:
            BackendError: The driver refused the submission, of which this is the last piece.
        """
        self.issued += 1
        self.segment.number = self.issued
        self._next.names.append(what)
        if len(self._next.names) >= _TOGETHER or self.is_idle():
            self.flush(kind=kind)
            self.segment = Ticket(self, self.issued)
        return self.issued

    def abandoned(self, what: str) -> None:
        """Note work of which a part was recorded, and the rest refused: the part runs, and is waited for like all."""
        with self.lock, suppress(BackendError):
            if self._open is not None or self._ended:
                self.queued(what)

    def event(self) -> QueuedEvent[Ticket]:
        """Begin a segment, and return its event."""
        with self.lock:
            self.segment = Ticket(self, self.issued)
            return QueuedEvent(self.owner, self.segment, self)

    def is_idle(self) -> bool:
        """Whether everything that was submitted is done."""
        if self.done < self._submitted:
            self.poll()
        return self.done >= self._submitted

    def _end(self) -> None:
        commands, self._open = self._open, None
        self._next.commands.append(commands)
        self.queue.end(commands)
        self._ended.append(commands)

    def flush(self, number: int | None = None, kind: type[BackendError] = LaunchError) -> None:
        """Submit what was recorded, if the work up to `number` was not yet.

        Raises:
            BackendError: The driver refused, or the device is lost. Nothing of it runs; who waits for it is told.
        """
        with self.lock:
            last = self.issued
            if last == self._submitted or (number is not None and number <= self._submitted):
                return
            waits = [(lane.queue.timeline, place) for lane, place in self._waits.items()]
            try:
                if self.work.lost is not None:
                    raise Fault(Cause.LOST, "no work is taken any more")
                if self._open is not None:
                    self._end()
                self.queue.submit(self._ended, waits, last)
            except Fault as fault:
                for lane in self._waits:  # nothing has waited for it
                    self._seen.pop(lane, None)
                raise self._refused(last, fault, kind) from fault
            finally:
                self._waits.clear()
                self._ended = []
            self._closed(last)
            is_full = len(self._running) > _MOST_IN_FLIGHT
            half = self._running[len(self._running) // 2].number
        if is_full:
            self.finish(half)

    def _closed(self, last: int) -> _Submission:
        """Begin the next submission, and return the one up to now, which ends with piece `last`."""
        submission, self._next = self._next, _Submission()
        submission.number = self._submitted = last
        self._running.append(submission)
        return submission

    def _refused(self, last: int, fault: Fault, kind: type[BackendError]) -> BackendError:
        """Note that the submission up to `last` does not run, and return its error."""
        names = list(dict.fromkeys(self._next.names))
        error = self.work.failed(", ".join(names[:NAMED]), fault, kind)
        self._failures.append((self._submitted + 1, last, error))
        if len(self._next.names) > 1:  # those whose callers have gone on
            self.work.owe(error)
        submission = self._closed(last)  # the timeline passes over it with the next one
        submission.is_refused = True
        if self._open is not None:
            submission.commands.append(self._open)
            self._open = None
        if self.work.lost is None:
            self._reached(self.done)
        return error

    # ---- waiting

    def failure_at(self, number: int) -> BackendError | None:
        """Return what the piece of work at a place failed with; None if it did not, as far as is known."""
        for first, last, error in self._failures:
            if first <= number <= last:
                return error
        return None

    def finish(self, number: int | None = None, what: str = "") -> None:
        """Wait until the work up to `number` is done, or all of it.

        Raises:
            BackendError: It failed, or work did of which nobody was told yet, or the device is lost.
        """
        number = self.issued if number is None else number
        if number > self.done:
            what = what or f"waiting for {self.work.name}"
            self.work.check(what)
            self.flush(number)
            self.drain(number, what)
        if self._failures or self.work.owes:
            self.work.tell(self.failure_at(number))

    def drain(self, number: int, what: str) -> None:
        """Wait until the work up to `number`, which was submitted, is over, whether or not it failed.

        Raises:
            DeviceLostError: The device is lost.
        """
        with self.lock:  # what was refused is passed over: the timeline comes to the last number before it
            number = min(number, max((one.number for one in self._running if not one.is_refused), default=0))
        try:
            while number > self.done and not self.queue.wait(number, _PATIENCE_NS):
                self.work.check(what)
        except Fault as fault:
            raise self.work.failed(what, fault, LaunchError) from fault
        with self.lock:
            self._reached(number)

    def poll(self) -> None:
        """See how far the queue has come.

        Raises:
            DeviceLostError: The device is lost.
        """
        if self.done >= self._submitted:
            return
        try:
            value = self.queue.value()
            if value > self.issued:  # what a driver may say of a device that is lost
                raise Fault(Cause.LOST, f"a timeline is at {value} of {self.issued}")
        except Fault as fault:
            raise self.work.failed(f"looking at {self.work.name}", fault, LaunchError) from fault
        with self.lock:
            self._reached(value)

    def _reached(self, value: int) -> None:
        """Note how far the timeline is."""
        running = self._running
        while running and (running[0].number <= value or running[0].is_refused):
            submission = running.popleft()
            for commands in submission.commands:
                self.queue.give_back(commands)
            for free in submission.buried:
                free()
            self.done = max(self.done, submission.number)
        self.done = max(self.done, value)


def finish_all(tickets: Iterable[Ticket], what: str) -> None:
    """Wait for places in queues. Raises `BackendError` as `Lane.finish` does."""
    for ticket in tickets:
        ticket.lane.finish(ticket.number, what)
