"""Warps that multiply tiles of matrices compute what the nest means, whatever other moves go with it.

Factors are small whole numbers, so that all sums are exact and every order of adding up gives the same.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.drivers.limits import check_limits
from zyx.errors import ScheduleError, UnsupportedError
from zyx.graph import Graph
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.lowering.thread_axes import thread_axes
from zyx.nest.data import Compute, Kind, Nest, Store
from zyx.nest.expr import Param
from zyx.nest.pool import Pool
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.moves import (
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
    TensorCore,
    apply_moves,
)  # fmt: skip
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphCase
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import MOST_WRITTEN_OUT, random_schedule, run_lowered, run_nests, written_out

CARD = MACHINES[2]


def product(m, n, depth, dtype=dtypes.float16, *, layout="NN", batch=(), epilogue=False):
    """Return the kernel of a product of matrices.

    Its nest sums up v0[.., r0, r1] over r2, or with a batch v0[r0, r1, r2] over r3, from p2 (or p3 after the bias).
    """
    graph = Graph()
    rng = np.random.default_rng(m * n + depth)
    values = {}

    def leaf(shape, of):
        node = graph.leaf(shape, of, "test:0")
        values[node] = rng.integers(-8, 8, size=shape).astype(of.numpy)
        return node

    def matrix(rows, columns, is_turned):
        if not is_turned:
            return leaf((*batch, rows, columns), dtype)
        order = (*range(len(batch)), len(batch) + 1, len(batch))
        return graph.permute(leaf((*batch, columns, rows), dtype), order)

    def spread(node, shape):
        single = node if dtype is dtypes.float32 else graph.cast(node, dtypes.float32)
        wide = graph.reshape(single, (*batch, *shape))
        return graph.expand(wide, (*batch, m, n, depth))

    a, b = matrix(m, depth, layout[0] == "T"), matrix(n, depth, layout[1] == "N")
    products = graph.binary(BinaryOp.MUL, spread(a, (m, 1, depth)), spread(b, (1, n, depth)))
    total = graph.reshape(graph.reduce(ReduceOp.SUM, products, (len(batch) + 2,)), (*batch, m, n))
    if epilogue:
        bias = graph.expand(graph.reshape(leaf((n,), dtypes.float32), (*(1 for _ in batch), 1, n)), (*batch, m, n))
        added = graph.binary(BinaryOp.ADD, total, bias)
        total = graph.binary(BinaryOp.MAX, added, graph.const(0.0, dtypes.float32, "test:0", (*batch, m, n)))
    (case,), _ = kernels_of(GraphCase(graph, [total], values), CARD)
    return case


def check(case, moves, dims=(16, 8, 16)):
    """Assert that the moves leave the values as they are, and return the kernel."""
    nest = apply_moves(case.nests[0], moves)
    kernel = lower(nest, "product")
    for current in (kernel, run_passes(kernel, standard_passes(CARD), check=True)):
        verify(current)
        assert {op.dims for op in current.ops if isinstance(op, k.Wmma)} == {dims}
        buffers = case.buffers()
        interpreter.run(current, list(buffers[param] for param in nest.params))
        expected = case.buffers()
        run_nest(case.nests[0], [expected[param] for param in nest.params])
        again = case.buffers()
        run_nest(nest, [again[param] for param in nest.params])
        for param in nest.params:
            np.testing.assert_array_equal(buffers[param], expected[param])
            np.testing.assert_array_equal(again[param], expected[param])
            assert not np.isnan(expected[param].astype(np.float64)).any()
    return kernel


def tiles(rows="r0", columns="r1", depth="r2", deep=16):
    """Return moves that split all ranges of v0 into tiles, and let a warp multiply these."""
    return [
        Split(rows, 16), Split(columns, 8), Split(depth, deep),
        TensorCore("v0", f"{rows}.1", f"{columns}.1", f"{depth}.1"),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_random_schedules_of_products_keep_the_values(dtype):
    """Among any other moves, before and after: the sums are exact, in whatever order."""
    counts = Counter()
    for seed in range(15):
        choices = Seeded(seed)
        layout = choices.pick(("NN", "NT", "TN", "TT"))
        batch = (2,) if choices.chance(25) else ()
        sizes = [choices.pick(some) for some in ((16, 21), (8, 11), (8, 16, 19))]
        case = product(*sizes, dtype, layout=layout, batch=batch, epilogue=choices.chance(30))
        schedules = [random_schedule(choices, nest, 5) for nest in case.nests]
        nests = [schedule.nest for schedule in schedules]
        try:
            case.check(run_nests, nests, "as nests")
            if max(map(written_out, nests)) <= MOST_WRITTEN_OUT:
                case.check(run_lowered, nests, "lowered")
                counts.update({type(move) for schedule in schedules for move in schedule.moves})
        except ScheduleError:
            counts["kinds that do not go together"] += 1
        except BaseException as error:
            error.add_note("\n".join([f"seed {seed}: {sizes}, {layout}, batch {batch}", *map(str, schedules)]))
            raise
    assert counts[TensorCore] >= 2
    assert len(counts) >= 5


def lane_of(nest):
    return next(s.matrix.lane for s in nest.statements if isinstance(s, Compute) and s.matrix is not None)


@pytest.mark.parametrize(
    ("dtype", "deep"),
    [
        *itertools.product((dtypes.float16, dtypes.bfloat16), (8, 16, 32)),
        *itertools.product((dtypes.float32,), (8, 16)),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_one_tile(dtype, deep, layout):
    case = product(16, 8, deep, dtype, layout=layout)
    deepest = 32 // dtype.itemsize
    kernel = check(case, [TensorCore("v0", "r0", "r1", "r2")], (16, 8, min(deep, deepest)))
    assert sum(isinstance(op, k.Wmma) for op in kernel.ops) == max(deep // deepest, 1)
    assert kernel.grid == ((), (32,))


def test_factors_of_float32_have_at_most_16_bytes_a_thread():
    with pytest.raises(ScheduleError, match="32 points, too many for factors of float32"):
        TensorCore("v0", "r0", "r1", "r2").apply(product(16, 8, 32, dtypes.float32).nests[0])


def test_elements_of_a_thread_that_lie_side_by_side_are_loaded_together():
    kernel = check(product(16, 8, 16, layout="NT"), [TensorCore("v0", "r0", "r1", "r2")])
    loads = [op.type for op in kernel.ops if isinstance(op, k.Load) and op.type.dtype is dtypes.float16]
    assert loads == [k.Type(dtypes.float16, 4)] * 3


@pytest.mark.parametrize("kinds", list(itertools.product((Kind.GROUP, Kind.LOCAL, Kind.UNROLL, Kind.LOOP), repeat=2)))
def test_many_tiles(kinds):
    """By groups, by warps, by one warp together, and one after the other."""
    rows, columns = kinds
    check(product(48, 16, 32), [*tiles(), Mark("r0.0", rows), Mark("r1.0", columns)])


@pytest.mark.parametrize("kind", [Kind.LOOP, Kind.UNROLL, Kind.REPEAT, Kind.LOCAL])
@pytest.mark.parametrize("deep", [8, 16])
def test_a_sum_over_several_tiles(kind, deep):
    case = product(16, 16, 48, layout="NT")
    check(case, [*tiles(deep=deep), Mark("r1.0", Kind.UNROLL), Mark("r2.0", kind)], (16, 8, deep))


def test_a_sum_over_the_tiles_of_several_threads_and_of_one():
    case = product(16, 16, 96)
    moves = [Mark("r1.0", Kind.UNROLL), GroupReduce("r2.0", 2), Split("r2.0.0", 2), Mark("r2.0.0.1", Kind.UNROLL)]
    check(case, [*tiles(), *moves])


def test_results_that_wait_in_memory_while_others_are_added_to():
    case = product(32, 16, 64)
    moves = [*tiles(), Split("r2.0", 2), Mark("r2.0.1", Kind.UNROLL), Mark("r1.0", Kind.UNROLL)]
    nest = apply_moves(case.nests[0], moves)
    first = ("r2.0.0", "r0.0")
    order = (*first, *(range_.label for range_ in nest.statements[0].order if range_.label not in first))
    check(case, [*moves, Reorder("v0", order)])


@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_a_batch(batch):
    case = product(32, 16, 32, batch=batch)
    *outer, rows, columns, depth = (f"r{i}" for i in range(len(batch) + 3))
    check(case, [*(Mark(label, Kind.GROUP) for label in outer), *tiles(rows, columns, depth)])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_an_epilogue(dtype):
    case = product(32, 24, 32, dtype, epilogue=True)
    check(case, [*tiles(), Mark("r0.0", Kind.GROUP), Mark("r1.0", Kind.UNROLL)])


def test_warps_stand_along_the_first_axis_of_threads():
    case = product(32, 16, 16)
    moves = [*tiles(), Mark("r0.0", Kind.LOCAL), Mark("r1.0", Kind.LOCAL)]
    kernel = check(case, moves)
    assert kernel.grid == ((), (32, 2, 2))
    nest = apply_moves(case.nests[0], moves)
    assert lane_of(nest) in thread_axes(nest)[0]


def test_warps_along_more_axes_than_there_are():
    case = product(64, 16, 16)
    moves = [Split("r0.0", 2), *(Mark(label, Kind.LOCAL) for label in ("r0.0.0", "r0.0.1", "r1.0"))]
    assert check(case, [*tiles(), *moves]).grid == ((), (256,))


PADDED = [(13, 8, 16), (16, 5, 16), (16, 8, 11), (13, 5, 11), (35, 21, 37)]


@pytest.mark.parametrize("sizes", PADDED)
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_padded_sizes(sizes, layout):
    case = product(*sizes, layout=layout, epilogue=True)
    labels = [range_.label for range_ in case.nests[0].statements[0].order]
    pads = [Pad(label, multiple) for label, multiple in zip(labels, (16, 8, 16), strict=True)]
    new = [range_.label for range_ in apply_moves(case.nests[0], pads).statements[0].order]
    check(case, [*pads, *tiles(*new)])


@pytest.mark.parametrize("deep", [8, 16])
@pytest.mark.parametrize("is_peeled", [False, True])
def test_tiles_that_do_not_divide_the_sizes(deep, is_peeled):
    case = product(35, 21, 37, layout="NT")
    peels = [Peel(label) for label in ("r0.0", "r1.0", "r2.0")] if is_peeled else []
    groups = [Mark("r0.0", Kind.GROUP), Mark("r1.0", Kind.GROUP)]
    check(case, [*tiles(deep=deep), *groups, *peels], (16, 8, deep))


# ---- factors staged in local memory


def staged(rows, columns, threads):
    """Return moves for a product whose groups have `threads` threads, two warps of which share each row of tiles.

    Groups make blocks of 32 x 32 results, 32 points of the sum at a time, from copies in local memory. The copies are
    made by all threads, and lie so that what a warp reads at a time is side by side.
    """
    moves = [
        Split("r0", 32), Mark("r0.0", Kind.GROUP), Split("r0.1", 16), Mark("r0.1.0", Kind.LOCAL),
        Split("r1", 32), Mark("r1.0", Kind.GROUP), Split("r1.1", 16), Mark("r1.1.0", Kind.LOCAL),
        Split("r1.1.1", 8), Mark("r1.1.1.0", Kind.UNROLL),
        Split("r2", 32), Split("r2.1", 16), Mark("r2.1.0", Kind.REPEAT),
        Reorder("v0", (
            "r0.0", "r1.0", "r2.0", "r0.1.0", "r0.1.1", "r1.1.0", "r1.1.1.0", "r1.1.1.1", "r2.1.0", "r2.1.1",
        )),
        Stage("v0", rows, ("r2.1.0", "r0.1.0", "r0.1.1", "r2.1.1")),
        Stage("v0", columns, ("r2.1.0", "r1.1.0", "r1.1.1.0", "r1.1.1.1", "r2.1.1")),
    ]  # fmt: skip
    for copy, inner in (("v1", ("r0.1.0", "r0.1.1")), ("v2", ("r1.1.0", "r1.1.1.0", "r1.1.1.1"))):
        labels = [f"{label}@{copy}" for label in ("r2.1.0", *inner, "r2.1.1")]
        merged = labels[0]
        for label in labels[1:]:
            moves.append(Merge(merged, label))
            merged = f"{merged}+{label}"
        for size in threads:
            moves += [Split(merged, size), Mark(f"{merged}.1", Kind.LOCAL)]
            merged = f"{merged}.0"
    return [*moves, TensorCore("v0", "r0.1.1", "r1.1.1.1", "r2.1.1")]


@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
def test_factors_copied_to_local_memory_by_all_threads(layout):
    case = product(64, 64, 96, layout=layout, epilogue=True)
    a, b = (3, 2) if case.nests[0].statements[0].expr.x.x.param.number == 3 else (2, 3)
    kernel = check(case, staged(a, b, (32, 2, 2)))
    assert kernel.grid == ((2, 2), (32, 2, 2))
    shared = [op.length for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL]
    assert shared == [32 * 32] * 2
    assert sum(isinstance(op, k.Barrier) for op in kernel.ops) == 4


@pytest.mark.parametrize("step", [1, 2, 3])
def test_copies_that_are_skewed(step):
    case = product(32, 16, 32)
    (column,) = (read.param.number for read in [case.nests[0].statements[0].expr.y.x])
    copy = Stage("v0", column, ("r2.1.0", "r1.1", "r2.1.1"), None, ("r2.1.0", "r1.1", step))
    moves = [Split("r0", 16), Split("r1", 8), Split("r2", 16), Split("r2.1", 4), copy]
    check(case, [*moves, Merge("r2.1.0", "r2.1.1"), TensorCore("v0", "r0.1", "r1.1", "r2.1.0+r2.1.1")])
    with pytest.raises(ScheduleError, match="must both be in the tile"):
        apply_moves(case.nests[0], [*moves[:-1], Stage("v0", column, ("r1.1",), None, ("r2.1.0", "r1.1", step))])


def test_padded_factors_copied_to_local_memory():
    case = product(50, 40, 45, epilogue=True)
    a, b = (3, 2) if case.nests[0].statements[0].expr.x.x.param.number == 3 else (2, 3)
    check(case, staged(a, b, (32, 2, 2)))


def test_partial_sums():
    case = product(32, 16, 64)
    check(case, [*tiles(), Nested("v0", ("r2.1.0", "r2.1.1"))])


# ---- nests that no graph becomes: factors that are computed


def computed(m, n, depth, change, dtype=dtypes.float32):
    """Return a case whose sum, in `dtype`, is of what `change` makes of (pool, a, b, (i, j, k))."""
    pool = Pool()
    i, j, inner = (pool.range(size, label) for size, label in ((m, "i"), (n, "j"), (depth, "k")))
    at = tuple(pool.ref(range_) for range_ in (i, j, inner))
    stored = Param(0, dtype, m * n, mutable=True)
    left, right = Param(1, dtypes.float16, m * depth, mutable=False), Param(2, dtypes.float16, n * depth, mutable=False)
    a = pool.read(left, pool.flatten((at[0], at[2]), (m, depth)))
    b = pool.read(right, pool.flatten((at[1], at[2]), (n, depth)))
    value = pool.value(dtype, (i, j))
    total = Compute(value, change(pool, a, b, at), ReduceOp.SUM, (inner,), (i, j, inner))
    store = Store(stored, pool.flatten(at[:2], (m, n)), pool.value_ref(value, at[:2]), None, (i, j))
    return Case(Nest((stored, left, right), (total, store), pool))


class Case:
    """As a kernel of a graph, but of a nest."""

    def __init__(self, nest):
        self.nests = [nest]

    def buffers(self):
        rng = np.random.default_rng(0)
        return {
            param: np.full(param.length, -1, np.float32)
            if param.mutable
            else rng.integers(-8, 8, size=param.length).astype(param.dtype.numpy)
            for param in self.nests[0].params
        }


def times(pool, a, b):
    return pool.binary(BinaryOp.MUL, pool.convert(a, dtypes.float32), pool.convert(b, dtypes.float32))


def test_factors_that_are_not_0_where_padding_is():
    def one_more(pool, a, b, _):
        one = pool.literal(1.0, dtypes.float16)
        more = [pool.binary(BinaryOp.ADD, factor, one) for factor in (a, b)]
        return times(pool, more[0], pool.unary(UnaryOp.NEG, more[1]))

    case = computed(13, 5, 11, one_more)
    check(case, [Pad("i", 16), Pad("j", 8), Pad("k", 16), TensorCore("v0", "i'", "j'", "k'")])


def test_padding_leaves_infinite_factors_alone():
    """What is padded is 0 in both factors: an infinity times 0 would not be 0."""

    def clamped(pool, a, b, at):
        limit = pool.literal(float("inf"), dtypes.float16)
        inside = pool.less(at[2], 11)
        return pool.select(inside, times(pool, a, pool.select(inside, b, limit)), pool.literal(0.0, dtypes.float32))

    case = computed(16, 8, 16, clamped)
    check(case, [TensorCore("v0", "i", "j", "k")])


@pytest.mark.parametrize("last", [(), (Inline("v1"),), (Mark("i@v1", Kind.LOCAL),), (Mark("j@v2", Kind.LOCAL),)])
def test_a_factor_that_reads_other_values(last):
    case = computed(32, 16, 32, lambda pool, a, b, _: times(pool, a, b))
    check(case, [Stage("v0", 1, ("i", "k")), Stage("v0", 2, ("j", "k")), *tiles("i", "j", "k"), *last])


# ---- what does not go together


def test_the_nest_shows_the_tiles():
    nest = TensorCore("v0", "r0", "r1", "r2").apply(product(16, 8, 16).nests[0])
    assert " matrix 16x8x16(r0.0, r0.1+r1.0, r1.1, r2.0, r2.1) " in str(nest)


@pytest.mark.parametrize(
    ("sizes", "ranges", "text"),
    [
        ((32, 8, 16), ("r0", "r1", "r2"), "r0 has 32 points, not 16"),
        ((16, 16, 16), ("r0", "r1", "r2"), "r1 has 16 points, not 8"),
        ((16, 8, 64), ("r0", "r1", "r2"), "r2 has 64 points, not 8 or 16 or 32"),
        ((16, 8, 16), ("r2", "r1", "r0"), "r2 is no range of the results"),
        ((16, 8, 16), ("r0", "r1", "r1"), "r1 is no range of the sum"),
        ((16, 16, 16), ("r0", "r0", "r2"), "the rows and the columns are both r0"),
        ((16, 8, 16), ("r0", "r1", "r7"), "no range r7"),
    ],
)
def test_ranges_of_other_sizes_or_uses_are_refused(sizes, ranges, text):
    with pytest.raises(ScheduleError, match=text):
        TensorCore("v0", *ranges).apply(product(*sizes).nests[0])


def test_other_statements_are_refused():
    nest = product(16, 8, 16).nests[0]
    with pytest.raises(ScheduleError, match="s0 is no sum"):
        TensorCore("s0", "r0", "r1", "r2").apply(nest)
    with pytest.raises(ScheduleError, match="no statement v7"):
        TensorCore("v7", "r0", "r1", "r2").apply(nest)
    once = TensorCore("v0", "r0", "r1", "r2").apply(product(16, 8, 16).nests[0])
    with pytest.raises(ScheduleError, match="already"):
        TensorCore("v0", "r0.0", "r1.1", "r2.0").apply(once)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda pool, a, b, at: pool.convert(a, dtypes.float32), "no sum of products"),
        (lambda pool, a, b, at: pool.convert(pool.binary(BinaryOp.MUL, a, b), dtypes.float32), "no sum of products"),
        (lambda pool, a, b, at: pool.convert(pool.binary(BinaryOp.ADD, a, b), dtypes.float32), "no sum of products"),
        (lambda pool, a, b, at: times(pool, a, pool.convert(b, dtypes.bfloat16)), "multiplies float16 by bfloat16"),
        (lambda pool, a, b, at: times(pool, a, pool.convert(b, dtypes.float64)), "multiplies float16 by float32"),
        (
            lambda pool, a, b, at: pool.binary(BinaryOp.MUL, times(pool, a, b), pool.convert(b, dtypes.float32)),
            "multiplies float32 by float16",
        ),
        (lambda pool, a, b, at: times(pool, pool.binary(BinaryOp.ADD, a, b), b), "depends on i and j"),
        (
            lambda pool, a, b, at: pool.select(
                pool.non_negative(pool.affine(((at[0], 1), (at[1], -1)))),
                times(pool, a, b), pool.literal(0.0, dtypes.float32),
            ),
            "depends on i and j",
        ),
        (
            lambda pool, a, b, at: pool.select(
                pool.less(at[2], 3), times(pool, a, b), pool.literal(1.0, dtypes.float32)
            ),
            "no sum of products",
        ),
    ],
)  # fmt: skip
def test_what_is_no_product_of_matrices_is_refused(change, text):
    with pytest.raises(ScheduleError, match=text):
        TensorCore("v0", "i", "j", "k").apply(computed(16, 8, 16, change).nests[0])


def test_sums_in_other_types_are_refused():
    case = computed(16, 8, 16, lambda pool, a, b, _: pool.convert(times(pool, a, b), dtypes.float64), dtypes.float64)
    with pytest.raises(ScheduleError, match="summed up in float64, not in float32"):
        TensorCore("v0", "i", "j", "k").apply(case.nests[0])


@pytest.mark.parametrize("label", ["r0.0", "r0.1+r1.0", "r1.1", "r2.0", "r2.1"])
@pytest.mark.parametrize(
    "move",
    [
        lambda label: Split(label, 2),
        lambda label: Pad(label, 3),
        lambda label: Mark(label, Kind.LOOP),
        Peel,
        lambda label: GroupReduce(label, 2),
    ],
    ids=["Split", "Pad", "Mark", "Peel", "GroupReduce"],
)
def test_the_ranges_of_a_tile_stay_as_they_are(label, move):
    nest = TensorCore("v0", "r0", "r1", "r2").apply(product(16, 8, 16).nests[0])
    with pytest.raises(ScheduleError, match=r"must stay as it is: warps multiply matrices along it for v0"):
        move(label).apply(nest)


def test_moves_that_take_a_tile_apart_are_refused():
    case = product(16, 8, 64)
    nest = apply_moves(case.nests[0], [Split("r2", 16), TensorCore("v0", "r0", "r1", "r2.1")])
    with pytest.raises(ScheduleError, match="must stay as it is"):
        Merge("r2.0", "r2.1.0").apply(nest)
    with pytest.raises(ScheduleError, match="reduce them first"):
        Nested("v0", ("r2.0",)).apply(nest)
    with pytest.raises(ScheduleError, match="stage what they read before that"):
        Stage("v0", 1, ("r2.1.0",)).apply(nest)


def test_a_vector_range_beside_those_of_a_tile_is_refused():
    case = product(16, 16, 16)
    nest = apply_moves(case.nests[0], [*tiles(), Mark("r1.0", Kind.VECTOR)])
    with pytest.raises(ScheduleError, match="one vector range at most"):
        lower(nest, "product")


def test_a_device_without_it_refuses_the_kernel():
    kernel = check(product(16, 8, 16), [TensorCore("v0", "r0", "r1", "r2")])
    with pytest.raises(UnsupportedError, match=r"there is no Wmma of \(16, 8, 16\) and float16"):
        check_limits(kernel, CARD)
