"""Loops, conditions, accumulators, arrays, masks and grids."""

from collections.abc import Callable

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.dtype import DType
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Memory
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, reduce_ops
from zyx_backend_c.device import CpuDevice

Check = Callable[..., None]
f32, i64, i32 = dtypes.float32, dtypes.int64, dtypes.int32


def data(count: int, dtype: DType = f32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.is_integer:
        return rng.integers(0, 100, count).astype(dtype.numpy)
    return rng.standard_normal(count).astype(dtype.numpy)


def times(b: Builder, x: int, factor: int) -> int:
    return b.binary(BinaryOp.MUL, x, b.like(factor, x))


def plus(b: Builder, x: int, y: int) -> int:
    return b.binary(BinaryOp.ADD, x, y)


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_an_accumulator_lives_through_nested_loops_and_conditions(device: CpuDevice, check: Check, lanes: int) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 4 * 60 * lanes, mutable=False), b.define(Memory.GLOBAL, f32, 4 * 2 * lanes)
    acc = b.define(Memory.REGISTER, f32, 2, lanes=lanes)
    group = b.index(Axis.GROUP, 0, 4)
    zero, one = b.const(0, i64), b.const(1, i64)
    b.store(acc, zero, b.const(0.0, f32, lanes))
    b.store(acc, one, b.const(1.0, f32, lanes))
    outer = b.loop(6)
    inner = b.loop(10)
    at = plus(b, times(b, group, 60), plus(b, times(b, outer, 10), inner))
    value = b.load(x, times(b, at, lanes), lanes)
    b.store(acc, zero, plus(b, b.load(acc, zero), value))
    is_late = b.binary(BinaryOp.LT, b.const(3, i64), inner)
    b.open_if(is_late)
    b.store(acc, one, b.binary(BinaryOp.MAX, b.load(acc, one), value))
    b.open_if(b.binary(BinaryOp.EQ, outer, b.const(2, i64)))
    b.store(acc, one, b.load(acc, zero))
    b.end_if()
    b.end_if()
    b.end_loop()
    b.store(acc, zero, b.binary(BinaryOp.MUL, b.load(acc, zero), b.const(0.5, f32, lanes)))
    b.end_loop()
    b.store(y, times(b, group, 2 * lanes), b.load(acc, zero))
    b.store(y, plus(b, times(b, group, 2 * lanes), b.const(lanes, i64)), b.load(acc, one))
    check(device, b.finish("accumulate"), data(4 * 60 * lanes), np.zeros(8 * lanes, np.float32))


def test_values_swap_places_in_a_loop(device: CpuDevice, check: Check) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, i64, 2)
    pair = b.define(Memory.REGISTER, i64, 2)
    zero, one = b.const(0, i64), b.const(1, i64)
    b.store(pair, zero, zero)
    b.store(pair, one, one)
    b.loop(20)
    first, second = b.load(pair, zero), b.load(pair, one)
    b.store(pair, zero, second)
    b.store(pair, one, plus(b, first, second))
    b.end_loop()
    b.store(y, zero, b.load(pair, zero))
    b.store(y, one, b.load(pair, one))
    check(device, b.finish("fibonacci"), np.zeros(2, np.int64))


