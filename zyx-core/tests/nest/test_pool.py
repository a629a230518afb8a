"""Expressions: equal ones are one, index arithmetic is simplified, and bounds hold; against arithmetic in Python."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.nest import expr as e
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.testing.index_values import index_value

F32, I32, BOOL = dtypes.float32, dtypes.int32, dtypes.bool_


@st.composite
def indices(draw):
    """Return (pool, ranges, expression, what it means as a function of the ranges' points)."""
    pool = Pool()
    ranges = [pool.range(draw(st.integers(1, 6))) for _ in range(draw(st.integers(1, 3)))]
    made = [(pool.ref(range_), lambda at, r=range_: at[r]) for range_ in ranges]
    for _ in range(draw(st.integers(1, 8))):
        x, f = draw(st.sampled_from(made))
        y, g = draw(st.sampled_from(made))
        number = draw(st.integers(1, 9))
        match draw(st.integers(0, 4)):
            case 0:
                made.append((pool.add(x, y), lambda at, f=f, g=g: f(at) + g(at)))
            case 1:
                factor = draw(st.integers(-5, 5))
                made.append((pool.scale(x, factor), lambda at, f=f, k=factor: f(at) * k))
            case 2:
                shift = draw(st.integers(-20, 20))
                made.append((pool.shift(x, shift), lambda at, f=f, k=shift: f(at) + k))
            case 3:
                made.append((pool.divide(x, number), lambda at, f=f, k=number: f(at) // k))
            case _:
                made.append((pool.modulo(x, number), lambda at, f=f, k=number: f(at) % k))
    return pool, ranges, *made[-1]


def points(ranges):
    for place in itertools.product(*(range(range_.size) for range_ in ranges)):
        yield dict(zip(ranges, place, strict=True))


@given(found=indices())
def test_simplified_arithmetic_has_the_values_and_bounds_of_the_plain_one(found):
    _, ranges, expr, meaning = found
    for at in points(ranges):
        value = index_value(expr, at)
        assert value == meaning(at)
        assert expr.low <= value <= expr.high


@given(found=indices(), limit=st.integers(-10, 30))
def test_tests_have_the_values_of_the_plain_ones(found, limit):
    pool, ranges, expr, meaning = found
    less, zero, sign = pool.less(expr, limit), pool.is_zero(expr), pool.non_negative(expr)
    both = pool.both(less, sign)
    for at in points(ranges):
        value = meaning(at)
        assert index_value(less, at) == (value < limit)
        assert index_value(zero, at) == (value == 0)
        assert index_value(sign, at) == (value >= 0)
        assert (both is None) or index_value(both, at) == (0 <= value < limit)
        assert both is not None or 0 <= value < limit


@given(found=indices(), data=st.data())
def test_substitution_is_that_of_the_meaning(found, data):
    pool, ranges, expr, meaning = found
    old = data.draw(st.sampled_from(ranges))
    inner = pool.range(data.draw(st.integers(1, old.size)))
    start = data.draw(st.integers(0, old.size - inner.size))
    (new,) = pool.substitute([expr], {old: pool.shift(pool.ref(inner), start)})
    for at in points([*(range_ for range_ in ranges if range_ is not old), inner]):
        assert index_value(new, at) == meaning({**at, old: at[inner] + start})


@given(found=indices())
def test_free_says_which_ranges_matter(found):
    _, ranges, expr, _ = found
    for range_ in ranges:
        if not expr.free & range_.bit:
            others = [other for other in ranges if other is not range_]
            for at in points(others):
                assert len({index_value(expr, {**at, range_: i}) for i in range(range_.size)}) == 1


def test_equal_expressions_are_one():
    pool = Pool()
    i, j = pool.ref(pool.range(4)), pool.ref(pool.range(5))
    assert pool.add(i, j) is pool.add(j, i)
    assert pool.add(pool.scale(i, 2), pool.scale(i, 3)) is pool.scale(i, 5)
    assert pool.shift(pool.shift(i, 3), -3) is i
    assert pool.literal(1.0, F32) is pool.literal(1.0, F32)
    assert pool.literal(0.0, F32) is not pool.literal(-0.0, F32)
    assert pool.literal(1, I32) is not pool.literal(1, dtypes.int64)
    assert pool.literal(math.nan, F32) is pool.literal(math.nan, F32)
    param = e.Param(0, F32, 20, mutable=False)
    assert pool.read(param, pool.add(i, j)) is pool.read(param, pool.add(j, i))
    assert pool.literal(True, BOOL) is pool.true


@pytest.mark.parametrize("shape", [(4, 3), (2, 1, 5), (7,), ()])
def test_unflatten_undoes_flatten(shape):
    pool = Pool()
    refs = [pool.ref(pool.range(size)) if size > 1 else pool.index(0) for size in shape]
    assert list(pool.unflatten(pool.flatten(refs, shape), shape)) == refs


class TestData:
    """Arithmetic of data keeps every bit of its meaning: NaN, infinities, signed zeros and wrapping."""

    def setup_method(self):
        self.pool = Pool()
        range_ = self.pool.range(8)
        self.x = self.pool.read(e.Param(0, F32, 8, mutable=False), self.pool.ref(range_))
        self.n = self.pool.read(e.Param(1, I32, 8, mutable=False), self.pool.ref(range_))

    def f(self, value):
        return self.pool.literal(value, F32)

    def test_what_only_looks_as_if_it_changed_nothing_stays(self):
        pool, x = self.pool, self.x
        assert pool.binary(BinaryOp.ADD, x, self.f(0.0)) is not x  # -0.0 + 0.0 is 0.0
        assert pool.binary(BinaryOp.MUL, x, self.f(0.0)) is not self.f(0.0)  # NaN, infinity, signs
        assert pool.binary(BinaryOp.SUB, x, x) is not self.f(0.0)
        assert pool.binary(BinaryOp.DIV, x, x) is not self.f(1.0)
        assert pool.binary(BinaryOp.EQ, x, x) is not pool.true
        assert pool.convert(pool.convert(x, I32), F32) is not x
        assert pool.convert(pool.convert(self.n, F32), I32) is not self.n  # beyond 2**24

    def test_reads_where_nothing_is_to_be_read_are_zero(self):
        pool, param = self.pool, e.Param(0, F32, 8, mutable=False)
        assert pool.read(param, pool.index(0), pool.false) is self.f(0.0)
        read = pool.read(param, pool.index(0), pool.true)
        assert isinstance(read, e.Read)
        assert read.mask is None

    def test_sums_of_zeros_and_other_reductions_keep_their_ranges(self):
        pool = self.pool
        range_ = pool.range(5)
        body = pool.read(e.Param(0, F32, 8, mutable=False), pool.ref(range_))
        reduction = pool.reduction(ReduceOp.SUM, body, (range_,))
        assert not reduction.free & range_.bit


def test_with_children_rebuilds_every_kind_of_expression():
    pool = Pool()
    i, j = pool.ref(pool.range(12)), pool.ref(pool.range(12))
    param = e.Param(0, F32, 12, mutable=False)
    x = pool.read(param, i)
    mask = pool.less(i, 3)
    value = e.Value(0, F32, (pool.range(12),))
    number = pool.convert(pool.reinterpret(x, I32), e.INDEX)
    for expr in (
        pool.literal(1.5, F32), i, pool.opaque(1, 5), pool.affine([(i, 3), (j, 2)], 1), pool.divide(i, 5),
        pool.modulo(i, 5), mask, pool.is_zero(i), x, pool.read(param, i, mask), pool.value_ref(value, (i,)),
        pool.value_ref(value, (i,), mask), pool.unary(UnaryOp.EXP2, x),
        pool.binary(BinaryOp.ADD, x, pool.read(param, j)),
        pool.select(mask, x, pool.literal(0.5, F32)), pool.convert(x, I32), pool.reinterpret(x, I32),
        pool.reduction(ReduceOp.SUM, x, (pool.range(3),)), pool.within(number, 4),
    ):  # fmt: skip
        assert pool.with_children(expr, list(expr.children)) is expr


def test_terms_that_add_up_to_nothing_are_left_out():
    pool = Pool()
    first, second = (pool.ref(pool.range(6)) for _ in range(2))
    assert pool.affine([(first, 2), (first, -2)], 5) is pool.index(5)
    assert pool.affine([(first, 2), (second, 3), (first, -2)]) is pool.scale(second, 3)


def test_a_constant_depends_on_no_range():
    pool = Pool()
    pool.range(6)
    assert pool.literal(1.5, F32).free == pool.index(3).free == 0


def test_a_bound_is_taken_in_the_largest_units_that_decide_it():
    pool = Pool()
    many, few = (pool.ref(pool.range(size)) for size in (50, 4))
    fine = pool.non_negative(pool.affine([(few, -1), (many, -4)], 99))
    assert fine is pool.non_negative(pool.affine([(many, -1)], 24))


class TestForms:
    """What arithmetic on indices is written as: right values come in longer forms, too, which cost more."""

    def test_remainders_of_one_position_are_joined_in_whatever_order_they_come(self):
        pool = Pool()
        x = pool.ref(pool.range(1000))
        terms = [
            (pool.modulo(x, 2), 1),
            (pool.modulo(pool.divide(x, 2), 3), 2),
            (pool.modulo(pool.divide(x, 6), 5), 6),
        ]
        for order in itertools.permutations(terms):
            assert pool.affine(order) is pool.modulo(x, 30)

    def test_a_remainder_of_multiples_is_taken_apart(self):
        pool = Pool()
        x = pool.ref(pool.range(1000))
        assert pool.divide(pool.modulo(x, 12), 4) is pool.modulo(pool.divide(x, 4), 3)
        assert pool.modulo(pool.modulo(x, 12), 4) is pool.modulo(x, 4)

    def test_bounds_of_quotients_and_remainders_are_the_closest(self):
        pool = Pool()
        x = pool.ref(pool.range(21))
        quotient, remainder = pool.divide(pool.shift(x, 3), 4), pool.modulo(x, 4)
        assert (quotient.low, quotient.high) == (0, 5)
        assert (remainder.low, remainder.high) == (0, 3)

    def test_what_may_be_negative_is_lifted_by_as_little_as_does(self):
        pool = Pool()
        found = pool.modulo(pool.scale(pool.ref(pool.range(6)), -1), 4)
        assert isinstance(found, e.Remainder)
        assert (found.x.low, found.x.high) == (3, 8)

    def test_what_is_less_than_a_unit_is_left_out_of_a_quotient(self):
        pool = Pool()
        i, j = pool.ref(pool.range(50)), pool.ref(pool.range(4))
        assert pool.divide(pool.affine([(i, 4), (j, -1)], 3), 8) is pool.divide(i, 2)

    def test_terms_that_decide_no_sign_are_left_out(self):
        pool = Pool()
        i, j = pool.ref(pool.range(200)), pool.ref(pool.range(4))
        for unit in (2, 4):
            within = j if unit == 4 else pool.ref(pool.range(2))
            plain = pool.non_negative(pool.affine([(i, -1)], 24))
            assert pool.non_negative(pool.affine([(i, -unit), (within, 1)], 24 * unit)) is plain
            assert pool.non_negative(pool.affine([(i, -unit), (within, -1)], 25 * unit - 1)) is plain

    def test_zero_is_zero_and_nothing_else_is_for_sure(self):
        pool = Pool()
        assert pool.is_zero(pool.index(0)) is pool.true
        assert pool.is_zero(pool.index(1)) is pool.false
        assert isinstance(pool.is_zero(pool.ref(pool.range(2))), e.IsZero)

    def test_what_is_read_from_memory_is_below_its_size(self):
        found = Pool().opaque(1, 7)
        assert (found.low, found.high) == (0, 6)
