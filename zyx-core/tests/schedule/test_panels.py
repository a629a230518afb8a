"""Products and convolutions of odd sizes: loops that multiply have no masks, and panels are copied where that pays."""

from __future__ import annotations

import pytest

from zyx.ir import kernel as k
from zyx.ir.accesses import reads_in, stride_along
from zyx.ir.nest import Compute, Kind, Store
from zyx.lowering.lower import lower
from zyx.ops import BinaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.contraction import find_contraction
from zyx.schedule.heuristics.tile import height_of, near_divisor
from zyx.schedule.heuristics.vector_tiles import _vector_range
from zyx.schedule.moves import Nested, Peel, Stage

NARROW = {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 13, 1 << 16)}
WIDE = {"units": 2, "vector_bytes": 64, "registers": 32, "lanes": (2, 4, 8, 16), "cache_bytes": (1 << 15, 1 << 18)}
ONE_CACHE = {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 13,)}


def convolution(bench, channels, length, filters, window, *, stride=1, dilation=1, padding=0):
    """Return the cross-correlation of an image of one dimension with filters."""
    graph = bench.graph
    x = graph.pad(bench.normal(channels, length), [(0, 0), (padding, padding)], 0.0)
    size = (x.shape[1] - (window - 1) * dilation - 1) // stride + 1
    wide = graph.expand(graph.reshape(x, (1, channels, x.shape[1], 1)), (filters, channels, x.shape[1], window))
    windows = graph.slide(wide, 2, 3, size, stride, dilation)
    weights = graph.expand(bench.normal(filters, channels, 1, window), (filters, channels, size, window))
    product = graph.binary(BinaryOp.MUL, windows, weights)
    return graph.reshape(bench.sum(product, 1, 3), (filters, size))


def chosen(bench, output):
    """Return the moves for the nest of `output`, and its kernel."""
    (nest,) = bench.schedule(output).nests
    scheduled, moves = choose_schedule(nest, bench.info)
    return moves, run_passes(lower(scheduled, "test"), standard_passes(bench.info), check=True)


def is_copied(bench, output):
    return any(isinstance(move, Stage) for move in chosen(bench, output)[0])


def hot_loops(kernel):
    """Yield the operations of each innermost loop that multiplies and adds vectors."""
    stack = []
    for op in kernel.ops:
        if isinstance(op, k.Loop):
            stack.append([])
        elif isinstance(op, k.EndLoop):
            body = stack.pop()
            if any(isinstance(other, k.Mad) and other.type.lanes > 1 for other in body):
                yield body
                if stack:
                    stack[-1].clear()
        elif stack:
            stack[-1].append(op)


def masks_in(body):
    return sum(isinstance(op, k.Where) or (isinstance(op, k.Load) and op.mask is not None) for op in body)


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("stride", "dilation", "padding", "window"), [(2, 1, 2, 5), (3, 1, 0, 4), (1, 1, 1, 3), (2, 3, 4, 3), (1, 2, 0, 1)]
)
def test_convolutions_gather_panels_and_multiply_without_masks(device_with, limits, stride, dilation, padding, window):
    bench = device_with(**limits)
    output = convolution(bench, 5, 131, 37, window, stride=stride, dilation=dilation, padding=padding)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    moves, kernel = chosen(bench, output)
    assert any(isinstance(move, Stage) for move in moves) == (stride > 1 or padding > 0)
    bodies = list(hot_loops(kernel))
    assert bodies
    assert any(not masks_in(body) for body in bodies)


def gradient(bench, images, channels, length, filters, window, *, stride=1, padding=0):
    """Return the gradient of the filters of such a cross-correlation, of several images."""
    graph = bench.graph
    x = graph.pad(bench.normal(images, channels, length), [(0, 0), (0, 0), (padding, padding)], 0.0)
    size = (x.shape[2] - window) // stride + 1
    wide = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, window))
    windows = graph.slide(wide, 2, 3, size, stride)
    shape = (images, filters, channels, size, window)
    windows = graph.expand(graph.reshape(windows, (images, 1, *shape[2:])), shape)
    slopes = graph.expand(graph.reshape(bench.normal(images, filters, size), (images, filters, 1, size, 1)), shape)
    return graph.reshape(bench.sum(graph.binary(BinaryOp.MUL, windows, slopes), 0, 3), (filters, channels, window))