@pytest.mark.parametrize("dtype", [f32, dtypes.bool_, dtypes.float16, dtypes.int8], ids=str)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("length", [4, 8192])
def test_a_register_array_may_be_indexed_at_run_time(
    device: CpuDevice, check: Check, dtype: DType, lanes: int, length: int
) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, dtype, 4 * lanes, mutable=False), b.define(Memory.GLOBAL, dtype, 4 * lanes)
    array = b.define(Memory.REGISTER, dtype, length, lanes=lanes)
    i = b.loop(4, i32)
    b.store(array, times(b, i, length // 4), b.load(x, times(b, i, lanes), lanes))
    b.end_loop()
    j = b.loop(4, i32)
    back = b.binary(BinaryOp.SUB, b.const(3, i32), j)
    b.store(y, times(b, j, lanes), b.load(array, times(b, back, length // 4)))
    b.end_loop()
    check(device, b.finish("reversed"), data(4 * lanes, dtype), np.zeros(4 * lanes, dtype.numpy))


def test_groups_share_nothing_in_their_local_arrays(device: CpuDevice, check: Check) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 64 * 100, mutable=False), b.define(Memory.GLOBAL, f32, 64 * 100)
    row, big = b.define(Memory.LOCAL, f32, 100), b.define(Memory.LOCAL, f32, 100_000)
    group = b.index(Axis.GROUP, 0, 64)
    start = times(b, group, 100)
    i = b.loop(100)
    value = b.load(x, plus(b, start, i))
    b.store(row, i, value)
    b.store(big, times(b, i, 1000), value)
    b.end_loop()
    b.add(k.Barrier())
    j = b.loop(100)
    back = b.binary(BinaryOp.SUB, b.const(99, i64), j)
    total = plus(b, b.load(row, back), b.load(big, times(b, j, 1000)))
    b.store(y, plus(b, start, j), total)
    b.end_loop()
    check(device, b.finish("local"), data(6400), np.zeros(6400, np.float32))


def test_the_first_group_axis_runs_fastest_and_all_three_are_reached(device: CpuDevice, check: Check) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, i64, 3 * 4 * 5)
    i0, i1, i2 = (b.index(Axis.GROUP, number, size) for number, size in enumerate((3, 4, 5)))
    place = plus(b, times(b, plus(b, times(b, i2, 4), i1), 3), i0)
    b.store(y, place, plus(b, times(b, i0, 100), plus(b, times(b, i1, 10), i2)))
    check(device, b.finish("grid"), np.zeros(60, np.int64))


def test_a_kernel_without_axes_runs_once(device: CpuDevice, check: Check) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, f32, 1)
    b.store(y, b.const(0, i64), b.const(2.5, f32))
    check(device, b.finish("once"), np.zeros(1, np.float32))


@pytest.mark.parametrize("index", [dtypes.uint8, dtypes.int16, dtypes.uint32, i32, i64], ids=str)
def test_indices_may_be_of_any_integer_type(device: CpuDevice, check: Check, index: DType) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 120, mutable=False), b.define(Memory.GLOBAL, f32, 120)
    group = b.index(Axis.GROUP, 0, 12, index)
    i = b.loop(10, index)
    at = plus(b, times(b, group, 10), i)
    b.store(y, at, b.unary(UnaryOp.NEG, b.load(x, at)))
    b.end_loop()
    check(device, b.finish("indices"), data(120), np.zeros(120, np.float32))


@pytest.mark.parametrize("dtype", [f32, dtypes.bool_, dtypes.bfloat16, dtypes.uint8, dtypes.float64], ids=str)
@pytest.mark.parametrize("lanes", [1, 4, 16, 64])
def test_masked_lanes_are_neither_read_nor_written(device: CpuDevice, check: Check, dtype: DType, lanes: int) -> None:
    count = 77  # no multiple of any number of lanes
    b = Builder()
    x, y = b.define(Memory.GLOBAL, dtype, count, mutable=False), b.define(Memory.GLOBAL, dtype, count)
    start = times(b, b.index(Axis.GROUP, 0, -(-count // lanes)), lanes)
    offsets = b.vectorize(tuple(b.const(lane, i64) for lane in range(lanes))) if lanes > 1 else b.const(0, i64)
    at = plus(b, b.splat(start, lanes), offsets)
    mask = b.binary(BinaryOp.LT, at, b.const(count, i64, lanes))
    odd = b.binary(BinaryOp.EQ, b.binary(BinaryOp.AND, at, b.const(1, i64, lanes)), b.const(1, i64, lanes))
    both = b.binary(BinaryOp.AND, mask, odd)
    b.store(y, start, b.load(x, start, lanes, mask), both)
    check(device, b.finish("masked"), data(count, dtype), np.ones(count, dtype.numpy))


def test_a_masked_load_from_before_the_start_gives_zero(device: CpuDevice, check: Check) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 40, mutable=False), b.define(Memory.GLOBAL, f32, 40)
    start = times(b, b.index(Axis.GROUP, 0, 5), 8)
    before = b.binary(BinaryOp.SUB, start, b.const(3, i64))
    lanes = b.vectorize(tuple(b.const(lane, i64) for lane in range(8)))
    mask = b.binary(BinaryOp.LE, b.const(0, i64, 8), plus(b, b.splat(before, 8), lanes))
    b.store(y, start, b.load(x, before, 8, mask))
    check(device, b.finish("padded"), data(40), np.zeros(40, np.float32))


@pytest.mark.parametrize("lanes", [1, 4])
def test_masks_work_on_register_arrays(device: CpuDevice, check: Check, lanes: int) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 16, mutable=False), b.define(Memory.GLOBAL, f32, 32)
    slots, array = (b.define(Memory.REGISTER, f32, 1, lanes=lanes) for _ in range(2))
    start = times(b, b.index(Axis.GROUP, 0, 16 // lanes), lanes)
    zero = b.const(0, i64)
    value = b.load(x, start, lanes)
    positive = b.binary(BinaryOp.LT, b.const(0.0, f32, lanes), value)
    at_run_time = b.binary(BinaryOp.AND, start, zero)
    for target, index in ((slots, zero), (array, at_run_time)):
        b.store(target, index, b.const(7.0, f32, lanes))
        b.store(target, index, value, positive)
        place = start if target == slots else plus(b, start, b.const(16, i64))
        b.store(y, place, b.load(target, index, mask=b.unary(UnaryOp.NOT, positive)))
    check(device, b.finish("masked_registers"), data(16), np.zeros(32, np.float32))


def test_scalar_arguments_are_passed_by_value(device: CpuDevice, check: Check) -> None:
    numbers = [
        True,
        200,
        60000,
        4_000_000_000,
        2**63 + 5,
        -100,
        -30000,
        -2_000_000_000,
        -(2**62),
        1.5,
        -2.5,
        0.1,
        1e300,
    ]
    values = dict(zip(dtypes.ALL, numbers, strict=True))
    b = Builder()
    outputs = [b.define(Memory.GLOBAL, dtype, 1) for dtype in values]
    variables = [b.add(k.Variable(k.Type(dtype), f"s{i}")) for i, dtype in enumerate(values)]
    zero = b.const(0, i64)
    for output, variable in zip(outputs, variables, strict=True):
        b.store(output, zero, variable)
    arrays = [np.zeros(1, dtype.numpy) for dtype in values]
    scalars = [dtype.to_scalar(value) for dtype, value in values.items()]
    check(device, b.finish("scalars"), *arrays, *scalars)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if not (d.is_float and d.bits == 16)], ids=str)
def test_atomics_of_many_groups_lose_nothing(device: CpuDevice, check: Check, dtype: DType) -> None:
    operations = sorted(reduce_ops(dtype), key=lambda op: op.value)
    groups = 3000
    b = Builder()
    x = b.define(Memory.GLOBAL, dtype, groups, mutable=False)
    y = b.define(Memory.GLOBAL, dtype, len(operations))
    group = b.index(Axis.GROUP, 0, groups)
    value = b.load(x, group)
    for number, op in enumerate(operations):
        even = b.binary(BinaryOp.EQ, b.binary(BinaryOp.AND, group, b.const(1, i64)), b.const(0, i64))
        b.atomic(op, y, b.const(number, i64), value, even if number % 2 else None)
    kernel = b.finish("atomics")
    values = data(groups, dtype)
    if dtype.is_float:  # sums and products that are exact in any order
        values = np.where(values > 0, 1, 2).astype(dtype.numpy)
        values[:: groups // 8] = 0.5
        values[np.cumsum(values == 2) > 20] = 1
    assert set(operations) == set(device.info.capabilities[dtype].atomic)
    check(device, kernel, values, np.ones(len(operations), dtype.numpy))


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MAX])
def test_atomics_work_on_memory_of_the_group(device: CpuDevice, check: Check, op: ReduceOp) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 64, mutable=False), b.define(Memory.GLOBAL, f32, 8)
    bins = b.define(Memory.LOCAL, f32, 4)
    i = b.loop(4)
    b.store(bins, i, b.const(1.0, f32))
    b.end_loop()
    j = b.loop(64)
    value = b.load(x, j)
    b.atomic(op, bins, b.binary(BinaryOp.AND, j, b.const(3, i64)), value, b.binary(BinaryOp.LT, j, b.const(50, i64)))
    b.end_loop()
    n = b.loop(4)
    b.store(y, n, b.load(bins, n))
    b.end_loop()
    check(device, b.finish("bins"), data(64), np.zeros(8, np.float32))


