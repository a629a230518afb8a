"""What a kernel becomes: a function of a code object, with its grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.backend import Program
from zyx.backend.arguments import check_arguments, scalar_bytes
from zyx.errors import LaunchError
from zyx_backend_hip.driver import Arguments, Fault
from zyx_backend_hip.errors import failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument
    from zyx.backend.arguments import Parameter
    from zyx_backend_hip.driver import Handle, Module
    from zyx_backend_hip.memory import HipPool
    from zyx_backend_hip.work import Command


class HipProgram(Program):
    """Something that is queued by one call of the driver.

    Attributes:
        what: What it is and on which device, for error texts.
        pool: Memory of the device that it was made for.
        parameters: The launch arguments.
        is_released: Whether it was given back.
    """

    __slots__ = ("is_released", "parameters", "pool", "what")

    def __init__(self, name: str, source: str, what: str, pool: HipPool, parameters: Sequence[Parameter]) -> None:
        super().__init__(name, source)
        self.what = what
        self.pool = pool
        self.parameters = tuple(parameters)
        self.is_released = False

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        """Queue it. The device must be selected, and its lock be held.

        Args:
            values: What `native_arguments` returned.
            stream: Where.

        Raises:
            Fault: The driver refused.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Note that it was given back. A code object that may still run is unloaded when nothing names it any more."""
        self.is_released = True

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
            raise failure(self.what, error.code, LaunchError, error.said) from error

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
            raise failure(self.what, error.code, LaunchError, error.said) from error

    def native_arguments(self, args: Sequence[Argument]) -> list[int]:
        """Return addresses of buffers, and bytes of numbers. Raises `LaunchError` if the arguments do not fit."""
        check_arguments(args, self.parameters, self.pool, self.what)
        return [
            native(arg, parameter, f"argument {number} of {self.what}")
            for number, (arg, parameter) in enumerate(zip(args, self.parameters, strict=True))
        ]


def native(arg: Any, parameter: Parameter, what: str) -> int:  # noqa: ANN401  # checked before
    """Return what the driver is given for an argument that fits."""
    if parameter.scalar is None:
        address: int = arg.address
        return address
    return int.from_bytes(scalar_bytes(arg, parameter.scalar, what), "little")


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