def vector_of(bench, output):
    """Return the size of the range that a sum of products has its vectors of, and whether it is summed up."""
    found = find_contraction(bench.schedule(output).nests[0])
    range_ = _vector_range(found, 16, bench.info)
    return range_.size, range_ in found.statement.reduced


@pytest.mark.parametrize(
    ("length", "stride", "padding"),
    [(32, 2, 1), (32, 1, 1), (30, 1, 0), (33, 2, 0)],
    ids=["steps and masks", "masks", "short vectors", "steps"],
)
def test_gradients_of_filters_have_vectors_along_channels(device_with, length, stride, padding):
    bench = device_with(**WIDE)
    output = gradient(bench, 4, 32, length, 64, 3, stride=stride, padding=padding)
    assert vector_of(bench, output) in ((32, False), (64, False))
    small = gradient(bench, 2, 16, length - 8, 16, 3, stride=stride, padding=padding)
    assert not vector_of(bench, small)[1]
    bench.check(small, run=bench.run_kernels, tolerance=1e-4)


def test_of_two_sides_vectors_go_along_the_one_whose_lanes_need_not_be_looked_at(device_with):
    bench = device_with(**WIDE)
    assert vector_of(bench, gradient(bench, 4, 32, 32, 48, 3, stride=2, padding=1)) == (48, False)  # not the image's


def test_long_sums_whose_ends_are_masked_have_vectors_along_them(device_with):
    bench = device_with(**WIDE)
    graph = bench.graph
    a, b = (graph.pad(bench.normal(rows, 1024), [(0, 0), (3, 0)], 0.0) for rows in (96, 64))
    assert vector_of(bench, bench.matmul(a, graph.permute(b, (1, 0)))) == (1027, True)


@pytest.mark.parametrize("filters", [3, 11])
def test_for_few_filters_none_of_the_image_is_gathered(device_with, filters):
    bench = device_with(**NARROW)
    output = convolution(bench, 5, 131, filters, 3, stride=2, padding=1)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    (nest,) = bench.schedule(output).nests
    sizes = {read.param.number: read.param.length for s in nest.statements for read in reads_in(s)}
    copied = [sizes[move.param] for move in chosen(bench, output)[0] if isinstance(move, Stage)]
    assert copied in ([], [filters * 5 * 3])  # the filters may be


@pytest.mark.parametrize("filters", [2, 3, 7])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_few_filters_read_steps_as_vectors(device_with, filters, stride):
    bench = device_with(**WIDE)
    output = convolution(bench, 9, 431, filters, 5, stride=stride, padding=1)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    (nest,) = bench.schedule(output).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    (vector,) = (range_ for range_ in scheduled.ranges if scheduled.kind(range_) is Kind.VECTOR)
    (store,) = (s for s in scheduled.statements if isinstance(s, Store))
    assert stride_along(store.index, vector) == 1
    _, kernel = chosen(bench, output)
    loads = [op for body in hot_loops(kernel) for op in body if isinstance(op, k.Load) and op.type.lanes > 1]
    shuffles = [op for body in hot_loops(kernel) for op in body if isinstance(op, k.Shuffle)]
    assert loads
    assert shuffles


def test_without_a_second_cache_nothing_is_copied(device_with):
    bench = device_with(**ONE_CACHE)
    output = convolution(bench, 5, 131, 40, 3, stride=2, padding=1)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    assert not is_copied(bench, output)


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("shape", [(265, 3, 83), (33, 20, 101)])
def test_rows_and_columns_that_divide_nothing_have_their_masks_in_the_last_tiles(device_with, limits, shape):
    rows, depth, columns = shape
    bench = device_with(**limits)
    output = bench.matmul(bench.normal(rows, depth), bench.normal(depth, columns))
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    _, kernel = chosen(bench, output)
    bodies = list(hot_loops(kernel))
    assert any(not masks_in(body) for body in bodies)
    assert len(bodies) <= 9  # rows and columns: all but the last group, all but its last tile, that


