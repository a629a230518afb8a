"""What a kernel becomes: a function of a code object, with its grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.drivers.arguments import native_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.faults import Fault, failure
from zyx.errors import LaunchError
from zyx_backend_hip.driver import Arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument
    from zyx.drivers.arguments import Parameter
    from zyx_backend_hip.driver import Handle, Module
    from zyx_backend_hip.memory import HipPool
    from zyx_backend_hip.work import Command


class HipProgram(DeviceProgram):
    """Something that is queued by one call of the driver."""

    __slots__ = ()

    pool: HipPool

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        """Queue it. The device must be selected, and its lock be held.

        Args:
            values: What `native_arguments` returned.
            stream: Where.

        Raises:
            Fault: The driver refused.
        """
        raise NotImplementedError

    def run(self, args: Sequence[Argument], behind: Sequence[Command]) -> Command:
        """Queue one launch behind other work.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused.
        """
        values = self.native_arguments(args)
        session, work = self.pool.session, self.pool.work
        try:
            with session.lock, session.selected():
                work.order(session.launches, behind, self.what)
                self.queue(values, session.launches)
                return work.add(session.launches, self.what, kept=self)
        except Fault as error:
            raise failure(self.what, error, LaunchError) from error

    def timed(self, args: Sequence[Argument]) -> float:
        """Run one launch and return its seconds by the device's clock. Raises as `run` does."""
        values = self.native_arguments(args)
        session = self.pool.session
        try:
            with session.lock, session.selected():
                clock = session.clock()
                try:
                    clock.start()
                    self.queue(values, session.launches)
                    return clock.stop()
                finally:
                    clock.close()
        except Fault as error:
            raise failure(self.what, error, LaunchError) from error

    def native_arguments(self, args: Sequence[Argument]) -> list[int]:
        """Return addresses of buffers, and bytes of numbers. Raises `LaunchError` if the arguments do not fit."""
        return [as_word(native) for native in native_arguments(args, self.parameters, self.pool, self.what)]


def as_word(native: int | bytes) -> int:
    """Return what the driver is given: an address, or the bytes of a number as a little-endian integer."""
    return native if isinstance(native, int) else int.from_bytes(native, "little")


class KernelProgram(HipProgram):
    """A kernel, compiled and loaded."""

    __slots__ = ("_arguments", "_function", "_grid", "_module")

    def __init__(
        self,
        name: str,
        source: str,
        what: str,
        pool: HipPool,
        parameters: Sequence[Parameter],
        module: Module,
        function: Handle,
        grid: tuple[int, ...],
    ) -> None:
        super().__init__(name, source, what, pool, parameters)
        self._module: Module | None = module
        self._function = function
        self._grid = grid
        self._arguments = Arguments(len(self.parameters))

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        self._arguments.set(values)
        self.pool.session.launch(self._function, self._grid, self._arguments, stream)
