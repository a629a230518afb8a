"""Functions along axes: reductions, scans, orders, each beside NumPy's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meanings.formulas import logsumexp, softmax
from meanings.row import AXES, AXIS, FLAG, Argument, Bits, Of, Row, one_of

if TYPE_CHECKING:
    from fuzz.drawing import Axes, Draw

    from zyx.testing.values import Array

#: Factors of a product at most, which else leaves the range of its type.
_FACTORS: Final = 8
#: Integers whose mean and variance float32 holds.
_LARGEST_OF_MEANS: Final = 1000
_KEPT: Final[dict[str, Any]] = {"keepdims": FLAG}
_NUMBERS: Final[dict[str, Any]] = {"of": Of.NUMBERS, "bits": Bits.OF_INTEGERS}
_CERTAIN: Final[dict[str, Any]] = {"of": Of.NUMBERS, "bits": Bits.CERTAIN}
_PLACES: Final[dict[str, Any]] = {"of": Of.VALUES, "bits": Bits.JUMPING}


def _count(d: Draw, x: int, axes: Axes) -> int:
    """Return how many elements each result is of."""
    shape = d.shape(x)
    return math.prod(shape if axes is None else (shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes)))


def _corrected(d: Draw, x: int) -> float:
    """Return what is taken off the count of elements, of which there are three at least."""
    return d.choices.pick((0, 0, 1, 0.5)) if min(d.shape(x), default=0) > 2 else 0


def _has_few(d: Draw, x: int, axis: int | None = None) -> bool:
    return _count(d, x, axis) <= _FACTORS


def _has_squares(d: Draw, x: int, *_: object) -> bool:
    d.refuse_squares(x)
    return True


def _has_exponents(d: Draw, x: int, *_: object) -> bool:
    d.refuse_exponents(x)
    return True


def _has_root(d: Draw, x: int, axes: Axes) -> bool:
    return _count(d, x, axes) > 2 and _has_squares(d, x)  # not near 0


def _is_small(d: Draw, x: int, *_: object) -> bool:
    return bool(np.abs(d.known(x).value.astype(np.float64)).max() <= _LARGEST_OF_MEANS)


def _has_neighbours(d: Draw, x: int, times: int, axis: int) -> bool:
    return d.shape(x)[axis] >= times


def _spread(function: Any) -> Any:  # of NumPy
    """Return a function of NumPy with the correction by zyx's name."""
    return lambda x, axes, *, keepdims=False, correction=0: function(x, axis=axes, keepdims=keepdims, ddof=correction)


def _mean(x: Array, axes: Axes, *, keepdims: bool = False) -> Array:
    return np.asarray(x.mean(axis=axes, keepdims=keepdims))


#: What is kept of a variance, and of a standard deviation.
_SPREAD: Final[dict[str, Any]] = {"keepdims": FLAG, "correction": Argument(_corrected)}

