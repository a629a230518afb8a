"""What calls compute, on tensors: the graph, its fusion and its plans do the work, on every device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.compute.names import BinaryOp, ReduceOp, Transpose, UnaryOp
from zyx.functions import activations, arithmetic, complex_numbers, elementwise, reduction, transcendental
from zyx.functions.linalg import matmul
from zyx.functions.operands import wrap
from zyx.functions.term import Term
from zyx.nn.functional.attention import scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.tensor.tensor import Tensor

#: Functions that are defined for integers, and give such.
OF_INTEGERS: Final = frozenset(
    {UnaryOp.RELU, UnaryOp.ABS, UnaryOp.NEG, ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN}
    | {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MAX, BinaryOp.MIN}
)
#: Functions that are defined for complex numbers, and give such.
OF_COMPLEX: Final = frozenset(
    {UnaryOp.TANH, UnaryOp.EXP, UnaryOp.LOG, UnaryOp.SQRT, UnaryOp.NEG, ReduceOp.SUM, ReduceOp.MEAN}
    | {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.POW}
)
_UNARY: Final[dict[UnaryOp, Callable[[Tensor], Tensor]]] = {
    UnaryOp.RELU: activations.relu,
    UnaryOp.SIGMOID: activations.sigmoid,
    UnaryOp.TANH: transcendental.tanh,
    UnaryOp.EXP: transcendental.exp,
    UnaryOp.LOG: transcendental.log,
    UnaryOp.SQRT: transcendental.sqrt,
    UnaryOp.ABS: elementwise.abs,
    UnaryOp.NEG: elementwise.negative,
}
_BINARY: Final[dict[BinaryOp, Callable[[Tensor, Tensor], Tensor]]] = {
    BinaryOp.ADD: arithmetic.add,
    BinaryOp.SUB: arithmetic.subtract,
    BinaryOp.MUL: arithmetic.multiply,
    BinaryOp.DIV: arithmetic.divide,
    BinaryOp.MAX: arithmetic.maximum,
    BinaryOp.MIN: arithmetic.minimum,
    BinaryOp.POW: arithmetic.pow,
}


def is_defined(op: UnaryOp | BinaryOp | ReduceOp, dtype: DType) -> bool:
    """Whether an operation on elements of `dtype` gives such."""
    if dtype.is_complex:
        return op in OF_COMPLEX
    return op in OF_INTEGERS or not dtype.is_integer


def turned(x: Tensor, how: Transpose) -> Tensor:
    """Return matrices as they are, transposed, or conjugated as well."""
    if how is Transpose.NO_TRANS:
        return x
    return (complex_numbers.conj(x) if how is Transpose.CONJ_TRANS else x).mT


def product(x: Tensor, y: Tensor, alpha: complex, beta: complex, old: Tensor | None) -> Tensor:
    """Return ``alpha * x @ y + beta * old``, in the dtype of sums until it is rounded once; no `old` is not read."""
    wide = dtypes.accumulator(x.dtype)
    total = matmul(x, y, dtype=wide)
    if alpha != 1:
        total = total * alpha
    if old is not None:
        total = total + scaled(old, beta)
    return total.astype(x.dtype)


def scaled(x: Tensor, factor: complex) -> Tensor:
    """Return ``factor * x`` in the dtype of sums."""
    x = x.astype(dtypes.accumulator(x.dtype))
    return x if factor == 1 else x * factor


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float, causal_offset: int | None) -> Tensor:
    """Return attention, where query i sees the keys up to ``i + causal_offset``; those are all for None."""
    mask: Tensor | None = None
    if causal_offset is not None:
        graph, shape = q.runtime.graph, (q.shape[-2], k.shape[-2])
        query, key = (Term(graph, graph.iota(shape, axis, dtypes.int32, q.device)) for axis in (0, 1))
        mask = wrap((key <= query + causal_offset).node, q)
    return scaled_dot_product_attention(q, k, v, mask, scale=scale)


def reduced(x: Tensor, op: ReduceOp, axis: int) -> Tensor:
    """Return `x` reduced along an axis, in its dtype."""
    match op:
        case ReduceOp.SUM:
            return reduction.sum(x, axis, dtype=x.dtype)
        case ReduceOp.MEAN:
            return reduction.mean(x, axis)
        case ReduceOp.MAX:
            return reduction.max(x, axis)
        case ReduceOp.MIN:
            return reduction.min(x, axis)


def unary(x: Tensor, op: UnaryOp) -> Tensor:
    """Return a function of each element."""
    return _UNARY[op](x)


def binary(x: Tensor, y: Tensor, op: BinaryOp) -> Tensor:
    """Return a function of each pair of elements."""
    return _BINARY[op](x, y)
