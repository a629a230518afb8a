"""Tensors with some of their elements replaced, or combined with others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx.functions import choosing, selection
from zyx.functions.operands import is_tensor
from zyx.io.onnx.indexing import flat_places
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import to_host

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

#: Our names of what ONNX calls a reduction.
_REDUCTIONS: Final = {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def scatter_elements(node: NodeCall, x: Tensor, places: Tensor, updates: Tensor) -> Tensor:
    """Write elements to places along an axis."""
    axis = node["axis"] % x.ndim
    places = choosing.where(places < 0, places + x.shape[axis], places)
    return selection.scatter(x, axis, places, updates, _REDUCTIONS[node.get("reduction", "none")])


@operator("ScatterND", raw=True)
def scatter_nd(node: NodeCall, x: Value, places: Value, updates: Value) -> Value:
    """Write slices to places of several axes."""
    reduce = _REDUCTIONS[node.get("reduction", "none")]
    if not any(is_tensor(value) for value in (x, places, updates)) and reduce is None:
        array = np.array(x)
        array[tuple(np.moveaxis(places, -1, 0))] = updates
        return array
    data, index, values = node.tensor(x), node.tensor(places), node.tensor(updates)
    depth = index.shape[-1]
    sizes = data.shape[:depth]
    rows, width = math.prod(sizes), math.prod(data.shape[depth:])
    flat = flat_places(index, sizes).reshape((-1, 1))
    spread = flat.broadcast_to((flat.shape[0], width))
    written = selection.scatter(data.reshape((rows, width)), 0, spread, values.reshape((-1, width)), reduce)
    return written.reshape(data.shape)


@operator("TensorScatter", reads=(2,))
def tensor_scatter(node: NodeCall, x: Tensor, update: Tensor, starts: Array | None = None) -> Tensor:
    """Write new entries behind those that are there, as a cache does; with mode "circular" from its beginning again."""
    axis = node["axis"] % x.ndim
    batch, length, count = x.shape[0], x.shape[axis], update.shape[axis]
    first = np.zeros(batch, np.int64) if starts is None else to_host(starts).astype(np.int64)
    places = first[:, None] + np.arange(count)
    if node["mode"] == "circular":
        places = places % length
    shape = [1] * x.ndim
    shape[0], shape[axis] = batch, count
    index = np.ascontiguousarray(np.broadcast_to(places.reshape(shape), update.shape))
    return selection.scatter(x, axis, node.tensor(index), update)
