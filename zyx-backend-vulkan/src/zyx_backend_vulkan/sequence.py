"""Captured sequences: launches that follow one another.

A sequence that is launched with the same buffers a second time is recorded: its launches become command buffers that
are submitted again and again. Numbers lie in these, so launches that are given numbers are recorded anew each time,
between the command buffers of the others. A few recordings are kept, since programs take turns with the same few
buffers. The first time, launches are recorded one by one, as without a sequence.

Launches that touch other buffers than those in front of them since the last barrier need none: they may run together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from zyx.drivers.faults import Fault
from zyx.drivers.sequences import Outline, Recordings, bound, outline
from zyx_backend_vulkan.program import KernelProgram, VulkanProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Launch
    from zyx_backend_vulkan.memory import VulkanPool

#: How many recordings a sequence keeps.
_RECORDINGS: Final = 8


class _Recording:
    """Launches for some buffers.

    Attributes:
        parts: Command buffers, and numbers of launches that are recorded anew.
        buried: What to call when it is dropped.
    """

    __slots__ = ("buried", "parts")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.buried: list[Callable[[], object]] = []

    @property
    def commands(self) -> list[Any]:
        return [part for part in self.parts if not isinstance(part, int)]


class VulkanSequence(VulkanProgram):
    """A captured sequence.

    Args:
        launches: The launches, of programs that are checked to be of this device.
        slots: Number of arguments.
        pool: The device's pool.
        device: The device's name.

    Raises:
        LaunchError: An argument does not fit.
    """

    __slots__ = ("__weakref__", "_changing", "_recordings", "_steps")

    is_sequence: ClassVar[bool] = True

    def __init__(self, launches: Sequence[Launch], slots: int, pool: VulkanPool, device: str) -> None:
        made: Outline[KernelProgram] = outline(launches, slots, pool, device)
        super().__init__(made.name, "", made.what, pool, made.parameters)
        self._steps = [bound(step) for step in made.steps]
        for step in self._steps:
            step.program.sequences += 1
        #: The launches that are given numbers which may be others the next time.
        self._changing = {
            number
            for number, step in enumerate(made.steps)
            if any(made.parameters[slot].scalar is not None for _, slot in step.slots)
        }
        self._recordings: Recordings[_Recording] = Recordings(_RECORDINGS, is_on=len(self._steps) > 1, drop=self._drop)
        pool.holders.add(self)

    @property
    def is_empty(self) -> bool:
        """Whether there are no launches."""
        return not self._steps

    def enqueue(self, natives: Sequence[Any]) -> None:
        lane = self.pool.compute
        recording = None
        if self._recordings.is_on:
            key = tuple([native.number for native in natives if type(native) is not bytes])
            recording = self._recordings.find(key, lambda: self._record(natives))
        for part in range(len(self._steps)) if recording is None else recording.parts:
            if isinstance(part, int):
                step = self._steps[part]
                step.program.enqueue(step.arguments(natives))
            else:
                lane.play(part)

    def _record(self, natives: Sequence[Any]) -> _Recording:
        """Return the recording for these buffers.

        Raises:
            Fault: The driver refused.
        """
        queue = self.pool.compute.queue
        recording = _Recording()
        commands = None
        touched: set[int] = set()
        try:
            for number, step in enumerate(self._steps):
                if number in self._changing:
                    if commands is not None:
                        queue.end(commands)
                        commands = None
                    recording.parts.append(number)
                    continue
                arguments = step.arguments(natives)
                buffers = {native.number for native in arguments if type(native) is not bytes}
                if commands is None:
                    commands = queue.begin(is_kept=True)
                    recording.parts.append(commands)
                    queue.barrier(commands)
                    touched = set()
                elif not touched.isdisjoint(buffers):
                    queue.barrier(commands)
                    touched = set()
                touched |= buffers
                step.program.record(commands, arguments, recording.buried.append)
            if commands is not None:
                queue.end(commands)
        except Fault:
            self._free(recording)
            raise
        return recording

    def _drop(self, recording: _Recording) -> None:
        self.pool.compute.bury(lambda: self._free(recording))

    def _free(self, recording: _Recording) -> None:
        """Give back what a recording took, which runs no more."""
        queue = self.pool.compute.queue
        for commands in recording.commands:
            queue.give_back(commands)
        for free in recording.buried:
            free()

    def let_go(self) -> None:
        """Drop the recordings, which name memory."""
        with self.pool.work.lock:
            for recording in self._recordings.clear():
                self._drop(recording)

    def free(self) -> None:
        """Drop everything, and the programs that nothing else needs."""
        self.let_go()
        steps, self._steps = self._steps, []
        for step in steps:
            step.program.sequences -= 1
            step.program.free_unless_used()
