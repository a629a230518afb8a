"""What slides windows over an input: convolutions and pooling, written as what they are."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.io.onnx.export.sizes import dims_of, minus, plus, product, times
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter

#: What pooling is there for.
_POOLED: Final = frozenset({dtypes.float32, dtypes.float64})


class _Windows(NamedTuple):
    """Windows of an input: the input, and along each axis strides and dilations."""

    source: Node
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


def windows_of(node: Node, count: int) -> _Windows | None:
    """Return of what a node is the windows, ``(.., places, window)`` with `count` axes each; None if it is none."""
    strides, dilations = [1] * count, [1] * count
    first, dims = node.ndim - 2 * count, dims_of(node)
    while isinstance(node, n.Slide) and node.window == node.axis + count and node.axis >= first:
        strides[node.axis - first], dilations[node.axis - first] = node.stride, node.dilation
        (node,) = node.sources
    while isinstance(node, n.Expand):
        (below,) = node.sources
        if dims_of(below) != (*dims_of(node)[:-count], *[1] * count):
            return None
        node = below
    if not isinstance(node, n.Reshape) or dims_of(node) != (*dims_of(node.sources[0]), *[1] * count):
        return None
    (source,) = node.sources
    for axis, (stride, dilation) in enumerate(zip(strides, dilations, strict=True), first):
        rest = minus(minus(dims_of(source)[axis], times(dilation, minus(dims[axis + count], 1))), 1)
        places = rest // stride if isinstance(rest, int) else rest if stride == 1 else None
        if places is None or dims[axis] != plus(places, 1):
            return None  # there are fewer windows than there could be
    return _Windows(source, tuple(strides), tuple(dilations))


def _unexpanded(node: Node) -> Node:
    while isinstance(node, n.Expand):
        (node,) = node.sources
    return node


def convolution(w: GraphWriter, node: n.Reduce, first: Node, second: Node) -> GraphValue | None:
    """Write a convolution as `zyx.functions.conv` forms it; None for all else."""
    full = dims_of(node.sources[0])
    count = (len(full) - 4) // 2
    data, filters = _unexpanded(first), _unexpanded(second)
    if count < 1 or len(full) != 4 + 2 * count or not isinstance(data, n.Reshape) or not isinstance(filters, n.Reshape):
        return None
    images, groups, outputs, inner = full[:4]
    summed = (3, *range(4 + count, 4 + 2 * count))
    found = windows_of(data.sources[0], count)
    weight = filters.sources[0]
    extents = full[4 + count :]
    if (
        found is None
        or set(node.axes) != {axis for axis in summed if full[axis] != 1}
        or dims_of(data) != (images, groups, 1, inner, *full[4:])
        or dims_of(filters) != (1, groups, outputs, inner, *[1] * count, *extents)
        or dims_of(weight) != (product((groups, outputs)), inner, *extents)
        or found.source.ndim != 2 + count
    ):
        return None
    made_of, pads = _padded(found.source, 0, count)
    dims = (images, product((groups, outputs)), *full[4 : 4 + count])
    made = w.op(
        "Conv", [w.value(made_of), w.value(weight)], dims, node.dtype,
        strides=found.strides, dilations=found.dilations, pads=pads, group=groups,
    )  # fmt: skip
    return w.reshape(made, dims_of(node))


def _padded(node: Node, value: Scalar, count: int) -> tuple[Node, list[int]]:
    """Return what a margin of `value` was put around along the last axes, and its widths; none around others."""
    if isinstance(node, n.Pad) and node.value == value:
        widths = node.widths
        if all([type(width) is int for pair in widths for width in pair]) and {*widths[:-count]} == {(0, 0)}:
            last = widths[-count:]
            return node.sources[0], [*[before for before, _ in last], *[after for _, after in last]]
    return node, [0] * (2 * count)


def pooling(w: GraphWriter, node: n.Reduce) -> GraphValue | None:
    """Write the greatest or the sum of each window of ``(N, C, n1, .., nk)``; None for all else."""
    (source,) = node.sources
    full, count = dims_of(source), (node.ndim - 2) // 2
    extents = [size for size in full[2 + count :] if isinstance(size, int)]
    if node.ndim != 2 + 2 * count or not 1 <= count <= 3 or len(extents) < count or node.dtype not in _POOLED:
        return None
    if node.op not in (ReduceOp.MAX, ReduceOp.SUM) or not isinstance(source, n.Slide):
        return None
    found = windows_of(source, count)
    if found is None or set(node.axes) != {axis for axis in range(2 + count, node.ndim) if full[axis] != 1}:
        return None
    is_sum = node.op is ReduceOp.SUM
    made_of, pads = _padded(found.source, 0.0 if is_sum else node.dtype.min, count)
    if any([width >= extent for width, extent in zip(pads, (*extents, *extents), strict=True)]):
        return None  # runtimes refuse that
    settings: dict[str, object] = {"strides": found.strides, "dilations": found.dilations, "kernel_shape": extents}
    kind = "AveragePool" if is_sum else "MaxPool"
    if is_sum:
        settings["count_include_pad"] = 1
    made = w.op(kind, [w.value(made_of)], full[: 2 + count], node.dtype, pads=pads, **settings)
    if is_sum:
        made = w.like("Mul", made, w.scalar(prod(extents), node.dtype))
    return w.reshape(made, dims_of(node))