def test_a_peeled_range_that_is_split_again_stays_peeled(device_with):
    """Without that each of the tiles of all groups has masks; one body with masks is enough, the last of a group."""
    bench = device_with(**WIDE)
    output = bench.matmul(bench.normal(1021, 3), bench.normal(3, 96))
    (nest,) = bench.schedule(output).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    assert {range_.label for range_ in scheduled.peeled} == {"r0.0.1"}
    _, kernel = chosen(bench, output)
    assert len(list(hot_loops(kernel))) == 2


def test_bodies_are_written_apart_only_where_masks_differ(device_with):
    """If the groups are peeled too, the last tile of one that is not the last is like those before it."""
    bench = device_with(**WIDE)
    output = bench.matmul(bench.normal(1021, 3), bench.normal(3, 96))
    (nest,) = bench.schedule(output).nests
    peeled = Peel("r0.0.0").apply(choose_schedule(nest, bench.info)[0])
    kernel = run_passes(lower(peeled, "test"), standard_passes(bench.info))
    assert len(list(hot_loops(kernel))) == 3


@pytest.mark.parametrize(
    ("size", "most", "height"),
    [
        (3, 4, 3), (4, 4, 4), (1023, 4, 4), (777, 4, 4), (9, 4, 3), (63, 4, 3), (1024, 8, 8), (1021, 8, 8),
        (769, 8, 7), (30, 8, 6), (33, 8, 8), (49, 8, 7), (2, 1, 1), (17, 1, 1),
    ],
)  # fmt: skip
def test_tiles_are_as_high_as_they_can_be_where_there_are_many(size, most, height):
    assert height_of(size, most) == height


