"""The NumPy oracle: each kind of node means what its docstring says."""

import math

import ml_dtypes
import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import TraceError, UnsupportedError
from zyx.graph import Graph
from zyx.graph.evaluate import evaluate, threefry2x32
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

G = Graph()
X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def leaf(array):
    array = np.asarray(array)
    return G.leaf(array.shape, dtypes.as_dtype(array.dtype), "host", array)


def value(node, **options):
    return evaluate([node], **options)[0]


def test_constants_and_coordinates():
    assert value(G.const(2.5, dtypes.float16, "host", (2, 2))).tolist() == [[2.5, 2.5], [2.5, 2.5]]
    assert value(G.const(True, dtypes.bool_, "host")).tolist() is True
    assert value(G.iota((2, 3), 1, dtypes.uint8, "host")).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert value(G.iota((2, 3), 0, dtypes.int64, "host")).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_movement():
    x = leaf(X)
    assert np.array_equal(value(G.reshape(x, (2, 6))), X.reshape(2, 6))
    assert np.array_equal(value(G.expand(G.reshape(x, (3, 4, 1)), (3, 4, 2))), np.repeat(X[:, :, None], 2, 2))
    assert np.array_equal(value(G.permute(x, (1, 0))), X.T)
    assert np.array_equal(value(G.pad(x, [(1, 0), (0, 2)], -1)), np.pad(X, ((1, 0), (0, 2)), constant_values=-1))
    assert np.array_equal(value(G.shrink(x, [(1, 3), (0, 2)])), X[1:3, 0:2])
    assert np.array_equal(value(G.flip(x, (0, 1))), X[::-1, ::-1])


@pytest.mark.parametrize(("axis", "window"), [(0, 1), (1, 0)])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_windows_and_their_inverse(axis, window, stride, dilation):
    shape = [0, 0]
    shape[axis], shape[window] = 9, 3
    x = np.random.default_rng(0).standard_normal(shape)
    count = (9 - 1 - 2 * dilation) // stride + 1
    slid = G.slide(leaf(x), axis, window, count, stride, dilation)
    found = np.moveaxis(value(slid), (axis, window), (0, 1))
    source = np.moveaxis(x, (axis, window), (0, 1))
    back = np.zeros_like(source)
    for o in range(count):
        for k in range(3):
            assert found[o, k] == source[o * stride + k * dilation, k]
            back[o * stride + k * dilation, k] = source[o * stride + k * dilation, k]
    unslid = np.moveaxis(value(G.unslide(slid, axis, window, 9, stride, dilation)), (axis, window), (0, 1))
    assert np.array_equal(unslid, back)


def test_elementwise_and_choice():
    x, y = leaf(np.array([1.0, -2.0, np.nan])), leaf(np.array([2.0, 0.0, 1.0]))
    assert value(G.binary(BinaryOp.MAX, x, y)).tolist()[:2] == [2.0, 0.0]
    assert math.isnan(value(G.binary(BinaryOp.MAX, x, y))[2])
    assert value(G.where(G.binary(BinaryOp.LT, x, y), x, y)).tolist() == [1.0, -2.0, 1.0]
    assert value(G.unary(UnaryOp.SQRT, leaf(np.array(4.0)))).tolist() == 2.0
    assert value(G.cast(x, dtypes.int8)).tolist() == [1, -2, 0]
    assert value(G.bitcast(leaf(np.float32([1.0])), dtypes.uint32)).tolist() == [0x3F800000]


def test_reductions_wrap_small_integers_and_pass_nan_on():
    x = leaf(np.array([[100, 100], [1, -128]], np.int8))
    assert value(G.reduce(ReduceOp.SUM, x, (1,))).tolist() == [[-56], [-127]]
    assert value(G.reduce(ReduceOp.PROD, x, (0, 1))).dtype == np.int8
    assert value(G.reduce(ReduceOp.XOR, x, (1,))).tolist() == [[0], [1 ^ -128]]
    assert math.isnan(value(G.reduce(ReduceOp.MIN, leaf([1.0, np.nan]), (0,)))[0])
    assert value(G.reduce(ReduceOp.OR, leaf([True, False]), (0,))).tolist() == [True]
    assert value(G.scan(ReduceOp.SUM, x, 1)).tolist() == [[100, -56], [1, -127]]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_accumulated_in_single(dtype):
    x = leaf(np.ones(4096, dtype))
    assert float(value(G.reduce(ReduceOp.SUM, x, (0,)))[0]) == 4096.0
    assert float(value(G.scan(ReduceOp.SUM, x, 0))[-1]) == 4096.0
    assert value(G.reduce(ReduceOp.MAX, x, (0,))).dtype == dtype


def test_gather_counts_from_the_end_and_reads_zero_outside():
    index = leaf(np.array([[0, -1, 4, -5]], np.int8).repeat(3, 0))
    assert value(G.gather(leaf(X), index, 1)).tolist() == [[0, 3, 0, 0], [4, 7, 0, 0], [8, 11, 0, 0]]
    empty = leaf(np.zeros((3, 0), np.float32))
    assert value(G.gather(empty, index, 1)).tolist() == [[0.0] * 4] * 3
    huge = leaf(np.array([[2**64 - 1]], np.uint64).repeat(3, 0))
    assert value(G.gather(leaf(X), huge, 1)).tolist() == [[0.0]] * 3


