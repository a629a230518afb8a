"""Captured sequences: many launches in one submission.

What WebGPU records can be submitted once only, so a sequence is recorded anew at each launch, as one pass of one
command buffer; the driver keeps launches that touch the same buffers apart. Programs take turns with the same few
buffers, so the launches are remembered, ready to be recorded, for those they came with last.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from zyx.backend import Program, Slot
from zyx.backend.arguments import Parameter, check_arguments
from zyx.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx_backend_wgpu.bindings import Dispatch
    from zyx_backend_wgpu.memory import WgpuPool
    from zyx_backend_wgpu.program import WgpuProgram

#: For how many sets of buffers a sequence remembers its launches.
_REMEMBERED: Final = 8


class WgpuSequence(Program):
    """A captured sequence.

    Args:
        launches: The launches, each with its program, which is checked to be of this device.
        slots: Number of arguments.
        pool: The device's memory.
        device: The device's name.

    Attributes:
        what: The kernels and their device, for error texts.
        pool: Memory of that device.
        parameters: The arguments.
        is_released: Whether it was given back.

    Raises:
        LaunchError: An argument of a launch does not fit.
    """

    __slots__ = ("__weakref__", "_remembered", "_steps", "is_released", "parameters", "pool", "what")

    def __init__(self, launches: Sequence[tuple[Launch, WgpuProgram]], slots: int, pool: WgpuPool, device: str) -> None:
        names = [launch.program.name for launch, _ in launches]
        super().__init__(f"{len(names)} steps: {', '.join(names)}")
        self.what = f"a sequence of {len(names)} kernels on {device} ({', '.join(dict.fromkeys(names))})"
        self.pool = pool
        self.is_released = False
        least = [0] * slots
        for launch, program in launches:
            _check(launch, program, least)
        self.parameters = tuple(Parameter(nbytes) for nbytes in least)
        self._steps = [(program, launch.args) for launch, program in launches]
        self._remembered: OrderedDict[tuple[int, ...], list[Dispatch]] = OrderedDict()
        pool.holders.add(self)

    def run(self, args: Sequence[Any]) -> int:
        """Start all launches by one submission, and return its ticket; 0 if there are none.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused. Nothing of it runs.
        """
        check_arguments(args, self.parameters, self.pool, self.what)
        return self.pool.work.submit(self.dispatches(args), self.what) if self._steps else 0

    def dispatches(self, args: Sequence[Any]) -> list[Dispatch]:
        """Return the launches on `args`, which are checked. Raises `BackendError` if the driver refuses the buffers."""
        key = tuple(arg.memory.number for arg in args)
        found = self._remembered.get(key)
        if found is None:
            found = [
                program.checked_dispatch([args[arg.number] if isinstance(arg, Slot) else arg for arg in step])
                for program, step in self._steps
            ]
            self._remembered[key] = found
            if len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        else:
            self._remembered.move_to_end(key)
        return found

    def forget_groups(self) -> None:
        """Drop the launches that are remembered, with their groups of buffers."""
        self._remembered.clear()

    def release(self) -> None:
        """Drop the driver's objects."""
        self.is_released = True
        self._steps = []
        self._remembered.clear()


def _check(launch: Launch, program: WgpuProgram, least: list[int]) -> None:
    """Check a launch, and raise the sizes that its slots need to those of its parameters."""
    what = program.what
    if len(launch.args) != len(program.parameters):
        raise LaunchError(f"{what} was given {len(launch.args)} arguments; it takes {len(program.parameters)}")
    for number, (arg, parameter) in enumerate(zip(launch.args, program.parameters, strict=True)):
        if not isinstance(arg, Slot):
            check_arguments([arg], [parameter], program.pool, f"the argument {number} of {what}")
            continue
        if parameter.scalar is not None or not 0 <= arg.number < len(least):
            raise LaunchError(
                f"argument {number} of {what} is slot {arg.number}; there are {len(least)} slots, for buffers"
            )
        least[arg.number] = max(least[arg.number], parameter.nbytes)
