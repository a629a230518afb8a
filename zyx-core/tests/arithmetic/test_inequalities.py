"""Bounds that follow from what quotients and remainders of one number have to do with each other."""

from __future__ import annotations

import random

import pytest

from zyx.arithmetic import affine
from zyx.arithmetic.inequalities import Inequalities


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


class Counting(Inequalities):
    """Counts the forms whose bounds are searched for."""

    searches = 0

    def maximum(self, form):
        self.searches += 1
        return super().maximum(form)


def test_quotients_are_narrowed_if_what_was_learned_has_to_do_with_them():
    known = Counting()
    x, y, z = (known.atom(name, (0, 99)) for name in "xyz")
    quotients = [known.quotient_and_remainder(unknown, 8)[0] for unknown in (x, y, z)]
    known.mark()
    known.learn([affine.add(x, y, -1)])  # x <= y
    known.mark()
    known.searches = 0
    known.narrow_quotients()
    assert known.searches == 0
    known.learn([affine.shift(y, -15)])
    known.narrow_quotients()
    assert known.searches == 4  # least and greatest, of two dividends
    assert [known.box(quotient)[1] for quotient in quotients] == [1, 1, 12]


@pytest.mark.parametrize("seed", range(10))
def test_a_maximum_is_that_of_a_search_whatever_was_learned_and_forgotten_before(seed):
    rng, known = random.Random(seed), Inequalities()
    forms = [known.atom(name, (0, rng.choice([9, 63, 1000]))) for name in "xyz"]
    for _ in range(120):
        a, b = rng.choice(forms), rng.choice(forms)
        match rng.choice(["mark", "release", "learn", "divide", "extreme", "product", "narrow", "combine"]):
            case "mark" if len(known._marks) < 4:
                known.mark()
            case "release" if known._marks:
                known.release()
            case "learn" if known._marks:
                known.learn([affine.shift(affine.add(a, b, rng.choice([-1, 1, 3])), rng.randint(-40, 0))])
            case "divide" if known.minimum(a) >= 0:
                forms += known.quotient_and_remainder(a, rng.choice([2, 3, 8, 24]))
            case "extreme":
                forms.append(known.extreme(a, b, greatest=rng.random() < 0.5))
            case "product" if a.terms and b.terms:
                forms.append(known.product(a, b))
            case "narrow" if known._marks:
                known.narrow_extremes()
                known.narrow_quotients()
                known.narrow_products()
            case "combine":
                forms.append(affine.shift(affine.add(a, b, rng.choice([-2, 1, 8])), rng.randint(-9, 9)))
            case _:
                pass
        for form in rng.sample(forms, min(len(forms), 6)):
            searched = known._maximum(form), -known._maximum(affine.scale(form, -1))
            assert (known.maximum(form), known.minimum(form)) == searched
