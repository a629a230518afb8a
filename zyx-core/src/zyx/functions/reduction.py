"""Combine elements along axes: sums, extremes, their places, statistics, norms.

`axis` is an integer, several, or None for all; ``keepdims`` keeps the combined axes with size 1. Sums and products of
integers and bools are int64 or uint64, those of float16 and bfloat16 are accumulated in float32. Sums of floats are
taken by blocks (`zyx.lowering.blocks`): their errors are those of sums by pairs, in another order on every device.
Extremes are NaN if an element is. `out` is None: it stands there so that NumPy's functions take tensors, as in
``np.mean(x)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, ShapeError
from zyx.functions import complex_numbers, formulas, habitual, take_habits
from zyx.functions.operands import align, float_dtype, require, require_real, term_of, wide_term, wrap
from zyx.functions.term import Term
from zyx.graph import node as n
from zyx.ops import ReduceOp, identity
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, DTypeLike
    from zyx.functions import Tensor

__all__ = [
    "all", "aminmax", "any", "argmax", "argmin", "cosine_similarity", "count_nonzero", "logsumexp", "max", "mean",
    "min", "norm", "normalize", "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip

AxisLike: TypeAlias = "int | tuple[int, ...] | list[int] | None"

#: Elements of a block of which only the extreme is looked for at first, and how many blocks make up for the kernels
#: that find the place in one of them.
_BLOCK: Final = 512
_FEWEST_BLOCKS: Final = 8
#: The same where there are several rows: a group of a device with many threads reads each from memory once, anyway, as
#: long as a cache near it holds the row.
_FEWEST_OF_A_ROW: Final = 32


def drop_axes(term: Term, axes: Sequence[int], *, keepdims: bool) -> Term:
    """Return `term`, reduced along `axes`, without them unless they are kept."""
    if keepdims:
        return term
    return term.reshape([size for i, size in enumerate(term.shape) if i not in axes])


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype of sums and products: floats and complex numbers stay, integers and bools have 64 bits."""
    if dtype.is_inexact:
        return dtype
    return dtypes.uint64 if dtype.is_unsigned else dtypes.int64


def _refuse(out: object, what: str) -> NoReturn:
    """Refuse the argument `out`, which is there since NumPy's functions, given a tensor, call its method with it."""
    raise DTypeError(f"{what} makes a new tensor; out={type(out).__name__} cannot be written to, leave it out")


def _combine(x: Tensor, op: ReduceOp, axis: AxisLike, dtype: DTypeLike | None, what: str, *, keepdims: bool) -> Tensor:
    term = wide_term(x, what)
    axes = shapes.normalize_axes(axis, len(term.shape))
    target = sum_dtype(term.dtype) if dtype is None else as_dtype(dtype)
    result = term.cast(dtypes.accumulator(target)).reduce(op, axes).cast(target)
    return wrap(drop_axes(result, axes, keepdims=keepdims).node, x)


def sum(
    x: Tensor,
    axis: AxisLike = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    out: None = None,
    **habits: object,
) -> Tensor:
    """Return the sum along `axis`; 0 of no elements. `dtype` is that of the result, and of the additions."""
    if habits:
        return habitual(sum, (x, axis), {"dtype": dtype, "keepdims": keepdims, "out": out}, habits)
    if out is not None:
        _refuse(out, "sum")
    return _combine(x, ReduceOp.SUM, axis, dtype, "sum", keepdims=keepdims)


def prod(
    x: Tensor,
    axis: AxisLike = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    out: None = None,
    **habits: object,
) -> Tensor:
    """Return the product along `axis`; 1 of no elements. `dtype` is that of the result, and of the multiplications."""
    if habits:
        return habitual(prod, (x, axis), {"dtype": dtype, "keepdims": keepdims, "out": out}, habits)
    if out is not None:
        _refuse(out, "prod")
    return _combine(x, ReduceOp.PROD, axis, dtype, "prod", keepdims=keepdims)


