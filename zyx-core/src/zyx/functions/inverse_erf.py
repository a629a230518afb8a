"""The number whose error function is given, by polynomials in the logarithm of what is left to 1.

They are those of Giles, "Approximating the erfinv function", GPU Computing Gems, 2010, good to float32; float64 takes
two of Halley's steps from there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes

if TYPE_CHECKING:
    from zyx.functions.term import Term

_CENTRE: Final = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL: Final = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def inverse_erf(t: Term) -> Term:
    """Return the inverse error function; infinities at -1 and 1, NaN outside, and slopes of both orders alike."""
    inside = t.abs() < 1.0
    y = inside.where(t, 0.0)
    w = -((1.0 - y) * (1.0 + y)).log()
    central = w < 5.0
    centre = _polynomial(_CENTRE, central.where(w, 0.0) - 2.5)
    tail = _polynomial(_TAIL, central.where(9.0, w).sqrt() - 3.0)
    root = central.where(centre, tail) * y
    if t.dtype is dtypes.float64:
        for _ in range(2):
            slope = (root * root).exp() * (math.sqrt(math.pi) / 2)
            step = (root.erf() - y) * slope
            root = root - step / (root * step + 1.0)
    return inside.where(root, t.log1p() - (-t).log1p())  # as infinite at both ends, and so are its slopes


def _polynomial(coefficients: tuple[float, ...], x: Term) -> Term:
    """Return the polynomial in `x`, its highest coefficient first."""
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result
