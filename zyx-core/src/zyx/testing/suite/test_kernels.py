"""Kernels with loops, branches, scratch memory, threads that meet, atomics, and accesses of every alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp, ReduceOp, identity
from zyx.semantics import reduce_ufunc
from zyx.testing.compare import assert_within
from zyx.testing.launching import claimed_dtypes, expected, lane_counts, prepare, run_on
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device
    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel, ValueId
    from zyx.testing.values import Array

LENGTHS: Final = (1, 2, 3, 4, 7, 31, 64, 65)


def check(device: Device, kernel: Kernel, args: Sequence[Array | Scalar]) -> None:
    """Assert that a kernel stores on a device what the interpreter says."""
    results = run_on(device, prepare(kernel, device), args)
    for number, (actual, wanted) in enumerate(zip(results, expected(kernel, args), strict=True)):
        assert_within(actual, wanted, f"array {number} of {kernel.name}")


def least_dtype(device: Device) -> DType:
    """Return a dtype that any device has: int32."""
    if not device.info.can_store(dtypes.int32):
        pytest.skip(f"{device.name} does not claim int32")
    return dtypes.int32


@pytest.mark.parametrize("end", [-3, 0, 1, 5, 7, 9])
@pytest.mark.parametrize("by_row", [False, True], ids=["alike", "apart"])
def test_loops_end_where_they_are_told(device: Device, end: int, *, by_row: bool) -> None:
    if not device.takes_loop_ends:
        pytest.skip(f"{device.name} takes no loops with ends")
    dtype, length = least_dtype(device), 7
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, 10), b.define(k.Memory.GLOBAL, dtype, 5 * length, mutable=False)
    given = b.variable(dtype, "end")
    total = b.define(k.Memory.REGISTER, dtype, 2)
    row = b.index(k.Axis.GROUP, 0, 5)
    zero, one = b.const(0, dtypes.int64), b.const(1, dtypes.int64)
    # Before it is an index: of one that is not known to be small, a device without int64 has no difference.
    last = b.cast(b.binary(BinaryOp.SUB, given, b.cast(row, dtype)) if by_row else given, dtypes.int64)
    b.store(total, zero, b.const(3, dtype))
    b.store(total, one, b.const(-1, dtype))  # which a loop that does not run leaves as it is
    column = b.loop(length, end=last)
    value = b.load(x, b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, row, b.const(length, dtypes.int64)), column))
    b.store(total, one, value)
    inner = b.loop(3, end=column)
    b.store(
        total, zero, b.binary(BinaryOp.ADD, b.load(total, zero), b.binary(BinaryOp.ADD, value, b.cast(inner, dtype)))
    )
    b.end_loop()
    b.end_loop()
    at = b.binary(BinaryOp.MUL, row, b.const(2, dtypes.int64))
    b.store(out, at, b.load(total, zero))
    b.store(out, b.binary(BinaryOp.ADD, at, one), b.load(total, one))
    values = random_array(dtype, 5 * length, np.random.default_rng(end + 9))
    check(device, b.finish("ended"), [np.zeros(10, dtype.numpy), values, end])


@pytest.mark.parametrize("length", LENGTHS)
def test_loops_carry_values_in_register_memory(device: Device, length: int) -> None:
    dtype = least_dtype(device)
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, 5), b.define(k.Memory.GLOBAL, dtype, 5 * length, mutable=False)
    total = b.define(k.Memory.REGISTER, dtype, 2)
    row = b.index(k.Axis.GROUP, 0, 5)
    zero, one = b.const(0, dtypes.int64), b.const(1, dtypes.int64)
    b.store(total, zero, b.const(0, dtype))
    b.store(total, one, b.const(1, dtype))
    column = b.loop(length)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, row, b.const(length, dtypes.int64)), column)
    value = b.load(x, at)
    b.store(total, zero, b.binary(BinaryOp.ADD, b.load(total, zero), value))
    b.store(total, one, b.binary(BinaryOp.XOR, b.load(total, one), value))
    b.end_loop()
    b.store(out, row, b.binary(BinaryOp.SUB, b.load(total, zero), b.load(total, one)))
    data = np.random.default_rng(length).integers(-(2**31), 2**31, 5 * length).astype(np.int32)
    check(device, b.finish("rows"), [np.zeros(5, np.int32), data])


def test_loops_nest_and_loops_of_no_iteration_do_nothing(device: Device) -> None:
    dtype = least_dtype(device)
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtype, 24)
    outer = b.loop(4)
    inner = b.loop(6)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, outer, b.const(6, dtypes.int64)), inner)
    b.store(out, at, b.cast(b.binary(BinaryOp.MUL, outer, inner), dtype))
    never = b.loop(0)
    b.store(out, b.const(0, dtypes.int64), b.cast(b.binary(BinaryOp.ADD, never, b.const(99, dtypes.int64)), dtype))
    b.end_loop()
    b.end_loop()
    b.end_loop()
    check(device, b.finish("nested"), [np.full(24, -1, np.int32)])


def test_branches_run_where_their_condition_holds(device: Device) -> None:
    dtype = least_dtype(device)
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, 100), b.define(k.Memory.GLOBAL, dtype, 100, mutable=False)
    at = b.index(k.Axis.GROUP, 0, 100)
    value = b.load(x, at)
    b.open_if(b.binary(BinaryOp.LT, value, b.const(0, dtype)))
    b.store(out, at, b.const(-1, dtype))
    b.open_if(b.binary(BinaryOp.LT, value, b.const(-50, dtype)))
    b.store(out, at, b.const(-2, dtype))
    b.end_if()
    b.end_if()
    b.open_if(b.binary(BinaryOp.LE, b.const(0, dtype), value))
    b.store(out, at, value)
    b.end_if()
    data = np.random.default_rng(0).integers(-100, 100, 100).astype(np.int32)
    check(device, b.finish("branches"), [np.zeros(100, np.int32), data])


def test_masked_and_unaligned_vectors_touch_their_lanes_only(device: Device, effort: Callable[[int, int], int]) -> None:
    found = [(dtype, lane_counts(device, dtype)[1:]) for dtype in claimed_dtypes(device)]
    if not any(counts for _, counts in found):
        pytest.skip(f"{device.name} claims no vectors")
    for dtype, counts in found:
        for lanes in counts[:: effort(3, 1)]:
            _check_masked(device, dtype, lanes)


def _check_masked(device: Device, dtype: DType, lanes: int) -> None:
    """Copy elements `offset` to length - 2, for some offsets, with a masked tail; the others stay."""
    length = 6 * lanes + 1
    offsets = dict.fromkeys((0, 1, lanes - 1))
    b = Builder()
    outs = [b.define(k.Memory.GLOBAL, dtype, length) for _ in offsets]
    x = b.define(k.Memory.GLOBAL, dtype, length, mutable=False)
    number = b.index(k.Axis.GROUP, 0, -(-length // lanes))
    start = b.binary(BinaryOp.MUL, number, b.const(lanes, dtypes.int64))
    for out, offset in zip(outs, offsets, strict=True):
        at = b.binary(BinaryOp.ADD, start, b.const(offset, dtypes.int64))
        steps = b.vectorize(tuple(b.const(lane, dtypes.int64) for lane in range(lanes)))
        places = b.binary(BinaryOp.ADD, b.splat(at, lanes), steps)
        mask = b.binary(BinaryOp.LE, places, b.const(length - 2, dtypes.int64, lanes))
        b.store(out, at, b.load(x, at, lanes, mask), mask)
    random = np.random.default_rng(lanes)
    arrays = [random_array(dtype, length, random) for _ in range(len(outs) + 1)]
    check(device, b.finish(f"masked_{dtype.short}x{lanes}"), arrays)


def threads_of(device: Device, wanted: int) -> int:
    """Return a number of threads that a group may have, at most `wanted`."""
    return min(wanted, device.info.max_group_threads, device.info.max_group_shape[0])


@pytest.mark.parametrize("wanted", [2, 7, 32, 64, 256])
def test_threads_of_a_group_meet_at_barriers(device: Device, wanted: int) -> None:
    dtype = least_dtype(device)
    threads = threads_of(device, wanted)
    if threads < 2 or device.info.local_bytes < 4 * threads:
        pytest.skip(f"{device.name} has {threads} threads a group, {device.info.local_bytes} bytes of local memory")
    groups, rounds = 3, 3
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtype, groups * threads)
    x = b.define(k.Memory.GLOBAL, dtype, groups * threads, mutable=False)
    shared = b.define(k.Memory.LOCAL, dtype, threads)
    group, thread = b.index(k.Axis.GROUP, 0, groups), b.index(k.Axis.LOCAL, 0, threads)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, group, b.const(threads, dtypes.int64)), thread)
    b.store(shared, thread, b.load(x, at))
    following = b.binary(
        BinaryOp.MOD, b.binary(BinaryOp.ADD, thread, b.const(1, dtypes.int64)), b.const(threads, dtypes.int64)
    )
    b.loop(rounds)
    b.barrier()
    value = b.binary(BinaryOp.ADD, b.load(shared, following), b.load(shared, thread))
    b.barrier()
    b.store(shared, thread, value)
    b.end_loop()
    b.barrier()
    last = b.binary(BinaryOp.SUB, b.const(threads - 1, dtypes.int64), thread)
    b.store(out, at, b.load(shared, last))
    data = np.random.default_rng(1).integers(-1000, 1000, groups * threads).astype(np.int32)
    check(device, b.finish("meet"), [np.zeros(groups * threads, np.int32), data])


@pytest.mark.parametrize("wanted", [4, 32, 256])
def test_threads_reduce_together_in_a_tree(device: Device, wanted: int) -> None:
    dtype = least_dtype(device)
    threads = 1 << (threads_of(device, wanted).bit_length() - 1)
    if threads < 2 or device.info.local_bytes < 4 * threads:
        pytest.skip(f"{device.name} has {threads} threads a group, {device.info.local_bytes} bytes of local memory")
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, 5), b.define(k.Memory.GLOBAL, dtype, 5 * threads, mutable=False)
    shared = b.define(k.Memory.LOCAL, dtype, threads)
    group, thread = b.index(k.Axis.GROUP, 0, 5), b.index(k.Axis.LOCAL, 0, threads)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, group, b.const(threads, dtypes.int64)), thread)
    b.store(shared, thread, b.load(x, at))
    b.barrier()
    half = threads // 2
    while half:
        distance = b.const(half, dtypes.int64)
        takes_part = b.binary(BinaryOp.LT, thread, distance)
        other = b.load(shared, b.binary(BinaryOp.ADD, thread, distance), 1, takes_part)
        b.store(shared, thread, b.binary(BinaryOp.ADD, b.load(shared, thread, 1, takes_part), other), takes_part)
        b.barrier()
        half //= 2
    first = b.binary(BinaryOp.EQ, thread, b.const(0, dtypes.int64))
    b.store(out, group, b.load(shared, thread), first)
    data = np.random.default_rng(2).integers(-(2**30), 2**30, 5 * threads).astype(np.int32)
    check(device, b.finish("tree"), [np.zeros(5, np.int32), data])


def test_atomics_lose_no_update(device: Device) -> None:
    found = [
        (dtype, op) for dtype in claimed_dtypes(device) for op in _in_order(device.info.capabilities[dtype].atomic)
    ]
    if not found:
        pytest.skip(f"{device.name} claims no atomics")
    for dtype, op in found:
        count, places = 3000, 7
        b = Builder()
        out, x = b.define(k.Memory.GLOBAL, dtype, places), b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
        at = b.index(k.Axis.GROUP, 0, count)
        target = b.binary(BinaryOp.MOD, at, b.const(places, dtypes.int64))
        _atomic(b, op, out, target, b.load(x, at))
        random = np.random.default_rng(4)
        start = np.full(places, identity(op, dtype), dtype.numpy)
        if dtype.is_float:  # values whose sums and products are exact
            data = random.choice(np.array([1.0, -1.0, 2.0, 0.5] if op is ReduceOp.PROD else [1.0, 2.0, -3.0]), count)
            data = np.where(np.arange(count) % 97 == 0, data, 1.0).astype(dtype.numpy)
        else:
            data = random_array(dtype, count, random)
        wanted = start.copy()
        reduce_ufunc(op).at(wanted, np.arange(count) % places, data)
        actual = run_on(device, prepare(b.finish("atomics"), device), [start, data])[0]
        if dtype.is_float and dtype.bits == 16 and op is ReduceOp.SUM:
            continue  # counts beyond 256 are not exact
        assert_within(actual, wanted, f"atomic {op.value} of {dtype}")


def _atomic(b: Builder, op: ReduceOp, out: ValueId, at: ValueId, value: ValueId) -> None:
    b.atomic(op, out, at, value)


def _in_order(ops: frozenset[ReduceOp]) -> list[ReduceOp]:
    return [op for op in ReduceOp if op in ops]


def test_scalar_arguments_are_passed_by_value(device: Device) -> None:
    for dtype in claimed_dtypes(device):
        b = Builder()
        out = b.define(k.Memory.GLOBAL, dtype, 3)
        value = b.variable(dtype, "value")
        b.store(out, b.index(k.Axis.GROUP, 0, 3), value)
        given: Scalar = True if dtype.is_bool else 2.5 if dtype.is_float else int(dtype.max) - 1
        check(device, b.finish("fill"), [np.zeros(3, dtype.numpy), given])
