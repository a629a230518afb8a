"""Each identity of index arithmetic on exactly its left-hand side, and on all that nearly is: against plain arithmetic.

Random expressions seldom have the coefficients that a rule looks for, and hardly ever those that it must refuse: one
sign or one factor away. Here all coefficients around those of each rule are tried.
"""

from __future__ import annotations

import itertools

import pytest

from zyx import dtype as dtypes
from zyx.nest import expr as e
from zyx.nest.pool import Pool
from zyx.testing.index_values import index_value


def agree(expr, meaning, ranges):
    """Assert that `expr` is `meaning`, a function of the points of `ranges`, everywhere, and lies within its bounds.

    Nothing negative is divided: devices round quotients toward zero.
    """
    stack = [expr]
    while stack:
        current = stack.pop()
        assert not isinstance(current, e.Quotient | e.Remainder) or current.x.low >= 0, str(expr)
        stack.extend(current.children)
    for point in itertools.product(*(range(range_.size) for range_ in ranges)):
        value = index_value(expr, dict(zip(ranges, point, strict=True)))
        assert value == meaning(*point), (str(expr), point)
        assert expr.low <= value <= expr.high, (str(expr), point)


#: What a quotient and a remainder are taken of: a range, one that is shifted, one that runs backwards, sums of two.
BASES = {
    "r": (lambda p, r, s: r, lambda r, s: r),
    "r + 5": (lambda p, r, s: p.shift(r, 5), lambda r, s: r + 5),
    "r - 7": (lambda p, r, s: p.shift(r, -7), lambda r, s: r - 7),
    "20 - r": (lambda p, r, s: p.affine([(r, -1)], 20), lambda r, s: 20 - r),
    "3 r + s": (lambda p, r, s: p.affine([(r, 3), (s, 1)]), lambda r, s: 3 * r + s),
    "4 r + 2 s + 1": (lambda p, r, s: p.affine([(r, 4), (s, 2)], 1), lambda r, s: 4 * r + 2 * s + 1),
    "r - 3 s": (lambda p, r, s: p.affine([(r, 1), (s, -3)]), lambda r, s: r - 3 * s),
}


def ranges_of(pool):
    ranges = [pool.range(23), pool.range(5)]
    return ranges, *map(pool.ref, ranges)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("divisor", [2, 3, 4, 6])
def test_a_quotient_and_a_remainder_are_joined_for_their_own_factors_only(base, divisor):
    """``c*k*(x // c) + k*(x % c)`` is ``k*x``; with one sign or factor changed it is not."""
    make, meaning = BASES[base]
    for k in (1, 2, -1, -3):
        for factor in {divisor * k, -divisor * k, divisor * k + 1, divisor * k - 1, k, -k, divisor, -divisor}:
            pool = Pool()
            ranges, r, s = ranges_of(pool)
            x = make(pool, r, s)
            terms = [(pool.divide(x, divisor), factor), (pool.modulo(x, divisor), k)]
            for order in (terms, terms[::-1]):

                def plain(r, s, factor=factor, k=k):
                    return factor * (meaning(r, s) // divisor) + k * (meaning(r, s) % divisor)

                agree(pool.affine(order), plain, ranges)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("a", "b"), [(2, 2), (2, 3), (3, 2), (4, 2)])