@pytest.mark.parametrize("dtype", [f32, dtypes.bool_, dtypes.float16, i64], ids=str)
def test_lanes_can_be_picked_and_put_together(device: CpuDevice, check: Check, dtype: DType) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, dtype, 16, mutable=False), b.define(Memory.GLOBAL, dtype, 40)
    low, high = b.load(x, b.const(0, i64), 8), b.load(x, b.const(8, i64), 8)
    picked = b.add(k.Shuffle(low, high, (0, 8, 1, 9, 15, 7, 3, 3), k.Type(dtype, 8)))
    wider = b.add(k.Shuffle(low, high, tuple(range(15, -1, -1)), k.Type(dtype, 16)))
    narrow = b.add(k.Shuffle(low, high, (4, 12), k.Type(dtype, 2)))
    items = tuple(b.devectorize(high, lane) for lane in (7, 0, 0, 3))
    for place, value in ((0, picked), (8, wider), (24, narrow), (26, b.vectorize(items)), (30, b.splat(items[0], 8))):
        b.store(y, b.const(place, i64), value)
    check(device, b.finish("lanes"), data(16, dtype), np.zeros(40, dtype.numpy))


def test_streaming_stores_write_what_others_do(device: CpuDevice, check: Check) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 1 << 14, mutable=False), b.define(Memory.GLOBAL, f32, 1 << 14)
    at = plus(b, times(b, b.index(Axis.GROUP, 0, 32), 512), times(b, b.index(Axis.GROUP, 1, 16), 32))
    b.store(y, at, b.unary(UnaryOp.NEG, b.load(x, at, 32)), streaming=True)
    check(device, b.finish("streaming"), data(1 << 14), np.zeros(1 << 14, np.float32))


