"""Captured sequences: launches that follow one another, queued together and started by one flush.

A sequence has functions of its own, one a launch, whose fixed arguments are set when it is captured; a launch sets the
others, as far as they are not the same as before.

Where the device has command buffers, a sequence that is launched with the same buffers a second time is recorded, with
functions that keep these arguments, and is played from then on. A few recordings are kept, since programs take turns
with the same few buffers. What a driver cannot record or play is queued launch by launch, as without command buffers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from zyx.drivers.arguments import native_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.sequences import Outline, Recordings, outline
from zyx.errors import LaunchError
from zyx_backend_opencl.driver import ClError, RecordingError
from zyx_backend_opencl.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, Launch
    from zyx.drivers.sequences import Step
    from zyx_backend_opencl.driver import Built, CommandBuffers, Kernel, Recording
    from zyx_backend_opencl.memory import ClPool
    from zyx_backend_opencl.program import ClProgram, Grid
    from zyx_backend_opencl.work import Command

logger: Final = logging.getLogger("zyx.opencl")

#: How many recordings a sequence keeps.
_RECORDINGS: Final = 4


@dataclass(frozen=True, slots=True)
class Ready:
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


class ClSequence(DeviceProgram):
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
    """

    __slots__ = ("__weakref__", "_bound", "_function", "_kernels", "_recorder", "_recordings", "_steps")

    is_sequence: ClassVar[bool] = True
    pool: ClPool

    def __init__(
        self,
        launches: Sequence[Launch],
        slots: int,
        pool: ClPool,
        device: str,
        function: str,
        recorder: CommandBuffers | None,
    ) -> None:
        made: Outline[ClProgram] = outline(launches, slots, pool, device)
        super().__init__(made.name, "", made.what, pool, made.parameters)
        self._function = function
        self._recorder = recorder
        self._steps = [_ready(step) for step in made.steps]
        self._kernels = [self._kernel(step) for step in self._steps]
        self._bound: list[object] = [None] * slots
        self._recordings: Recordings[tuple[Recording, object]] = Recordings(_RECORDINGS, is_on=recorder is not None)
        pool.holders.add(self)

    def run(self, args: Sequence[Argument], behind: Sequence[Command]) -> Command | None:
        """Enqueue all launches behind other work, and return the last of them; None if there are none.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused. What was queued before runs.
        """
        natives = native_arguments(args, self.parameters, self.pool, self.what)
        if not self._steps:
            return None
        if self._recordings.is_on and self._recorder is not None:
            key = tuple([native if isinstance(native, bytes) else native.int_ptr for native in natives])
            found = self._recordings.find(key, lambda: self._record(natives))
            if found is not None:
                waits = self.pool.work.natives(behind, self.what)
                try:
                    native = self._recorder.play(found[0], waits)
                    self.pool.session.flush()
                    return self.pool.work.add(native, self.what, behind, kept=found)
                except RecordingError as error:
                    logger.debug("%s is queued launch by launch: %s", self.what, error)
                except ClError as error:
                    raise CODES.failure(self.what, error.code, LaunchError) from error
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
        except ClError as error:
            raise CODES.failure(self.what, error.code, LaunchError) from error

    def let_go(self) -> None:
        """Drop recordings, which keep buffers alive."""
        self._recordings.clear()

    def release(self) -> None:
        """Drop the driver's objects."""
        super().release()
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
        except ClError as error:
            raise CODES.failure(what, error.code, LaunchError) from error
        return behind[0]

    def _bind_all(self, natives: Sequence[object]) -> None:
        """Set the arguments that are not those of the last launch."""
        for slot, native in enumerate(natives):
            if native is not self._bound[slot] and native != self._bound[slot]:
                self._bind(self._kernels, slot, native)
                self._bound[slot] = native

    def _launches(self, kernels: Sequence[Kernel]) -> list[tuple[Kernel, tuple[int, ...], tuple[int, ...]]]:
        return [(kernel, *step.grid) for kernel, step in zip(kernels, self._steps, strict=True)]

    def _bind(self, kernels: Sequence[Kernel], slot: int, native: object) -> None:
        for kernel, step in zip(kernels, self._steps, strict=True):
            for number, source in step.slots:
                if source == slot:
                    kernel.set_arg(number, native)

    def _kernel(self, step: Ready) -> Kernel:
        """Return a function of a step, with its fixed arguments set."""
        try:
            kernel = self.pool.session.kernel(step.built, self._function)
            for number, native in step.fixed:
                kernel.set_arg(number, native)
        except ClError as error:
            raise CODES.failure(step.what, error.code, LaunchError) from error
        return kernel

    def _record(self, natives: list[Any]) -> tuple[Recording, object] | None:
        """Return the recording for these buffers, with them; None if the driver cannot record it."""
        assert self._recorder is not None
        kernels = [self._kernel(step) for step in self._steps]
        try:
            for slot, native in enumerate(natives):
                self._bind(kernels, slot, native)
            # With the buffers: were one freed, another might get its place, and be taken for it.
            return self._recorder.record(self._launches(kernels)), natives
        except RecordingError as error:
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            return None
        except ClError as error:
            raise CODES.failure(self.what, error.code, LaunchError) from error


def _ready(step: Step[ClProgram]) -> Ready:
    """Return what is left of a step when its program is released."""
    program = step.program
    fixed = [
        (number, native_arguments([argument], [program.parameters[number]], program.pool, program.what)[0])
        for number, argument in step.fixed
    ]
    return Ready(program.what, program.built, program.grid, tuple(fixed), step.slots)