def test_two_remainders_are_joined_for_their_own_factors_only(base, a, b):
    """``a*k*((x // a) % b) + k*(x % a)`` is ``k*(x % (a*b))``; with one sign or factor changed it is not."""
    make, meaning = BASES[base]
    for k in (1, -2):
        for factor in {a * k, -a * k, a * k + 1, a * k - 1, b * k, k, -k}:
            pool = Pool()
            ranges, r, s = ranges_of(pool)
            x = make(pool, r, s)
            high = pool.modulo(pool.divide(x, a), b)

            def plain(r, s, factor=factor, k=k):
                return factor * (meaning(r, s) // a % b) + k * (meaning(r, s) % a)

            agree(pool.affine([(high, factor), (pool.modulo(x, a), k)]), plain, ranges)
            more = pool.affine([(high, factor), (pool.modulo(x, a), k), (pool.divide(x, a * b), a * b * k)], 11)
            agree(more, lambda r, s, p=plain, k=k: p(r, s) + meaning(r, s) // (a * b) * a * b * k + 11, ranges)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("inner", [2, 3, 6])
@pytest.mark.parametrize("outer", [2, 3, 4, 5, 12])
def test_divisions_of_divisions_mean_what_they_say(base, inner, outer):
    """``x // a // b``, ``x % a // b``, ``x // a % b``, ``x % a % b``, whether `b` divides `a` or not."""
    make, meaning = BASES[base]
    pool = Pool()
    ranges, r, s = ranges_of(pool)
    x = make(pool, r, s)
    quotient, remainder = pool.divide(x, inner), pool.modulo(x, inner)
    agree(pool.divide(quotient, outer), lambda r, s: meaning(r, s) // inner // outer, ranges)
    agree(pool.modulo(quotient, outer), lambda r, s: meaning(r, s) // inner % outer, ranges)
    agree(pool.divide(remainder, outer), lambda r, s: meaning(r, s) % inner // outer, ranges)
    agree(pool.modulo(remainder, outer), lambda r, s: meaning(r, s) % inner % outer, ranges)


@pytest.mark.parametrize("divisor", [2, 3, 4, 6, 12])
@pytest.mark.parametrize("factors", [(2, 1), (4, 1), (6, 2), (12, 3), (-4, 1), (4, -1), (8, 5), (6, 4), (3, 2)])
def test_what_a_divisor_has_in_common_with_factors_is_taken_out_where_the_rest_is_small(divisor, factors):
    first, second = factors
    for constant in (0, 1, 3, -1, -5, 12):
        pool = Pool()
        ranges, r, s = ranges_of(pool)
        x = pool.affine([(r, first), (s, second)], constant)

        def plain(r, s, constant=constant):
            return first * r + second * s + constant

        agree(pool.divide(x, divisor), lambda r, s, p=plain: p(r, s) // divisor, ranges)
        agree(pool.modulo(x, divisor), lambda r, s, p=plain: p(r, s) % divisor, ranges)


@pytest.mark.parametrize("factors", [(2, 0), (4, 6), (-3, 6), (5, 3), (-1, 0), (2, -4)])
def test_comparisons_hold_at_their_limits(factors):
    """Signs, zeros and limits in units of the common divisor, at every constant around where they change."""
    first, second = factors
    for constant in range(-30, 31):
        pool = Pool()
        ranges = [pool.range(4), pool.range(3)]
        r, s = map(pool.ref, ranges)
        x = pool.affine([(r, first), (s, second)], constant)

        def plain(r, s, constant=constant):
            return first * r + second * s + constant

        for point in itertools.product(*(range(range_.size) for range_ in ranges)):
            at, value = dict(zip(ranges, point, strict=True)), plain(*point)
            assert index_value(pool.non_negative(x), at) == (value >= 0)
            assert index_value(pool.is_zero(x), at) == (value == 0)
            assert index_value(pool.less(x, 7), at) == (value < 7)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 1, 4), (2, 2, 2, 3)], ids=str)
def test_flat_positions_and_points_are_each_others_inverse(shape):
    pool = Pool()
    ranges = [pool.range(size) for size in shape]
    position = pool.flatten([pool.ref(range_) for range_ in ranges], shape)
    for axis, index in enumerate(pool.unflatten(position, shape)):
        agree(index, lambda *point, axis=axis: point[axis], ranges)
    flat = pool.range(position.high + 1)
    again = pool.flatten(pool.unflatten(pool.ref(flat), shape), shape)
    assert again is pool.ref(flat)


def test_multiples_of_a_divisor_are_taken_out_of_what_is_divided():
    pool = Pool()
    _, r, s = ranges_of(pool)
    x = pool.affine([(r, 8), (s, 3)], 21)
    rest = pool.affine([(s, 3)], 1)
    assert pool.divide(x, 4) is pool.affine([(r, 2), (pool.divide(rest, 4), 1)], 5)
    assert pool.modulo(x, 4) is pool.modulo(rest, 4)
    lifted = pool.affine([(s, -3)], 15)  # -3 s + 3 is as low as -9: three times four more
    assert pool.divide(pool.affine([(s, -3)], 3), 4) is pool.affine([(pool.divide(lifted, 4), 1)], -3)
    assert pool.modulo(pool.affine([(s, -3)], 3), 4) is pool.modulo(lifted, 4)


def test_a_sign_is_asked_for_in_units_of_what_factors_have_in_common():
    pool = Pool()
    _, r, s = ranges_of(pool)
    for constant, unit in ((-14, -7), (-13, -7), (-12, -6)):
        assert pool.non_negative(pool.affine([(r, 4), (s, 6)], constant)) is pool.non_negative(
            pool.affine([(r, 2), (s, 3)], unit)
        )


def test_what_is_known_to_lie_within_is_bounded_and_is_left_alone_where_it_does():
    pool = Pool()
    range_ = pool.range(8)
    x = pool.ref(range_)
    assert pool.within(x, 8) is x
    assert pool.within(x, 9) is x
    for expr, size in ((x, 7), (pool.shift(x, -1), 8)):
        known = pool.within(expr, size)
        assert known is not expr
        assert (known.low, known.high) == (0, size - 1)
        assert known is pool.within(expr, size)


def test_ranges_and_values_are_numbered_as_they_are_made():
    pool = Pool()
    ranges = [pool.range(size) for size in (2, 3, 4)]
    assert [(range_.number, range_.label) for range_ in ranges] == [(0, "r0"), (1, "r1"), (2, "r2")]
    assert pool.range(5, "inner").label == "inner"
    assert [str(pool.value(dtypes.float32, ())) for _ in range(3)] == ["v0", "v1", "v2"]


def test_an_index_is_free_in_exactly_the_ranges_that_it_has():
    pool = Pool()
    ranges = [pool.range(size) for size in (9, 7, 5)]
    r, s, t = map(pool.ref, ranges)
    r_bit, s_bit, t_bit = (range_.bit for range_ in ranges)
    x = pool.affine([(s, 2), (t, 3)], 1)
    assert [pool.index(3).free, s.free, x.free] == [0, s_bit, s_bit | t_bit]
    assert pool.divide(x, 7).free == pool.modulo(x, 7).free == pool.within(x, 3).free == s_bit | t_bit
    shifted = pool.shift(x, -5)
    assert pool.non_negative(shifted).free == pool.is_zero(shifted).free == x.free
    assert pool.affine([(pool.divide(x, 7), 1), (r, 1)]).free == r_bit | s_bit | t_bit


@pytest.mark.parametrize("k", [1, 5, -2])
def test_parts_that_were_joined_are_not_joined_again(k):
    """Of three digits of x the lower two are joined; the third one has the factor that the second would need alone."""
    for factor in (4, 12 * k, 4 * k):
        pool = Pool()
        r = pool.range(100)
        x = pool.ref(r)
        high, low = pool.modulo(pool.divide(x, 3), 4), pool.modulo(x, 3)
        for terms in itertools.permutations([(high, 3 * k), (pool.divide(x, 12), factor), (low, k)]):
            agree(pool.affine(terms), lambda x, f=factor: 3 * k * (x // 3 % 4) + f * (x // 12) + k * (x % 3), [r])


def test_a_small_rest_leaves_the_quotient_and_the_remainder_of_what_is_in_common():
    pool = Pool()
    i, j = (pool.ref(pool.range(size)) for size in (10, 4))
    x = pool.affine([(i, 4), (j, 1)])
    assert pool.divide(x, 8) is pool.divide(i, 2)
    assert pool.modulo(x, 8) is pool.affine([(pool.modulo(i, 2), 4), (j, 1)])
