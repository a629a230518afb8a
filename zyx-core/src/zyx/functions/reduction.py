"""Combine elements along axes: sums, extremes, their places, statistics.

`axis` is an integer, several, or None for all; ``keepdims`` keeps the combined axes with size 1. Sums and products of
integers and bools are int64 or uint64, those of float16 and bfloat16 are accumulated in float32. Sums of floats are
taken by blocks (`zyx.lowering.blocked_sums`): their errors are those of sums by pairs, in another order on every
device. Extremes are NaN if an element is. `out` is None: it stands there so that NumPy's functions take tensors, as in
``np.mean(x)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeAlias

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, ShapeError
from zyx.functions import formulas, habitual, take_habits
from zyx.functions.operands import float_dtype, require_real, term_of, wide_term, wrap
from zyx.lazy_import import lazy_import
from zyx.ops import ReduceOp
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, DTypeLike
    from zyx.functions import Tensor, deviations, integer_means
    from zyx.functions.term import Term
else:
    deviations = lazy_import("zyx.functions.deviations", globals())
    integer_means = lazy_import("zyx.functions.integer_means", globals())

__all__ = [
    "all", "aminmax", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "prod", "std",
    "std_mean", "sum", "var", "var_mean",
]  # fmt: skip

AxisLike: TypeAlias = "int | tuple[int, ...] | list[int] | None"


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
    """Return the sum along `axis`; 0 of no elements. `dtype` is that of the result, and of the additions.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.sum(zyx.Tensor([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
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
    """Return the product along `axis`; 1 of no elements. `dtype` is that of the result, and of the multiplications.

    Raises:
        AxisError: `x` has no such axis.
        DTypeError: There is no such dtype, or `x` is no tensor.

    >>> zyx.prod(zyx.Tensor([2, 3, 4])).item()
    24
    """
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

    >>> zyx.max(zyx.Tensor([[1, 5], [3, 4]]), axis=1).tolist()
    [5, 4]
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

    >>> zyx.min(zyx.Tensor([[1, 5], [3, 4]])).item()
    1
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
    """Tell whether any element along `axis` is not 0; false of no elements.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.any(zyx.Tensor([False, True])).item()
    True
    """
    if out is not None:
        _refuse(out, "any")
    return _combine(x, ReduceOp.OR, axis, dtypes.bool_, "any", keepdims=keepdims)


def all(
    x: Tensor, axis: AxisLike = None, *, keepdims: bool = False, out: None = None
) -> Tensor:  # the Array API's name
    """Tell whether all elements along `axis` are not 0; true of no elements.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.all(zyx.Tensor([False, True])).item()
    False
    """
    if out is not None:
        _refuse(out, "all")
    return _combine(x, ReduceOp.AND, axis, dtypes.bool_, "all", keepdims=keepdims)


def count_nonzero(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return how many elements along `axis` are not 0, as int64.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.count_nonzero(zyx.Tensor([[0, 2], [3, 4]]), axis=1).tolist()
    [1, 2]
    """
    term = term_of(x, "count_nonzero").cast(dtypes.bool_)
    return sum(wrap(term.node, x), axis, keepdims=keepdims)


def aminmax(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest element along `axis`.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: There are no elements.
        DTypeError: `x` is complex.

    >>> [each.item() for each in zyx.aminmax(zyx.Tensor([3, 1, 2]))]
    [1, 3]
    """
    least, greatest = (extreme(x, op, axis, "aminmax", keepdims=keepdims) for op in (ReduceOp.MIN, ReduceOp.MAX))
    return least, greatest


# ---- places of extremes


def argmax(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the first place, int64, of the greatest element along `axis`, or of `x` as one axis.

    NaN counts as greatest.

    Raises:
        ShapeError: Nothing to choose from.

    >>> zyx.argmax(zyx.Tensor([[1, 5], [3, 4]]), axis=1).tolist()
    [1, 1]
    """
    return _place(x, ReduceOp.MAX, axis, "argmax", keepdims=keepdims)


def argmin(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the first place, int64, of the least element along `axis`, or of `x` as one axis.

    NaN counts as least.

    Raises:
        ShapeError: Nothing to choose from.

    >>> zyx.argmin(zyx.Tensor([3, 1, 2])).item()
    1
    """
    return _place(x, ReduceOp.MIN, axis, "argmin", keepdims=keepdims)


def _place(x: Tensor, op: ReduceOp, axis: int | None, what: str, *, keepdims: bool) -> Tensor:
    term = term_of(x, what)
    require_real(term.dtype, what)
    shape = term.shape
    if axis is None or (not shape and axis in (0, -1)):
        term, place, axis = term.reshape((shapes.size_of(shape),)), 0, None
    else:
        place = shapes.normalize_axis(axis, len(shape))
    check_not_empty(term, (place,), what)
    result = formulas.first_place(term, op, place).cast(dtypes.int64)
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

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.mean(zyx.Tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1).tolist()
    [1.5, 3.5]
    """
    if habits:
        return habitual(mean, (x, axis), {"dtype": dtype, "keepdims": keepdims, "out": out}, habits)
    if out is not None:
        _refuse(out, "mean")
    term = wide_term(x, "mean")
    target = _result_dtype(term, dtype, "mean")
    axes = shapes.normalize_axes(axis, len(term.shape))
    result = mean_along(term, axes, target).cast(target)
    return wrap(drop_axes(result, axes, keepdims=keepdims).node, x)


def are_large(term: Term, axes: Sequence[int]) -> bool:
    """Tell whether there are integers along `axes` that a float32 may not hold."""
    return term.dtype.is_integer and term.dtype.bits > 16 and formulas.count(term, axes) != 0


def mean_along(term: Term, axes: Sequence[int], target: DType) -> Term:
    if are_large(term, axes):
        return integer_means.integer_mean(term, axes, dtypes.accumulator(target.part))
    return formulas.mean(term.cast(dtypes.accumulator(target)), axes)


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

    Raises:
        AxisError: `x` has no such axis.
        DTypeError: A dtype that is not floating-point.

    >>> zyx.var(zyx.Tensor([1.0, 3.0]), correction=1).item()
    2.0
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
    """Return the standard deviation along `axis`, the square root of `var`. Where all are equal the gradient is 0.

    Raises:
        AxisError: `x` has no such axis.
        DTypeError: A dtype that is not floating-point.

    >>> zyx.std(zyx.Tensor([1.0, 3.0])).item()
    1.0
    """
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
    """Return variance and mean along `axis`, see `var`.

    Raises:
        AxisError: `x` has no such axis.
        DTypeError: A dtype that is not floating-point.

    >>> [each.item() for each in zyx.var_mean(zyx.Tensor([1.0, 5.0]))]
    [4.0, 3.0]
    """
    term = wide_term(x, "var")
    target = _result_dtype(term, dtype, "var")
    axes = shapes.normalize_axes(axis, len(term.shape))
    spread, centre = deviations.variance(term, axes, correction, target)
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
    """Return standard deviation and mean along `axis`, see `var`.

    Raises:
        AxisError: `x` has no such axis.
        DTypeError: A dtype that is not floating-point.

    >>> [each.item() for each in zyx.std_mean(zyx.Tensor([1.0, 5.0]))]
    [2.0, 3.0]
    """
    term = wide_term(x, "std")
    target = _result_dtype(term, dtype, "std")
    axes = shapes.normalize_axes(axis, len(term.shape))
    spread, centre = deviations.variance(term, axes, correction, target)
    root = formulas.safe_sqrt(spread)
    both = root.cast(target.part), centre.cast(target)
    parts = (drop_axes(part, axes, keepdims=keepdims) for part in both)
    return tuple(wrap(part.node, x) for part in parts)  # type: ignore[return-value]  # of two


def logsumexp(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` along `axis` without overflow; minus infinity of nothing but minus infinities.

    Raises:
        ShapeError: An axis of size 0.

    >>> f"{zyx.logsumexp(zyx.Tensor([0.0, 0.0])).item():.4f}"
    '0.6931'
    """
    term = wide_term(x, "logsumexp")
    target = float_dtype(term.dtype)
    axes = shapes.normalize_axes(axis, len(term.shape))
    check_not_empty(term, axes, "logsumexp")
    result = formulas.log_sum_exp(term.cast(dtypes.accumulator(target)), axes).cast(target)
    return wrap(drop_axes(result, axes, keepdims=keepdims).node, x)


take_habits(globals())
