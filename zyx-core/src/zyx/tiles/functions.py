"""Functions that languages of tiles lack, in others that they have, of blocks of float32.

    log1p(x)    log(1 + x) + (b - ((1 + b) - 1)) / (1 + b)      b = x between -1/2 and 1
    erf(x)      x + x * P(x * x)                                where |x| is less than a half
                sign(x) * (1 - exp2(Q(min(|x|, s))))            elsewhere; s is where it rounds to 1

The second part of log1p is what rounding has taken from 1 + x: nothing beyond those bounds, where either 1 + x is exact
or a rounding of it is one of the logarithm. The polynomials are those of `zyx.passes.math.error_function`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.passes.math.error_function import SATURATION, SMALL, P, Q
from zyx.tiles.data import TileOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.tiles.expressions import Steps


def log2(steps: Steps, x: int) -> int:
    """Return the logarithm to the base of 2."""
    logarithm = steps.apply1(TileOp.LOG, x)
    return steps.apply2(TileOp.MUL, logarithm, steps.fill(1 / math.log(2), logarithm))


def log1p(steps: Steps, x: int) -> int:
    """Return the logarithm of ``1 + x``, which is near `x` for small ones."""
    one = steps.fill(1.0, x)
    logarithm = steps.apply1(TileOp.LOG, steps.apply2(TileOp.ADD, x, one))
    least, most = steps.fill(-0.5, x), one
    bounded = steps.apply2(TileOp.MIN, steps.apply2(TileOp.MAX, x, least), most)
    sum_ = steps.apply2(TileOp.ADD, bounded, one)
    lost = steps.apply2(TileOp.SUB, bounded, steps.apply2(TileOp.SUB, sum_, one))
    return steps.apply2(TileOp.ADD, logarithm, steps.apply2(TileOp.DIV, lost, sum_))


def erf(steps: Steps, x: int) -> int:
    """Return the error function; to 2 ulp, where `exp2` is to 1."""
    dtype = dtypes.float32
    bound = steps.fill(SATURATION[dtype], x)
    below = steps.apply2(TileOp.MAX, steps.apply2(TileOp.MIN, x, bound), steps.apply1(TileOp.NEG, bound))
    magnitude = steps.apply1(TileOp.ABS, below)
    squared = steps.apply2(TileOp.MUL, below, below)
    small = steps.apply2(TileOp.ADD, below, steps.apply2(TileOp.MUL, below, _polynomial(steps, squared, P[dtype])))
    power = steps.apply1(TileOp.EXP2, _polynomial(steps, magnitude, Q[dtype]))
    one = steps.fill(1.0, x)
    large = steps.apply2(TileOp.MUL, steps.apply2(TileOp.SUB, one, power), steps.apply1(TileOp.SIGN, x))
    is_small = steps.apply1(
        TileOp.RELU,
        steps.apply1(TileOp.SIGN, steps.apply2(TileOp.SUB, steps.fill(SMALL[dtype], x), magnitude)),
    )
    return steps.apply2(
        TileOp.ADD,
        steps.apply2(TileOp.MUL, is_small, small),
        steps.apply2(TileOp.MUL, steps.apply2(TileOp.SUB, one, is_small), large),
    )


def _polynomial(steps: Steps, x: int, coefficients: Sequence[float]) -> int:
    """Return ``sum(c * x ** i)`` of the coefficients, the lowest first, by Horner's rule."""
    *others, last = coefficients
    result = steps.fill(last, x)
    for coefficient in reversed(others):
        result = steps.apply2(TileOp.ADD, steps.apply2(TileOp.MUL, result, x), steps.fill(coefficient, x))
    return result
