"""Gather and scatter: positions of every integer dtype, from the end, outside, several times over; random words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, ReduceOp, reduce_ops
from zyx.testing.graph_runs import case_of
from zyx.testing.parts import TURNS
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.testing.graph_runs import GraphRunner
    from zyx.testing.values import Array

BY_DTYPE: Final = pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
BY_INDEX: Final = pytest.mark.parametrize("index_dtype", dtypes.INTEGERS, ids=lambda dtype: dtype.short)


def _need(device: Device, *wanted: DType) -> None:
    for dtype in wanted:
        if not device.info.can_store(dtype):
            pytest.skip(f"{device.name} does not claim to store {dtype}")


def positions(dtype: DType, shape: tuple[int, ...], size: int) -> Array:
    """Return positions along an axis of `size`, of which some count from the end and some lie outside."""
    low = 0 if dtype.is_unsigned else -size - 2
    array = np.random.default_rng(size).integers(low, size + 2, shape).astype(dtype.numpy)
    array.reshape(-1)[:2] = (dtype.max, dtype.min)
    return array


@BY_INDEX
def test_gathering_from_the_end_and_outside_is_as_pinned(
    device: Device, runner: GraphRunner, index_dtype: DType
) -> None:
    _need(device, index_dtype)
    x = np.arange(1, 4 * 11 + 1, dtype=np.int32).reshape(4, 11)
    arrays = [x, positions(index_dtype, (4, 9), 11), positions(index_dtype, (6, 11), 4)]
    case = case_of(
        runner.device, arrays, lambda graph, x, along, across: [graph.gather(x, along, 1), graph.gather(x, across, 0)]
    )
    runner.check(case)
    along, _ = runner.results(case)
    inside = arrays[1][(arrays[1] >= -11) & (arrays[1] < 11)].astype(np.int64)
    np.testing.assert_array_equal(
        along[(arrays[1] >= -11) & (arrays[1] < 11)],
        np.array([x[row] for row in range(4)])[np.nonzero((arrays[1] >= -11) & (arrays[1] < 11))[0], inside],
    )
    assert not along[(arrays[1] < -11) | (arrays[1] >= 11)].any(), "what lies outside is 0"


@pytest.mark.parametrize("size", [7, 27, 33])
def test_the_last_of_values_that_are_computed_is_taken_where_it_is_and_nowhere_else(
    device: Device, runner: GraphRunner, size: int
) -> None:
    """The position is compared with the last one, and converted, too: ``i == size - 1 ? stop : i * step + start``."""
    _need(device, dtypes.int32)
    name = runner.device

    def taken(graph: Graph, index: Node) -> list[Node]:
        place = graph.iota((size,), 0, dtypes.int32, name)
        number = graph.cast(place, dtypes.float32)
        step, start, stop = (graph.const(value, dtypes.float32, name, (size,)) for value in (0.25, 2.0, 1000.0))
        value = graph.binary(BinaryOp.ADD, graph.binary(BinaryOp.MUL, number, step), start)
        outputs = []
        for limit, op in ((size - 1, BinaryOp.EQ), (0, BinaryOp.EQ), (size - 1, BinaryOp.NE), (0, BinaryOp.NE)):
            limits = graph.const(limit, dtypes.int32, name, (size,))
            outputs.append(graph.gather(graph.where(graph.binary(op, place, limits), stop, value), index, 0))
        return outputs

    for indices in (np.arange(size), np.arange(size)[::-1], np.arange(-size - 3, size + 3), np.full(1, size // 2)):
        runner.check(case_of(name, [indices.astype(np.int32)], taken))


@pytest.mark.parametrize("op", [BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE], ids=lambda op: op.value)
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_computed_positions_are_compared_as_they_are(
    device: Device, runner: GraphRunner, op: BinaryOp, turned: bool
) -> None:
    """Compilers of drivers are at work on this: some fold ``26 - clamp(i, 0, 26) == 0`` to true."""
    _need(device, dtypes.int32)
    name = runner.device

    def chosen(graph: Graph, index: Node, numbers: Node) -> list[Node]:
        outputs = []
        for limit in (0, 20, 26):
            place = graph.iota((27,), 0, dtypes.int32, name)
            if turned:
                place = graph.flip(place, (0,))
            limits = graph.const(limit, dtypes.int32, name, (27,))
            for first, second in ((place, limits), (limits, place)):
                values = graph.where(
                    graph.binary(op, first, second), graph.const(400, dtypes.int32, name, (27,)), place
                )
                outputs.append(graph.gather(values, index, 0))
            limits, zeros = (graph.const(number, dtypes.int32, name, index.shape) for number in (limit, 0))
            differences = graph.binary(BinaryOp.SUB, limits, graph.gather(place, index, 0))
            above = graph.binary(BinaryOp.MAX, differences, zeros)
            outputs += [graph.binary(op, above, zeros), graph.binary(op, differences, numbers)]
        return outputs

    some = np.arange(-30, 30, dtype=np.int32)
    for indices in (some, *(np.full(3, at, np.int32) for at in (0, 20, 26))):
        runner.check(case_of(name, [indices, np.zeros(len(indices), np.int32)], chosen))


@BY_DTYPE
def test_every_dtype_is_gathered(device: Device, runner: GraphRunner, dtype: DType) -> None:
    _need(device, dtype)
    x = random_array(dtype, 5 * 12, np.random.default_rng(3), special=0.3).reshape(5, 12)
    arrays = [x, positions(dtypes.int32, (5, 20), 12)]
    runner.check(case_of(runner.device, arrays, lambda graph, x, index: graph.gather(x, index, 1)))


@BY_DTYPE
@pytest.mark.parametrize("turn", range(TURNS))
def test_scattering_combines_in_every_way(device: Device, runner: GraphRunner, turn: int, dtype: DType) -> None:
    _need(device, dtype)
    random = np.random.default_rng(4)
    base = random_array(dtype, 3 * 7, random).reshape(3, 7)
    updates = random_array(dtype, 3 * 20, random).reshape(3, 20)
    ops: list[ReduceOp | None] = [None, *(op for op in ReduceOp if op in reduce_ops(dtype))]

    def make(graph: Graph, base: Node, index: Node, updates: Node) -> list[Node]:
        return [graph.scatter(base, index, updates, 1, op) for op in ops[turn::TURNS]]

    runner.check(case_of(runner.device, [base, positions(dtypes.int32, (3, 20), 7), updates], make))


@BY_INDEX
def test_of_several_updates_of_a_place_the_last_stays(device: Device, runner: GraphRunner, index_dtype: DType) -> None:
    _need(device, index_dtype)
    count = 1000
    index = (np.arange(count) * 7 % 5).astype(index_dtype.numpy).reshape(count, 1)
    updates = np.arange(count, dtype=np.int32).reshape(count, 1)
    base = np.full((6, 1), -1, np.int32)
    case = case_of(runner.device, [base, index, updates], lambda graph, b, i, u: graph.scatter(b, i, u, 0))
    (result,) = runner.results(case)
    wanted = base.copy()
    for place, value in zip(index[:, 0], updates[:, 0], strict=True):
        wanted[place] = value
    np.testing.assert_array_equal(result, wanted)


def test_large_sums_by_position_lose_nothing(runner: GraphRunner) -> None:
    count, places = 20_011, 13
    random = np.random.default_rng(5)
    index = random.integers(0, places, (count, 1)).astype(np.int32)
    updates = random.integers(-(2**31), 2**31, (count, 1)).astype(np.int32)
    arrays = [np.zeros((places, 1), np.int32), index, updates]
    case = case_of(runner.device, arrays, lambda graph, b, i, u: graph.scatter(b, i, u, 0, ReduceOp.SUM))
    (result,) = runner.results(case)
    wanted = np.zeros((places, 1), np.int32)
    np.add.at(wanted, index[:, 0], updates)
    np.testing.assert_array_equal(result, wanted)


@BY_DTYPE
@pytest.mark.parametrize(
    ("rows", "columns", "places"),
    [(300, 3, 40), (20_000, 1, 3), (20_000, 1, 40), (9000, 2, 70), (700, 64, 9)],
    ids=["rows", "three", "few", "pairs", "wide"],
)
def test_many_updates_of_every_dtype_are_combined(
    device: Device, runner: GraphRunner, dtype: DType, rows: int, columns: int, places: int
) -> None:
    """One index a row, as in gradients of embeddings and in counting; some from the end, and some outside."""
    _need(device, dtype)
    random = np.random.default_rng(rows)
    index = random.integers(-places - 1, places + 2, (rows, 1)).astype(np.int32)
    updates, base = (random.integers(0, 2, (count, columns)).astype(dtype.numpy) for count in (rows, places))
    ops: list[ReduceOp | None] = [None, ReduceOp.XOR if dtype.is_bool else ReduceOp.SUM, ReduceOp.MAX]

    def make(graph: Graph, base: Node, index: Node, updates: Node) -> list[Node]:
        places = graph.expand(index, updates.shape)
        return [graph.scatter(base, places, updates, 0, op) for op in ops]

    runner.check(case_of(runner.device, [base, index, updates], make))


#: Of the reference implementation of Random123: counter, key, result of Threefry-2x32 after 20 rounds.
KNOWN: Final = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN, ids=["zeros", "ones", "digits"])
def test_random_words_are_those_of_the_reference(
    device: Device, runner: GraphRunner, counter: tuple[int, int], key: tuple[int, int], wanted: tuple[int, int]
) -> None:
    _need(device, dtypes.uint32, dtypes.uint64)
    state = np.array([*key, *counter], np.uint32)

    def make(graph: Graph, state: Node) -> list[Node]:
        return [graph.random_bits(state, (1,), dtype) for dtype in (dtypes.uint32, dtypes.uint64)]

    short, long = runner.results(case_of(runner.device, [state], make))
    assert int(long[0]) == wanted[0] | wanted[1] << 32
    assert int(short[0]) == wanted[0] ^ wanted[1]


def test_random_words_do_not_depend_on_shapes_and_pieces(device: Device, runner: GraphRunner) -> None:
    _need(device, dtypes.uint32, dtypes.uint64)
    state = np.array([3, 5, (1 << 32) - 100, 7], np.uint32)

    def make(graph: Graph, state: Node) -> list[Node]:
        return [
            graph.random_bits(state, (1000,), dtypes.uint32),
            graph.random_bits(state, (10, 4, 25), dtypes.uint32),
            graph.random_bits(state, (600,), dtypes.uint32, 400),
            graph.random_bits(state, (1000,), dtypes.uint64),
        ]

    case = case_of(runner.device, [state], make)
    runner.check(case)
    whole, boxed, tail, _ = runner.results(case)
    np.testing.assert_array_equal(boxed.reshape(-1), whole)
    np.testing.assert_array_equal(tail, whole[400:])
    assert len(np.unique(whole)) > 990
