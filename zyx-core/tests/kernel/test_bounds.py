"""What `Bounds` says of values, against the values themselves at every point."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.kernel.build import Builder
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run_steps import computation
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp

BINARY = [
    BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MOD, BinaryOp.MIN, BinaryOp.MAX, BinaryOp.SHR,
    BinaryOp.AND, BinaryOp.SHL, BinaryOp.XOR,
]  # fmt: skip


class Expressions:
    """Index arithmetic on three grid positions, drawn at random, with its values at all points."""

    def __init__(self, draw) -> None:
        self.b = Builder()
        dtype = draw(st.sampled_from([dtypes.int64, dtypes.int32, dtypes.int8, dtypes.uint8]))
        sizes = [draw(st.integers(1, 9)) for _ in range(3)]
        axes = [self.b.index(k.Axis.GROUP, n, size, dtype) for n, size in enumerate(sizes)]
        self.integers = list(axes)
        self.conditions = []
        for _ in range(draw(st.integers(3, 14))):
            if draw(st.integers(0, 3)) == 0:
                self.add_condition(draw)
            else:
                self.add_integer(draw, dtype)
        self.add_condition(draw)
        points = np.indices(sizes).reshape(3, -1, 1)
        self.values = [None] * len(self.b.ops)
        with np.errstate(all="ignore"):
            for number, op in enumerate(self.b.ops):
                if isinstance(op, k.Index):
                    self.values[number] = points[op.number].astype(op.type.dtype.numpy)
                else:
                    self.values[number] = np.broadcast_to(
                        computation(self.b.ops, op)(self.values), (points.shape[1], 1)
                    )

    def add_integer(self, draw, dtype) -> None:
        literal = self.b.const(draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 10, 16, 0, -1, -3])), dtype)
        x = draw(st.sampled_from(self.integers))
        y = literal if draw(st.booleans()) else draw(st.sampled_from(self.integers))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            new = self.b.unary(draw(st.sampled_from([UnaryOp.NEG, UnaryOp.NOT, UnaryOp.ABS])), x)
        elif kind == 1:
            wide = self.b.cast(x, dtypes.int16)
            new = self.b.cast(self.b.binary(draw(st.sampled_from(BINARY)), wide, self.b.like(5, wide)), dtype)
        elif kind == 2 and self.conditions:
            new = self.b.where(draw(st.sampled_from(self.conditions)), x, y)
        elif kind == 3:
            new = self.b.mad(x, literal, y)
        else:
            new = self.b.binary(draw(st.sampled_from(BINARY)), x, y)
        self.integers.append(new)

    def add_condition(self, draw) -> None:
        ops = sorted(COMPARISONS, key=lambda op: op.value)
        x = draw(st.sampled_from(self.integers))
        y = draw(st.sampled_from(self.integers))
        if draw(st.booleans()):
            y = self.b.like(draw(st.sampled_from([0, 1, 3, 8, 20])), x)
        new = self.b.binary(draw(st.sampled_from(ops)), x, y)
        if self.conditions and draw(st.booleans()):
            new = self.b.binary(draw(st.sampled_from([BinaryOp.AND, BinaryOp.OR])), new, self.conditions[-1])
        if draw(st.integers(0, 3)) == 0:
            new = self.b.unary(UnaryOp.NOT, new)
        self.conditions.append(new)


expressions = st.composite(Expressions)()


def check_everything(bounds: Bounds, found: Expressions, where) -> None:
    """Check ranges, forms and decisions at the points `where`."""
    for value in range(len(bounds.ops)):
        values = found.values[value][where].astype(object)
        low, high = bounds.range_of(value)
        if values.size:
            assert low <= values.min(), (value, low, values.min())
            assert values.max() <= high, (value, values.max(), high)
    for value in found.integers:
        values = found.values[value][where].astype(object)
        form, _ = bounds.exact_form(value)
        if values.size:
            assert bounds.inequalities.minimum(form) <= values.min()
            assert values.max() <= bounds.inequalities.maximum(form)
    for value in found.conditions:
        op = found.b.ops[value]
        if isinstance(op, k.Binary) and op.op in COMPARISONS:
            known = bounds.decide(op.op, op.x, op.y)
            assert known is None or bool((found.values[value][where] == known).all())


@given(found=expressions)
def test_ranges_and_forms_hold_all_values(found):
    check_everything(Bounds(found.b.ops), found, np.ones(len(found.values[0]), np.bool_))


@given(found=expressions, data=st.data())
def test_what_follows_from_assumptions_holds_where_they_do(found, data):
    bounds = Bounds(found.b.ops)
    assumed = data.draw(st.lists(st.sampled_from(found.conditions), min_size=1, max_size=3))
    before = [bounds.range_of(value) for value in range(len(bounds.ops))]
    where = np.ones(len(found.values[0]), np.bool_)

    def assume(conditions) -> None:
        nonlocal where
        if not conditions:
            check_everything(bounds, found, where)
            return
        outer = where
        where = where & found.values[conditions[0]][:, 0]
        with bounds.assuming(conditions[0]):
            if bounds.is_contradictory:
                assert not where.any()
            else:
                assume(conditions[1:])
        where = outer

    assume(assumed)
    assert [bounds.range_of(value) for value in range(len(bounds.ops))] == before
    check_everything(bounds, found, where)  # nothing that was learned stayed behind


def bounds_of(text: str) -> tuple[Bounds, dict[str, int]]:
    """Return the bounds of a kernel, and the positions of the names in its text, in order."""
    kernel = parse_kernel(text)
    lines = [line.strip() for line in text.strip().splitlines()][1:]
    return Bounds(kernel.ops), {line.split()[0]: n for n, line in enumerate(lines) if line.startswith("%")}


def test_a_branch_narrows_what_is_computed_in_it_and_nothing_after():
    bounds, at = bounds_of("""
        kernel branch
        %o = global f32[8]
        %i = group 0 < 100 : i64
        %ten = const 10 : i64
        %p = lt %i, %ten : bool
        if %p
        %j = mul %i, %ten : i64
        endif
        %k = mul %i, %ten : i64
    """)
    assert bounds.range_of(at["%j"]) == (0, 90)
    assert bounds.range_of(at["%k"]) == (0, 990)
    assert bounds.range_of(at["%i"]) == (0, 99)


def test_a_condition_is_true_within_its_branch():
    bounds, at = bounds_of("""
        kernel branch
        %o = global f32[8]
        %i = group 0 < 100 : i64
        %ten = const 10 : i64
        %p = lt %i, %ten : bool
        %q = lt %ten, %i : bool
        if %p
    """)
    assert bounds.range_of(at["%p"]) == (1, 1)
    assert bounds.decide(BinaryOp.LT, at["%ten"], at["%i"]) is False
    assert bounds.predict(bounds.ops[at["%q"]]) == (0, 0)


def test_sums_are_divided_by_their_terms():
    bounds, at = bounds_of("""
        kernel quotient
        %o = global f32[8]
        %i = group 0 < 10 : i64
        %j = thread 0 < 8 : i64
        %e = const 8 : i64
        %m = mul %i, %e : i64
        %s = add %m, %j : i64
        %q = div %s, %e : i64
        %r = mod %s, %e : i64
    """)
    assert bounds.form(at["%q"])[0] == bounds.form(at["%i"])[0]
    assert bounds.form(at["%r"])[0] == bounds.form(at["%j"])[0]
    assert bounds.decide(BinaryOp.EQ, at["%q"], at["%i"]) is True


def test_common_factors_leave_a_quotient():
    bounds, at = bounds_of("""
        kernel quotient
        %o = global f32[8]
        %i = group 0 < 10 : i64
        %c4 = const 4 : i64
        %c6 = const 6 : i64
        %m = mul %i, %c4 : i64
        %q = div %m, %c6 : i64
        %c2 = const 2 : i64
        %c3 = const 3 : i64
        %n = mul %i, %c2 : i64
        %p = div %n, %c3 : i64
    """)
    assert bounds.form(at["%q"])[0] == bounds.form(at["%p"])[0]


def test_facts_are_rounded_to_integers():
    """40 * i + 4 * j + k <= 387 leaves 10 * i + j <= 96, as k is at least 0."""
    bounds, at = bounds_of("""
        kernel rounded
        %o = global f32[8]
        %i = group 0 < 100 : i64
        %j = group 1 < 10 : i64
        %k = thread 0 < 2 : i64
        %c4 = const 4 : i64
        %c10 = const 10 : i64
        %m = mul %i, %c10 : i64
        %s = add %m, %j : i64
        %t = mul %s, %c4 : i64
        %u = add %t, %k : i64
        %limit = const 387 : i64
        %p = le %u, %limit : bool
        if %p
        %c2 = const 2 : i64
        %v = mul %s, %c2 : i64
        %w = add %v, %k : i64
    """)
    assert bounds.inequalities.maximum(bounds.exact_form(at["%w"])[0]) == 193


def test_facts_about_a_dividend_are_facts_about_its_quotient():
    """4 * j + 2 <= i leaves 2 * j + 1 <= i // 2."""
    bounds, at = bounds_of("""
        kernel quotient
        %o = global f32[8]
        %i = group 0 < 100 : i64
        %j = group 1 < 10 : i64
        %c2 = const 2 : i64
        %q = div %i, %c2 : i64
        %c4 = const 4 : i64
        %m = mul %j, %c4 : i64
        %s = add %m, %c2 : i64
        %p = le %s, %i : bool
        if %p
        %n = mul %j, %c2 : i64
        %d = sub %q, %n : i64
    """)
    assert bounds.inequalities.minimum(bounds.exact_form(at["%d"])[0]) == 1