SUMS: Final = (Row("sum", np.sum, (AXES,), _KEPT, **_NUMBERS),)
PRODUCTS: Final = (
    Row("prod", np.prod, (AXIS,), fits=_has_few, **_NUMBERS),
    Row("prod", np.prod, (AXES,), _KEPT, fits=_has_few, **_NUMBERS),
)
EXTREMES: Final = (
    *(Row(name, getattr(np, name), (AXES,), _KEPT, not_empty=True, **_CERTAIN) for name in ("max", "min")),
    Row("aminmax", np.max, (AXES,), _KEPT, part="[1]", not_empty=True, **_CERTAIN),
    Row("aminmax", np.min, (AXES,), _KEPT, part="[0]", not_empty=True, **_CERTAIN),
)
SPANS: Final = (Row("ptp", np.ptp, (AXES,), not_empty=True),)
TRUTHS: Final = tuple(
    Row(name, getattr(np, name), (AXES,), _KEPT, of=Of.VALUES, bits=Bits.JUMPING)
    for name in ("any", "all", "count_nonzero")
)
PLACES_OF_EXTREMES: Final = tuple(
    Row(name, getattr(np, name), (axis,), keywords, not_empty=True, **_PLACES)
    for name in ("argmax", "argmin")
    for axis, keywords in ((AXIS, _KEPT), (None, {}))
)
AVERAGES: Final = (
    Row("mean", _mean, (AXES,), _KEPT, not_empty=True),
    Row("mean", _mean, (AXES,), not_empty=True),
    Row("var", _spread(np.var), (AXES,), _SPREAD, not_empty=True),
    Row("std", _spread(np.std), (AXES,), _SPREAD, not_empty=True, fits=_has_root),
    Row("var_mean", _mean, (AXES,), _KEPT, part="[1]", not_empty=True),
    Row("var_mean", _spread(np.var), (AXES,), _SPREAD, part="[0]", not_empty=True),
    Row("std_mean", _mean, (AXES,), _KEPT, part="[1]", not_empty=True),
    Row("std_mean", _spread(np.std), (AXES,), _SPREAD, part="[0]", not_empty=True, fits=_has_root),
)
AVERAGES_OF_INTEGERS: Final = tuple(
    Row(
        name, lambda x, axes, name=name: getattr(x.astype(np.float64), name)(axis=axes), (AXES,), of=Of.INTEGERS,
        not_empty=True, has_slope=False, fits=_is_small,
    )
    for name in ("mean", "var")
)  # fmt: skip


def _norm(x: Array, order: float, axes: Axes, *, keepdims: bool = False) -> Array:
    """Return the norm of vectors along axes, of which NumPy takes one or all."""
    if math.isinf(order):
        return np.asarray((np.max if order > 0 else np.min)(np.abs(x), axis=axes, keepdims=keepdims))
    if order == 0:
        return np.asarray((x != 0).sum(axis=axes, keepdims=keepdims).astype(np.float64))
    return np.asarray((np.abs(x) ** order).sum(axis=axes, keepdims=keepdims) ** (1 / order))


def _normalised(x: Array, order: int, axes: Axes) -> Array:
    return np.asarray((x + 0.75) / np.maximum(_norm(x + 0.75, order, axes, keepdims=True), 1e-12))


_NORM: Final[dict[str, Any]] = {"ranks": (1, 5), "not_empty": True, "fits": _has_squares}

NORMS: Final = (
    Row("norm", _norm, (1, AXES), _KEPT, **_NORM),
    Row("norm", lambda x, axes: _norm(x, math.inf, axes), (AXES,), text="zyx.norm({0}, float('inf'), %s)", **_NORM),
    Row("norm", lambda x, axes: _norm(x, -math.inf, axes), (AXES,), text="zyx.norm({0}, -float('inf'), %s)", **_NORM),
    Row("norm", _norm, (2, AXES), _KEPT, **_NORM),
    Row("norm", _norm, (0, AXES), _KEPT, bits=Bits.JUMPING, ranks=(1, 5), not_empty=True),
    Row("norm", _norm, (one_of(3, 0.5), AXES), _KEPT, has_slope=False, **_NORM),  # infinite at 0
    Row("normalize", _normalised, (2, AXES), text="zyx.normalize({0} + 0.75, %s)", **_NORM),
    Row("logsumexp", logsumexp, (AXES,), _KEPT, ranks=(1, 5), not_empty=True, fits=_has_exponents),
)

_SOFT: Final[dict[str, Any]] = {"ranks": (1, 5), "not_empty": True, "fits": _has_exponents}

SOFTMAXES: Final = (
    Row("softmax", softmax, (AXES,), **_SOFT),
    Row("softmin", lambda x, axes: softmax(-x, axes), (AXES,), **_SOFT),
    Row(
        "log_softmax", lambda x, axes: x - logsumexp(x, axes, keepdims=True), (AXES,),
        inner=lambda x, axes: np.abs(x).max(axis=axes, keepdims=True), **_SOFT,
    ),
)  # fmt: skip