def test_one_condition_chooses_between_vectors(device: CpuDevice, check: Check) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 64, mutable=False), b.define(Memory.GLOBAL, f32, 64)
    group = b.index(Axis.GROUP, 0, 4)
    at = times(b, group, 16)
    value = b.load(x, at, 16)
    b.store(y, at, b.where(b.binary(BinaryOp.LT, group, b.const(2, i64)), value, b.unary(UnaryOp.NEG, value)))
    check(device, b.finish("choice"), data(64), np.zeros(64, np.float32))


def test_a_loop_of_no_turns_leaves_everything_as_it_was(device: CpuDevice, check: Check) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, f32, 2)
    acc = b.define(Memory.REGISTER, f32, 1)
    zero = b.const(0, i64)
    b.store(acc, zero, b.const(3.0, f32))
    i = b.loop(0)
    b.store(acc, zero, b.cast(i, f32))
    b.loop(4)
    b.store(y, b.const(1, i64), b.const(9.0, f32))
    b.end_loop()
    b.end_loop()
    b.store(y, zero, b.load(acc, zero))
    check(device, b.finish("never"), np.zeros(2, np.float32))


def test_an_array_without_elements_can_be_read_where_a_mask_is_false(device: CpuDevice, check: Check) -> None:
    b = Builder()
    x, y = b.define(Memory.GLOBAL, f32, 0, mutable=False), b.define(Memory.GLOBAL, f32, 8)
    flags = b.define(Memory.GLOBAL, dtypes.bool_, 0, mutable=False)
    zero, never = b.const(0, i64), b.const(False, dtypes.bool_)
    b.store(y, zero, b.where(b.load(flags, zero, mask=never), b.const(1.0, f32), b.load(x, zero, mask=never)))
    b.store(y, b.const(4, i64), b.load(x, zero, 4, b.const(False, dtypes.bool_, 4)))
    kernel = b.finish("empty")
    program = device.compile(kernel)
    nothing, event = device.memory_pool.allocate(64)
    result, _ = device.memory_pool.allocate(32)
    result.array[:] = 255
    device.launch(program, [nothing, result, nothing], [event])
    assert result.array.view(np.float32)[[0, 4, 5, 6, 7]].tolist() == [0.0] * 5


@pytest.mark.parametrize(("index", "size"), [(dtypes.uint8, 256), (dtypes.int8, 128), (dtypes.uint8, 255)], ids=str)
def test_a_loop_may_run_through_all_values_of_its_type(
    device: CpuDevice, check: Check, index: DType, size: int
) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, index, size)
    i = b.loop(size, index)
    b.store(y, i, b.unary(UnaryOp.NOT, i))
    b.end_loop()
    check(device, b.finish("through"), np.zeros(size, index.numpy))
