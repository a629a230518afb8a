"""Elements by their places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import choosing, selection
from zyx.functions.operands import is_tensor
from zyx.io.onnx.lengths import as_array, looked_at
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import to_host
from zyx.tensor import creation

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


@operator("Gather", raw=True, sizes=True)
def gather(node: NodeCall, x: Value, places: Value) -> Value:
    """Take slices of an axis; negative places count from its end."""
    axis = node["axis"] % max(len(x.shape), 1)
    places = looked_at(places)
    if not is_tensor(x):
        if not is_tensor(places):
            return as_array(np.take(x, places, axis))
        x = node.tensor(x)
    if is_tensor(places):
        places = choosing.where(places < 0, places + x.shape[axis], places)
    elif places.size == 1 and x.shape[axis]:  # one slice, known here
        place = int(places.reshape(())) % x.shape[axis] if int(places.reshape(())) < 0 else int(places.reshape(()))
        cut = x[(slice(None),) * axis + (slice(place, place + 1),)]
        return cut.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))
    flat = selection.take(x, places.reshape((-1,)), axis=axis)
    return flat.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


@operator("GatherElements")
def gather_elements(node: NodeCall, x: Tensor, places: Tensor) -> Tensor:
    """Take one element for each place, along an axis."""
    axis = node["axis"] % x.ndim
    places = choosing.where(places < 0, places + x.shape[axis], places)
    return selection.gather(x, axis, places)


@operator("GatherND")
def gather_nd(node: NodeCall, x: Tensor, places: Tensor) -> Tensor:
    """Take slices by places of several axes, with leading axes in common."""
    batch = node.get("batch_dims", 0)
    depth = places.shape[-1]
    shared, sizes = x.shape[:batch], x.shape[batch : batch + depth]
    lead = math.prod(shared)
    flat = x.reshape((lead * math.prod(sizes), *x.shape[batch + depth :]))
    index = flat_places(places.reshape((lead, -1, depth)), sizes)
    if batch:
        steps = creation.arange(lead, dtype=places.dtype, device=x.device) * math.prod(sizes)
        index = index + steps.reshape((lead, 1))
    taken = selection.take(flat, index.reshape((-1,)), axis=0)
    return taken.reshape((*places.shape[:-1], *x.shape[batch + depth :]))


def flat_places(places: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return numbers of elements in row-major order, of places along each axis, which are the last axis of `places`."""
    index = None
    for axis, size in enumerate(sizes):
        part = places[..., axis]
        part = choosing.where(part < 0, part + size, part)
        index = part if index is None else index * size + part
    assert index is not None, "there is at least one axis"
    return index


@operator("OneHot", reads=(1,))
def one_hot(node: NodeCall, places: Tensor, depth: Array, values: Tensor) -> Tensor:
    """Return one of two numbers: the second where a place is that of the new axis."""
    count = int(depth.reshape(-1)[0])
    axis = node["axis"]
    axis = axis + places.ndim + 1 if axis < 0 else axis
    whole = places.astype("int64")
    whole = choosing.where(whole < 0, whole + count, whole)
    shape = [1] * (places.ndim + 1)
    shape[axis] = count
    steps = creation.arange(count, dtype="int64", device=places.device).reshape(shape)
    grown = whole.reshape((*places.shape[:axis], 1, *places.shape[axis:]))
    return choosing.where(grown == steps, values[1], values[0])


@operator("Compress", reads=(1,), folds=True)
def compress(node: NodeCall, x: Value, condition: Array) -> Value:
    """Take the slices of an axis where a condition holds, or elements of all."""
    places = np.flatnonzero(condition)
    if "axis" not in node:
        x, axis = x.reshape((-1,)), 0
    else:
        axis = node["axis"]
    return selection.take(x, node.tensor(places), axis=axis) if is_tensor(x) else np.take(x, places, axis)


@operator("NonZero", raw=True)
def nonzero(_: NodeCall, x: Value) -> Value:
    """Return the places of what is not zero, one row an axis; this reads the tensor."""
    found = np.array(np.nonzero(np.atleast_1d(to_host(x))), np.int64)
    return found if len(x.shape) else found[:0]


@operator("ReverseSequence", reads=(1,))
def reverse_sequence(node: NodeCall, x: Tensor, lengths: Array) -> Tensor:
    """Reverse the first elements of each sequence."""
    time, batch = node["time_axis"], node["batch_axis"]
    steps = np.arange(x.shape[time])[:, None]
    places = np.where(steps < lengths, lengths - 1 - steps, steps)  # (time, batch)
    shape = [1] * x.ndim
    shape[time], shape[batch] = x.shape[time], x.shape[batch]
    index = np.broadcast_to((places if time < batch else places.T).reshape(shape), x.shape).astype(np.int64)
    return selection.gather(x, time, node.tensor(np.ascontiguousarray(index)))