def _is_operand(axis: object) -> bool:
    """Tell whether what is given for the axis is PyTorch's second operand of ``max`` and ``min``."""
    return isinstance(axis, Handle) and bool(axis.node.ndim or axis.node.dtype.is_float)


def extreme(x: Tensor, op: ReduceOp, axis: AxisLike, what: str, *, keepdims: bool) -> Tensor:
    term = term_of(x, what)
    require_real(term.dtype, what)
    axes = shapes.normalize_axes(axis, len(term.shape))
    check_not_empty(term, axes, what)
    return wrap(drop_axes(term.reduce(op, axes), axes, keepdims=keepdims).node, x)


def check_not_empty(term: Term, axes: Sequence[int], what: str) -> None:
    """Raise `ShapeError` if there is nothing to combine along one of `axes`."""
    for axis in axes:
        if not term.shape[axis]:
            raise ShapeError(
                f"{what} of no elements: axis {axis} of {term.shape} has size 0, and there is no neutral value"
            )


def max(
    x: Tensor, axis: AxisLike = None, *, keepdims: bool = False, out: None = None, **habits: object
) -> Tensor:  # the Array API's name
    """Return the greatest element along `axis`.

    Raises:
        ShapeError: An axis of size 0.
    """
    if habits:
        return habitual(max, (x, axis), {"keepdims": keepdims, "out": out}, habits)
    if out is not None:
        _refuse(out, "max")
    if axis is not None and _is_operand(axis):
        return habitual(max, (x,), {}, {"other": axis})
    return extreme(x, ReduceOp.MAX, axis, "max", keepdims=keepdims)


def min(
    x: Tensor, axis: AxisLike = None, *, keepdims: bool = False, out: None = None, **habits: object
) -> Tensor:  # the Array API's name
    """Return the least element along `axis`.

    Raises:
        ShapeError: An axis of size 0.
    """
    if habits:
        return habitual(min, (x, axis), {"keepdims": keepdims, "out": out}, habits)
    if out is not None:
        _refuse(out, "min")
    if axis is not None and _is_operand(axis):
        return habitual(min, (x,), {}, {"other": axis})
    return extreme(x, ReduceOp.MIN, axis, "min", keepdims=keepdims)


def any(
    x: Tensor, axis: AxisLike = None, *, keepdims: bool = False, out: None = None
) -> Tensor:  # the Array API's name
    """Tell whether any element along `axis` is not 0; false of no elements."""
    if out is not None:
        _refuse(out, "any")
    return _combine(x, ReduceOp.OR, axis, dtypes.bool_, "any", keepdims=keepdims)


def all(
    x: Tensor, axis: AxisLike = None, *, keepdims: bool = False, out: None = None
) -> Tensor:  # the Array API's name
    """Tell whether all elements along `axis` are not 0; true of no elements."""
    if out is not None:
        _refuse(out, "all")
    return _combine(x, ReduceOp.AND, axis, dtypes.bool_, "all", keepdims=keepdims)


