"""Reductions, scans, sorting and searching, each beside its meaning in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuzz import meanings
from fuzz.drawing import Unfit
from fuzz.program import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.drawing import Axes, Draw
    from zyx.testing.values import Array


def _normal(axes: Axes, rank: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(rank))
    return tuple(a % rank for a in ((axes,) if isinstance(axes, int) else axes))


def _counts(d: Draw, x: int, axes: Axes) -> int:
    count = 1
    for axis in _normal(axes, len(d.shape(x))):
        count *= d.shape(x)[axis]
    return count


def total(d: Draw) -> Call:
    """A sum, over some axes."""
    x = d.number()
    axes, keep = d.axes(x), d.choices.chance(30)
    return Call(
        f"zyx.sum({{0}}, {axes}, keepdims={keep})",
        lambda x: np.sum(x, axis=axes, keepdims=keep),
        (x,),
        exact=d.dtype(x).is_integer,
    )


def product(d: Draw) -> Call:
    """A product of few factors."""
    x = d.number(least_rank=1)
    axis = d.axis(x)
    if d.shape(x)[axis] > 8:
        raise Unfit
    return Call(f"zyx.prod({{0}}, {axis})", lambda x: np.prod(x, axis=axis), (x,), exact=d.dtype(x).is_integer)


def extreme(d: Draw) -> Call:
    """The greatest or least of some."""
    x = d.number(not_empty=True)
    axes, keep = d.axes(x), d.choices.chance(30)
    name = d.choices.pick(("max", "min", "aminmax"))
    if name == "aminmax":
        return Call(
            f"zyx.aminmax({{0}}, {axes}, keepdims={keep})[1]",
            lambda x: np.max(x, axis=axes, keepdims=keep), (x,), exact=True,
        )  # fmt: skip
    function = np.max if name == "max" else np.min
    return Call(
        f"zyx.{name}({{0}}, {axes}, keepdims={keep})", lambda x: function(x, axis=axes, keepdims=keep), (x,), exact=True
    )


def truth(d: Draw) -> Call:
    """Whether any or all are not 0, and how many."""
    x = d.value(certain=True)
    axes = d.axes(x)
    name = d.choices.pick(("any", "all", "count_nonzero"))
    functions: dict[str, Callable[..., Any]] = {"any": np.any, "all": np.all, "count_nonzero": np.count_nonzero}
    function = functions[name]
    return Call(
        f"zyx.{name}({{0}}, {axes})", lambda x: np.asarray(function(x, axis=axes)), (x,), exact=True, jumps=True,
        has_slope=False,
    )  # fmt: skip


def place_of_extreme(d: Draw) -> Call:
    """Where the greatest or least is, the first of equals."""
    x = d.number(certain=True, not_empty=True)
    axis = d.axis(x) if d.shape(x) and d.choices.chance(80) else None
    name = d.choices.pick(("argmax", "argmin"))
    return Call(
        f"zyx.{name}({{0}}, {axis})", lambda x: getattr(np, name)(x, axis=axis), (x,), exact=True, jumps=True,
        has_slope=False,
    )  # fmt: skip


def average(d: Draw) -> Call:
    """Mean, variance, standard deviation."""
    x = d.floating(not_empty=True)
    axes, keep = d.axes(x), d.choices.chance(30)
    correction = 1 if _counts(d, x, axes) > 2 and d.choices.chance(40) else 0
    given = f"{{0}}, {axes}, keepdims={keep}"
    match d.choices.integer(0, 4):
        case 0 | 1:
            return Call(f"zyx.mean({given})", lambda x: x.mean(axis=axes, keepdims=keep), (x,))
        case 2:
            return Call(
                f"zyx.var({given}, correction={correction})",
                lambda x: x.var(axis=axes, ddof=correction, keepdims=keep), (x,),
            )  # fmt: skip
        case 3:
            if _counts(d, x, axes) < 3:
                raise Unfit  # a root near 0
            d.refuse_squares(x)
            return Call(
                f"zyx.std({given}, correction={correction})",
                lambda x: x.std(axis=axes, ddof=correction, keepdims=keep), (x,),
            )  # fmt: skip
        case _:
            name = d.choices.pick(("var_mean", "std_mean"))
            return Call(f"zyx.{name}({given})[1]", lambda x: x.mean(axis=axes, keepdims=keep), (x,))


def average_of_integers(d: Draw) -> Call:
    """Mean and variance of integers, in float32."""
    x = d.integral(not_empty=True)
    known = d.known(x).value
    if np.abs(known.astype(np.float64)).max() > 1000:
        raise Unfit
    axes = d.axes(x)
    name = d.choices.pick(("mean", "var"))
    return Call(
        f"zyx.{name}({{0}}, {axes})", lambda x: getattr(x.astype(np.float64), name)(axis=axes), (x,), has_slope=False
    )


def norm(d: Draw) -> Call:
    """Norms of vectors."""
    x = d.floating(least_rank=1, not_empty=True)
    axes = d.axes(x)
    match d.choices.integer(0, 4):
        case 0:
            return Call(f"zyx.norm({{0}}, 1, {axes})", lambda x: np.abs(x).sum(axis=axes), (x,))
        case 1:
            return Call(f"zyx.norm({{0}}, float('inf'), {axes})", lambda x: np.abs(x).max(axis=axes), (x,))
        case 2:
            d.refuse_squares(x)
            return Call(
                f"zyx.normalize({{0}} + 0.75, 2, {axes})",
                lambda x: (x + 0.75) / np.maximum(np.sqrt(((x + 0.75) ** 2).sum(axis=axes, keepdims=True)), 1e-12),
                (x,),
            )
        case 3:
            d.refuse_exponents(x)
            return Call(f"zyx.logsumexp({{0}}, {axes})", lambda x: meanings.logsumexp(x, axes), (x,))
        case _:
            d.refuse_squares(x)
            return Call(f"zyx.norm({{0}}, 2, {axes})", lambda x: np.sqrt((x * x).sum(axis=axes)), (x,))


def similarity(d: Draw) -> Call:
    """The cosine of an angle."""
    x = d.floating(least_rank=1, not_empty=True)
    y, axis = d.like(x, thin=False), d.axis(x)
    d.refuse_squares(x, y)

    def cosine(x: Array, y: Array) -> Array:
        lengths = [np.maximum(np.sqrt((z * z).sum(axis=axis)), 1e-8) for z in (x, y)]
        return np.asarray((x * y).sum(axis=axis) / (lengths[0] * lengths[1]))

    return Call(f"zyx.cosine_similarity({{0}}, {{1}}, {axis})", cosine, (x, y))


def scan(d: Draw) -> Call:
    """Sums, products, extremes so far."""
    x = d.number(least_rank=1)
    axis = d.axis(x)
    match d.choices.integer(0, 5):
        case 0 | 1:
            return Call(
                f"zyx.cumsum({{0}}, {axis})", lambda x: np.cumsum(x, axis=axis), (x,), exact=d.dtype(x).is_integer
            )
        case 2:
            if d.shape(x)[axis] > 8:
                raise Unfit
            name = d.choices.pick(("cumprod", "cumulative_prod"))
            return Call(
                f"zyx.{name}({{0}}, {axis})", lambda x: np.cumprod(x, axis=axis), (x,), exact=d.dtype(x).is_integer
            )
        case 3:
            return Call(f"zyx.cummax({{0}}, {axis})", lambda x: np.maximum.accumulate(x, axis=axis), (x,), exact=True)
        case 4:
            return Call(f"zyx.cummin({{0}}, {axis})", lambda x: np.minimum.accumulate(x, axis=axis), (x,), exact=True)
        case _:
            shape = [*d.shape(x)]
            shape[axis] = 1

            def initial(x: Array) -> Array:
                return np.concatenate([np.zeros(shape, x.dtype), np.cumsum(x, axis=axis)], axis=axis)

            return Call(
                f"zyx.cumulative_sum({{0}}, {axis}, include_initial=True)", initial, (x,), exact=d.dtype(x).is_integer
            )


def differences(d: Draw) -> Call:
    """Differences of neighbours."""
    x = d.number(least_rank=1)
    axis, times = d.axis(x), d.choices.integer(1, 2)
    if d.shape(x)[axis] < times:
        raise Unfit
    return Call(
        f"zyx.diff({{0}}, {times}, {axis})", lambda x: np.diff(x, times, axis), (x,), exact=d.dtype(x).is_integer
    )


def order(d: Draw) -> Call:
    """Sorted values, or where they come from."""
    x = d.number(least_rank=1, certain=True)
    axis, down = d.axis(x), d.choices.chance(40)
    size = d.shape(x)[axis]

    def places(x: Array) -> Array:
        keys = -x.astype(np.float64) if down else x
        return np.argsort(keys, axis=axis, kind="stable")

    def values(x: Array) -> Array:
        result = np.sort(x, axis=axis)
        return np.flip(result, axis) if down else result

    if d.dtype(x).bits == 64 and d.dtype(x).is_integer:
        down = False
    match d.choices.integer(0, 3):
        case 0:
            return Call(
                f"zyx.argsort({{0}}, {axis}, descending={down})", places, (x,), exact=True, jumps=True, has_slope=False
            )
        case 1 if size:
            few = d.choices.integer(1, size)
            down = True
            return Call(
                f"zyx.topk({{0}}, {few}, {axis})[0]",
                lambda x: np.take(np.flip(np.sort(x, axis=axis), axis), range(few), axis=axis), (x,), exact=True,
            )  # fmt: skip
        case 2 if size:
            return Call(
                f"zyx.median({{0}}, {axis})",
                lambda x: np.take(np.sort(x, axis=axis), (size - 1) // 2, axis=axis), (x,), exact=True,
            )  # fmt: skip
        case _:
            return Call(f"zyx.sort({{0}}, {axis}, descending={down})", values, (x,), exact=True)


def search(d: Draw) -> Call:
    """Where values belong in sorted ones."""
    x = d.number(least_rank=1, most_rank=1, certain=True)
    y = d.like(x, certain=True)
    side = d.choices.pick(("left", "right"))
    return Call(
        f"zyx.searchsorted(zyx.sort({{0}}), {{1}}, side='{side}')",
        lambda x, y: np.searchsorted(np.sort(x), y, side=side).astype(np.int64),  # type: ignore[call-overload]
        (x, y), exact=True, jumps=True, has_slope=False,
    )  # fmt: skip


ROWS: Final = (
    (total, 6), (product, 1), (extreme, 4), (truth, 1), (place_of_extreme, 2), (average, 5), (average_of_integers, 1),
    (norm, 3), (similarity, 1), (scan, 4), (differences, 1), (order, 3), (search, 1),
)  # fmt: skip
