"""What a kernel becomes: a function of the driver with its grid.

Arguments stay in a function until others take their place, so a launch sets only those that are not the same as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.drivers.arguments import native_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.errors import LaunchError
from zyx_backend_opencl.driver import ClError
from zyx_backend_opencl.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument
    from zyx.drivers.arguments import Parameter
    from zyx_backend_opencl.driver import Built, Kernel
    from zyx_backend_opencl.memory import ClPool
    from zyx_backend_opencl.work import Command

#: Threads along each axis, of all groups together and of one group.
Grid: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


class ClProgram(DeviceProgram):
    """A kernel, built.

    Attributes:
        built: The driver's program, which has one function.
        kernel: That function, with the arguments of the last launch.
        grid: Its threads.
    """

    __slots__ = ("_bound", "built", "grid", "kernel")

    pool: ClPool

    def __init__(
        self,
        name: str,
        source: str,
        what: str,
        pool: ClPool,
        parameters: Sequence[Parameter],
        built: Built,
        kernel: Kernel,
        grid: Grid,
    ) -> None:
        super().__init__(name, source, what, pool, parameters)
        self.built = built
        self.kernel = kernel
        self.grid = grid
        self._bound: list[object] = [None] * len(self.parameters)

    def run(self, args: Sequence[Argument], behind: Sequence[Command]) -> Command:
        """Enqueue one launch behind other work.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused.
        """
        work = self.pool.work
        waits = work.natives(behind, self.what)
        try:
            self._bind(args)
            native = self.pool.session.launch(self.kernel, *self.grid, waits)
            self.pool.session.flush()
        except ClError as error:
            raise CODES.failure(self.what, error.code, LaunchError) from error
        return work.add(native, self.what, behind)

    def timed(self, args: Sequence[Argument]) -> float:
        """Run one launch and return its seconds by the device's clock. Raises as `run` does."""
        try:
            self._bind(args)
            return self.pool.session.timed([(self.kernel, *self.grid)])
        except ClError as error:
            raise CODES.failure(self.what, error.code, LaunchError) from error

    def _bind(self, args: Sequence[Argument]) -> None:
        """Set the arguments that are not those of the last launch. If one does not fit, none is set."""
        natives = native_arguments(args, self.parameters, self.pool, self.what)
        bound = self._bound
        for number, native in enumerate(natives):
            if native is not bound[number]:
                self.kernel.set_arg(number, native)
                bound[number] = native

    def release(self) -> None:
        """Drop the driver's objects; captured sequences keep what they need."""
        super().release()
        self.kernel = self.built = None
        self._bound = []
