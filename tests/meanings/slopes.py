"""Slopes by differences, which gradients are held against."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.testing.values import Array

#: How far apart values are of which a difference is taken, on either side: of float64, what rounding and the third
#: derivative make of it are about as small there.
STEP: Final = 1e-6


def differences(function: Callable[..., float], arrays: Sequence[Array], step: float = STEP) -> list[Array]:
    """Return the slopes of a function from arrays to a number, one array of them for each; they are of float64.

    At a complex number ``x + iy`` they are ``dL/dx + i dL/dy``.
    """
    found = [np.zeros_like(array) for array in arrays]
    for number, array in enumerate(arrays):
        units = (1, 1j) if np.iscomplexobj(array) else (1,)
        for place, unit in itertools.product(np.ndindex(array.shape), units):
            ends = []
            for sign in (1, -1):
                moved = [other.copy() for other in arrays]
                moved[number][place] += sign * unit * step
                ends.append(float(function(*moved)))
            found[number][place] += unit * (ends[0] - ends[1]) / (2 * step)
    return found