def _with_first(function: Any, first: int) -> Any:  # of NumPy
    """Return a scan that starts at what it is of no elements."""

    def scan(x: Array, axis: int, *, include_initial: bool) -> Array:
        found = function(x, axis=axis)
        shape = [1 if number == axis % x.ndim else size for number, size in enumerate(x.shape)]
        return np.concatenate([np.full(shape, first, found.dtype), found], axis=axis) if include_initial else found

    return scan


_LINES: Final[dict[str, Any]] = {"ranks": (1, 5)}

SCANS: Final = (
    Row("cumsum", np.cumsum, (AXIS,), **_NUMBERS, **_LINES),
    Row("cumprod", np.cumprod, (AXIS,), fits=_has_few, **_NUMBERS, **_LINES),
    Row("cumulative_prod", _with_first(np.cumprod, 1), (AXIS,), {"include_initial": FLAG}, fits=_has_few, **_NUMBERS,
        **_LINES),
    Row("cummax", np.maximum.accumulate, (AXIS,), **_CERTAIN, **_LINES),
    Row("cummin", np.minimum.accumulate, (AXIS,), **_CERTAIN, **_LINES),
    Row("logcumsumexp", np.logaddexp.accumulate, (AXIS,), fits=_has_exponents, **_LINES),
    Row("cumulative_sum", _with_first(np.cumsum, 0), (AXIS,), {"include_initial": FLAG}, **_NUMBERS, **_LINES),
)  # fmt: skip
DIFFERENCES: Final = (
    Row("diff", np.diff, (one_of(0, 1, 2), AXIS), fits=_has_neighbours, **_NUMBERS, **_LINES),
    Row("ediff1d", np.ediff1d, ranks=(1, 5), not_empty=True),
    Row("trapezoid", np.trapezoid, ranks=(1, 5), not_empty=True),
)


def _places(x: Array, axis: int, *, descending: bool = False) -> Array:
    """Return where sorted elements come from; equal ones keep their order."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    behind = x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(behind, axis)


def _sorted(x: Array, axis: int, *, descending: bool = False) -> Array:
    found = np.sort(x, axis=axis)
    return np.flip(found, axis) if descending else found


def _greatest(x: Array, count: int, axis: int, *, largest: bool) -> Array:
    return np.take(_sorted(x, axis, descending=largest), range(count), axis=axis)


def _lower_median(x: Array, axis: int, *, keepdims: bool) -> Array:
    found = np.take(np.sort(x, axis=axis), [(x.shape[axis] - 1) // 2], axis=axis)
    return found if keepdims else np.squeeze(found, axis)


ORDERS: Final = (
    Row("argsort", _places, (AXIS,), {"descending": FLAG}, **_PLACES, **_LINES),
    Row("sort", _sorted, (AXIS,), {"descending": FLAG}, **_CERTAIN, **_LINES),
    Row(
        "topk", _greatest, (Argument(lambda d, x: d.choices.integer(1, d.shape(x)[-1])), -1), {"largest": FLAG},
        part="[0]", not_empty=True, **_CERTAIN, **_LINES,
    ),
    Row("median", _lower_median, (AXIS,), _KEPT, not_empty=True, **_CERTAIN, **_LINES),
)  # fmt: skip
SEARCHES: Final = tuple(
    Row(
        "searchsorted", lambda x, y, side=side: np.searchsorted(np.sort(x), y, side=side).astype(np.int64), operands=2,
        text=f"zyx.searchsorted(zyx.sort({{0}}), {{1}}, side='{side}')", ranks=(1, 1), **_PLACES,
    )
    for side in ("left", "right")
)  # fmt: skip


def _cosine(x: Array, y: Array, axis: int) -> Array:
    lengths = [np.maximum(_norm(z, 2, axis), 1e-8) for z in (x, y)]
    return np.asarray((x * y).sum(axis=axis) / (lengths[0] * lengths[1]))


SIMILARITIES: Final = (Row("cosine_similarity", _cosine, (AXIS,), operands=2, are_alike=True, **_NORM),)