def count_nonzero(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return how many elements along `axis` are not 0, as int64."""
    term = term_of(x, "count_nonzero").cast(dtypes.bool_)
    return sum(wrap(term.node, x), axis, keepdims=keepdims)


def aminmax(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest element along `axis`."""
    least, greatest = (extreme(x, op, axis, "aminmax", keepdims=keepdims) for op in (ReduceOp.MIN, ReduceOp.MAX))
    return least, greatest


# ---- places of extremes


def argmax(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the first place, int64, of the greatest element along `axis`, or of `x` as one axis.

    NaN counts as greatest.

    Raises:
        ShapeError: Nothing to choose from.
    """
    return _place(x, ReduceOp.MAX, axis, "argmax", keepdims=keepdims)


def argmin(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the first place, int64, of the least element along `axis`, or of `x` as one axis.

    NaN counts as least.

    Raises:
        ShapeError: Nothing to choose from.
    """
    return _place(x, ReduceOp.MIN, axis, "argmin", keepdims=keepdims)


def first_place(term: Term, op: ReduceOp, axis: int) -> Term:
    """Return the first position of the extreme of `op` along `axis`, which keeps size 1; int32 where that is enough."""
    size = term.shape[axis]
    is_last = shapes.size_of(term.shape[axis + 1 :]) == 1
    fewest = _FEWEST_BLOCKS if shapes.size_of(term.shape[:axis]) == 1 else _FEWEST_OF_A_ROW
    if is_last and size >= fewest * _BLOCK and not _is_permuted(term.node):
        return _first_place_by_blocks(term, op, axis)
    return _first_place_of(term, term.reduce(op, (axis,)), axis)


def _first_place_of(term: Term, extreme: Term, axis: int) -> Term:
    """Return the first position of `extreme` along `axis`, or of NaN."""
    size = term.shape[axis]
    hit = term == extreme
    if term.dtype.is_float:
        hit = hit | term.is_nan()  # if there is a NaN, the extreme is NaN and equals nothing
    position = term.iota(axis, dtypes.int32 if size < 1 << 31 else dtypes.int64)
    return hit.where(position, size - 1).reduce(ReduceOp.MIN, (axis,))


def _first_place_by_blocks(term: Term, op: ReduceOp, axis: int) -> Term:
    """Return `first_place` along the last axis, read once: the first block with the extreme, and the place in it.

    What the last block is filled up with may be an extreme, too, but is behind one. Of elements that lie in another
    order in memory, blocks would be read piece by piece.
    """
    size, blocks = term.shape[axis], -(-term.shape[axis] // _BLOCK)
    rows = term.shape[:axis]
    widths = [(0, blocks * _BLOCK - size if i == axis else 0) for i in range(len(term.shape))]
    cut = term.pad(widths, identity(op, term.dtype)).reshape((*rows, blocks, _BLOCK))
    extremes = cut.reduce(op, (axis + 1,))
    block = first_place(extremes, op, axis)
    chosen = Term(term.graph, term.graph.gather(cut.node, block.expand((*rows, 1, _BLOCK)).node, axis))
    found = _first_place_of(chosen, extremes.reduce(op, (axis,)), axis + 1)
    dtype = dtypes.int32 if size < 1 << 31 else dtypes.int64
    return (block.cast(dtype) * _BLOCK + found.cast(dtype)).reshape((*rows, *(1 for _ in term.shape[axis:])))


def _is_permuted(node: n.Node) -> bool:
    """Whether the elements of a node lie in memory in another order, as far as that is easily seen."""
    while node.storage is None and len(node.sources) == 1 and not isinstance(node, n.Reduce):
        if isinstance(node, n.Permute):
            return True
        (node,) = node.sources
    return False


def _place(x: Tensor, op: ReduceOp, axis: int | None, what: str, *, keepdims: bool) -> Tensor:
    term = term_of(x, what)
    require_real(term.dtype, what)
    shape = term.shape
    if axis is None or (not shape and axis in (0, -1)):
        term, place, axis = term.reshape((shapes.size_of(shape),)), 0, None
    else:
        place = shapes.normalize_axis(axis, len(shape))
    check_not_empty(term, (place,), what)
    result = first_place(term, op, place).cast(dtypes.int64)
    if axis is None:
        return wrap(result.reshape((1,) * len(shape) if keepdims else ()).node, x)
    return wrap(drop_axes(result, (place,), keepdims=keepdims).node, x)


# ---- statistics


def _result_dtype(term: Term, dtype: DTypeLike | None, what: str) -> DType:
    target = float_dtype(term.dtype) if dtype is None else as_dtype(dtype)
    if not target.is_inexact:
        raise DTypeError(f"{what} gives floating-point numbers, not {target}")
    return target


def mean(
    x: Tensor,
    axis: AxisLike = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    out: None = None,
    **habits: object,
) -> Tensor:
    """Return the mean along `axis`; NaN of no elements.

    `dtype` is that of the result, and of the additions of floats; without it integers and bools give float32. Integers
    of 32 and 64 bits are added exactly, and only their mean is rounded.
    """
    if habits:
        return habitual(mean, (x, axis), {"dtype": dtype, "keepdims": keepdims, "out": out}, habits)
    if out is not None:
        _refuse(out, "mean")
    term = wide_term(x, "mean")
    target = _result_dtype(term, dtype, "mean")
    axes = shapes.normalize_axes(axis, len(term.shape))
    result = _mean(term, axes, target).cast(target)
    return wrap(drop_axes(result, axes, keepdims=keepdims).node, x)


def _are_large(term: Term, axes: Sequence[int]) -> bool:
    """Tell whether there are integers along `axes` that a float32 may not hold."""
    return term.dtype.is_integer and term.dtype.bits > 16 and formulas.count(term, axes) != 0


def _mean(term: Term, axes: Sequence[int], target: DType) -> Term:
    if _are_large(term, axes):
        from zyx.functions.integer_means import integer_mean  # which most programs do without

        return integer_mean(term, axes, dtypes.accumulator(target.part))
    return formulas.mean(term.cast(dtypes.accumulator(target)), axes)


def _variance(term: Term, axes: Sequence[int], correction: float, target: DType) -> tuple[Term, Term]:
    """Return variance and mean, computed for results of `target`."""
    from zyx.functions.deviations import squared_deviations  # which most programs do without

    count = formulas.count(term, axes)
    divisor = shapes.as_float(count - correction if count > correction else 0)
    if _are_large(term, axes):
        from zyx.functions.integer_means import integer_variance

        spread = integer_variance(term, axes, divisor, dtypes.accumulator(target.part))
        return spread, _mean(term, axes, target)
    term = term.cast(dtypes.accumulator(target))
    parts = complex_numbers.parts(term) if term.dtype.is_complex else (term,)
    total = squared_deviations(parts[0], axes)
    for part in parts[1:]:
        total = total + squared_deviations(part, axes)
    return total / divisor, formulas.mean(term, axes)


def var(
    x: Tensor,
    axis: AxisLike = None,
    *,
    correction: float = 0.0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    out: None = None,
    ddof: float | None = None,
) -> Tensor:
    """Return the variance along `axis`: the sum of squared distances from the mean, over the count less `correction`.

    Where that is not positive, the result is NaN (or infinity, if the elements differ). Integers and bools give
    float32, and distances of integers are taken before they are rounded; those of complex numbers are magnitudes.
    `ddof` is NumPy's name for `correction`.
    """
    if out is not None:
        _refuse(out, "var")
    return var_mean(x, axis=axis, correction=correction if ddof is None else ddof, dtype=dtype, keepdims=keepdims)[0]


def std(
    x: Tensor,
    axis: AxisLike = None,
    *,
    correction: float = 0.0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    out: None = None,
    ddof: float | None = None,
) -> Tensor:
    """Return the standard deviation along `axis`, the square root of `var`. Where all are equal the gradient is 0."""
    if out is not None:
        _refuse(out, "std")
    return std_mean(x, axis=axis, correction=correction if ddof is None else ddof, dtype=dtype, keepdims=keepdims)[0]


def var_mean(
    x: Tensor,
    axis: AxisLike = None,
    *,
    correction: float = 0.0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return variance and mean along `axis`, see `var`."""
    term = wide_term(x, "var")
    target = _result_dtype(term, dtype, "var")
    axes = shapes.normalize_axes(axis, len(term.shape))
    spread, centre = _variance(term, axes, correction, target)
    both = spread.cast(target.part), centre.cast(target)
    parts = (drop_axes(part, axes, keepdims=keepdims) for part in both)
    return tuple(wrap(part.node, x) for part in parts)  # type: ignore[return-value]  # of two


def std_mean(
    x: Tensor,
    axis: AxisLike = None,
    *,
    correction: float = 0.0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return standard deviation and mean along `axis`, see `var`."""
    term = wide_term(x, "std")
    target = _result_dtype(term, dtype, "std")
    axes = shapes.normalize_axes(axis, len(term.shape))
    spread, centre = _variance(term, axes, correction, target)
    root = formulas.safe_sqrt(spread)
    both = root.cast(target.part), centre.cast(target)
    parts = (drop_axes(part, axes, keepdims=keepdims) for part in both)
    return tuple(wrap(part.node, x) for part in parts)  # type: ignore[return-value]  # of two


def logsumexp(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` along `axis` without overflow; minus infinity of nothing but minus infinities.

    Raises:
        ShapeError: An axis of size 0.
    """
    term = wide_term(x, "logsumexp")
    target = float_dtype(term.dtype)
    axes = shapes.normalize_axes(axis, len(term.shape))
    check_not_empty(term, axes, "logsumexp")
    result = formulas.log_sum_exp(term.cast(dtypes.accumulator(target)), axes).cast(target)
    return wrap(drop_axes(result, axes, keepdims=keepdims).node, x)


# ---- norms


def norm(x: Tensor, ord: float | str = 2.0, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the vector norm along `axis`: ``sum(|x| ** ord) ** (1 / ord)``.

    `ord` may also be infinity (greatest magnitude), minus infinity (least), 0 (how many are not 0) or "fro", which is
    2. At a zero vector the gradient is 0. Integers and bools are computed as float32; of complex numbers it is the
    norm of magnitudes.

    Raises:
        ShapeError: Another text: ``zyx.linalg.matrix_norm`` has the norms of matrices.
    """
    term = wide_term(x, "norm")
    if term.dtype.is_complex:
        term = complex_numbers.magnitude(term)
    target = float_dtype(term.dtype)
    axes = shapes.normalize_axes(axis, len(term.shape))
    wide = term.cast(dtypes.accumulator(target))
    return wrap(drop_axes(_norm(wide, ord, axes).cast(target), axes, keepdims=keepdims).node, x)


def _norm(term: Term, order: float | str, axes: Sequence[int]) -> Term:
    if order == "fro":
        order = 2
    if isinstance(order, str):
        raise ShapeError(f"norm: ord is a number or 'fro', not {order!r}; 'nuc' is of zyx.linalg.matrix_norm")
    if order == 2:
        return formulas.safe_sqrt((term * term).sum(axes))
    size = term.abs()
    if order == 1:
        return size.sum(axes)
    if order == 0:
        return (term != 0).cast(term.dtype).sum(axes)
    if math.isinf(order):
        check_not_empty(term, axes, "norm")
        return size.reduce(ReduceOp.MAX if order > 0 else ReduceOp.MIN, axes)
    total = formulas.power(size, order).sum(axes)
    return formulas.power(total, 1.0 / order)


def normalize(x: Tensor, ord: float = 2.0, axis: AxisLike = -1, eps: float = 1e-12) -> Tensor:
    """Return `x` divided by its norm along `axis`, or by `eps` where that is greater."""
    term = term_of(x, "normalize")
    target = float_dtype(term.dtype)
    wide = term.cast(dtypes.accumulator(target))
    length = _norm(wide, ord, shapes.normalize_axes(axis, len(term.shape)))
    return wrap((wide / (length < eps).where(eps, length)).cast(target).node, x)


def cosine_similarity(x: Tensor, y: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along `axis`; lengths count as at least `eps`."""
    like, (a, b) = align((require(x, "cosine_similarity"), y), "cosine_similarity", floating=True)
    target = a.dtype
    wide = dtypes.accumulator(target)
    a, b = a.cast(wide), b.cast(wide)
    axes = shapes.normalize_axes(axis, len(a.shape))
    lengths = [_norm(v, 2, axes) for v in (a, b)]
    bounded = [(length < eps).where(eps, length) for length in lengths]
    result = (a * b).sum(axes) / (bounded[0] * bounded[1])
    return wrap(drop_axes(result.cast(target), axes, keepdims=False).node, like)


take_habits(globals())
