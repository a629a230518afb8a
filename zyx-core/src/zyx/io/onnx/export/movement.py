"""Movement: shapes, axes, boxes, windows. What is repeated stays lean where it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.io.onnx.export.sizes import dims_of, plain, plus, product, times
from zyx.io.onnx.export.writer import CannotWriteError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zyx.dtype import Scalar
    from zyx.graph import node as n
    from zyx.graph.node import Node
    from zyx.io.onnx.export.sizes import Dim, Dims
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter

#: The end of an axis that is gone through backwards: before its first element.
_BEFORE_ALL: Final = -(1 << 63)
#: What `Pad` is not there for.
_PADDED_AS: Final = {dtypes.uint16: dtypes.int32, dtypes.int16: dtypes.int32}


def write_same(w: GraphWriter, node: n.Alias | n.Contiguous | n.ToDevice | n.Expand) -> GraphValue:
    """Write nothing: the values are those of the source."""
    return w.lean(node.sources[0])


def write_iota(w: GraphWriter, node: n.Iota) -> GraphValue:
    """Write coordinates, repeated along all axes but one."""
    size = plain(node.shape[node.axis])
    shape = tuple([size if axis == node.axis else 1 for axis in range(node.ndim)])
    if isinstance(size, int):
        return w.constant(np.arange(size).reshape(shape), node.dtype)  # type: ignore[arg-type]  # all are ints
    end = w.reshape(w.sizes((size,)), ())
    places = w.op("Range", [w.scalar(0, dtypes.int64), end, w.scalar(1, dtypes.int64)], (size,), dtypes.int64)
    return w.reshape(w.cast(places, node.dtype), shape)


def write_reshape(w: GraphWriter, node: n.Reshape) -> GraphValue:
    """Write another shape; where axes of size 1 come and go, what is repeated stays so."""
    (source,) = node.sources
    x, before, after = w.lean(source), dims_of(source), dims_of(node)
    kept = [axis for axis, size in enumerate(before) if size != 1]
    if [before[axis] for axis in kept] == [size for size in after if size != 1]:
        sizes = iter([x.dims[axis] for axis in kept])
        return w.reshape(x, tuple([1 if size == 1 else next(sizes) for size in after]))
    return w.reshape(w.value(source), after)


def write_permute(w: GraphWriter, node: n.Permute) -> GraphValue:
    """Write another order of axes."""
    return w.transpose(w.lean(node.sources[0]), node.order)


def full_along(w: GraphWriter, node: Node, axes: Collection[int]) -> GraphValue:
    """Return what has become of a node, repeated along `axes` as it has to be."""
    x, dims = w.lean(node), dims_of(node)
    return w.expand(x, tuple([dims[axis] if axis in axes else size for axis, size in enumerate(x.dims)]))


def write_pad(w: GraphWriter, node: n.Pad) -> GraphValue:
    """Write a margin."""
    widths = [(plain(before), plain(after)) for before, after in node.widths]
    axes = [axis for axis, pair in enumerate(widths) if pair != (0, 0)]
    return pad(w, full_along(w, node.sources[0], axes), widths, node.value)


def pad(w: GraphWriter, x: GraphValue, widths: Sequence[tuple[Dim, Dim]], value: Scalar) -> GraphValue:
    """Return `x` with widths[axis] = (before, after) more elements, each `value`."""
    wide = _PADDED_AS.get(x.dtype, x.dtype)
    dims = tuple([plus(size, plus(*pair)) for size, pair in zip(x.dims, widths, strict=True)])
    pads = w.sizes((*[before for before, _ in widths], *[after for _, after in widths]))
    return w.cast(w.op("Pad", [w.cast(x, wide), pads, w.scalar(value, wide)], dims, wide), x.dtype)


def write_shrink(w: GraphWriter, node: n.Shrink) -> GraphValue:
    """Write a box."""
    (source,) = node.sources
    bounds = [(plain(start), plain(stop)) for start, stop in node.bounds]
    axes = [axis for axis, (size, pair) in enumerate(zip(dims_of(source), bounds, strict=True)) if pair != (0, size)]
    return cut(w, full_along(w, source, axes), {axis: bounds[axis] for axis in axes})


def cut(w: GraphWriter, x: GraphValue, bounds: dict[int, tuple[Dim, Dim]]) -> GraphValue:
    """Return the box of `x` between bounds[axis] = (start, stop)."""
    if not bounds:
        return x
    dims = tuple([plus(bounds[i][1], times(-1, bounds[i][0])) if i in bounds else s for i, s in enumerate(x.dims)])
    starts, stops = w.sizes(tuple([b[0] for b in bounds.values()])), w.sizes(tuple([b[1] for b in bounds.values()]))
    return w.op("Slice", [x, starts, stops, w.constant([*bounds])], dims, x.dtype)


def write_flip(w: GraphWriter, node: n.Flip) -> GraphValue:
    """Write axes the other way round; along one that is repeated, nothing changes."""
    x = w.lean(node.sources[0])
    axes = [axis for axis in node.axes if x.dims[axis] != 1]
    return flipped(w, x, axes) if axes else x


def flipped(w: GraphWriter, x: GraphValue, axes: list[int]) -> GraphValue:
    """Return `x` with axes the other way round."""
    given = [[-1] * len(axes), [_BEFORE_ALL] * len(axes), axes, [-1] * len(axes)]
    return w.op("Slice", [x, *[w.constant(numbers) for numbers in given]], x.dims, x.dtype)


# ---- windows


def write_slide(w: GraphWriter, node: n.Slide) -> GraphValue:
    """Write windows: elements of the axis, or of the axis and the window together, by their places."""
    (source,) = node.sources
    x, axis, window = w.lean(source), node.axis, node.window
    count, extent = plain(node.shape[axis]), plain(node.shape[window])
    if x.dims[axis] == 1 and dims_of(source)[axis] != 1:
        return x  # all positions are alike
    size = x.dims[axis]
    if not (isinstance(count, int) and isinstance(extent, int) and isinstance(size, int)):
        raise CannotWriteError("windows along an axis whose length varies are written in convolutions only")
    places = np.arange(count)[:, None] * node.stride + np.arange(extent)[None, :] * node.dilation
    if x.dims[window] == 1 and extent != 1:
        found = picked(w, x, axis, places)  # the window's axis comes behind the axis, and another one is of size 1
        order = [*range(len(found.dims))]
        order.remove(axis + 1)
        old = window + 1 if window > axis else window
        order[order.index(old)] = axis + 1
        order.append(old)
        found = w.transpose(found, order)
        return w.reshape(found, found.dims[:-1])
    joined, order = _joined(w, x, axis, window)
    found = picked(w, joined, len(joined.dims) - 1, places * extent + np.arange(extent))
    return w.transpose(found, [order.index(i) for i in range(len(order))])


def write_unslide(w: GraphWriter, node: n.Unslide) -> GraphValue:
    """Write windows back to where they come from, by the place of each element, or that of a 0 behind all others."""
    (source,) = node.sources
    x = full_along(w, source, (node.axis, node.window))
    count, extent, size = x.dims[node.axis], x.dims[node.window], plain(node.shape[node.axis])
    if not (isinstance(count, int) and isinstance(extent, int) and isinstance(size, int)):
        raise CannotWriteError("windows along an axis whose length varies are not put back")
    joined, order = _joined(w, x, node.axis, node.window)
    last = len(joined.dims) - 1
    joined = pad(w, joined, [(0, 0)] * last + [(0, 1)], 0)
    offset = np.arange(size)[:, None] - np.arange(extent)[None, :] * node.dilation
    number = offset // node.stride
    is_there = (offset % node.stride == 0) & (number >= 0) & (number < count)
    found = picked(w, joined, last, np.where(is_there, number * extent + np.arange(extent), count * extent))
    return w.transpose(found, [order.index(i) for i in range(len(order))])


def _joined(w: GraphWriter, x: GraphValue, axis: int, window: int) -> tuple[GraphValue, list[int]]:
    """Return `x` with two axes behind all others as one, and the order in which the axes are then."""
    order = [*[i for i in range(len(x.dims)) if i not in (axis, window)], axis, window]
    moved = w.transpose(x, order)
    dims: Dims = (*moved.dims[:-2], product(moved.dims[-2:]))
    return w.reshape(moved, dims), order


def picked(w: GraphWriter, x: GraphValue, axis: int, places: np.ndarray) -> GraphValue:
    """Return the elements of `x` at places of an axis, in whose place the axes of `places` are."""
    dims = (*x.dims[:axis], *places.shape, *x.dims[axis + 1 :])
    if places.size == x.dims[axis] and np.array_equal(places.ravel(), np.arange(places.size)):
        return w.reshape(x, dims)
    return w.op("Gather", [x, w.constant(places)], dims, x.dtype, axis=axis)
