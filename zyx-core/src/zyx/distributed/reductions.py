"""Reductions by the types that MPI has, with the results that zyx gives.

    bool                    max is or, min is and; of bytes
    signed integers         sums and products as unsigned, so that what overflows wraps
    float16, bfloat16       in float32, rounded once at the end
    max, min of floats      of integers in the same order, in which NaN is beyond all others: MPI leaves open what it
                            makes of NaN, and processes could get different results

No dtype goes from one process to another that MPI has no name for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"

#: By their names, with what the processes reduce by; a mean is a sum that is divided at the end.
OPS: Final = {
    "sum": ReduceOp.SUM,
    "mean": ReduceOp.SUM,
    "prod": ReduceOp.PROD,
    "max": ReduceOp.MAX,
    "min": ReduceOp.MIN,
}
_ORDERED: Final = (ReduceOp.MAX, ReduceOp.MIN)


def combined(combine: Callable[[Array], Array], op: ReduceOp, array: Array, count: int = 0) -> Array:
    """Return what `combine` makes of an array in a form that it can combine, in the array's dtype.

    Args:
        combine: From the array of this process to the combination, by `op` of integers and floats as MPI has them.
        op: The reduction.
        array: Of a dtype that it is defined for.
        count: With a number of processes, the mean is returned, which is rounded once.
    """
    dtype = array.dtype
    if dtype.kind == "b":
        return combine(np.asarray(array, order="C").view(np.uint8)).view(np.bool_)
    if dtype.kind in "iu":
        unsigned = np.asarray(array, order="C") if op in _ORDERED else _as_unsigned(array)
        return combine(unsigned).view(dtype)
    wide = np.asarray(array.astype(np.float32) if dtype.itemsize == 2 else array, order="C")
    if op in _ORDERED:
        return _from_keys(combine(_keys(wide, op is ReduceOp.MAX)), wide.dtype).astype(dtype)
    found = combine(wide)
    return (found / count if count else found).astype(dtype)


def _as_unsigned(array: Array) -> Array:
    return np.asarray(array, order="C").view(f"u{array.dtype.itemsize}")


def _keys(array: Array, is_max: bool) -> Array:
    """Return integers in the order of floats: -inf < ... < -0 < 0 < ... < inf, and NaN where it wins."""
    bits = array.view(f"i{array.dtype.itemsize}")
    keys = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    info = np.iinfo(bits.dtype)
    return np.asarray(np.where(np.isnan(array), info.max if is_max else info.min, keys))


def _from_keys(keys: Array, dtype: np.dtype[Any]) -> Array:
    bits = np.where(keys < 0, keys ^ np.iinfo(keys.dtype).max, keys)
    return np.asarray(bits, order="C").view(dtype)
