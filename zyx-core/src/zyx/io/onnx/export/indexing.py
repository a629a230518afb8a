"""Reading and writing by indices, and sorting.

Of ours, an index outside of its axis reads 0 and writes nothing; ONNX refuses it. So it is looked at, unless its values
are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.graph.evaluate import evaluate
from zyx.graph.walk import topological
from zyx.io.onnx.export.elementwise import where
from zyx.io.onnx.export.movement import cut, full_along, pad
from zyx.io.onnx.export.sizes import dims_of, plain
from zyx.io.onnx.export.writer import CannotWriteError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx.graph.node import Node
    from zyx.io.onnx.export.sizes import Dim
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter

_REDUCTIONS: Final[dict[ReduceOp | None, str]] = {
    None: "none",
    ReduceOp.SUM: "add",
    ReduceOp.PROD: "mul",
    ReduceOp.MAX: "max",
    ReduceOp.MIN: "min",
}
#: What is combined in another dtype.
_WIDE: Final[dict[DType, DType]] = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.bool_: dtypes.int32,
}
#: Indices of more elements are not computed to see whether they are known.
_MOST_KNOWN: Final = 1 << 20


def _known(node: Node) -> npt.NDArray[Any] | None:
    """Return the values of a node that depends on no input and no weight, if they are few."""
    order = topological([node])
    if any(isinstance(each, n.Leaf | n.Custom | n.RandomBits) for each in order):
        return None
    if any(not isinstance(size, int) for each in order for size in dims_of(each)):
        return None
    return evaluate([node])[0] if node.ndim and max(len(order), *node.shape) <= _MOST_KNOWN else None


def _outside(w: GraphWriter, node: Node, index: GraphValue, size: Dim) -> GraphValue | None:
    """Return where an index, int64, lies within an axis; None if it does so everywhere."""
    values = _known(node)
    if values is not None and isinstance(size, int) and values.size and -size <= values.min() <= values.max() < size:
        return None
    length = w.whole_number(size)
    below = w.like("Less", index, length, dtype=dtypes.bool_)
    from_end = w.like("GreaterOrEqual", index, w.like("Neg", length), dtype=dtypes.bool_)
    return w.like("And", below, from_end)


def write_gather(w: GraphWriter, node: n.Gather) -> GraphValue:
    """Write reads: rows by their numbers where the index is the same along all other axes."""
    data, index = node.sources
    axis, size = node.axis, dims_of(data)[node.axis]
    if size == 0:
        return w.expand(w.scalar(0, node.dtype), dims_of(node))
    places = w.cast(w.lean(index), dtypes.int64)
    inside = _outside(w, index, places, size)
    if inside is not None:
        places = where(w, inside, places, w.scalar(0, dtypes.int64))
    if all([extent == 1 for i, extent in enumerate(places.dims) if i != axis]):
        x = full_along(w, data, (axis,))
        count = places.dims[axis]
        dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
        found = w.op("Gather", [x, w.reshape(places, (count,))], dims, node.dtype, axis=axis)
    else:
        given = [w.value(data), w.expand(places, dims_of(index))]
        found = w.op("GatherElements", given, dims_of(node), node.dtype, axis=axis)
    return found if inside is None else where(w, inside, found, w.scalar(0, node.dtype))


def write_scatter(w: GraphWriter, node: n.Scatter) -> GraphValue:
    """Write writes; those outside go to one more place behind the axis, which is cut off."""
    base, index, updates = node.sources
    axis, size, op = node.axis, dims_of(base)[node.axis], node.op
    if node.dtype.is_bool:
        op = {ReduceOp.OR: ReduceOp.MAX, ReduceOp.AND: ReduceOp.MIN}.get(op, op)  # type: ignore[arg-type]
    if op not in _REDUCTIONS:
        raise CannotWriteError("ONNX writes by sum, product, greatest and least")
    wide = node.dtype if op is None else _WIDE.get(node.dtype, node.dtype)
    places = w.cast(w.value(index), dtypes.int64)
    inside = _outside(w, index, places, size)
    x, y = w.cast(w.value(base), wide), w.cast(w.value(updates), wide)
    if inside is not None:
        length = w.whole_number(size)
        is_negative = w.like("Less", places, w.scalar(0, dtypes.int64), dtype=dtypes.bool_)
        places = where(w, is_negative, w.like("Add", places, length), places)
        places = where(w, inside, places, length)
        x = pad(w, x, [(0, 1) if i == axis else (0, 0) for i in range(node.ndim)], 0)
    made = w.op("ScatterElements", [x, places, y], x.dims, wide, axis=axis, reduction=_REDUCTIONS[op])
    if inside is not None:
        made = cut(w, made, {axis: (0, size)})
    return w.cast(made, node.dtype)


def write_sort(w: GraphWriter, node: n.Sort) -> GraphValue:
    """Write the places of the least, of which those of equal ones are in order."""
    x = full_along(w, node.sources[0], (node.axis,))
    if node.bits == 64:  # int64 has the order of uint64 once the highest bit is the other one
        x = w.like("BitwiseXor", x, w.scalar(1 << 63, x.dtype))
    keys, count = w.cast(x, dtypes.int64), plain(node.shape[node.axis])
    dims = (*x.dims[: node.axis], count, *x.dims[node.axis + 1 :])
    outputs = [(dims, dtypes.int64), (dims, dtypes.int64)]
    _, order = w.several("TopK", [keys, w.sizes((count,))], outputs, axis=node.axis, largest=0, sorted=1)
    return w.cast(order, node.dtype)
