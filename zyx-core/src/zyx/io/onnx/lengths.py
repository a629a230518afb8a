"""Sizes that vary from call to call, in the arithmetic of shapes on the host.

Where a network is traced for many lengths, the sizes of its inputs are no numbers (`zyx.jit.sizes`). An array that has
one is an array of objects, and stands for one of int64; operators that are declared ``sizes`` compute with it, so that
``Shape``, ``Gather``, ``Concat``, ``Reshape`` are traced once for all lengths. All others are given the numbers of this
call, and the trace is for these alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.shape import VaryingSize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.functions.operands import Array
    from zyx.io.onnx.values import Value


def size_array(sizes: Iterable[Any]) -> Array:
    """Return sizes as a vector."""
    listed = list(sizes)
    if not any(isinstance(size, VaryingSize) for size in listed):
        return np.array(listed, np.int64)
    array = np.empty(len(listed), object)
    for place, size in enumerate(listed):  # one by one, or NumPy would look at them
        array[place] = size
    return array


def as_array(value: Any) -> Array:  # noqa: ANN401  # what NumPy's functions return
    """Return an array of what they give of arrays without axes, too."""
    return size_array((value,)).reshape(()) if isinstance(value, VaryingSize) else np.asarray(value)


def varies(value: Value) -> bool:
    """Whether an array has sizes that vary."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.hasobject
        and any(isinstance(item, VaryingSize) for item in value.reshape(-1))
    )


def looked_at(value: Value) -> Value:
    """Return the numbers of this call in place of sizes that vary; all else as it is."""
    return (
        np.array([int(item) for item in value.reshape(-1)], np.int64).reshape(value.shape) if varies(value) else value
    )


def settled(value: Value) -> Value:
    """Return whole numbers in an array of objects as int64, if none of them varies any more; all else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject and value.size and not varies(value):
        listed = value.reshape(-1).tolist()
        if all(type(item) is int for item in listed):
            return np.array(listed, np.int64).reshape(value.shape)
    return value


def whole(item: Any) -> int:  # noqa: ANN401  # NumPy's numbers, and sizes
    """Return an element as an int, or as a size that varies."""
    return item if isinstance(item, VaryingSize) else int(item)  # type: ignore[return-value]  # an int to all who use it


def wholes(array: Array) -> tuple[int, ...]:
    """Return the elements of a vector as ints, and as sizes that vary."""
    return tuple([whole(item) for item in array])
