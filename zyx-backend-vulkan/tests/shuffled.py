"""Queues that do their work late and in any order that Vulkan allows, on the real device.

A driver may do commands at any time, together or the other way round, unless something is between them: a barrier
within a queue, a timeline between queues. Software drivers never do, and GPUs seldom. Here each command is kept, as a
command buffer of the real driver of its own, until somebody waits or the dice say so, and then one is done of those
that may be:

    launch a    barrier    launch b    launch c         b and c wait for a, and either may be first
    |------ wait for 3 of another queue ------|         none begins before that queue has come to 3

A submission that waits holds back what is in it, and what is behind a barrier behind it. A timeline comes to a number
when everything up to there is done.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from zyx_backend_vulkan import start
from zyx_backend_vulkan.driver_device import Session
from zyx_backend_vulkan.driver_programs import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    import pytest

    from zyx_backend_vulkan.driver_queue import Queue

#: How many commands are done at most when the dice say so.
_AT_ONCE = 4
#: How often a wait comes back before the timeline is there, as it does after a timeout.
_IMPATIENCE = 0.1


class Recorded:
    """A command buffer that is being recorded: commands of the real driver, and None for each barrier."""

    def __init__(self, shuffler: Shuffler) -> None:
        self.shuffler = shuffler
        self.commands: list[Any] = []

    def add(self, fill: Callable[[Any], object]) -> Any:
        """Add a command that `fill` records, and return what that returns."""
        real = self.shuffler.real
        with self.shuffler.lock:
            commands = real.begin(is_kept=True)
            try:
                real.barrier(commands)
                return fill(commands)
            finally:
                real.end(commands)
                self.commands.append(commands)


class Submission:
    """What was submitted together.

    Attributes:
        left: What is not done, and the barriers, in order.
        waits: Timelines, and how far they have to be.
        value: Where the timeline is when it is done.
        order: How many submissions there were before it.
    """

    def __init__(
        self, commands: Sequence[Recorded], waits: Sequence[tuple[ShuffledQueue, int]], value: int, order: int
    ) -> None:
        self.left = [command for recorded in commands for command in recorded.commands]
        self.waits = waits
        self.value = value
        self.order = order

    @property
    def may_begin(self) -> bool:
        return all(queue.reached >= value for queue, value in self.waits)

    @property
    def is_done(self) -> bool:
        return self.may_begin and not any(self.left)


class Shuffler:
    """What the queues of a device share.

    Args:
        real: The queue that commands are done on in the end.
        dice: Choose what is next.

    Attributes:
        queues: The queues.
        submissions: How many there were.
        done: How many commands were done.
        overtaken: How many of them before one that was submitted earlier.
    """

    def __init__(self, real: Queue, dice: Random) -> None:
        self.real = real
        self.dice = dice
        self.lock = RLock()
        self.queues: list[ShuffledQueue] = []
        self.submissions = 0
        self.done = 0
        self.overtaken = 0
        self._value = 0

    def step(self) -> bool:
        """Do one command that may be done; return whether there was one."""
        with self.lock:
            ready = [one for queue in self.queues for one in queue.ready()]
            if not ready:
                return False
            submission, place = self.dice.choice(ready)
            earlier = (one for queue in self.queues for one in queue.submitted if one.order < submission.order)
            self.overtaken += any(submission.left[:place]) or any(any(one.left) for one in earlier)
            self._value += 1
            self.real.submit([submission.left.pop(place)], (), self._value)
            while not self.real.wait(self._value, 1_000_000_000):
                pass
            self.done += 1
            for queue in self.queues:
                queue.settle()
            return True

    def some(self) -> None:
        """Do as many as the dice say."""
        for _ in range(self.dice.choice((0, 0, self.dice.randrange(_AT_ONCE)))):
            self.step()


class ShuffledQueue:
    """A queue, in place of `zyx_backend_vulkan.driver_queue.Queue`.

    Attributes:
        timeline: Itself, as other queues wait for it.
        reached: Where the timeline is.
        submitted: What is not done, in order.
    """

    has_clock = False

    def __init__(self, shuffler: Shuffler) -> None:
        self.shuffler = shuffler
        self.timeline = self
        self.reached = 0
        self.submitted: list[Submission] = []
        shuffler.queues.append(self)

    # ---- what the backend calls

    def begin(self, *, is_kept: bool = False) -> Recorded:
        del is_kept
        return Recorded(self.shuffler)

    def barrier(self, commands: Recorded) -> None:
        commands.commands.append(None)

    def copy(self, commands: Recorded, source: Any, target: Any, nbytes: int) -> None:
        commands.add(lambda native: self.shuffler.real.copy(native, source, target, nbytes))

    def end(self, commands: Recorded) -> None:
        pass

    def give_back(self, commands: Recorded) -> None:
        with self.shuffler.lock:
            running = {id(command) for one in self.submitted for command in one.left if command is not None}
            for command in filter(None, commands.commands):
                assert id(command) not in running, "a command buffer is given back that has not run"
                self.shuffler.real.give_back(command)

    def submit(self, commands: Sequence[Recorded], waits: Sequence[tuple[ShuffledQueue, int]], value: int) -> None:
        with self.shuffler.lock:
            self.submitted.append(Submission(commands, list(waits), value, self.shuffler.submissions))
            self.shuffler.submissions += 1
            self.settle()
            self.shuffler.some()

    def value(self) -> int:
        with self.shuffler.lock:
            self.shuffler.some()
            return self.reached

    def wait(self, value: int, timeout_ns: int) -> bool:
        del timeout_ns
        with self.shuffler.lock:
            while self.reached < value:
                if self.shuffler.dice.random() < _IMPATIENCE:
                    return False
                assert self.shuffler.step(), f"nothing brings the timeline to {value}: it stays at {self.reached}"
            return True

    # ---- what the shuffler asks

    def ready(self) -> Iterator[tuple[Submission, int]]:
        """Yield the commands that may be done: the submission and the place in it."""
        is_clear = True  # nothing in front is left
        for submission in self.submitted:
            may_begin = submission.may_begin
            for place, command in enumerate(submission.left):
                if command is None:
                    if not is_clear:
                        return
                    continue
                if may_begin:
                    yield submission, place
                is_clear = False
            is_clear = is_clear and may_begin

    def settle(self) -> None:
        """Bring the timeline to where everything in front is done."""
        while self.submitted and self.submitted[0].is_done:
            self.reached = self.submitted.pop(0).value


def shuffle(monkeypatch: pytest.MonkeyPatch, dice: Random) -> list[Shuffler]:
    """Give devices that are opened from now on three shuffled queues; return a list that gets what these share."""
    found: list[Shuffler] = []

    def open_session(listed: Any) -> Session:
        session: Any = Session(listed)
        shuffler = Shuffler(session.compute, dice)
        found.append(shuffler)
        session.compute, session.uploads, session.downloads = (ShuffledQueue(shuffler) for _ in range(3))
        return session  # type: ignore[no-any-return]

    good = Pipeline.record

    def record(pipeline: Pipeline, commands: Any, *args: Any) -> Any:
        if not isinstance(commands, Recorded):
            return good(pipeline, commands, *args)
        return commands.add(lambda native: good(pipeline, native, *args))

    monkeypatch.setattr(start, "Session", open_session)
    monkeypatch.setattr(Pipeline, "record", record)
    return found
