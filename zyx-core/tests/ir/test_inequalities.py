"""Bounds that follow from what quotients and remainders of one number have to do with each other."""

from __future__ import annotations

import pytest

from zyx.ir import affine
from zyx.ir.inequalities import Inequalities


@pytest.mark.parametrize("moved", [0, 512])
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_row_bounds_the_place_within_a_block_of_rows(moved, limit):
    """``x // 6 % 16`` is the place in a block of 4 rows of 4, of which ``x // 24 % 4`` is the row."""
    known = Inequalities()
    x = affine.shift(known.atom("x", (0, 575)), moved)
    fine, _ = known.quotient_and_remainder(x, 6)
    _, place = known.quotient_and_remainder(fine, 16)
    coarse, _ = known.quotient_and_remainder(x, 24)
    _, row = known.quotient_and_remainder(coarse, 4)
    assert known.maximum(place) == 15
    known.mark()
    known.learn([affine.shift(row, -limit)])
    exact = max(n // 6 % 16 for n in range(moved, moved + 576) if n // 24 % 4 <= limit)
    assert exact <= known.maximum(place) <= 4 * limit + 3
