"""What the functions of this package check, and the formulas over matrices that their gradients are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.complex_numbers import joined, parts
from zyx.functions.operands import Array, common_dtype, first_tensor, node_of, require, wrap
from zyx.functions.term import Term, broadcast_shapes
from zyx.graph.host_call import HostCall
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zyx.dtype import DType
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.graph import Graph
    from zyx.graph.node import Custom, Node
    from zyx.shape import Shape

    # From the inputs of a call, the number of an output, and the gradient at it, to the gradients at the inputs.
    Gradient = Callable[[tuple[Term, ...], int, Term], Sequence[Term | None]]


#: The dtypes of LAPACK.
HAVE_LAPACK: Final = (dtypes.float32, dtypes.float64, *dtypes.COMPLEX)

# ---- checks


def matrices(x: object, what: str, *, square: bool = False, name: str = "x") -> Tensor:
    """Return `x`, a tensor of matrices of a dtype that LAPACK has.

    Args:
        x: What a function was given as `name`.
        what: The function.
        square: Whether they are square.
        name: The argument, for errors.

    Raises:
        DTypeError: No tensor, or another dtype.
        ShapeError: Fewer than two axes, or not square.
    """
    tensor = require(x, what)
    _check_dtype(tensor.node.dtype, what, name)
    check_matrices(tensor.node.shape, what, square=square, name=name)
    return tensor


def check_matrices(shape: Shape, what: str, *, square: bool = False, name: str = "x") -> None:
    """Raise `ShapeError` unless `shape` is that of matrices, square ones if `square`."""
    if len(shape) < 2:
        raise ShapeError(f"{what}: {name} has shape {shape}; matrices have at least two axes, (..., M, N)")
    if square and shape[-1] != shape[-2]:
        raise ShapeError(
            f"{what}: {name} has shape {shape}, matrices of {shape[-2]} x {shape[-1]}; they must be square, (..., M, M)"
        )


def pair(x1: Operand, x2: Operand, what: str) -> tuple[Tensor, Term, Term]:
    """Return a tensor of two operands, and both as terms of their common dtype, which LAPACK has.

    Raises:
        DTypeError: No tensor among them, or another dtype.
    """
    like = first_tensor((x1, x2), what)
    dtype = common_dtype((x1, x2), what)
    _check_dtype(dtype, what, "what the operands are promoted to")
    graph = like.runtime.graph
    a, b = (Term(graph, node_of(x, dtype, like)) for x in (x1, x2))
    return like, a, b


def _check_dtype(dtype: DType, what: str, name: str) -> None:
    if dtype not in HAVE_LAPACK:
        raise DTypeError(
            f"{what} is computed in float32, float64, complex64 or complex128, and {name} is {dtype}; convert it: "
            ".astype(zyx.float32)"
        )


# ---- calls of the host


def call(
    name: str,
    function: Callable[..., Sequence[Array]],
    inputs: Sequence[Term],
    shapes: Sequence[Shape],
    gradient: Gradient,
    *parameters: Hashable,
    library: str = "LAPACK",
    types: Sequence[DType] | None = None,
) -> list[Term]:
    """Return the outputs of a function that the host is to call.

    Args:
        name: What it does, for people.
        function: See `HostCall`; it takes any axes in front.
        inputs: What it is given.
        shapes: Of the outputs.
        gradient: Its gradient, in terms. That at ``x + iy`` is ``dL/dx + i dL/dy``, upstream and as the result; of what
            it gives for a real input the real part is taken.
        parameters: What it is given besides.
        library: What computes it.
        types: Of the outputs; None is that of the first input for all.
    """
    graph, own = inputs[0].graph, (inputs[0].dtype,) * len(shapes)

    def backward(graph: Graph, node: Custom, upstream: Node) -> list[Node | None]:
        sources = tuple(Term(graph, source) for source in node.sources)
        found = gradient(sources, node.output, conjugate(Term(graph, upstream)))
        return [
            None if term is None else conjugate(term if source.dtype.is_complex else real_part(term)).node
            for source, term in zip(sources, found, strict=True)
        ]

    outputs = tuple(zip(shapes, own if types is None else types, strict=True))
    made = HostCall(name, library, function, outputs, parameters, gradient=backward, takes_stacks=True)
    return [Term(graph, node) for node in made.apply(graph, [term.node for term in inputs])]


def tensors(terms: Sequence[Term], like: Tensor) -> list[Tensor]:
    """Return terms as tensors that belong where `like` does."""
    return [wrap(term.node, like) for term in terms]


# ---- formulas


def transposed(a: Term) -> Term:
    """Return matrices with rows and columns exchanged."""
    last = len(a.shape) - 1
    return a.permute([*range(last - 1), last, last - 1])


def conjugate(a: Term) -> Term:
    """Return the conjugates; of real numbers these."""
    return Term(a.graph, a.graph.conjugate(a.node))


def real_part(a: Term) -> Term:
    """Return the real parts; of real numbers these."""
    return parts(a)[0] if a.dtype.is_complex else a


def imaginary(a: Term) -> Term:
    """Return ``i`` times real numbers."""
    return joined(a.like(0), a)


def adjoint(a: Term) -> Term:
    """Return matrices transposed, and complex ones conjugated."""
    return conjugate(transposed(a))


def product(a: Term, b: Term) -> Term:
    """Return the matrix product; the axes in front broadcast."""
    *front, m, k = a.shape
    n = b.shape[-1]
    batch = broadcast_shapes(tuple(front), b.shape[:-2])
    turned = transposed(b)
    left = a.reshape((*front, m, 1, k)).expand((*batch, m, n, k))
    right = turned.reshape((*b.shape[:-2], 1, n, k)).expand((*batch, m, n, k))
    return (left * right).sum((len(batch) + 2,)).reshape((*batch, m, n))


def distance(a: Term) -> Term:
    """Return how far above the diagonal each element of matrices is, int32, below it negative; axes in front are 1."""
    last = len(a.shape) - 1
    return a.iota(last, dtypes.int32) - a.iota(last - 1, dtypes.int32)


def lower(a: Term, k: int = 0) -> Term:
    """Return matrices with 0 above diagonal `k`."""
    return (distance(a) <= k).where(a, 0.0)


def upper(a: Term, k: int = 0) -> Term:
    """Return matrices with 0 below diagonal `k`."""
    return (distance(a) >= k).where(a, 0.0)


def identity(like: Term, rows: int, columns: int | None = None) -> Term:
    """Return 1 on the diagonal and 0 elsewhere, with the axes in front, dtype and place of `like`."""
    shape = (*like.shape[:-2], rows, rows if columns is None else columns)
    graph = like.graph
    zero = Term(graph, graph.const(0, like.dtype, like.node.device, shape))
    if not size_of(shape):
        return zero
    return (distance(zero) == 0).where(zero.like(1), zero)


def hermitian(a: Term) -> Term:
    """Return the mean of square matrices and their adjoints."""
    return (a + adjoint(a)) * 0.5


def column_scaled(a: Term, factors: Term) -> Term:
    """Return matrices with each column times a factor: ``a @ diag(factors)``."""
    return a * factors.reshape((*factors.shape[:-1], 1, factors.shape[-1])).cast(a.dtype)


def row_scaled(a: Term, factors: Term) -> Term:
    """Return matrices with each row times a factor: ``diag(factors) @ a``."""
    return a * factors.reshape((*factors.shape, 1)).cast(a.dtype)


def on_diagonal(factors: Term) -> Term:
    """Return matrices that have `factors` on the diagonal and 0 elsewhere."""
    count = factors.shape[-1]
    spread = factors.reshape((*factors.shape, 1)).expand((*factors.shape[:-1], count, count))
    return (distance(spread) == 0).where(spread, 0.0)


def diagonal_of(a: Term) -> Term:
    """Return the diagonal of square matrices as vectors."""
    last = len(a.shape) - 1
    return (distance(a) == 0).where(a, 0.0).sum((last,)).reshape(a.shape[:-1])


def reciprocal_differences(values: Term) -> Term:
    """Return ``1 / (values[j] - values[i])`` at row i, column j, and 0 on the diagonal."""
    count = values.shape[-1]
    shape = (*values.shape[:-1], count, count)
    row = values.reshape((*values.shape[:-1], count, 1)).expand(shape)
    column = values.reshape((*values.shape[:-1], 1, count)).expand(shape)
    between = column - row
    is_same = (distance(between) == 0).expand(shape)
    return is_same.where(0.0, is_same.where(1.0, between).reciprocal())


def as_term(x: Tensor) -> Term:
    """Return the term of a tensor."""
    return Term(x.runtime.graph, x.node)


def integer(value: object, what: str, name: str) -> int:
    """Return an argument that is an integer.

    Raises:
        DTypeError: It is something else, a bool among others.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DTypeError(f"{what}: {name} is an integer, not {value!r}")
    return value if isinstance(value, int) else int(value)


def is_flag(value: Any, what: str, name: str) -> bool:  # noqa: ANN401  # whatever a caller gives
    """Return a keyword that is True or False.

    Raises:
        DTypeError: It is something else.
    """
    if not isinstance(value, bool):
        raise DTypeError(f"{what}: {name} is True or False, not {value!r}")
    return value
