"""Order: largest elements, and different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import selection, sorting
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import to_host

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


@operator("TopK", reads=(1,), moved={"k": (10, 1)})
def top(node: NodeCall, x: Tensor, count: Array) -> Value:
    """Return the largest or least along an axis, with their places; of equal ones the first."""
    axis = node["axis"] % x.ndim
    largest = bool(node.get("largest", 1))
    order = sorting.argsort(x, axis, descending=largest, stable=True)
    first = order[(slice(None),) * axis + (slice(0, int(count.reshape(-1)[0])),)]
    return selection.take_along_axis(x, first, axis), first.astype("int64")


@operator("Unique", raw=True)
def unique(node: NodeCall, x: Value) -> Value:
    """Return different elements or slices, with places, inverse places and counts; this reads the tensor."""
    array = to_host(x)
    axis = node.get("axis")
    values, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = np.asarray(inverse).reshape(-1)
    if not node["sorted"]:  # in the order in which they come
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)
