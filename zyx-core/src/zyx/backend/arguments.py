"""The launch arguments of a kernel: what they must be, and whether those that are given fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zyx.backend.pool import PoolBuffer
from zyx.errors import LaunchError
from zyx.ir.kernel import Define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.device import Argument
    from zyx.backend.pool import MemoryPool
    from zyx.dtype import DType
    from zyx.ir.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Parameter:
    """A launch argument.

    Attributes:
        nbytes: Size that a buffer must have at least.
        scalar: Dtype of a number; None means a buffer.
    """

    nbytes: int = 0
    scalar: DType | None = None

    def __str__(self) -> str:
        return f"a buffer of {self.nbytes} bytes" if self.scalar is None else f"a number, {self.scalar}"


def parameters_of(kernel: Kernel) -> tuple[Parameter, ...]:
    """Return the launch arguments of a kernel."""
    return tuple(
        Parameter(param.length * param.dtype.itemsize) if isinstance(param, Define) else Parameter(0, param.type.dtype)
        for param in kernel.params
    )


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


def _why(arg: object, parameter: Parameter, pool: MemoryPool) -> str:
    """Return what is wrong with an argument that is to be a buffer."""
    if not isinstance(arg, PoolBuffer):
        return f"is {arg!r}, not a buffer"
    if arg.pool is not pool:
        return f"is a buffer of pool {arg.pool.name}, not of {pool.name}"
    if arg.freed:
        return "was freed before"
    return f"has {arg.nbytes} bytes; the kernel reaches {parameter.nbytes}"


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
