"""Threads that run in step swap values: those that a device claims in `DeviceInfo.subgroup_size` and `swaps`.

Every thread has another value, so one that comes from a wrong thread, or is old, is noticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.testing.suite.test_kernels import check
from zyx.testing.suite.test_limits import refuse_or_run
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.kernel.data import ValueId

SWAPPABLE: Final = [dtype for dtype in dtypes.ALL if dtype.bits in (32, 64)]
GROUPS: Final = 5


def subgroup_of(device: Device, dtype: DType) -> int:
    """Return how many threads swap values of a dtype; skip the test if none do."""
    if not device.info.subgroup_size or dtype not in device.info.swaps:
        pytest.skip(f"{device.name} does not claim that threads swap {dtype}")
    return device.info.subgroup_size


def shapes_of(device: Device, subgroup: int) -> list[tuple[int, ...]]:
    """Return shapes of groups: of half a subgroup, of one, of several, beside each other too, of all there can be."""
    info = device.info
    most = min(info.max_group_threads, info.max_group_shape[0]) // subgroup * subgroup
    wanted = [(subgroup // 2,), (subgroup,), (2 * subgroup,), (3 * subgroup,), (subgroup, 3), (2, 3), (most,)]
    return [
        shape
        for shape in dict.fromkeys(wanted)
        if np.prod(shape) <= info.max_group_threads
        and shape[0] > 1
        and all(size <= limit for size, limit in zip(shape, (*info.max_group_shape, 1), strict=False))
        and len(shape) <= len(info.max_group_shape)
    ]


def distances(shape: tuple[int, ...], subgroup: int) -> list[int]:
    """Return the distances at which threads of a group of that shape swap: powers of two, and what lies between."""
    together = int(np.gcd(shape[0], subgroup))
    powers = [1 << bit for bit in range(together.bit_length() - 1)]
    return sorted({*powers, together - 1, together // 2 + 1} - {0, together})


def grid(b: Builder, shape: tuple[int, ...]) -> tuple[ValueId, ValueId]:
    """Return the number of the group, and that of the thread among all threads."""
    group = b.index(k.Axis.GROUP, 0, GROUPS)
    number = group
    for axis in reversed(range(len(shape))):
        thread = b.index(k.Axis.LOCAL, axis, shape[axis])
        size = b.const(shape[axis], dtypes.int64)
        number = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, number, size), thread)
    return group, number


@pytest.mark.parametrize("dtype", SWAPPABLE, ids=lambda dtype: dtype.short)
def test_threads_get_the_value_of_the_thread_that_they_swap_with(device: Device, dtype: DType) -> None:
    subgroup = subgroup_of(device, dtype)
    for shape in shapes_of(device, subgroup):
        count = GROUPS * int(np.prod(shape))
        for distance in distances(shape, subgroup):
            b = Builder()
            out, x = b.define(k.Memory.GLOBAL, dtype, count), b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
            _, at = grid(b, shape)
            b.store(out, at, b.swap(b.load(x, at), distance))
            data = random_array(dtype, count, np.random.default_rng(distance))
            check(device, b.finish(f"swap_{dtype.short}_{distance}"), [np.zeros_like(data), data])


@pytest.mark.parametrize("dtype", SWAPPABLE, ids=lambda dtype: dtype.short)
def test_threads_swap_vectors_lane_by_lane(device: Device, dtype: DType) -> None:
    subgroup = subgroup_of(device, dtype)
    lanes = max((1, *device.info.capabilities[dtype].lanes))
    count = GROUPS * subgroup * lanes
    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtype, count), b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
    _, number = grid(b, (subgroup,))
    at = b.binary(BinaryOp.MUL, number, b.const(lanes, dtypes.int64))
    b.store(out, at, b.swap(b.load(x, at, lanes), subgroup // 2))
    data = random_array(dtype, count, np.random.default_rng(lanes))
    check(device, b.finish("vectors"), [np.zeros_like(data), data])


@pytest.mark.parametrize("dtype", SWAPPABLE, ids=lambda dtype: dtype.short)
def test_all_threads_of_a_subgroup_get_its_sum(device: Device, dtype: DType) -> None:
    """Each swap gives what the swap before it made, in a loop, and in a branch that whole groups take or leave."""
    subgroup = subgroup_of(device, dtype)
    for shape in shapes_of(device, subgroup):
        together = int(np.gcd(shape[0], subgroup))
        count = GROUPS * int(np.prod(shape))
        b = Builder()
        out, x = b.define(k.Memory.GLOBAL, dtype, count), b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
        total = b.define(k.Memory.REGISTER, dtype, 1)
        group, at = grid(b, shape)
        zero = b.const(0, dtypes.int64)
        b.store(total, zero, b.load(x, at))
        b.open_if(b.binary(BinaryOp.NE, group, b.const(1, dtypes.int64)))
        b.loop(2)
        distance = together
        while distance > 1:
            distance //= 2
            value = b.load(total, zero)
            b.store(total, zero, b.binary(BinaryOp.ADD, value, b.swap(value, distance)))
        b.end_loop()
        b.end_if()
        b.store(out, at, b.load(total, zero))
        data = np.random.default_rng(2).integers(0, 100, count).astype(dtype.numpy)
        check(device, b.finish("sums"), [np.zeros_like(data), data])


def test_threads_swap_between_writes_to_local_memory(device: Device) -> None:
    """Nobody has to meet for a swap, and a swap does not stand for meeting."""
    subgroup = subgroup_of(device, dtypes.int32)
    threads = min(4 * subgroup, device.info.max_group_threads // subgroup * subgroup, device.info.max_group_shape[0])
    if device.info.local_bytes < 4 * threads or threads < 2 * subgroup:
        pytest.skip(f"{device.name} has groups of {threads} threads and {device.info.local_bytes} bytes")
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, GROUPS * threads)
    x = b.define(k.Memory.GLOBAL, dtypes.int32, GROUPS * threads, mutable=False)
    shared = b.define(k.Memory.LOCAL, dtypes.int32, threads)
    _, at = grid(b, (threads,))
    thread = b.binary(BinaryOp.MOD, at, b.const(threads, dtypes.int64))
    b.store(shared, thread, b.swap(b.load(x, at), 1))
    b.barrier()
    turned = b.binary(BinaryOp.SUB, b.const(threads - 1, dtypes.int64), thread)
    b.store(out, at, b.swap(b.load(shared, turned), subgroup // 2))
    data = np.random.default_rng(3).integers(-(2**31), 2**31, GROUPS * threads).astype(np.int32)
    check(device, b.finish("between"), [np.zeros_like(data), data])


def test_what_a_device_claims_is_a_number_of_threads(device: Device) -> None:
    info = device.info
    assert info.subgroup_size == 0 or info.subgroup_size.bit_count() == 1
    assert info.subgroup_size != 1, "one thread has nobody to swap with: say 0"
    assert bool(info.swaps) == bool(info.subgroup_size), "a size without dtypes, or dtypes without a size"
    assert info.swaps <= set(SWAPPABLE) & set(info.capabilities)
    assert info.subgroup_size <= min(info.max_group_threads, info.max_group_shape[0])


def test_threads_that_do_not_run_in_step_are_refused_to_swap(device: Device) -> None:
    info = device.info
    threads = max(2, 2 * info.subgroup_size)
    if threads > min(info.max_group_threads, info.max_group_shape[0]):
        pytest.skip(f"{device.name} has no groups of {threads} threads")
    b = Builder()
    out, x = (b.define(k.Memory.GLOBAL, dtypes.int32, threads) for _ in range(2))
    thread = b.index(k.Axis.LOCAL, 0, threads, dtypes.int32)
    b.store(out, thread, b.swap(b.load(x, thread), threads // 2))
    data = np.arange(threads, dtype=np.int32)
    wanted = data[data ^ (threads // 2)]
    refuse_or_run(device, b.finish("too_far"), [np.zeros_like(data), data], wanted, "swap")
