"""Calls element by element, each beside its meaning in NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from meanings import elementwise
from meanings.formulas import safe_integers

from fuzz.drawing import SPECIAL, Unfit
from fuzz.program import Call
from fuzz.rows import Family
from zyx import dtype as dtypes

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.drawing import Draw

    Meaning = Callable[..., Any]

#: Of a number and floats. The first ones do not round if the number is 0 or not finite.
WITH_NUMBER: Final[tuple[tuple[str, Meaning], ...]] = (
    ("{0} * %s", lambda x, c: x * c),
    ("%s * {0}", lambda x, c: c * x),
    ("{0} / %s", lambda x, c: x / c),
    ("{0} + %s", lambda x, c: x + c),
    ("{0} - %s", lambda x, c: x - c),
    ("%s - {0}", lambda x, c: c - x),
    ("%s / {0}", lambda x, c: c / x),
    ("(zyx.abs({0}) + 0.5) ** %s", lambda x, c: (np.abs(x) + 0.5) ** c),
    ("zyx.lerp({0}, -{0}, %s)", lambda x, c: x + c * (-x - x)),
)
_EXACT_IF_SPECIAL: Final = tuple(text for text, _ in WITH_NUMBER[:6])
EXACT_WITH_NUMBER: Final[tuple[tuple[str, Meaning], ...]] = (
    ("zyx.maximum({0}, %s)", np.maximum),
    ("zyx.minimum(%s, {0})", np.minimum),
    ("zyx.full_like({0}, %s)", np.full_like),
    ("zyx.where(zyx.isnan({0}), %s, {0})", lambda x, c: np.where(np.isnan(x), c, x)),
)
JUMPING_WITH_NUMBER: Final[tuple[tuple[str, Meaning], ...]] = (
    ("{0} > %s", lambda x, c: x > c),
    ("%s >= {0}", lambda x, c: c >= x),
    ("{0} != %s", lambda x, c: x != c),
    ("zyx.where({0} < %s, {0}, 0)", lambda x, c: np.where(x < c, x, x.dtype.type(0))),
)
INTEGER_WITH_NUMBER: Final[tuple[tuple[str, Meaning], ...]] = (
    ("{0} + %s", lambda x, c: x + c),
    ("%s - {0}", lambda x, c: c - x),
    ("{0} * %s", lambda x, c: x * c),
    ("{0} & %s", lambda x, c: x & c),
    ("%s | {0}", lambda x, c: c | x),
    ("{0} ^ %s", lambda x, c: x ^ c),
    ("{0} // %s", lambda x, c: x // c),
    ("{0} %% %s", np.remainder),
    *EXACT_WITH_NUMBER[:3],
    *JUMPING_WITH_NUMBER,
)


def with_number(d: Draw) -> Call:
    """A number and floats, or integers."""
    if d.choices.chance(40):
        x = d.integral()
        text, meaning = d.choices.pick(INTEGER_WITH_NUMBER)
        number = d.constant(d.dtype(x))
        if not number and ("//" in text or "%%" in text):
            raise Unfit
        given = d.dtype(x).numpy.type(number)
        return Call(text % number, lambda x: meaning(x, given), (x,), exact=True, has_slope=False)
    kind = d.choices.pick((WITH_NUMBER, WITH_NUMBER, EXACT_WITH_NUMBER, JUMPING_WITH_NUMBER))
    x = d.floating(certain=kind is JUMPING_WITH_NUMBER)
    text, meaning = d.choices.pick(kind)
    number = d.constant(d.dtype(x))
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(float(number)).astype(d.dtype(x).numpy))
    is_special = number in SPECIAL or not math.isfinite(number)
    return Call(
        text % (repr(number) if math.isfinite(number) else f"float('{number}')"),
        lambda x: meaning(x, x.dtype.type(rounded)), (x,),
        exact=kind is not WITH_NUMBER or (is_special and text in _EXACT_IF_SPECIAL and abs(number) != 1),
        jumps=kind is JUMPING_WITH_NUMBER, has_slope=kind is not JUMPING_WITH_NUMBER,
    )  # fmt: skip


def integer_quotient(d: Draw) -> Call:
    """Integers divided as numbers are."""
    x = d.integral()
    if d.dtype(x).bits == 64:
        raise Unfit
    return Call("{0} / 4", lambda x: x.astype(np.float64) / 4, (x,), has_slope=False)


def where(d: Draw) -> Call:
    """A choice between two values, element by element."""
    x = d.value()
    conditions = [n for n in range(d.count) if d.dtype(n).is_bool and d.shape(n) == d.shape(x)]
    condition = d.choices.pick(conditions) if conditions else d.leaf(d.shape(x), dtypes.bool_)
    text = d.choices.pick(("zyx.where({0}, {1}, {2})", "zyx.where({0}, {1}, 0)", "{1}.masked_fill({0}, 1)"))
    if d.dtype(x).is_bool:
        text = "zyx.where({0}, {1}, {2})"
    if "{2}" in text:
        return Call(text, np.where, (condition, x, d.like(x)), exact=True)
    if "masked" in text:
        return Call(text, lambda c, x: np.where(c, x.dtype.type(1), x), (condition, x), exact=True)
    return Call(text, lambda c, x: np.where(c, x, x.dtype.type(0)), (condition, x), exact=True)


def cast(d: Draw) -> Call:
    """A conversion to another dtype."""
    x, target = d.value(), d.choices.pick(d.dtypes)
    known = d.known(x)
    text = d.choices.pick(("{0}.astype('%s')", "{0}.cast(zyx.%s)")) % target
    if target.is_float:
        # Integers of many digits are rounded once.
        return Call(text, lambda x: x.astype(np.float64), (x,), exact=True, has_slope=known.dtype.is_float)
    if known.dtype.is_float and not target.is_bool:
        if not known.is_certain or not safe_integers(known.value, target):
            raise Unfit
        return Call(text, lambda x: np.trunc(x).astype(target.numpy), (x,), exact=True, jumps=True, has_slope=False)
    if target.is_bool:
        return Call(text, lambda x: x != 0, (x,), exact=True, jumps=True, has_slope=False)
    return Call(text, lambda x: x.astype(target.numpy), (x,), exact=True, has_slope=False)


ROWS: Final = (
    (Family("function", elementwise.ROUNDED), 10), (Family("exact_function", elementwise.EXACT), 3),
    (Family("jumping_function", elementwise.JUMPING), 3), (Family("integer_function", elementwise.INTEGER), 3),
    (Family("pair", elementwise.PAIRS), 9), (Family("exact_pair", elementwise.EXACT_PAIRS), 2),
    (Family("jumping_pair", elementwise.JUMPING_PAIRS), 2), (Family("integer_pair", elementwise.INTEGER_PAIRS), 4),
    (with_number, 5), (integer_quotient, 1), (where, 3), (cast, 4),
)  # fmt: skip
