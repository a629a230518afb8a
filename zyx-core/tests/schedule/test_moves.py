"""Each move: what it makes of a nest, that the values stay, and when it is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

from zyx.errors import ScheduleError
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest import expr as e
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, ReduceOp
from zyx.schedule.moves import (
    Apart,
    Behind,
    GroupReduce,
    Inline,
    Mark,
    Merge,
    Nested,
    Pad,
    Peel,
    Reorder,
    Split,
    Stage,
    Stream,
    apply_moves,
)
from zyx.schedule.moves.ranges import find_range, find_statement, statement_labels
from zyx.schedule.plan import all_expressions

RANDOM = np.random.default_rng(0)


@pytest.fixture
def nests(cpu):
    """Nests by name, each of one kernel."""
    graph = cpu.graph
    index = cpu.leaf(RANDOM.integers(0, 6, (4, 3)))
    outputs = {
        "tanh": cpu.tanh(cpu.normal(6, 10)),
        "softmax": cpu.softmax(cpu.normal(5, 7)),
        "matmul": cpu.matmul(cpu.normal(4, 6), cpu.normal(6, 8)),
        "scan": graph.scan(ReduceOp.SUM, cpu.normal(3, 10), 1),
        "scatter": graph.scatter(cpu.normal(6, 3), index, cpu.normal(4, 3), 0, ReduceOp.SUM),
        "pad": graph.pad(graph.permute(cpu.normal(5, 4), (1, 0)), [(1, 2), (0, 3)], 0.5),
        "product": graph.reduce(ReduceOp.PROD, cpu.normal(3, 5, 4), (1, 2)),
    }
    return {name: cpu.schedule(output).nests[0] for name, output in outputs.items()}


def buffers_of(nest) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    made = [rng.standard_normal(p.length) if p.dtype.is_float else rng.integers(0, 6, p.length) for p in nest.params]
    return [array.astype(param.dtype.numpy) for array, param in zip(made, nest.params, strict=True)]


def check(nest, moved) -> None:
    """Assert that a nest computes what it did, by both interpreters."""
    expected, found, lowered = buffers_of(nest), buffers_of(nest), buffers_of(nest)
    run_nest(nest, expected)
    run_nest(moved, found)
    kernel = lower(moved, "test")
    verify(kernel)
    interpreter.run(kernel, lowered)
    for x, y, z in zip(expected, found, lowered, strict=True):
        np.testing.assert_allclose(y, x, 1e-5, 1e-6)
        np.testing.assert_allclose(z, x, 1e-5, 1e-6)


def becomes(nest, *moves, text: str = "") -> None:
    """Assert that `moves` turn a nest into statements of that text, and keep its values."""
    moved = apply_moves(nest, moves)
    check(nest, moved)
    lines = [" ".join(line.split()) for line in str(moved).splitlines()[1:]]
    assert lines == [" ".join(line.split()) for line in text.strip().splitlines()]


def refused(nest, *moves, match: str) -> None:
    with pytest.raises(ScheduleError, match=match):
        apply_moves(nest, moves)


class TestSplit:
    def test_a_divisor_needs_no_mask(self, nests):
        becomes(nests["tanh"], Split("r0", 3), text="""
            p0[(r1 + r0.0*30 + r0.1*10)] = tanh(p1[(r1 + r0.0*30 + r0.1*10)])    | r0.0<2, r0.1<3, r1<10
        """)  # fmt: skip

    def test_what_is_past_the_end_is_neither_read_nor_stored(self, nests):
        mask = "if ((r1.0*-4 + r1.1*-1 + 9) >= 0)"
        becomes(nests["tanh"], Split("r1", 4), text=f"""
            p0[(r0*10 + r1.0*4 + r1.1)] = tanh(p1[(r0*10 + r1.0*4 + r1.1) {mask}]) {mask}   | r0<6, r1.0<3, r1.1<4
        """)  # fmt: skip

    def test_what_is_past_the_end_changes_no_reduction(self, nests):
        mask = "if ((r2.0*-4 + r2.1*-1 + 5) >= 0)"
        becomes(nests["matmul"], Split("r2", 4), text=f"""
            v0[r0, r1] = sum(r2.0, r2.1) of ((p2[(r0*6 + r2.0*4 + r2.1) {mask}] * p1[(r1 + r2.0*32 + r2.1*8) {mask}])
                {mask} else 0.0)  | r0<4, r1<8, r2.0<2, r2.1<4
            p0[(r0*8 + r1)] = v0[r0, r1]    | r0<4, r1<8
        """.replace("\n                if", " if"))  # fmt: skip
        for name in ("softmax", "product", "scan"):
            for range_ in nests[name].ranges:
                check(nests[name], Split(range_.label, 4).apply(nests[name]))

    def test_values_are_split_with_their_ranges(self, nests):
        moved = apply_moves(nests["softmax"], [Split("r1", 7), Split("r1.1", 7)])
        assert [str(r) for r in find_statement(moved, "v1").value.ranges] == ["r0", "r1.0", "r1.1.0", "r1.1.1"]
        check(nests["softmax"], moved)

    def test_the_parts_are_of_the_same_kind(self, nests):
        moved = apply_moves(nests["tanh"], [Mark("r0", Kind.GROUP), Split("r0", 2)])
        assert [moved.kind(find_range(moved, label)) for label in ("r0.0", "r0.1", "r1")] == [
            Kind.GROUP, Kind.GROUP, Kind.LOOP,
        ]  # fmt: skip

    @pytest.mark.parametrize("factor", [1, 3, 10, 64])
    def test_any_factor_goes(self, nests, factor):
        for name, nest in nests.items():
            for range_ in nest.ranges:
                try:
                    check(nest, Split(range_.label, factor).apply(nest))
                except Exception as error:
                    error.add_note(f"{name}, {range_.label}")
                    raise

    def test_refusals(self, nests):
        refused(nests["tanh"], Split("r0", 0), match="cannot split r0 by 0")
        refused(nests["tanh"], Split("r7", 2), match="no range r7; there are r0, r1")


class TestMerge:
    def test_neighbours_become_one(self, nests):
        becomes(nests["tanh"], Merge("r0", "r1"), text="p0[r0+r1] = tanh(p1[r0+r1])    | r0+r1<60")

    def test_it_undoes_a_split(self, nests):
        for name, range_ in (("tanh", "r1"), ("matmul", "r2"), ("scan", "r1"), ("softmax", "r1")):
            size = find_range(nests[name], range_).size
            factor = next(f for f in (2, 5, 7) if size % f == 0)
            moved = apply_moves(nests[name], [Split(range_, factor), Merge(f"{range_}.0", f"{range_}.1")])
            check(nests[name], moved)
            assert find_range(moved, f"{range_}.0+{range_}.1").size == size

    @pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 3), (2, 1)])
    def test_tests_of_the_outer_one_are_tests_of_the_whole(self, cpu, before, after):
        nest = cpu.schedule(cpu.graph.pad(cpu.normal(4, 5), [(before, after), (0, 0)], 0.5)).nests[0]
        moved = apply_moves(nest, [Merge("r0", "r1")])
        check(nest, moved)
        assert not any(isinstance(expr, e.Quotient | e.Remainder) for expr in all_expressions(moved))

    def test_a_test_of_another_multiple_keeps_its_division(self, cpu):
        nest = cpu.schedule(cpu.graph.slide(cpu.graph.pad(cpu.normal(4, 5), [(2, 3), (0, 0)]), 0, 1, 3, 2, 1)).nests[0]
        first, second, *_ = (range_.label for range_ in nest.statements[-1].order)
        check(nest, apply_moves(nest, [Merge(first, second)]))

    def test_refusals(self, nests):
        refused(nests["tanh"], Merge("r1", "r0"), match=r"not next to each other in \[r0, r1\]")
        refused(nests["softmax"], Merge("r0", "r1"), match="not next to each other")  # v0 has one of them only


class TestBehind:
    def test_ranges_become_neighbours_in_loops_and_values(self, nests):
        for name in ("matmul", "tanh"):
            first, second = (range_.label for range_ in nests[name].statements[-1].order[:2])
            moves = [Split(second, 2), Behind(f"{second}.1", first), Merge(f"{second}.1", first)]
            check(nests[name], apply_moves(nests[name], moves))

    def test_what_a_sum_combines_over_changes_places_too(self, nests):
        label = nests["matmul"].statements[0].reduced[0].label
        moves = [Split(label, 2), Behind(f"{label}.1", f"{label}.0"), Merge(f"{label}.1", f"{label}.0")]
        check(nests["matmul"], apply_moves(nests["matmul"], moves))

    def test_refusals(self, nests):
        refused(nests["softmax"], Behind("r0", "r1"), match="must both be free")
        refused(nests["matmul"], Behind("r0", "r2"), match="must both be free")
        refused(nests["scan"], Behind("r1", "r0"), match="must both be free")
        refused(nests["tanh"], Behind("r0", "r0"), match="r0 cannot be behind itself")


class TestPad:
    def test_the_range_grows_to_a_multiple(self, nests):
        becomes(nests["tanh"], Pad("r1", 8), text="""
            p0[(r0*10 + r1')] = tanh(p1[(r0*10 + r1') if ((r1'*-1 + 9) >= 0)]) if ((r1'*-1 + 9) >= 0)  | r0<6, r1'<16
        """)  # fmt: skip

    def test_a_multiple_stays_as_it_is(self, nests):
        assert Pad("r1", 5).apply(nests["tanh"]) is nests["tanh"]

    @pytest.mark.parametrize("multiple", [4, 9])
    def test_any_multiple_goes(self, nests, multiple):
        for nest in nests.values():
            for range_ in nest.ranges:
                check(nest, Pad(range_.label, multiple).apply(nest))

    def test_refusals(self, nests):
        refused(nests["tanh"], Pad("r1", 0), match="multiple of 0")


class TestKindsAndOrders:
    def test_marks_are_kept_apart_from_meaning(self, nests):
        moved = apply_moves(nests["tanh"], [Mark("r0", Kind.GROUP), Mark("r1", Kind.VECTOR), Mark("r1", Kind.UNROLL)])
        assert "r0<6 group, r1<10 unroll" in str(moved)
        check(nests["tanh"], moved)

    def test_a_peeled_range_has_its_last_point_apart(self, nests):
        moved = apply_moves(nests["tanh"], [Split("r1", 4), Peel("r1.0")])
        assert "r1.0<3 peeled" in str(moved)
        check(nests["tanh"], moved)
        loads = [op for op in lower(moved, "test").ops if isinstance(op, k.Load)]
        assert [load.mask is None for load in loads] == [True, False]

    def test_loops_of_a_statement_go_into_any_order(self, nests):
        becomes(nests["matmul"], Reorder("v0", ("r2", "r1", "r0")), text="""
            v0[r0, r1] = sum(r2) of (p2[(r0*6 + r2)] * p1[(r1 + r2*8)])    | r2<6, r1<8, r0<4
            p0[(r0*8 + r1)] = v0[r0, r1]    | r0<4, r1<8
        """)  # fmt: skip

    def test_refusals(self, nests):
        refused(nests["matmul"], Reorder("v0", ("r0", "r1")), match="v0 has the ranges r0, r1, r2, not r0, r1")
        refused(nests["matmul"], Reorder("v9", ("r0",)), match="no statement v9; there are v0, s0")
        refused(nests["scan"], Split("r1", 5), Reorder("v0", ("r1.1", "r1.0", "r0")), match="must stay in this order")
        refused(nests["tanh"], Mark("x", Kind.LOOP), match="no range x")
        refused(nests["tanh"], Peel("x"), match="no range x")

    def test_what_is_stored_in_order_stays_in_order(self, nests):
        nest = nests["scatter"]
        store = next(s for s in nest.statements if isinstance(s, Store) and s.serial)
        assert store.combine is ReduceOp.SUM
        label = statement_labels(nest)[store]
        (serial,) = store.serial
        moves = [Split(serial.label, 2)]
        others = [r.label for r in store.order if r is not serial]
        backwards = (f"{serial.label}.1", f"{serial.label}.0", *others)
        refused(nest, *moves, Reorder(label, backwards), match="must stay in this order")


class TestNested:
    def test_the_inner_ranges_are_reduced_first(self, nests):
        becomes(nests["matmul"], Split("r2", 3), Nested("v0", ("r2.1",)), text="""
            v1[r0, r1, r2.0] = sum(r2.1) of (p2[(r0*6 + r2.0*3 + r2.1)] * p1[(r1 + r2.0*24 + r2.1*8)])
                | r0<4, r1<8, r2.0<2, r2.1<3
            v0[r0, r1] = sum(r2.0) of v1[r0, r1, r2.0]    | r0<4, r1<8, r2.0<2
            p0[(r0*8 + r1)] = v0[r0, r1]    | r0<4, r1<8
        """.replace("\n                |", " |"))  # fmt: skip

    def test_masked_points_count_for_neither(self, nests):
        check(nests["product"], apply_moves(nests["product"], [Split("r1", 3), Nested("v0", ("r1.1", "r2"))]))

    def test_refusals(self, nests):
        refused(nests["matmul"], Nested("v0", ("r2",)), match="does not reduce over r2 and more")
        refused(nests["matmul"], Nested("v0", ("r0",)), match="does not reduce")
        refused(nests["scan"], Nested("v0", ("r1",)), match="does not reduce")


class TestStage:
    def test_what_is_read_for_a_tile_is_copied_first(self, nests):
        becomes(nests["matmul"], Split("r1", 4), Stage("v0", 2, ("r2", "r1.1")), text="""
            v1[r0, r2@v1, r1.1@v1] = p2[(r0*6 + r2@v1)]    | r0<4, r2@v1<6, r1.1@v1<4
            v0[r0, r1.0, r1.1] = sum(r2) of (v1[r0, r2, r1.1] * p1[(r2*8 + r1.0*4 + r1.1)])
                | r0<4, r1.0<2, r1.1<4, r2<6
            p0[(r0*8 + r1.0*4 + r1.1)] = v0[r0, r1.0, r1.1]    | r0<4, r1.0<2, r1.1<4
        """.replace("\n                |", " |"))  # fmt: skip

    def test_masks_go_with_the_copy(self, nests):
        moved = apply_moves(nests["tanh"], [Split("r1", 4), Stage("s0", 1, ("r1.1",))])
        copy = moved.statements[0]
        assert isinstance(copy, Compute)
        assert copy.expr.mask is not None
        check(nests["tanh"], moved)

    def test_one_of_several_positions_is_named(self, cpu):
        x = cpu.normal(8, 8)
        nest = cpu.schedule(cpu.add(x, cpu.graph.permute(x, (1, 0)))).nests[0]
        refused(nest, Stage("s0", 1, ("r0",)), match="reads p1 at 2 positions, not one")
        refused(nest, Stage("s0", 1, ("r0",), place=2), match="reads p1 at 2 positions, not 3 or more")
        for place in (0, 1):
            check(nest, Stage("s0", 1, ("r0",), place=place).apply(nest))

    def test_refusals(self, nests):
        refused(nests["matmul"], Stage("v0", 0, ("r2",)), match="reads p0 at 0 positions")
        refused(nests["matmul"], Stage("v0", 1, ("k",)), match="no range k")


class TestApart:
    def test_statements_have_a_range_of_their_own(self, nests):
        becomes(nests["softmax"], Apart("r0", ("s0",)), text="""
            v0[r0] = max(r1) of p1[(r0*7 + r1)]    | r0<5, r1<7
            v1[r0, r1] = exp2((p1[(r0*7 + r1)] - v0[r0]))    | r0<5, r1<7
            v2[r0] = sum(r1) of v1[r0, r1]    | r0<5, r1<7
            p0[(r1 + r0@s0*7)] = (v1[r0@s0, r1] / v2[r0@s0])    | r0@s0<5, r1<7
        """)  # fmt: skip

    def test_values_that_go_with_it_are_meant_wherever_they_are_read(self, nests):
        becomes(nests["softmax"], Apart("r1", ("v1",)), Apart("r0", ("v1", "v2")), text="""
            v0[r0] = max(r1) of p1[(r0*7 + r1)]    | r0<5, r1<7
            v1[r0@v1+v2, r1@v1] = exp2((p1[(r1@v1 + r0@v1+v2*7)] - v0[r0@v1+v2]))    | r0@v1+v2<5, r1@v1<7
            v2[r0@v1+v2] = sum(r1) of v1[r0@v1+v2, r1]    | r0@v1+v2<5, r1<7
            p0[(r0*7 + r1)] = (v1[r0, r1] / v2[r0])    | r0<5, r1<7
        """)  # fmt: skip

    def test_the_range_combined_over_may_be_apart(self, nests):
        check(nests["softmax"], apply_moves(nests["softmax"], [Apart("r1", ("v0",)), Mark("r1@v0", Kind.UNROLL)]))

    def test_the_range_is_a_loop_whatever_the_other_one_is(self, nests):
        moved = apply_moves(nests["matmul"], [Mark("r0", Kind.UNROLL), Apart("r0", ("s0",))])
        assert moved.kind(find_range(moved, "r0@s0")) is Kind.LOOP
        check(nests["matmul"], moved)

    def test_refusals(self, nests):
        refused(nests["softmax"], Apart("k", ("s0",)), match="no range k")
        refused(nests["softmax"], Apart("r0", ("v7",)), match="no statement v7")
        refused(nests["matmul"], Apart("r2", ("v0", "s0")), match="v0, s0 cannot have r2@v0\\+s0 in place of r2")


class TestInline:
    def test_a_plain_value_is_computed_where_it_is_read(self, nests):
        becomes(nests["softmax"], Inline("v1"), text="""
            v0[r0] = max(r1) of p1[(r0*7 + r1)]    | r0<5, r1<7
            v2[r0] = sum(r1) of exp2((p1[(r0*7 + r1)] - v0[r0]))    | r0<5, r1<7
            p0[(r0*7 + r1)] = (exp2((p1[(r0*7 + r1)] - v0[r0])) / v2[r0])    | r0<5, r1<7
        """)  # fmt: skip

    def test_it_undoes_staging(self, nests):
        moved = apply_moves(nests["matmul"], [Stage("v0", 2, ("r2",)), Inline("v1")])
        assert str(moved) == str(nests["matmul"])

    def test_the_masks_of_its_readers_hold_for_what_it_reads(self, nests):
        check(nests["softmax"], apply_moves(nests["softmax"], [Split("r1", 4), Inline("v1")]))

    def test_refusals(self, nests):
        refused(nests["softmax"], Inline("v0"), match="not a plain value")
        refused(nests["softmax"], Inline("s0"), match="not a plain value")
        refused(nests["scan"], Inline("v0"), match="not a plain value")


def test_stream_marks_a_store(nests):
    moved = Stream("s0").apply(nests["tanh"])
    assert " streaming " in str(moved)
    check(nests["tanh"], moved)
    refused(nests["matmul"], Stream("v0"), match="v0 is not a store")


def test_group_reduce_gives_threads_every_nth_point(nests):
    moved = apply_moves(nests["matmul"], [Mark("r0", Kind.GROUP), GroupReduce("r2", 4)])
    assert "r2.0<2, r2.1<4 local" in str(moved)
    check(nests["matmul"], moved)
    refused(nests["matmul"], GroupReduce("r2", 0), match="cannot split")


class TestRules:
    """Kinds that do not go together are refused when the nest is lowered."""

    def lowers(self, nest, *moves) -> None:
        check(nest, apply_moves(nest, moves))

    def is_refused(self, nest, *moves, match: str) -> None:
        with pytest.raises(ScheduleError, match=match):
            lower(apply_moves(nest, moves), "test")

    def test_a_scan_runs_in_order(self, nests):
        self.lowers(nests["scan"], Mark("r0", Kind.GROUP), Split("r1", 5), Mark("r1.1", Kind.UNROLL))
        self.is_refused(nests["scan"], Mark("r1", Kind.GROUP), match="scanned along: it cannot be a group range")
        threads = Split("r1", 5), Mark("r1.0", Kind.LOCAL), Mark("r1.1", Kind.LOCAL)
        self.is_refused(nests["scan"], *threads, match="scanned along: it cannot be a local range")
        self.is_refused(nests["scan"], *threads[:2], match="loops come before")
        self.is_refused(nests["scan"], Split("r1", 5), Mark("r1.0", Kind.UNROLL), match="loops come before")

    def test_stores_that_may_meet_run_on_one_thread(self, nests):
        nest = nests["scatter"]
        (serial,) = next(s for s in nest.statements if isinstance(s, Store) and s.serial).serial
        self.is_refused(nest, Mark(serial.label, Kind.LOCAL), match="stored in order: it cannot be a local range")

    def test_two_stores_to_one_buffer_happen_on_the_same_threads(self, nests):
        nest = nests["scatter"]
        first = nest.statements[0]
        assert isinstance(first, Store)
        self.is_refused(nest, Mark(first.order[0].label, Kind.GROUP), match="stored to twice, by different threads")


def test_moves_leave_the_nest_they_are_applied_to_alone(nests):
    for nest in nests.values():
        before = str(nest)
        for range_ in nest.ranges:
            for move in (
                Split(range_.label, 3),
                Mark(range_.label, Kind.UNROLL),
                Peel(range_.label),
                Pad(range_.label, 4),
            ):
                move.apply(nest)
        assert str(nest) == before


def test_long_sequences_of_splits_merges_and_orders_keep_the_values(nests):
    chosen = random.Random(3)
    for nest in nests.values():
        moved = nest
        for _ in range(12):
            range_ = chosen.choice(moved.ranges)
            statement = chosen.choice(
                [s for s in moved.statements if not isinstance(s, Scan)] or list(moved.statements)
            )
            labels = [r.label for r in statement.order]
            chosen.shuffle(labels)
            move = chosen.choice(
                [Split(range_.label, chosen.choice((2, 3))), Pad(range_.label, 3), Peel(range_.label),
                 Reorder(statement_labels(moved)[statement], tuple(labels))]
            )  # fmt: skip
            try:
                moved = move.apply(moved)
            except ScheduleError:
                continue
        check(nest, moved)


def test_a_masked_product_past_the_end_is_one(cpu):
    """The neutral element is that of the reduction, for products and for maxima of integers too."""
    graph = cpu.graph
    for op, values in ((ReduceOp.PROD, [2, 3, 4, 5, 6]), (ReduceOp.MAX, [-5, -3, -9, -4, -8]), (ReduceOp.MIN, [5] * 5)):
        nest = cpu.schedule(graph.reduce(op, cpu.leaf(np.array([values, values], np.int32)), (1,))).nests[0]
        check(nest, Split("r1", 4).apply(nest))
        check(nest, GroupReduce("r1", 4).apply(nest))
    both = graph.reduce(
        ReduceOp.AND, graph.binary(BinaryOp.LT, cpu.leaf(np.ones((2, 5))), cpu.leaf(np.full((2, 5), 2.0))), (1,)
    )
    nest = cpu.schedule(both).nests[0]
    check(nest, Split("r1", 4).apply(nest))
