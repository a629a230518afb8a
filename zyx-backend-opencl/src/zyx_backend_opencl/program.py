"""What a kernel becomes: a function of the driver with its grid.

Arguments stay in a function until others take their place, so a launch sets only those that are not the same as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zyx.backend import PoolBuffer, Program
from zyx.errors import LaunchError
from zyx.ir.kernel import Define
from zyx_backend_opencl.driver import Fault
from zyx_backend_opencl.errors import failure
from zyx_backend_opencl.memory import ClBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument
    from zyx.dtype import DType, Scalar
    from zyx.ir import kernel as k
    from zyx_backend_opencl.driver import Built, Kernel
    from zyx_backend_opencl.memory import ClPool
    from zyx_backend_opencl.work import Command

#: Turns a scalar argument into the bytes of its parameter.
Encoder: TypeAlias = "Callable[[Scalar], bytes]"

#: Threads along each axis, of all groups together and of one group.
Grid: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A launch argument.

    Attributes:
        nbytes: Size that a buffer must have.
        encode: For scalars; None means a buffer.
    """

    nbytes: int = 0
    encode: Encoder | None = None

    def __str__(self) -> str:
        return f"a buffer of {self.nbytes} bytes" if self.encode is None else "a number"


def parameters_of(kernel: k.Kernel) -> tuple[Parameter, ...]:
    """Return the launch arguments of a kernel."""
    return tuple(
        Parameter(param.length * param.dtype.itemsize)
        if isinstance(param, Define)
        else Parameter(0, _encoder(param.type.dtype))
        for param in kernel.params
    )


def _encoder(dtype: DType) -> Encoder:
    return lambda value: np.array(dtype.to_scalar(value), dtype.numpy).tobytes()


def native_arguments(args: Sequence[Argument], parameters: Sequence[Parameter], pool: ClPool, what: str) -> list[Any]:
    """Return what the driver is given for `args`. Raises `LaunchError` if they are too few or many, or one is wrong."""
    if len(args) != len(parameters):
        wanted = ", ".join(map(str, parameters)) or "none"
        raise LaunchError(f"{what} takes {len(parameters)} arguments ({wanted}); it was given {len(args)}")
    return [
        native_argument(arg, parameter, pool, f"argument {number} of {what}")
        for number, (arg, parameter) in enumerate(zip(args, parameters, strict=True))
    ]


def native_argument(arg: object, parameter: Parameter, pool: ClPool, what: str) -> Any:  # noqa: ANN401  # the driver's
    """Return what the driver is given for `arg`.

    Raises:
        LaunchError: It is no number or no living buffer of `pool`, or too small a one.
    """
    if parameter.encode is not None:
        if isinstance(arg, bool | int | float):
            try:
                return parameter.encode(arg)
            except (ValueError, OverflowError) as error:
                raise LaunchError(f"{what} is {arg!r}: {error}") from error
        raise LaunchError(f"{what} is {arg!r}, not a number")
    if not isinstance(arg, PoolBuffer):
        raise LaunchError(f"{what} is {arg!r}, not a buffer")
    if not isinstance(arg, ClBuffer) or arg.pool is not pool:
        raise LaunchError(f"{what} is a buffer of pool {arg.pool.name}, not of {pool.name}")
    if arg.freed:
        raise LaunchError(f"{what} was freed before")
    if arg.nbytes < parameter.nbytes:
        raise LaunchError(f"{what} has {arg.nbytes} bytes; the kernel reaches {parameter.nbytes}")
    return arg.memory


class ClProgram(Program):
    """A kernel, built.

    Attributes:
        what: The kernel and its device, for error texts.
        pool: Memory of the device that it was built for.
        built: The driver's program, which has one function.
        kernel: That function, with the arguments of the last launch.
        grid: Its threads.
        parameters: The launch arguments.
        is_released: Whether it was given back.
    """

    __slots__ = ("_bound", "built", "grid", "is_released", "kernel", "parameters", "pool", "what")

    def __init__(
        self,
        name: str,
        source: str,
        device: str,
        pool: ClPool,
        built: Built,
        kernel: Kernel,
        grid: Grid,
        parameters: Sequence[Parameter],
    ) -> None:
        super().__init__(name, source)
        self.what = f"kernel {name} on {device}"
        self.pool = pool
        self.built = built
        self.kernel = kernel
        self.grid = grid
        self.parameters = tuple(parameters)
        self.is_released = False
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
        except Fault as error:
            raise failure(self.what, error.code, LaunchError) from error
        return work.add(native, self.what, behind)

    def timed(self, args: Sequence[Argument]) -> float:
        """Run one launch and return its seconds by the device's clock. Raises as `run` does."""
        try:
            self._bind(args)
            return self.pool.session.timed([(self.kernel, *self.grid)])
        except Fault as error:
            raise failure(self.what, error.code, LaunchError) from error

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
        self.is_released = True
        self.kernel = self.built = None
        self._bound = []
