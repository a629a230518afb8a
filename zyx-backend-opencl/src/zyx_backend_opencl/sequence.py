"""Captured sequences: launches that follow one another, queued together and started by one flush.

A sequence has functions of its own, one a launch, whose fixed arguments are set when it is captured; a launch sets the
others, as far as they are not the same as before.

Where the device has command buffers, a sequence that is launched with the same buffers a second time is recorded, with
functions that keep these arguments, and is played from then on. A few recordings are kept, since programs take turns
with the same few buffers. What a driver cannot record or play is queued launch by launch, as without command buffers.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zyx.backend import Program, Slot
from zyx.errors import LaunchError
from zyx_backend_opencl.driver import Fault, RecordingError
from zyx_backend_opencl.errors import failure
from zyx_backend_opencl.program import ClProgram, Parameter, native_argument, native_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, Launch
    from zyx_backend_opencl.driver import Built, CommandBuffers, Kernel, Recording
    from zyx_backend_opencl.memory import ClPool
    from zyx_backend_opencl.program import Grid
    from zyx_backend_opencl.work import Command

logger: Final = logging.getLogger("zyx.opencl")

#: How many recordings a sequence keeps, and how many sets of buffers it remembers to know them again.
_RECORDINGS: Final = 4
_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of a sequence.

    Attributes:
        what: The kernel and its device.
        built: The driver's program, to make functions of.
        grid: Its threads.
        fixed: (number, value) of the arguments that are the same every time.
        slots: (number, slot) of the others.
    """

    what: str
    built: Built
    grid: Grid
    fixed: tuple[tuple[int, Any], ...]
    slots: tuple[tuple[int, int], ...]


