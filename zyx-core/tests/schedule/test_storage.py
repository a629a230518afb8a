"""Where each value of a nest lives: in registers, in an array of a thread, or in one that threads share."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.errors import ScheduleError
from zyx.lowering.storage import InArray, InRegisters, _known_when_written_out, place_values
from zyx.lowering.tree import build_tree
from zyx.nest import expr as e
from zyx.nest.data import Kind
from zyx.schedule.moves import GroupReduce, Mark, Reorder, Split, Stage, apply_moves

GROUP, LOCAL, UNROLL, VECTOR = Kind.GROUP, Kind.LOCAL, Kind.UNROLL, Kind.VECTOR
PLAIN = ("registers",)


@pytest.fixture
def row(cpu):
    """The greatest of a row, what each element is above it, the sum of that, and quotients: v0, v1, v2, a store."""
    return cpu.schedule(cpu.softmax(cpu.normal(5, 8))).nests[0]


@pytest.fixture
def product(cpu):
    """``v0[r0, r1]``, a sum over r2, of 4 rows, 8 columns, and a depth of 6, and a store of it."""
    return cpu.schedule(cpu.matmul(cpu.normal(4, 6), cpu.normal(6, 8))).nests[0]


def places(nest, *moves):
    """Return in what each value lives, by its name: its kind, the labels of its ranges, and its loops in brackets."""
    moved = apply_moves(nest, moves)
    found = {}
    for value, place in place_values(moved, build_tree(moved)).items():
        match place:
            case InRegisters(unrolled=unrolled):
                found[str(value)] = ("registers", *(range_.label for range_ in unrolled))
            case InArray(dims=dims, shared=shared, scope=scope):
                loops = [f"({loop.range.label})" for loop in scope]
                found[str(value)] = ("shared" if shared else "array", *(range_.label for range_ in dims), *loops)
                assert place.length == np.prod([range_.size for range_ in dims])
    return found


class TestWhereLoopsEnd:
    def test_a_value_needs_no_place_along_loops_that_still_run(self, row):
        assert places(row) == {"v0": PLAIN, "v1": ("array", "r1", "(r0)"), "v2": PLAIN}

    def test_ranges_of_threads_and_groups_always_run(self, row):
        for kind in (LOCAL, GROUP):
            assert places(row, Mark("r0", kind)) == {"v0": PLAIN, "v1": ("array", "r1"), "v2": PLAIN}
            assert set(places(row, Mark("r1", kind)).values()) == {PLAIN}

    def test_a_value_has_an_element_for_each_point_of_loops_that_are_over(self, row):
        turned = places(row, Reorder("v1", ("r1", "r0")))
        assert turned == {"v0": ("array", "r0"), "v1": ("array", "r0", "r1"), "v2": PLAIN}
        assert places(row, Reorder("v0", ("r1", "r0"))) == {
            "v0": ("array", "r0"),
            "v1": ("array", "r1", "(r0)"),
            "v2": PLAIN,
        }

    def test_what_is_added_up_lives_outside_of_the_loops_it_is_added_up_over(self, product):
        assert places(product) == {"v0": PLAIN}
        assert places(product, Reorder("v0", ("r0", "r2", "r1"))) == {"v0": ("array", "r1", "(r0)")}
        assert places(product, Reorder("v0", ("r2", "r0", "r1"))) == {"v0": ("array", "r0", "r1")}
        assert places(product, Reorder("v0", ("r1", "r2", "r0")), Reorder("s0", ("r1", "r0"))) == {
            "v0": ("array", "r0", "(r1)")
        }

    def test_parts_of_a_range_count_by_themselves(self, row, product):
        by_threads = places(row, Mark("r0", GROUP), GroupReduce("r1", 4))
        assert by_threads == {"v0": PLAIN, "v1": ("array", "r1.0"), "v2": PLAIN}
        halves = [Split("r1", 2), Mark("r1.0", LOCAL), Reorder("v0", ("r0", "r1.0", "r2", "r1.1"))]
        assert places(product, *halves) == {"v0": ("array", "r1.1", "(r0)")}


class TestWhatIsWrittenOut:
    def test_unrolled_points_are_separate_values_and_a_vector_is_one(self, row):
        assert places(row, Mark("r1", UNROLL))["v1"] == ("registers", "r1")
        assert places(row, Mark("r1", VECTOR))["v1"] == PLAIN

    def test_they_lie_in_an_array_where_a_loop_around_them_is_over(self, row):
        for kind in (UNROLL, VECTOR):
            assert places(row, Split("r1", 4), Mark("r1.1", kind))["v1"] == ("array", "r1.0", "r1.1", "(r0)")

    def test_tiles_of_a_product_are_registers(self, product):
        tile = [Split("r1", 2), Mark("r1.1", UNROLL), Split("r0", 4), Mark("r0.1", VECTOR)]
        assert places(product, *tile, Reorder("v0", ("r0.0", "r1.0", "r2", "r1.1", "r0.1"))) == {
            "v0": ("registers", "r1.1")
        }

    def test_the_vector_comes_last_whatever_its_place_among_the_ranges(self, product):
        tile = [Split("r0", 4), Mark("r0.1", VECTOR), Split("r1", 2), Mark("r1.1", UNROLL)]
        assert places(product, *tile, Reorder("v0", ("r2", "r0.0", "r1.0", "r1.1", "r0.1"))) == {
            "v0": ("array", "r0.0", "r1.0", "r1.1", "r0.1")
        }

    def test_a_vector_or_points_that_another_range_counts_lie_in_an_array(self, product):
        """The sum runs over the depth in a loop: which of the copied points it is at is known only there."""
        assert copied(product, {"r2": VECTOR}) == ("array", "r0", "r2")
        assert copied(product, {"r0": UNROLL, "r2": UNROLL}) == ("array", "r0", "r2")

    def test_points_that_are_known_when_written_out_are_registers_whichever_range_counts_them(self, product):
        assert copied(product, {"r2": UNROLL}, Mark("r2", UNROLL), Mark("r0", GROUP), tile=("r2",)) == (
            "registers",
            "r2",
        )


def copied(product, kinds, *moves, tile=("r0", "r2")):
    """Return where a copy of the first factor's tile lives, its own ranges being of those kinds."""
    moved = apply_moves(product, [*moves, Stage("v0", 2, tile)])
    marks = [
        Mark(range_.label, kind)
        for label, kind in kinds.items()
        for range_ in moved.ranges
        if range_.label.startswith(f"{label}@")
    ]
    assert len(marks) == len(kinds)
    found = places(moved, *marks)
    assert found.pop("v0")[0] == "registers"
    ((kind, *labels),) = found.values()
    return kind, *(label.partition("@")[0] for label in labels)