def test_scatter_writes_in_order_and_drops_what_is_outside():
    index, updates = leaf([1, 1, -1, 9, -4]), leaf([10.0, 20.0, 30.0, 40.0, 50.0])
    base = leaf([1.0, 2.0, 3.0])
    assert value(G.scatter(base, index, updates, 0)).tolist() == [1.0, 20.0, 30.0]
    assert value(G.scatter(base, index, updates, 0, ReduceOp.SUM)).tolist() == [1.0, 32.0, 33.0]
    assert value(G.scatter(base, index, updates, 0, ReduceOp.MAX)).tolist() == [1.0, 20.0, 30.0]
    assert value(base).tolist() == [1.0, 2.0, 3.0]


def test_scatter_along_an_inner_axis():
    base, index, updates = leaf(np.zeros((2, 3))), leaf([[0, 0], [2, 1]]), leaf([[1.0, 2.0], [3.0, 4.0]])
    assert value(G.scatter(base, index, updates, 1, ReduceOp.SUM)).tolist() == [[3.0, 0.0, 0.0], [0.0, 4.0, 3.0]]


@pytest.mark.parametrize(
    ("key", "counter", "block"),
    [
        # Known answers that come with the authors' library, Random123: threefry2x32, 20 rounds.
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_answers(key, counter, block):
    found = threefry2x32(key, *(np.array([word], np.uint32) for word in counter))
    assert tuple(int(word[0]) for word in found) == block


def test_random_words_are_made_of_the_blocks_that_the_counter_names():
    key, start, offset = (7, 9), 2**32 - 2, 1
    state = leaf(np.array([*key, start & 0xFFFFFFFF, start >> 32], np.uint32))
    counters = [start + offset + i for i in range(4)]
    blocks = [
        threefry2x32(key, np.array([c & 0xFFFFFFFF], np.uint32), np.array([c >> 32], np.uint32)) for c in counters
    ]
    short = value(G.random_bits(state, (2, 2), dtypes.uint32, offset))
    assert short.reshape(-1).tolist() == [int(x0[0] ^ x1[0]) for x0, x1 in blocks]
    long = value(G.random_bits(state, (4,), dtypes.uint64, offset))
    assert long.tolist() == [int(x0[0]) | int(x1[0]) << 32 for x0, x1 in blocks]
    last = leaf(np.array([*key, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32))
    first = leaf(np.array([*key, 0, 0], np.uint32))
    wrapped = value(G.random_bits(last, (2,), dtypes.uint32))[1]
    assert wrapped == value(G.random_bits(first, (1,), dtypes.uint32))[0]


def test_places_that_only_move_values_keep_them():
    x = leaf(X)
    for node in (G.contiguous(G.flip(x, (0,))), G.to_device(G.flip(x, (0,)), "other"), G.detach(G.flip(x, (0,)))):
        assert np.array_equal(value(node), X[::-1])


def test_values_are_dense_arrays_of_the_shape_and_dtype_of_the_node():
    x = leaf(X)
    for node in (
        G.permute(x, (1, 0)),
        G.expand(G.reshape(x, (3, 4, 1)), (3, 4, 2)),
        G.reduce(ReduceOp.SUM, x, (0,)),
        x,
    ):
        found = value(node)
        assert found.flags.c_contiguous
        assert found.shape == node.shape
        assert found.dtype == node.dtype.numpy


def test_stored_values_stand_for_how_they_were_computed():
    node = G.binary(BinaryOp.ADD, leaf(X), leaf(X))
    node.storage = np.full((3, 4), 7.0, np.float32)
    assert value(G.unary(UnaryOp.NEG, node))[0, 0] == -7.0


def test_values_elsewhere_are_asked_for():
    unbound = G.leaf((2,), dtypes.float32, "host")
    with pytest.raises(TraceError, match="has no values on the host; pass leaf_values"):
        value(unbound)
    found = value(G.unary(UnaryOp.NEG, unbound), leaf_values=lambda node: np.ones(node.shape, np.float32))
    assert found.tolist() == [-1.0, -1.0]
    stored = G.leaf((2,), dtypes.float32, "host", object())
    assert value(stored, leaf_values=lambda node: np.ones(2, np.float32)).tolist() == [1.0, 1.0]


def test_kernels_that_users_wrote_are_run_by_the_caller():
    node = G.custom("double", (leaf(X),), 0, (3, 4), dtypes.float32)
    with pytest.raises(UnsupportedError, match="hand-written kernel double"):
        value(node)
    assert np.array_equal(value(node, custom=lambda n, x: x[0] * 2), X * 2)


def test_exact_values_are_not_rounded():
    tiny = G.const(2.0**-12, dtypes.float16, "host", (1,))
    total = G.binary(BinaryOp.ADD, leaf(np.float16([1.0])), tiny)
    assert value(total)[0] == 1.0
    assert value(total, exact=True)[0] == 1.0 + 2.0**-12
    assert value(total, exact=True).dtype == np.float64
    third = G.cast(G.unary(UnaryOp.RECIPROCAL, leaf(np.float64([3.0]))), dtypes.bfloat16)
    assert value(third, exact=True)[0] == 1 / 3
    assert value(G.bitcast(leaf(np.float32([1.0])), dtypes.int32), exact=True).tolist() == [0x3F800000]
    assert value(G.cast(total, dtypes.int32), exact=True).dtype == np.int32


def test_graphs_may_be_very_deep_and_share_much():
    node = leaf(np.ones(2))
    for _ in range(10_000):
        node = G.binary(BinaryOp.ADD, node, node)
        node = G.binary(BinaryOp.MUL, node, G.const(0.5, dtypes.float64, "host", (2,)))
    assert value(node).tolist() == [1.0, 1.0]


def test_several_nodes_are_computed_together():
    x = G.unary(UnaryOp.NEG, leaf(X))
    first, second, again = evaluate([x, G.unary(UnaryOp.NEG, x), x])
    assert np.array_equal(first, -second)
    assert np.array_equal(first, again)
