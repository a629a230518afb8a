"""The launch arguments of a kernel: what they must be, and whether those that are given fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.backend.pool import PoolBuffer
from zyx.drivers.caching_pool import CachedBuffer
from zyx.dtype import DType  # noqa: TC001  # msgspec looks for it
from zyx.errors import LaunchError
from zyx.kernel.data import Define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.device import Argument
    from zyx.backend.pool import MemoryPool
    from zyx.kernel.data import Kernel


@dataclass(frozen=True, slots=True)
class Parameter:
    """A launch argument.

    Attributes:
        nbytes: Size that a buffer must have at least.
        scalar: Dtype of a number; None means a buffer.
        most: Bytes of the buffer that the kernel reaches at most; 0 means `nbytes`.
    """

    nbytes: int = 0
    scalar: DType | None = None
    most: int = 0

    def __str__(self) -> str:
        return f"a buffer of {self.nbytes} bytes" if self.scalar is None else f"a number, {self.scalar}"


def parameters_of(kernel: Kernel) -> tuple[Parameter, ...]:
    """Return the launch arguments of a kernel."""
    return tuple(
        _parameter_of(param) if isinstance(param, Define) else Parameter(0, param.type.dtype) for param in kernel.params
    )


def _parameter_of(array: Define) -> Parameter:
    most = array.length * array.dtype.itemsize
    return Parameter(array.dtype.itemsize, None, most) if array.is_front else Parameter(most)


def check_arguments(args: Sequence[Argument], parameters: Sequence[Parameter], pool: MemoryPool, what: str) -> None:
    """Check launch arguments.

    Raises:
        LaunchError: They are too few or too many, or one is not what its parameter says: no number, no buffer of
            `pool`, freed, or too small. The text begins with `what` is launched.
    """
    if len(args) != len(parameters):
        wanted = ", ".join(map(str, parameters)) or "none"
        raise LaunchError(f"{what} takes {len(parameters)} arguments ({wanted}); it was given {len(args)}")
    for number, (arg, parameter) in enumerate(zip(args, parameters, strict=True)):
        if parameter.scalar is not None:
            scalar_bytes(arg, parameter.scalar, f"argument {number} of {what}")
        elif not isinstance(arg, PoolBuffer) or arg.pool is not pool or arg.freed or arg.nbytes < parameter.nbytes:
            raise LaunchError(f"argument {number} of {what} {_why(arg, parameter, pool)}")


def check_argument(arg: Argument, parameter: Parameter, pool: MemoryPool, what: str) -> None:
    """Check one argument, called `what`; raises as `check_arguments` does."""
    if parameter.scalar is not None:
        scalar_bytes(arg, parameter.scalar, what)
    elif why := _why(arg, parameter, pool):
        raise LaunchError(f"{what} {why}")


def native_arguments(
    args: Sequence[Argument], parameters: Sequence[Parameter], pool: MemoryPool, what: str
) -> list[Any]:
    """Return what a driver is given for launch arguments: the `memory` of each buffer, and the bytes of each number.

    For pools that derive from `CachingPool`. Raises as `check_arguments` does.
    """
    natives: list[Any] = []
    if len(args) == len(parameters):
        for arg, parameter in zip(args, parameters, strict=True):  # as nearly all are: nothing but buffers that fit
            if (
                not isinstance(arg, CachedBuffer)
                or arg.pool is not pool
                or arg.freed
                or arg.nbytes < parameter.nbytes
                or parameter.scalar is not None
            ):
                break
            natives.append(arg.memory)
        else:
            return natives
    check_arguments(args, parameters, pool, what)
    return [
        arg.memory if isinstance(arg, CachedBuffer) else scalar_bytes(arg, parameter.scalar, what)  # type: ignore[arg-type]
        for arg, parameter in zip(args, parameters, strict=True)
    ]


def _why(arg: object, parameter: Parameter, pool: MemoryPool) -> str:
    """Return what is wrong with an argument that is to be a buffer; nothing if it fits."""
    if not isinstance(arg, PoolBuffer):
        return f"is {arg!r}, not a buffer"
    if arg.pool is not pool:
        return f"is a buffer of pool {arg.pool.name}, not of {pool.name}"
    if arg.freed:
        return "was freed before"
    return f"has {arg.nbytes} bytes; the kernel reaches {parameter.nbytes}" if arg.nbytes < parameter.nbytes else ""


def scalar_bytes(value: object, dtype: DType, what: str) -> bytes:
    """Return a number as it lies in memory.

    Raises:
        LaunchError: It is no number, or one that `dtype` cannot hold.
    """
    if not isinstance(value, bool | int | float):
        raise LaunchError(f"{what} is {value!r}, not a number")
    try:
        return np.array(dtype.to_scalar(value), dtype.numpy).tobytes()
    except (ValueError, OverflowError) as error:
        raise LaunchError(f"{what} is {value!r}: {error}") from error
