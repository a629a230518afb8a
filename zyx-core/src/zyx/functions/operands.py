"""Bring the operands of a function to one dtype and one shape, and make tensors of results.

Operands are tensors, NumPy arrays and Python numbers; at least one is a tensor, which says where the result lives.
Python numbers are weak, as `zyx.dtype.promote_scalar` has it. NumPy arrays are uploaded with their dtype; those of
rank 0, and NumPy's scalars other than float64 (which is a Python float), count as constants of their dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import as_dtype, promote, promote_scalar
from zyx.errors import DTypeError
from zyx.functions.term import Term, broadcast_shapes, expand_to
from zyx.modes import implicit_casts, low_precision
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType, Number
    from zyx.functions import Tensor
    from zyx.graph import Node

Array: TypeAlias = "npt.NDArray[Any]"
Operand: TypeAlias = "Tensor | Array | np.generic | Number"


REALS: Final = (int, float)  # bool is an int
NUMBERS: Final = (*REALS, complex)
ARRAYS: Final = (np.ndarray, np.generic)
OPERANDS: Final = (Handle, *NUMBERS, *ARRAYS)


def is_tensor(x: object) -> TypeGuard[Tensor]:
    """Tell whether `x` is a tensor, of whatever shape.

    >>> zyx.is_tensor(zyx.ones(2)), zyx.is_tensor([1.0, 1.0])
    (True, False)
    """
    return isinstance(x, Handle)  # `Tensor` is the one class of handles


def is_operand(x: object) -> TypeGuard[Operand]:
    """Tell whether `x` is something that tensors compute with."""
    return isinstance(x, OPERANDS)


def wrap(node: Node, like: Tensor) -> Tensor:
    """Return a tensor of `node` that belongs where `like` does."""
    return like.like(node)


def require(x: object, what: str) -> Tensor:
    """Return `x`, which is a tensor.

    Raises:
        DTypeError: It is not; `what` names the function in the text.
    """
    if not isinstance(x, Handle):
        raise DTypeError(f"{what} takes a zyx.Tensor, not {type(x).__name__}; make one with zyx.asarray(...)")
    return x  # type: ignore[return-value]  # see `is_tensor`


def term_of(x: object, what: str) -> Term:
    """Return the term of a tensor, by the rules of `require`."""
    tensor = require(x, what)
    return Term(tensor.runtime.graph, tensor.node)


def wide_term(x: object, what: str) -> Term:
    """Return the term of an operand of what `zyx.autocast` lets be computed, and result, in float32."""
    tensor = require(x, what)
    term = Term(tensor.runtime.graph, tensor.node)  # as `term_of`, which would be one more call of those made most
    return term if low_precision() is None else term.cast(kept(term.dtype))


def kept(dtype: DType) -> DType:
    """Return the type of the results of such functions: that of operands, or under `zyx.autocast` at least float32."""
    return dtypes.float32 if low_precision() is not None and dtype.is_float and dtype.bits < 32 else dtype


def lowered(dtype: DType) -> DType:
    """Return the type of products of `dtype`: that, or under `zyx.autocast` the one it says for float32 and shorter."""
    low = low_precision()
    return dtype if low is None or not dtype.is_float or dtype.bits > 32 else low


def first_tensor(operands: Sequence[object], what: str) -> Tensor:
    """Return the first tensor among `operands`.

    Raises:
        DTypeError: There is none.
    """
    for operand in operands:
        if isinstance(operand, Handle):
            return operand  # type: ignore[return-value]  # see `is_tensor`
    kinds = ", ".join(type(operand).__name__ for operand in operands) or "nothing"
    raise DTypeError(f"{what} takes at least one zyx.Tensor, not {kinds}; make one with zyx.asarray(...)")


def float_dtype(dtype: DType) -> DType:
    """Return the type in which functions are computed: floats and complex numbers as they are, others as float32."""
    return dtype if dtype.is_inexact else dtypes.float32


def require_real(dtype: DType, what: str) -> None:
    """Raise `DTypeError`, which names the function `what`, if `dtype` is complex."""
    if dtype.is_complex:
        raise DTypeError(f"{what} takes real numbers, not {dtype}; give it x.real, x.imag or zyx.abs(x)")


def common_dtype(operands: Sequence[object], what: str) -> DType:
    """Return the dtype that `operands` meet in.

    Raises:
        DTypeError: No common type, an operand that is no number, or different types while implicit casts are off.
    """
    result: DType | None = None
    numbers: list[Number] = []
    for operand in operands:
        if isinstance(operand, Handle):
            dtype = operand.node.dtype
        elif isinstance(operand, NUMBERS):
            numbers.append(operand)
            continue
        elif isinstance(operand, ARRAYS):
            dtype = as_dtype(operand.dtype)
        else:
            raise DTypeError(f"{what} takes tensors, NumPy arrays and numbers, not {type(operand).__name__}")
        if result is None:
            result = dtype
        elif result is not dtype:
            if not implicit_casts():
                raise DTypeError(
                    f"{what}: dtypes {result} and {dtype} differ, and implicit casts are off; use .astype(...)"
                )
            result = promote(result, dtype)
    if result is None:
        raise DTypeError(f"{what} takes at least one zyx.Tensor; make one with zyx.asarray(...)")
    for number in numbers:
        result = promote_scalar(result, number)
    return result


def node_of(operand: object, dtype: DType, like: Tensor) -> Node:
    """Return `operand` as a node of `dtype` on the device of `like`; numbers have shape ()."""
    graph = like.runtime.graph
    if isinstance(operand, Handle):
        return graph.cast(operand.node, dtype)
    if isinstance(operand, NUMBERS):
        return graph.const(operand, dtype, like.node.device)
    if isinstance(operand, ARRAYS):
        own = as_dtype(operand.dtype)
        if operand.ndim == 0:
            if own.is_complex:
                return graph.cast(graph.const(complex(operand), own, like.node.device), dtype)
            value = own.to_scalar(float(operand) if own.is_float else int(operand))
            return graph.cast(graph.const(value, own, like.node.device), dtype)
        return graph.cast(like.runtime.upload(np.asarray(operand), like.node.device), dtype)
    raise DTypeError(f"a tensor or a number is wanted, not {type(operand).__name__}")


def align(operands: Sequence[object], what: str, *, floating: bool = False) -> tuple[Tensor, list[Term]]:
    """Return a tensor among `operands`, and all of them as terms of one dtype, broadcast to one shape.

    Args:
        operands: Tensors, NumPy arrays, numbers.
        what: Name of the function, for errors.
        floating: Whether integers and bools become float32.

    Raises:
        DTypeError: No tensor among them, or no common dtype.
        ShapeError: The shapes do not broadcast.
    """
    like = first_tensor(operands, what)
    dtype = common_dtype(operands, what)
    if floating:
        dtype = float_dtype(dtype)
    graph, device = like.runtime.graph, like.node.device
    nodes = [None if isinstance(operand, NUMBERS) else node_of(operand, dtype, like) for operand in operands]
    shape = broadcast_shapes(*[node.shape for node in nodes if node is not None])
    return like, [
        Term(graph, graph.const(operand, dtype, device, shape) if node is None else expand_to(graph, node, shape))  # type: ignore[arg-type]
        for operand, node in zip(operands, nodes, strict=True)
    ]


def by_float_formula(
    x: object, what: str, formula: Callable[[Term], Term], of_complex: Callable[[Term], Term] | None = None
) -> Tensor:
    """Return `formula` of `x`, computed in a float type and rounded once.

    Integers and bools become float32; float16 and bfloat16 are computed in float32. Complex numbers have a formula of
    their own, `of_complex`, or none.

    Raises:
        DTypeError: `x` is no tensor, or complex without a formula for it.
    """
    term = term_of(x, what)
    if of_complex is not None and term.dtype.is_complex:
        return wrap(of_complex(term).node, require(x, what))
    require_real(term.dtype, what)
    dtype = float_dtype(term.dtype)
    return wrap(formula(term.cast(dtypes.accumulator(dtype))).cast(dtype).node, require(x, what))


def by_float_formula_of(operands: Sequence[object], what: str, formula: Callable[..., Term]) -> Tensor:
    """Return `formula` of several operands, aligned; see `by_float_formula`."""
    like, terms = align(operands, what, floating=True)
    dtype = terms[0].dtype
    require_real(dtype, what)
    wide = dtypes.accumulator(dtype)
    return wrap(formula(*(term.cast(wide) for term in terms)).cast(dtype).node, like)
