"""Reductions and running combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx.io.onnx.export.elementwise import combined
from zyx.io.onnx.export.movement import cut, full_along
from zyx.io.onnx.export.products import contraction
from zyx.io.onnx.export.sizes import plus
from zyx.io.onnx.export.windows import pooling
from zyx.io.onnx.export.writer import CannotWriteError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.graph import node as n
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter

_KINDS: Final = {
    ReduceOp.SUM: "ReduceSum",
    ReduceOp.PROD: "ReduceProd",
    ReduceOp.MAX: "ReduceMax",
    ReduceOp.MIN: "ReduceMin",
}
#: What reductions are formed in, and come back from by rounding or wrapping.
_WIDE: Final[dict[DType, DType]] = {
    dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32, dtypes.bool_: dtypes.int32,
    dtypes.uint8: dtypes.int32, dtypes.int8: dtypes.int32, dtypes.uint16: dtypes.int32, dtypes.int16: dtypes.int32,
    dtypes.uint32: dtypes.int64, dtypes.uint64: dtypes.int64,
}  # fmt: skip
_TOP_BIT: Final = 1 << 63


def write_reduce(w: GraphWriter, node: n.Reduce) -> GraphValue:
    """Write a reduction; sums of products as products of matrices or convolutions, where they are any."""
    found = contraction(w, node) or pooling(w, node)
    if found is not None:
        return found
    x = full_along(w, node.sources[0], node.axes)
    op, dtype = node.op, node.dtype
    if dtype.is_bool:
        op = {ReduceOp.OR: ReduceOp.MAX, ReduceOp.AND: ReduceOp.MIN}.get(op, op)
    if (op not in _KINDS and not dtype.is_bool) or (op is ReduceOp.PROD and dtype.is_integer):  # which wraps
        return _by_halves(w, op, x, node.axes)
    wide, is_turned = _WIDE.get(dtype, dtype), dtype is dtypes.uint64 and op in (ReduceOp.MAX, ReduceOp.MIN)
    if is_turned:  # int64 has the order of uint64 once the highest bit is the other one
        x = w.like("BitwiseXor", x, w.scalar(_TOP_BIT, dtype))
    dims = tuple([1 if axis in node.axes else size for axis, size in enumerate(x.dims)])
    kind = "ReduceSum" if op is ReduceOp.XOR else _KINDS[op]
    made = w.op(kind, [w.cast(x, wide), w.constant(node.axes)], dims, wide, keepdims=1)
    if op is ReduceOp.XOR:
        made = w.like("Mod", made, w.scalar(2, wide), fmod=1)
    made = w.cast(made, dtype)
    return w.like("BitwiseXor", made, w.scalar(_TOP_BIT, dtype)) if is_turned else made


def _by_halves(w: GraphWriter, op: ReduceOp, x: GraphValue, axes: tuple[int, ...]) -> GraphValue:
    """Return integers combined, one half of what is left with the other."""
    for axis in axes:
        while x.dims[axis] != 1:
            size = x.dims[axis]
            if not isinstance(size, int):
                raise CannotWriteError(f"{op.value} of integers along an axis whose length varies")
            half = size // 2
            both = combined(w, op.binary, cut(w, x, {axis: (0, half)}), cut(w, x, {axis: (half, 2 * half)}))
            x = both if size == 2 * half else _joined(w, [both, cut(w, x, {axis: (2 * half, size)})], axis)
    return x


def _joined(w: GraphWriter, parts: list[GraphValue], axis: int) -> GraphValue:
    first, second = parts
    dims = (*first.dims[:axis], plus(first.dims[axis], second.dims[axis]), *first.dims[axis + 1 :])
    return w.op("Concat", parts, dims, first.dtype, axis=axis)


def write_scan(w: GraphWriter, node: n.Scan) -> GraphValue:
    """Write a running combination: a sum as one, others in steps of 1, 2, 4 and so on."""
    x = full_along(w, node.sources[0], (node.axis,))
    if node.op is ReduceOp.SUM:
        wide = _WIDE.get(node.dtype, node.dtype)
        made = w.op("CumSum", [w.cast(x, wide), w.scalar(node.axis, dtypes.int64)], x.dims, wide)
        return w.cast(made, node.dtype)
    size, wide = x.dims[node.axis], node.dtype if node.dtype.bits != 16 else _WIDE[node.dtype]
    if not isinstance(size, int):
        raise CannotWriteError(f"a running {node.op.value} along an axis whose length varies")
    start = w.scalar(ops.identity(node.op, node.dtype), node.dtype)
    step, x, start = 1, w.cast(x, wide), w.cast(start, wide)
    while step < size:
        head = (*x.dims[: node.axis], step, *x.dims[node.axis + 1 :])
        filled = w.expand(w.reshape(start, (1,) * node.ndim), head)
        moved = _joined(w, [filled, cut(w, x, {node.axis: (0, size - step)})], node.axis)
        x = combined(w, node.op.binary, x, moved)
        step *= 2
    return w.cast(x, node.dtype)
