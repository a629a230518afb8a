"""Captured sequences: many launches in one submission.

What WebGPU records can be submitted once only, so a sequence is recorded anew at each launch, as one pass of one
command buffer; the driver keeps launches that touch the same buffers apart. Programs take turns with the same few
buffers, so the launches are remembered, ready to be recorded, for those they came with last, and for their numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final

from zyx.backend import Slot
from zyx.drivers.arguments import check_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.sequences import Outline, outline
from zyx_backend_wgpu.program import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx_backend_wgpu.bindings import Dispatch
    from zyx_backend_wgpu.memory import WgpuPool
    from zyx_backend_wgpu.program import Key, WgpuProgram

#: For how many sets of buffers a sequence remembers its launches.
_REMEMBERED: Final = 8


class WgpuSequence(DeviceProgram):
    """A captured sequence.

    Args:
        launches: The launches, of programs that are checked to be of this device.
        slots: Number of arguments.
        pool: The device's memory.
        device: The device's name.

    Raises:
        LaunchError: An argument of a launch does not fit.
    """

    __slots__ = ("__weakref__", "_remembered", "_steps")

    is_sequence: ClassVar[bool] = True
    pool: WgpuPool

    def __init__(self, launches: Sequence[Launch], slots: int, pool: WgpuPool, device: str) -> None:
        made: Outline[WgpuProgram] = outline(launches, slots, pool, device)
        super().__init__(made.name, "", made.what, pool, made.parameters)
        self._steps = [(step.program, launch.args) for step, launch in zip(made.steps, launches, strict=True)]
        self._remembered: OrderedDict[Key, list[Dispatch]] = OrderedDict()
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
        key = key_of(args, self)
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

    def let_go(self) -> None:
        """Drop the launches that are remembered, with their groups of buffers."""
        self._remembered.clear()

    def release(self) -> None:
        """Drop the driver's objects."""
        super().release()
        self._steps = []
        self._remembered.clear()