def test_an_index_is_known_when_loops_are_written_out_if_nothing_else_is_in_it(cpu):
    table, places = cpu.normal(9), cpu.leaf(np.array([3, 1, 4]))
    nest = cpu.schedule(cpu.graph.gather(table, places, 0)).nests[0]
    (store,) = nest.statements
    read = next(part for part in expressions(store.expr) if isinstance(part, e.Read))
    pool = nest.pool
    (range_,) = nest.ranges
    reference = pool.ref(range_)
    for kind, is_written_out in ((UNROLL, True), (VECTOR, False), (Kind.LOOP, False)):
        marked = apply_moves(nest, [Mark(range_.label, kind)])
        assert _known_when_written_out(pool.index(5), marked)
        assert _known_when_written_out(pool.affine([(reference, 2)], 1), marked) == is_written_out
        assert _known_when_written_out(pool.modulo(reference, 2), marked) == is_written_out
        assert not _known_when_written_out(read, marked)


def expressions(expr):
    """Yield an expression and all that it is made of."""
    yield expr
    for part in expr.children:
        yield from expressions(part)


class TestWhatIsShared:
    @pytest.mark.parametrize("kinds", [{"r0": LOCAL}, {"r2": LOCAL}, {"r0": LOCAL, "r2": UNROLL}], ids=str)
    @pytest.mark.parametrize("kind", [LOCAL, GROUP])
    def test_what_another_thread_made_is_shared(self, product, kinds, kind):
        assert copied(product, kinds, Mark("r0", kind), Mark("r1", LOCAL)) == ("shared", "r0", "r2")

    def test_each_thread_has_its_part_of_what_is_shared_by_those_of_its_row(self, product):
        assert copied(product, {"r2": LOCAL}, Mark("r0", LOCAL), Mark("r1", LOCAL), tile=("r2",)) == (
            "shared",
            "r0",
            "r2",
        )
        assert copied(product, {"r2": LOCAL}, Mark("r0", GROUP), tile=("r2",)) == ("shared", "r2")
        assert copied(product, {"r2": LOCAL}, tile=("r2",)) == ("shared", "r2", "(r0)")

    def test_what_each_thread_made_itself_is_its_own(self, product):
        assert copied(product, {}, Mark("r0", LOCAL), Mark("r1", LOCAL), tile=("r2",)) == ("array", "r2")
        assert copied(product, {"r2": VECTOR}, Mark("r0", LOCAL), Mark("r1", LOCAL)) == ("array", "r0", "r2")

    def test_what_another_group_made_is_refused(self, product):
        with pytest.raises(ScheduleError, match=r"v\d+ is defined by one group and read by another: r0@v\d+ must not"):
            copied(product, {"r0": GROUP}, Mark("r0", LOCAL))
