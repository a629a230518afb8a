"""Random arrays of every element type, with the values at which operations go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zyx import dtype as dtypes

if TYPE_CHECKING:
    from zyx.dtype import DType

Array: TypeAlias = npt.NDArray[Any]

#: Mantissa bits, hidden one included, and the exponent of the greatest power of two, of each float type.
_FORMATS: Final = {
    dtypes.float16: (11, 15),
    dtypes.bfloat16: (8, 127),
    dtypes.float32: (24, 127),
    dtypes.float64: (53, 1023),
}


def epsilon(dtype: DType) -> float:
    """Return the distance from 1 to the next greater value of a float type."""
    return 2.0 ** (1 - _FORMATS[dtype][0])


def largest(dtype: DType) -> float:
    """Return the greatest finite value of a float type."""
    digits, exponent = _FORMATS[dtype]
    return (2.0 - 2.0 ** (1 - digits)) * 2.0**exponent


def least_normal(dtype: DType) -> float:
    """Return the least positive value that has all its digits."""
    return 2.0 ** (1 - _FORMATS[dtype][1])


def least_positive(dtype: DType) -> float:
    """Return the least positive value of a float type, a subnormal one."""
    digits, exponent = _FORMATS[dtype]
    return 2.0 ** (2 - exponent - digits)


def special_values(dtype: DType) -> Array:
    """Return the values of a type at which something may go wrong: extremes, neighbours of them, zeros, NaN."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_float:
        top, normal, tiny = largest(dtype), least_normal(dtype), least_positive(dtype)
        positive = [
            0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 0.1, 0.3, 7.0, 10.0, 100.5, 127.0, 128.0, 255.0, 256.0, 32767.5, 65535.0,
            2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e10, 1.0 + epsilon(dtype), 1.0 - epsilon(dtype) / 2, top, top / 2,
            normal, normal / 2, tiny, float("inf"),
        ]  # fmt: skip
        values = [*positive, *(-value for value in positive), float("nan")]
        with np.errstate(over="ignore"):
            return np.array(values).astype(dtype.numpy)
    low, high = int(dtype.min), int(dtype.max)
    wanted = {0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, 127, 128, high, high - 1, high // 2, high // 3}
    wanted |= {low, low + 1, low // 2, -1, -2, -3, -5, -7, -8, -31, -32, -100, -128} if low else set()
    return np.array(sorted(value for value in wanted if low <= value <= high), dtype.numpy)


def random_array(dtype: DType, count: int, random: np.random.Generator, *, special: float = 0.0) -> Array:
    """Return `count` values: small ones that keep sums and products apart, and a part `special` of `special_values`."""
    if dtype.is_bool:
        return random.random(count) < 0.5
    if dtype.is_float:
        # Of a few digits, so that float16 holds them, and none near 0, by which something may be divided.
        sizes = random.integers(16, 80, count) / 32.0
        result: Array = np.where(random.random(count) < 0.5, sizes, -sizes).astype(dtype.numpy)
    else:
        result = random.integers(max(int(dtype.min), -9), 10, count).astype(dtype.numpy)
    if special and count:
        chosen = random.random(count) < special
        result[chosen] = random.choice(special_values(dtype), int(chosen.sum()))
    return result


def special_pairs(dtype: DType) -> tuple[Array, Array]:
    """Return two arrays that have every pair of `special_values` at one position."""
    values = special_values(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))