class ClSequence(Program):
    """A captured sequence.

    Args:
        launches: The launches, of programs that are checked to be of this device.
        slots: Number of arguments.
        pool: The device's pool.
        device: The device's name.
        function: Name of the function in every program.
        recorder: Records command buffers; None if there are none.

    Raises:
        LaunchError: An argument does not fit.

    Attributes:
        what: The kernels and their device, for error texts.
        pool: Memory of that device.
        parameters: The arguments.
        is_released: Whether it was given back.
    """

    __slots__ = (
        "__weakref__", "_bound", "_function", "_kernels", "_recorder", "_recordings", "_remembered", "_steps",
        "is_released", "parameters", "pool", "what",
    )  # fmt: skip

    def __init__(
        self,
        launches: Sequence[Launch],
        slots: int,
        pool: ClPool,
        device: str,
        function: str,
        recorder: CommandBuffers | None,
    ) -> None:
        names = [launch.program.name for launch in launches]
        super().__init__(f"{len(names)} steps: {', '.join(names)}")
        self.what = f"a sequence of {len(names)} kernels on {device} ({', '.join(dict.fromkeys(names))})"
        self.is_released = False
        self.pool = pool
        self._function = function
        self._recorder = recorder
        least = [0] * slots
        self._steps = [_step(launch, least, pool) for launch in launches]
        self.parameters = tuple(Parameter(nbytes) for nbytes in least)
        self._kernels = [self._kernel(step) for step in self._steps]
        self._bound: list[object] = [None] * slots
        self._recordings: OrderedDict[tuple[int, ...], tuple[Recording, object]] = OrderedDict()
        self._remembered: set[tuple[int, ...]] = set()
        pool.holders.add(self)

    def run(self, args: Sequence[Argument], behind: Sequence[Command]) -> Command | None:
        """Enqueue all launches behind other work, and return the last of them; None if there are none.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused. What was queued before runs.
        """
        natives = native_arguments(args, self.parameters, self.pool, self.what)
        if not self._steps:
            return None
        if self._recorder is not None:
            recording = self._recording(natives, self._recorder)
            if recording is not None:
                waits = self.pool.work.natives(behind, self.what)
                try:
                    native = self._recorder.play(recording, waits)
                    self.pool.session.flush()
                    return self.pool.work.add(native, self.what, behind, kept=recording)
                except RecordingError as error:
                    logger.debug("%s is queued launch by launch: %s", self.what, error)
        return self._queue(natives, behind)

    def timed(self, args: Sequence[Argument]) -> float:
        """Run the launches once, and return the seconds by the device's clock, 0 if there are none.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused.
        """
        natives = native_arguments(args, self.parameters, self.pool, self.what)
        if not self._steps:
            return 0.0
        try:
            self._bind_all(natives)
            return self.pool.session.timed(self._launches(self._kernels))
        except Fault as error:
            raise failure(self.what, error.code, LaunchError) from error

    def let_go(self) -> None:
        """Drop recordings, which keep buffers alive."""
        self._recordings.clear()

    def release(self) -> None:
        """Drop the driver's objects."""
        self.is_released = True
        self._kernels = []
        self._steps = []
        self._bound = []
        self.let_go()

    def _queue(self, natives: Sequence[Any], behind: Sequence[Command]) -> Command:
        session, work = self.pool.session, self.pool.work
        what = self.what
        waits = work.natives(behind, what)
        try:
            self._bind_all(natives)
            for kernel, step in zip(self._kernels, self._steps, strict=True):
                what = step.what
                native = session.launch(kernel, *step.grid, waits)
                waits, behind = [native], [work.add(native, what, behind)]
            session.flush()
        except Fault as error:
            raise failure(what, error.code, LaunchError) from error
        return behind[0]

    def _bind_all(self, natives: Sequence[object]) -> None:
        """Set the arguments that are not those of the last launch."""
        for slot, native in enumerate(natives):
            if native is not self._bound[slot]:
                self._bind(self._kernels, slot, native)
                self._bound[slot] = native

    def _launches(self, kernels: Sequence[Kernel]) -> list[tuple[Kernel, tuple[int, ...], tuple[int, ...]]]:
        return [(kernel, *step.grid) for kernel, step in zip(kernels, self._steps, strict=True)]

    def _bind(self, kernels: Sequence[Kernel], slot: int, native: object) -> None:
        for kernel, step in zip(kernels, self._steps, strict=True):
            for number, source in step.slots:
                if source == slot:
                    kernel.set_arg(number, native)

    def _kernel(self, step: Step) -> Kernel:
        """Return a function of a step, with its fixed arguments set."""
        try:
            kernel = self.pool.session.kernel(step.built, self._function)
            for number, native in step.fixed:
                kernel.set_arg(number, native)
        except Fault as error:
            raise failure(step.what, error.code, LaunchError) from error
        return kernel

    def _recording(self, natives: list[Any], recorder: CommandBuffers) -> Recording | None:
        """Return the recording for these buffers, made when they come for the second time."""
        key = tuple(native.int_ptr for native in natives)
        found = self._recordings.get(key)
        if found is not None:
            self._recordings.move_to_end(key)
            return found[0]
        if key not in self._remembered:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered.add(key)
            return None
        kernels = [self._kernel(step) for step in self._steps]
        for slot, native in enumerate(natives):
            self._bind(kernels, slot, native)
        try:
            recording = recorder.record(self._launches(kernels))
        except RecordingError as error:
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            self._recorder = None
            return None
        # With the buffers: were one freed, another might get its place, and be taken for it.
        self._recordings[key] = recording, natives
        if len(self._recordings) > _RECORDINGS:
            self._recordings.popitem(last=False)
        return recording


def _step(launch: Launch, least: list[int], pool: ClPool) -> Step:
    """Return a step; raise the sizes that the slots need to those of its parameters."""
    program = launch.program
    assert isinstance(program, ClProgram)  # checked before
    what = program.what
    if len(launch.args) != len(program.parameters):
        raise LaunchError(f"{what} was given {len(launch.args)} arguments; it takes {len(program.parameters)}")
    fixed: list[tuple[int, Any]] = []
    slots: list[tuple[int, int]] = []
    for number, (arg, parameter) in enumerate(zip(launch.args, program.parameters, strict=True)):
        if isinstance(arg, Slot):
            if parameter.encode is not None or not 0 <= arg.number < len(least):
                raise LaunchError(
                    f"argument {number} of {what} is slot {arg.number}; there are {len(least)} slots, for buffers"
                )
            least[arg.number] = max(least[arg.number], parameter.nbytes)
            slots.append((number, arg.number))
        else:
            fixed.append((number, native_argument(arg, parameter, pool, f"argument {number} of {what}")))
    return Step(what, program.built, program.grid, tuple(fixed), tuple(slots))