def test_where_nothing_remains_of_a_division_its_quotient_is_known_better():
    """(8 - 2 * i) // 3 with i < 3 is 1 or 2; where 3 divides it, which is for i = 1, it is 2."""
    text = """
        kernel divided
        %o = global f32[8]
        %i = group 0 < 3 : i64
        %two = const 2 : i64
        %m = mul %i, %two : i64
        %c = const 8 : i64
        %d = sub %c, %m : i64
        %three = const 3 : i64
        %q = div %d, %three : i64
        %r = mod %d, %three : i64
        %z = const 0 : i64
        %p = eq %r, %z : bool
    """
    bounds, at = bounds_of(text)
    assert bounds.range_of(at["%q"]) == (1, 2)
    bounds, at = bounds_of(text + "if %p\n%s = add %q, %z : i64")
    assert bounds.range_of(at["%s"]) == (2, 2)


def test_a_number_is_no_less_than_what_remains_of_its_division():
    """Where i % 29 is 3 or more, so is i; and where i // 29 is 1 or more beside, i is 32 or more."""
    text = """
        kernel remainder
        %o = global f32[8]
        %i = group 0 < 100 : i64
        %c29 = const 29 : i64
        %r = mod %i, %c29 : i64
        %q = div %i, %c29 : i64
        %three = const 3 : i64
        %p = le %three, %r : bool
        if %p
        %s = add %i, %three : i64
    """
    bounds, at = bounds_of(text)
    assert bounds.range_of(at["%s"])[0] == 6
    bounds, at = bounds_of(text + "%one = const 1 : i64\n%k = le %one, %q : bool\nif %k\n%t = add %i, %three : i64")
    assert bounds.range_of(at["%t"])[0] == 35


def test_a_quotient_is_divided_as_what_it_is_the_quotient_of():
    """i % 16 is 4 * (i // 4 % 4) + i % 4: where i // 4 % 4 is 2 or more, it is 8 or more; i // 4 // 4 is i // 16."""
    bounds, at = bounds_of("""
        kernel twice
        %o = global f32[8]
        %i = group 0 < 6400 : i64
        %four = const 4 : i64
        %q = div %i, %four : i64
        %r = mod %q, %four : i64
        %qq = div %q, %four : i64
        %c16 = const 16 : i64
        %m = mod %i, %c16 : i64
        %w = div %i, %c16 : i64
        %d = sub %qq, %w : i64
        %two = const 2 : i64
        %p = le %two, %r : bool
        if %p
        %s = add %m, %two : i64
    """)
    difference = bounds.exact_form(at["%d"])[0]
    assert bounds.inequalities.minimum(difference) == bounds.inequalities.maximum(difference) == 0
    assert bounds.inequalities.minimum(bounds.exact_form(at["%s"])[0]) == 10
