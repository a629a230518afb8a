"""Calls element by element, each beside its meaning in NumPy."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuzz.drawing import SPECIAL, Unfit
from fuzz.meanings import erf, erfinv, safe_integers
from fuzz.program import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.drawing import Draw
    from zyx.testing.values import Array

    Meaning = Callable[..., Any]

_SQRT2: Final = math.sqrt(2.0)


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0.0)


#: Functions of floats that round: what is put in, so that it lies in the domain and the result within the range of
#: every dtype, and the meaning.
FUNCTIONS: Final[tuple[tuple[str, Meaning], ...]] = (
    ("zyx.exp(zyx.clip({0}, -8.0, 8.0))", lambda x: np.exp(np.clip(x, -8, 8))),
    ("zyx.exp2(zyx.clip({0}, -8.0, 8.0))", lambda x: np.exp2(np.clip(x, -8, 8))),
    ("zyx.expm1(zyx.clip({0}, -8.0, 8.0))", lambda x: np.expm1(np.clip(x, -8, 8))),
    ("zyx.log(zyx.abs({0}) + 0.5)", lambda x: np.log(np.abs(x) + 0.5)),
    ("zyx.log(zyx.abs({0}) + 0.5, 3.0)", lambda x: np.log(np.abs(x) + 0.5) / math.log(3.0)),
    ("zyx.log2(zyx.abs({0}) + 0.5)", lambda x: np.log2(np.abs(x) + 0.5)),
    ("zyx.log10(zyx.abs({0}) + 0.5)", lambda x: np.log10(np.abs(x) + 0.5)),
    ("zyx.log1p(zyx.abs({0}))", lambda x: np.log1p(np.abs(x))),
    ("{0}.abs().ln()", lambda x: np.log(np.abs(x))),
    ("zyx.sqrt(zyx.abs({0}))", lambda x: np.sqrt(np.abs(x))),
    ("zyx.rsqrt(zyx.abs({0}) + 0.25)", lambda x: 1 / np.sqrt(np.abs(x) + 0.25)),
    ("zyx.reciprocal(zyx.abs({0}) + 0.25)", lambda x: 1 / (np.abs(x) + 0.25)),
    ("zyx.square({0})", np.square),
    ("{0} ** 2", np.square),
    ("{0} ** 3", lambda x: x**3),
    ("(zyx.abs({0}) + 0.5) ** -1.5", lambda x: (np.abs(x) + 0.5) ** -1.5),
    ("2.0 ** zyx.clip({0}, -8.0, 8.0)", lambda x: 2.0 ** np.clip(x, -8, 8)),
    ("zyx.sin({0})", np.sin),
    ("zyx.cos({0})", np.cos),
    ("zyx.tan(zyx.clip({0}, -1.25, 1.25))", lambda x: np.tan(np.clip(x, -1.25, 1.25))),
    ("zyx.asin(zyx.tanh({0}) * 0.75)", lambda x: np.arcsin(np.tanh(x) * 0.75)),
    ("zyx.acos(zyx.tanh({0}) * 0.75)", lambda x: np.arccos(np.tanh(x) * 0.75)),
    ("zyx.atan({0})", np.arctan),
    ("zyx.sinh(zyx.clip({0}, -5.0, 5.0))", lambda x: np.sinh(np.clip(x, -5, 5))),
    ("zyx.cosh(zyx.clip({0}, -5.0, 5.0))", lambda x: np.cosh(np.clip(x, -5, 5))),
    ("zyx.tanh({0})", np.tanh),
    ("zyx.asinh({0})", np.arcsinh),
    ("zyx.acosh(zyx.abs({0}) + 1.25)", lambda x: np.arccosh(np.abs(x) + 1.25)),
    ("zyx.atanh(zyx.tanh({0}) * 0.75)", lambda x: np.arctanh(np.tanh(x) * 0.75)),
    ("zyx.deg2rad({0})", np.deg2rad),
    ("zyx.rad2deg({0})", np.rad2deg),
    ("zyx.erf({0})", erf),
    ("zyx.erfinv(zyx.tanh({0}) * 0.75)", lambda x: erfinv(np.tanh(x) * 0.75)),
    ("{0} * 2.5 - 1.0", lambda x: x * 2.5 - 1),
    ("1.0 - {0}", lambda x: 1 - x),
    ("{0} / 3.0", lambda x: x / 3),
    ("2.0 / (zyx.abs({0}) + 0.5)", lambda x: 2 / (np.abs(x) + 0.5)),
    # activations
    ("zyx.leaky_relu({0}, 0.125)", lambda x: np.where(x > 0, x, 0.125 * x)),
    ("zyx.elu({0}, 1.5)", lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0)))),
    ("zyx.celu({0}, 1.5)", lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0) / 1.5))),
    (
        "zyx.selu({0})",
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    ),
    ("zyx.gelu({0})", lambda x: 0.5 * x * (1 + erf(x / _SQRT2))),
    (
        "zyx.gelu({0}, 'tanh')",
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("zyx.quick_gelu({0})", lambda x: x * _sigmoid(1.702 * x)),
    ("zyx.sigmoid({0})", _sigmoid),
    ("zyx.silu({0})", lambda x: x * _sigmoid(x)),
    ("zyx.hardsigmoid({0})", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("zyx.hardswish({0})", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("zyx.mish({0})", lambda x: x * np.tanh(_softplus(x))),
    ("zyx.softplus({0})", lambda x: np.where(x > 20, x, _softplus(x))),  # x itself above the threshold
    ("zyx.softplus({0}, 2.0)", lambda x: np.where(2 * x > 20, x, _softplus(2 * x) / 2)),
    ("zyx.softplus({0}, 0.5, 50.0)", lambda x: np.where(0.5 * x > 50, x, _softplus(0.5 * x) / 0.5)),
    ("zyx.softsign({0})", lambda x: x / (1 + np.abs(x))),
    ("zyx.logsigmoid({0})", lambda x: -_softplus(-x)),
)

#: Functions of floats whose bits are certain, and that do not jump.
EXACT: Final[tuple[tuple[str, Meaning], ...]] = (
    ("zyx.abs({0})", np.abs),
    ("zyx.negative({0})", np.negative),
    ("-{0}", np.negative),
    ("zyx.positive({0})", np.positive),
    ("zyx.relu({0})", lambda x: np.maximum(x, 0)),
    ("zyx.relu6({0})", lambda x: np.clip(x, 0, 6)),
    ("zyx.hardtanh({0}, -0.75, 1.5)", lambda x: np.clip(x, -0.75, 1.5)),
    ("zyx.clip({0}, -0.5)", lambda x: np.maximum(x, -0.5)),
    ("zyx.clip({0}, max=1.25)", lambda x: np.minimum(x, 1.25)),
    ("zyx.maximum({0}, 0.5)", lambda x: np.maximum(x, 0.5)),
    ("zyx.nan_to_num({0}, nan=0.5, posinf=7.0, neginf=-7.0)", partial(np.nan_to_num, nan=0.5, posinf=7.0, neginf=-7.0)),
)

#: Functions of floats that jump.
JUMPING: Final[tuple[tuple[str, Meaning], ...]] = (
    ("zyx.sign({0})", np.sign),
    ("zyx.floor({0})", np.floor),
    ("zyx.ceil({0})", np.ceil),
    ("zyx.trunc({0})", np.trunc),
    ("zyx.round({0})", np.round),
    ("zyx.frac({0})", lambda x: x - np.trunc(x)),
    ("zyx.isnan({0})", np.isnan),
    ("zyx.isinf({0})", np.isinf),
    ("zyx.isfinite({0})", np.isfinite),
    ("zyx.logical_not({0})", np.logical_not),
    ("{0} > 0.5", lambda x: x > 0.5),
    ("0.5 >= {0}", lambda x: x <= 0.5),
)

INTEGER: Final[tuple[tuple[str, Meaning], ...]] = (
    ("zyx.abs({0})", np.abs),
    ("zyx.square({0})", np.square),
    ("zyx.sign({0})", np.sign),
    ("{0} + 3", lambda x: x + x.dtype.type(3)),
    ("{0} * 5", lambda x: x * x.dtype.type(5)),
    ("{0} // 3", lambda x: x // x.dtype.type(3)),
    ("{0} % 7", lambda x: x % x.dtype.type(7)),
    ("{0} & 5", lambda x: x & x.dtype.type(5)),
    ("zyx.bitwise_invert({0})", np.invert),
    ("~{0}", np.invert),
    ("zyx.clip({0}, 1, 5)", lambda x: np.clip(x, 1, 5)),
    ("zyx.bitwise_left_shift({0}, {0} & 3)", lambda x: x << (x & x.dtype.type(3))),
    ("{0} >> 1", lambda x: x >> x.dtype.type(1)),
    ("zyx.logical_not({0})", np.logical_not),
    ("{0} < 3", lambda x: x < 3),
    ("{0} == 2", lambda x: x == 2),
    ("{0} ** 2", np.square),
    ("zyx.negative({0})", np.negative),
    ("zyx.floor({0})", lambda x: x),
)

FLOAT_PAIRS: Final[tuple[tuple[str, Meaning], ...]] = (
    ("{0} + {1}", np.add),
    ("zyx.add({0}, {1})", np.add),
    ("{0} - {1}", np.subtract),
    ("{0} * {1}", np.multiply),
    ("zyx.multiply({0}, {1})", np.multiply),
    ("zyx.divide({0}, zyx.abs({1}) + 0.5)", lambda x, y: x / (np.abs(y) + 0.5)),
    ("zyx.pow(zyx.abs({0}) + 0.5, zyx.clip({1}, -2.0, 2.0))", lambda x, y: (np.abs(x) + 0.5) ** np.clip(y, -2, 2)),
    ("zyx.atan2({0}, zyx.abs({1}) + 0.5)", lambda x, y: np.arctan2(x, np.abs(y) + 0.5)),
    ("zyx.hypot({0}, {1})", np.hypot),
    ("zyx.logaddexp({0}, {1})", np.logaddexp),
    ("zyx.lerp({0}, {1}, 0.25)", lambda x, y: x + 0.25 * (y - x)),
    ("zyx.prelu({0}, {1})", lambda x, y: np.where(x > 0, x, x * y)),
)
EXACT_PAIRS: Final[tuple[tuple[str, Meaning], ...]] = (
    ("zyx.maximum({0}, {1})", np.maximum),
    ("zyx.minimum({0}, {1})", np.minimum),
)
JUMPING_PAIRS: Final[tuple[tuple[str, Meaning], ...]] = (
    ("{0} == {1}", np.equal),
    ("zyx.equal({0}, {1})", np.equal),
    ("zyx.not_equal({0}, {1})", np.not_equal),
    ("{0} < {1}", np.less),
    ("zyx.less({0}, {1})", np.less),
    ("zyx.greater_equal({0}, {1})", np.greater_equal),
    ("zyx.less_equal({0}, {1})", np.less_equal),
    ("zyx.greater({0}, {1})", np.greater),
    ("{0} >= {1}", np.greater_equal),
    ("zyx.logical_and({0}, {1})", np.logical_and),
    ("zyx.logical_or({0}, {1})", np.logical_or),
    ("zyx.logical_xor({0}, {1})", np.logical_xor),
    ("zyx.copysign(zyx.abs({0}) + 1.0, zyx.abs({1}) + 1.0)", lambda x, y: np.abs(x) + 1 + 0 * y),
)
INTEGER_PAIRS: Final[tuple[tuple[str, Meaning], ...]] = (
    ("{0} + {1}", np.add),
    ("zyx.subtract({0}, {1})", np.subtract),
    ("{0} * {1}", np.multiply),
    ("zyx.floor_divide({0}, {1} | 1)", lambda x, y: x // (y | y.dtype.type(1))),
    ("zyx.remainder({0}, {1} | 1)", lambda x, y: np.remainder(x, y | y.dtype.type(1))),
    ("zyx.fmod({0}, {1} | 1)", lambda x, y: np.fmod(x, y | y.dtype.type(1))),
    ("zyx.bitwise_and({0}, {1})", np.bitwise_and),
    ("zyx.bitwise_or({0}, {1})", np.bitwise_or),
    ("zyx.bitwise_xor({0}, {1})", np.bitwise_xor),
    ("{0} << ({1} & 3)", lambda x, y: x << (y & y.dtype.type(3))),
    ("zyx.bitwise_right_shift({0}, {1} & 3)", lambda x, y: x >> (y & y.dtype.type(3))),
)

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


def function(d: Draw) -> Call:
    """A function of floats."""
    text, meaning = d.choices.pick(FUNCTIONS)
    return Call(text, meaning, (d.floating(),), inner=np.abs if "gelu" in text else None)  # 1 + erf(x) cancels


def exact_function(d: Draw) -> Call:
    """A function that does not round."""
    text, meaning = d.choices.pick(EXACT)
    return Call(text, meaning, (d.floating(),), exact=True)


def jumping_function(d: Draw) -> Call:
    """A function that jumps."""
    text, meaning = d.choices.pick(JUMPING)
    return Call(text, meaning, (d.floating(certain=True),), exact=True, jumps=True, has_slope=False)


def integer_function(d: Draw) -> Call:
    """A function of integers."""
    text, meaning = d.choices.pick(INTEGER)
    x = d.integral()
    return Call(text, meaning, (x,), exact=True, has_slope=False)


def pair(d: Draw) -> Call:
    """Two floats that broadcast."""
    text, meaning = d.choices.pick(FLOAT_PAIRS)
    x = d.floating()
    operands = (x, d.like(x))
    return Call(text, meaning, operands if d.choices.chance(70) or "prelu" in text else operands[::-1])


def exact_pair(d: Draw) -> Call:
    """Two numbers that broadcast, and one of them."""
    text, meaning = d.choices.pick(EXACT_PAIRS)
    x = d.number()
    return Call(text, meaning, (x, d.like(x)), exact=True)


def jumping_pair(d: Draw) -> Call:
    """Two numbers that are compared."""
    text, meaning = d.choices.pick(JUMPING_PAIRS)
    x = d.floating(certain=True)
    return Call(text, meaning, (x, d.like(x, certain=True)), exact=True, jumps=True, has_slope=False)


def integer_pair(d: Draw) -> Call:
    """Two integers."""
    text, meaning = d.choices.pick(INTEGER_PAIRS + JUMPING_PAIRS[:12])
    x = d.integral()
    return Call(text, meaning, (x, d.like(x)), exact=True, has_slope=False)


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
    from zyx import dtype as dtypes

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
    text = text.replace("zyx.bool", "zyx.bool")
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
    (function, 10),
    (exact_function, 3),
    (jumping_function, 3),
    (integer_function, 3),
    (pair, 9),
    (exact_pair, 2),
    (jumping_pair, 2),
    (integer_pair, 4),
    (with_number, 5),
    (integer_quotient, 1),
    (where, 3),
    (cast, 4),
)