def test_tiles_are_never_higher_than_they_may_be():
    for most in (1, 2, 3, 4, 6, 8):
        for size in range(1, 2000):
            height = height_of(size, most)
            assert 1 <= height <= min(size, most)
            assert -(-size // height) * height <= size * 1.15 + most


def test_parts_without_a_divisor_are_nearly_equal():
    assert near_divisor(128, 32) == 32
    assert near_divisor(110, 36) in (22, 55)
    assert near_divisor(97, 32) == 25  # 4 parts
    assert near_divisor(5, 9) == 5
    for size in range(1, 300):
        for wanted in range(1, 40):
            part = near_divisor(size, wanted)
            assert 1 <= part <= max(wanted * 3 // 2, 1)
            assert -(-size // part) * part - size < -(-size // part)


class TestTurned:
    """A factor that lies side by side along what is summed, in `a @ b.T`."""

    def product(self, bench, rows, depth, columns):
        turned = bench.graph.permute(bench.normal(columns, depth), (1, 0))
        return bench.matmul(bench.normal(rows, depth), turned)

    def is_summed_by_vectors(self, bench, output):
        (nest,) = bench.schedule(output).nests
        scheduled, _ = choose_schedule(nest, bench.info)
        sums = [s for s in scheduled.statements if isinstance(s, Compute) and s.op is not None]
        return any(scheduled.kind(range_) is Kind.VECTOR for s in sums for range_ in s.reduced)

    @pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
    @pytest.mark.parametrize("depth", [17, 40])
    @pytest.mark.parametrize("columns", [9, 50])
    def test_it_is_turned_over_or_vectors_go_along_the_sum(self, device_with, limits, depth, columns):
        """Else vectors would be put together of elements far apart, once for each tile of rows."""
        bench = device_with(**limits)
        for rows in (3, 12, 31):
            output = self.product(bench, rows, depth, columns)
            assert self.is_summed_by_vectors(bench, output) or is_copied(bench, output)

    @pytest.mark.parametrize(("rows", "depth", "by_vectors"), [(12, 900, True), (24, 20, False), (200, 300, False)])
    def test_few_rows_of_a_long_sum_turn_nothing(self, device_with, rows, depth, by_vectors):
        for limits in (NARROW, WIDE):
            bench = device_with(**limits)
            output = self.product(bench, rows, depth, 64)
            assert self.is_summed_by_vectors(bench, output) == by_vectors
            assert is_copied(bench, output) != by_vectors

    @pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
    @pytest.mark.parametrize("shape", [(13, 37, 9), (12, 300, 11), (31, 20, 70), (7, 100, 9), (19, 18, 50)])
    def test_values(self, device_with, limits, shape):
        bench = device_with(**limits)
        bench.check(self.product(bench, *shape), run=bench.run_kernels, tolerance=1e-4)

    @pytest.mark.parametrize(("limits", "most"), [(NARROW, 12), (WIDE, 16)], ids=["narrow", "wide"])
    def test_sums_of_vectors_take_most_registers(self, device_with, limits, most):
        bench = device_with(**limits)
        (nest,) = bench.schedule(self.product(bench, 12, 900, 60)).nests
        scheduled, _ = choose_schedule(nest, bench.info)
        results = 1
        for range_ in scheduled.ranges:
            results *= range_.size if scheduled.kind(range_) is Kind.UNROLL else 1
        assert results == most


class TestLines:
    """Where lines of a matrix fall in the nearest cache decides whether they are copied."""

    def product(self, bench, rows, depth, columns):
        return bench.matmul(bench.normal(rows, depth), bench.normal(depth, columns))

    @pytest.mark.parametrize(
        ("depth", "columns", "copied"),
        [
            (40, 1024, True),  # 4096 bytes apart: each line on the same few places of 8 KB
            (40, 1025, False),  # next to each other's places
            (40, 1016, False),
            (300, 1025, True),  # more lines than the cache holds, wherever they lie
            (4, 1024, False),
        ],
    )
    def test_lines_that_compete_for_places_are_copied(self, device_with, depth, columns, copied):
        bench = device_with(**NARROW)
        assert is_copied(bench, self.product(bench, 64, depth, columns)) == copied

    @pytest.mark.parametrize(("rows", "copied"), [(4, False), (16, True), (64, True)])
    def test_one_tile_of_rows_copies_nothing(self, device_with, rows, copied):
        bench = device_with(**WIDE)
        output = self.product(bench, rows, 300, 1024)
        assert is_copied(bench, output) == copied

    def test_what_is_copied_has_the_same_values(self, device_with):
        for limits in (NARROW, WIDE):
            bench = device_with(**limits)
            bench.check(self.product(bench, 19, 40, 67), run=bench.run_kernels, tolerance=1e-4)
            bench.check(self.product(bench, 17, 10, 256), run=bench.run_kernels, tolerance=1e-4)


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(("depth", "columns"), [(128, 1024), (141, 1021)])
def test_few_rows_read_neighbouring_columns_before_the_next_part_of_the_sum(device_with, limits, depth, columns):
    """What lies side by side is read by pieces of a kilobyte or more, which is fetched ahead; each element once."""
    bench = device_with(**limits)
    output = bench.matmul(bench.normal(2, depth), bench.normal(depth, columns))
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    (nest,) = bench.schedule(output).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    statement = next(s for s in scheduled.statements if isinstance(s, Compute) and s.op is not None)
    wide = max(reads_in(statement), key=lambda read: read.param.length)
    steps = [stride_along(wide.index, range_) for range_ in statement.order]
    first = next(place for place, step in enumerate(steps) if step and step % columns == 0)
    piece = 4
    for range_, step in zip(statement.order[first:], steps[first:], strict=True):
        piece *= range_.size if step and step % columns else 1
    assert piece >= 1024


def test_few_rows_of_what_the_cache_holds_take_the_sum_at_once(device_with):
    bench = device_with(**WIDE)
    moves, _ = chosen(bench, bench.matmul(bench.normal(2, 128), bench.normal(128, 256)))
    assert not any(isinstance(move, Nested) for move in moves)
