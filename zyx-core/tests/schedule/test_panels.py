"""Products and convolutions of odd sizes on processors: values, masks and traffic."""

from __future__ import annotations

import pytest

from zyx.estimate import estimate
from zyx.kernel import data as k
from zyx.lowering.lower import lower
from zyx.ops import BinaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule

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


@pytest.mark.one_in(4)
@pytest.mark.parametrize("limits", [NARROW, WIDE, ONE_CACHE], ids=["narrow", "wide", "one cache"])
@pytest.mark.parametrize(
    ("stride", "dilation", "padding", "window"), [(2, 1, 2, 5), (3, 1, 0, 4), (1, 1, 1, 3), (2, 3, 4, 3), (1, 2, 0, 1)]
)
@pytest.mark.parametrize("filters", [3, 11, 37])
def test_convolutions(device_with, limits, stride, dilation, padding, window, filters):
    bench = device_with(**limits)
    output = convolution(bench, 5, 131, filters, window, stride=stride, dilation=dilation, padding=padding)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)


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


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("length", "stride", "padding"),
    [(24, 2, 1), (24, 1, 1), (22, 1, 0), (25, 2, 0)],
    ids=["steps and masks", "masks", "short vectors", "steps"],
)
def test_gradients_of_filters(device_with, limits, length, stride, padding):
    bench = device_with(**limits)
    output = gradient(bench, 2, 16, length, 16, 3, stride=stride, padding=padding)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("shape", [(265, 3, 83), (33, 20, 101), (1021, 3, 96)])
def test_rows_and_columns_that_divide_nothing_have_their_masks_in_the_last_tiles(device_with, limits, shape):
    rows, depth, columns = shape
    bench = device_with(**limits)
    output = bench.matmul(bench.normal(rows, depth), bench.normal(depth, columns))
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    _, kernel = chosen(bench, output)
    bodies = list(hot_loops(kernel))
    assert any(not masks_in(body) for body in bodies)
    assert len(bodies) <= 9  # rows and columns: all but the last group, all but its last tile, that


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    "shape", [(13, 37, 9), (12, 300, 11), (31, 20, 70), (7, 100, 9), (19, 18, 50), (12, 900, 60), (24, 20, 64)]
)
def test_products_with_a_matrix_that_is_turned(device_with, limits, shape):
    rows, depth, columns = shape
    bench = device_with(**limits)
    turned = bench.graph.permute(bench.normal(columns, depth), (1, 0))
    bench.check(bench.matmul(bench.normal(rows, depth), turned), run=bench.run_kernels, tolerance=1e-4)


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("shape", [(19, 40, 67), (17, 10, 256), (64, 40, 1024), (2, 128, 1024), (2, 141, 1021)])
def test_products_of_lines_wherever_they_lie(device_with, limits, shape):
    rows, depth, columns = shape
    bench = device_with(**limits)
    output = bench.matmul(bench.normal(rows, depth), bench.normal(depth, columns))
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)


def test_columns_are_read_once_by_few_rows(device_with):
    bench = device_with(**WIDE)
    (nest,) = bench.schedule(bench.matmul(bench.normal(2, 256), bench.normal(256, 2048))).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    assert estimate(scheduled, bench.info).bytes["main memory"] < 1.2 * 256 * 2048 * 4


def test_the_second_factor_of_a_large_product_stays_in_a_cache(device_with):
    """A group of tiles of rows uses what the columns read many times; three plain loops would read it for each row."""
    bench = device_with(**WIDE)
    (nest,) = bench.schedule(bench.matmul(bench.normal(256, 256), bench.normal(256, 512))).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    assert estimate(scheduled, bench.info).bytes["main memory"] < 256 * 256 * 512 * 4 / 16
