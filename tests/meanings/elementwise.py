"""Functions element by element, each beside NumPy's.

Where a row has a number of units in the last place, NumPy's function is its meaning at infinities, signed zeros, NaN
and outside its domain as well.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np

from meanings import activations
from meanings.formulas import erf, erfc, erfinv, lgamma, sigmoid
from meanings.row import Bits, Into, Of, Row

WITHIN_8: Final = Into("zyx.clip({}, -8.0, 8.0)", lambda x: np.clip(x, -8, 8))
WITHIN_5: Final = Into("zyx.clip({}, -5.0, 5.0)", lambda x: np.clip(x, -5, 5))
WITHIN_2: Final = Into("zyx.clip({}, -2.0, 2.0)", lambda x: np.clip(x, -2, 2))
ACUTE: Final = Into("zyx.clip({}, -1.25, 1.25)", lambda x: np.clip(x, -1.25, 1.25))
WITHIN_1: Final = Into("zyx.tanh({}) * 0.75", lambda x: np.tanh(x) * 0.75)
FROM_0: Final = Into("zyx.abs({})", np.abs)
FROM_QUARTER: Final = Into("zyx.abs({}) + 0.25", lambda x: np.abs(x) + 0.25)
FROM_HALF: Final = Into("zyx.abs({}) + 0.5", lambda x: np.abs(x) + 0.5)
FROM_1: Final = Into("zyx.abs({}) + 1.0", lambda x: np.abs(x) + 1)
ABOVE_1: Final = Into("zyx.abs({}) + 1.25", lambda x: np.abs(x) + 1.25)
ABOVE_2: Final = Into("zyx.abs({}) + 2.25", lambda x: np.abs(x) + 2.25)
SHARE: Final = Into("zyx.sigmoid(zyx.clip({}, -3.0, 3.0))", lambda x: sigmoid(np.clip(x, -3, 3)))
ODD: Final = Into("{} | 1", lambda x: x | x.dtype.type(1))
FEW_BITS: Final = Into("{} & 3", lambda x: x & x.dtype.type(3))

#: Functions of floats that round.
ROUNDED: Final = (
    Row("exp", np.exp, into=WITHIN_8, ulps=2),
    Row("exp2", np.exp2, into=WITHIN_8, ulps=2),
    Row("expm1", np.expm1, into=WITHIN_8, ulps=2),
    Row("log", np.log, into=FROM_HALF, ulps=2),
    Row("log", lambda x, base: np.log(x) / math.log(base), (3.0,), into=FROM_HALF),
    Row("log2", np.log2, into=FROM_HALF, ulps=2),
    Row("log10", np.log10, into=FROM_HALF, ulps=4),
    Row("log1p", np.log1p, into=FROM_0, ulps=2),
    Row("log", lambda x: np.log(np.abs(x) + 0.5), text="({0}.abs() + 0.5).ln()"),
    Row("sqrt", np.sqrt, into=FROM_0, ulps=0),
    Row("rsqrt", lambda x: 1 / np.sqrt(x), into=FROM_QUARTER, ulps=1),
    Row("reciprocal", np.reciprocal, into=FROM_QUARTER, ulps=0),
    Row("square", np.square, ulps=0),
    Row("sin", np.sin, ulps=2),
    Row("cos", np.cos, ulps=2),
    Row("tan", np.tan, into=ACUTE, ulps=4),
    Row("asin", np.arcsin, into=WITHIN_1, ulps=4),
    Row("acos", np.arccos, into=WITHIN_1, ulps=4),
    Row("atan", np.arctan, ulps=2),
    Row("sinh", np.sinh, into=WITHIN_5, ulps=8),
    Row("cosh", np.cosh, into=WITHIN_5, ulps=8),
    Row("tanh", np.tanh, ulps=2),
    Row("asinh", np.arcsinh, ulps=6),
    Row("acosh", np.arccosh, into=ABOVE_1, ulps=6),
    Row("atanh", np.arctanh, into=WITHIN_1, ulps=6),
    Row("deg2rad", np.deg2rad, ulps=2),
    Row("rad2deg", np.rad2deg, ulps=2),
    Row("erf", erf, ulps=4),
    Row("erfinv", erfinv, into=WITHIN_1),
    Row("erfc", erfc, into=WITHIN_2, inner=np.ones_like),  # 1 - erf(x)
    Row("lgamma", lgamma, into=ABOVE_2),
    Row("cbrt", np.cbrt, into=FROM_QUARTER, ulps=2),
    Row("sinc", np.sinc, into=WITHIN_2, inner=np.ones_like),  # 0 at integers
    Row("logit", lambda p: np.log(p / (1 - p)), into=SHARE, inner=lambda x: 2 + np.exp(np.abs(np.clip(x, -3, 3)))),
    Row("square", np.square, text="{0} ** 2"),
    Row("pow", lambda x: x**3, text="{0} ** 3"),
    Row("pow", lambda x: (np.abs(x) + 0.5) ** -1.5, text="(zyx.abs({0}) + 0.5) ** -1.5"),
    Row("pow", lambda x: 2.0 ** np.clip(x, -8, 8), text="2.0 ** zyx.clip({0}, -8.0, 8.0)"),
    Row("subtract", lambda x: x * 2.5 - 1, text="{0} * 2.5 - 1.0"),
    Row("subtract", lambda x: 1 - x, text="1.0 - {0}"),
    Row("divide", lambda x: x / 3, text="{0} / 3.0"),
    Row("divide", lambda x: 2 / (np.abs(x) + 0.5), text="2.0 / (zyx.abs({0}) + 0.5)"),
    *activations.ROUNDED,
)

#: Functions of floats whose bits are certain, and that do not jump.
EXACT: Final = (
    Row("abs", np.abs, bits=Bits.CERTAIN, ulps=0),
    Row("negative", np.negative, bits=Bits.CERTAIN, ulps=0),
    Row("negative", np.negative, bits=Bits.CERTAIN, text="-{0}"),
    Row("positive", np.positive, bits=Bits.CERTAIN, ulps=0),
    Row("clip", np.maximum, (-0.5,), bits=Bits.CERTAIN, ulps=0),
    Row("clip", lambda x, *, max: np.minimum(x, max), keywords={"max": 1.25}, bits=Bits.CERTAIN, ulps=0),
    Row("clip", np.clip, (-0.5, 1.25), bits=Bits.CERTAIN, ulps=0),
    Row("maximum", np.maximum, (0.5,), bits=Bits.CERTAIN, ulps=0),
    Row("nan_to_num", np.nan_to_num, bits=Bits.CERTAIN),
    Row(
        "nan_to_num", partial(np.nan_to_num, copy=True), keywords={"nan": 0.5, "posinf": 7.0, "neginf": -7.0},
        bits=Bits.CERTAIN, ulps=0,
    ),
    *activations.EXACT,
)  # fmt: skip

#: Functions of floats that jump.
JUMPING: Final = (
    Row("sign", np.sign, bits=Bits.JUMPING, ulps=0),
    Row("floor", np.floor, bits=Bits.JUMPING, ulps=0),
    Row("ceil", np.ceil, bits=Bits.JUMPING, ulps=0),
    Row("trunc", np.trunc, bits=Bits.JUMPING, ulps=0),
    Row("round", np.round, bits=Bits.JUMPING, ulps=0),
    Row("rint", np.rint, bits=Bits.JUMPING, ulps=0),
    Row("fix", np.trunc, bits=Bits.JUMPING, ulps=0),
    Row("frac", lambda x: x - np.trunc(x), bits=Bits.JUMPING),
    Row("isnan", np.isnan, bits=Bits.JUMPING, ulps=0),
    Row("isinf", np.isinf, bits=Bits.JUMPING, ulps=0),
    Row("isfinite", np.isfinite, bits=Bits.JUMPING, ulps=0),
    Row("logical_not", np.logical_not, bits=Bits.JUMPING, ulps=0),
    Row("greater", lambda x: x > 0.5, bits=Bits.JUMPING, text="{0} > 0.5"),
    Row("less_equal", lambda x: x <= 0.5, bits=Bits.JUMPING, text="0.5 >= {0}"),
)

_INTEGERS: Final[dict[str, Any]] = {"of": Of.INTEGERS, "bits": Bits.CERTAIN, "has_slope": False}

#: Functions of integers.
INTEGER: Final = (
    Row("abs", np.abs, **_INTEGERS),
    Row("square", np.square, **_INTEGERS),
    Row("sign", np.sign, **_INTEGERS),
    Row("add", lambda x: x + x.dtype.type(3), text="{0} + 3", **_INTEGERS),
    Row("multiply", lambda x: x * x.dtype.type(5), text="{0} * 5", **_INTEGERS),
    Row("floor_divide", lambda x: x // x.dtype.type(3), text="{0} // 3", **_INTEGERS),
    Row("remainder", lambda x: x % x.dtype.type(7), text="{0} % 7", **_INTEGERS),
    Row("bitwise_and", lambda x: x & x.dtype.type(5), text="{0} & 5", **_INTEGERS),
    Row("bitwise_invert", np.invert, **_INTEGERS),
    Row("bitwise_invert", np.invert, text="~{0}", **_INTEGERS),
    Row("clip", np.clip, (1, 5), **_INTEGERS),
    Row("bitwise_left_shift", lambda x: x << FEW_BITS.meaning(x), text="zyx.bitwise_left_shift({0}, {0} & 3)",
        **_INTEGERS),
    Row("bitwise_right_shift", lambda x: x >> x.dtype.type(1), text="{0} >> 1", **_INTEGERS),
    Row("logical_not", np.logical_not, **_INTEGERS),
    Row("less", lambda x: x < 3, text="{0} < 3", **_INTEGERS),
    Row("equal", lambda x: x == 2, text="{0} == 2", **_INTEGERS),
    Row("square", np.square, text="{0} ** 2", **_INTEGERS),
    Row("negative", np.negative, **_INTEGERS),
    *(Row(name, lambda x: x, **_INTEGERS) for name in ("floor", "ceil", "trunc", "round", "positive")),
)  # fmt: skip

#: Functions of two floats that round.
PAIRS: Final = (
    *(
        Row(name, function, operands=2, text=text)
        for name, function, symbol in (("add", np.add, "+"), ("subtract", np.subtract, "-"),
                                       ("multiply", np.multiply, "*"))
        for text in ("", f"{{0}} {symbol} {{1}}")
    ),
    Row("divide", np.divide, operands=2, into=(None, FROM_HALF)),
    Row("pow", np.power, operands=2, into=(FROM_HALF, WITHIN_2)),
    Row("atan2", np.arctan2, operands=2, into=(None, FROM_HALF), ulps=4),
    Row("hypot", np.hypot, operands=2, ulps=4),
    Row("logaddexp", np.logaddexp, operands=2, ulps=4),
    Row("logaddexp2", np.logaddexp2, operands=2, into=(WITHIN_8, WITHIN_8)),
    Row("lerp", lambda x, y, t: x + t * (y - x), (0.25,), operands=2),
    Row("prelu", lambda x, y: np.where(x > 0, x, x * y), operands=2, are_alike=True),
)  # fmt: skip

#: Functions of two numbers whose bits are certain.
EXACT_PAIRS: Final = (
    Row("maximum", np.maximum, of=Of.NUMBERS, operands=2, bits=Bits.CERTAIN),
    Row("minimum", np.minimum, of=Of.NUMBERS, operands=2, bits=Bits.CERTAIN),
    Row("fmax", np.fmax, of=Of.NUMBERS, operands=2, bits=Bits.CERTAIN),
    Row("fmin", np.fmin, of=Of.NUMBERS, operands=2, bits=Bits.CERTAIN),
)

_COMPARED: Final = (
    ("equal", np.equal, "=="), ("not_equal", np.not_equal, "!="), ("less", np.less, "<"),
    ("less_equal", np.less_equal, "<="), ("greater", np.greater, ">"), ("greater_equal", np.greater_equal, ">="),
)  # fmt: skip
_LOGIC: Final = (
    ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor),
)  # fmt: skip


def _comparisons(of: Of, bits: Bits) -> tuple[Row, ...]:
    """Return the rows of functions of two operands that give bools."""
    return (
        *(
            Row(name, function, of=of, operands=2, bits=bits, has_slope=False, text=text)
            for name, function, symbol in _COMPARED
            for text in ("", f"{{0}} {symbol} {{1}}")
        ),
        *(Row(name, function, of=of, operands=2, bits=bits, has_slope=False) for name, function in _LOGIC),
    )


#: Functions of two floats that jump.
JUMPING_PAIRS: Final = (
    *_comparisons(Of.FLOATS, Bits.JUMPING),
    Row("heaviside", np.heaviside, operands=2, bits=Bits.JUMPING),
    Row("copysign", np.copysign, operands=2, bits=Bits.JUMPING, into=(FROM_1, FROM_1), ulps=0),
)

_TWO_INTEGERS: Final[dict[str, Any]] = {**_INTEGERS, "operands": 2}

#: Functions of two integers.
INTEGER_PAIRS: Final = (
    *(
        Row(name, function, text=text, **_TWO_INTEGERS)
        for name, function, symbol in (
            ("add", np.add, "+"), ("subtract", np.subtract, "-"), ("multiply", np.multiply, "*"),
            ("bitwise_and", np.bitwise_and, "&"), ("bitwise_or", np.bitwise_or, "|"),
            ("bitwise_xor", np.bitwise_xor, "^"),
        )
        for text in ("", f"{{0}} {symbol} {{1}}")
    ),
    Row("floor_divide", np.floor_divide, into=(None, ODD), **_TWO_INTEGERS),
    Row("remainder", np.remainder, into=(None, ODD), **_TWO_INTEGERS),
    Row("fmod", np.fmod, into=(None, ODD), **_TWO_INTEGERS),
    Row("bitwise_left_shift", np.left_shift, into=(None, FEW_BITS), **_TWO_INTEGERS),
    Row("bitwise_right_shift", np.right_shift, into=(None, FEW_BITS), **_TWO_INTEGERS),
    *_comparisons(Of.INTEGERS, Bits.CERTAIN),
)  # fmt: skip
