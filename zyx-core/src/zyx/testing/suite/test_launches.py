"""Launches: grids of every size, arguments that do not fit, programs that are gone, sequences that are captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Program, Slot, SupportsCapture, SupportsEntry, SupportsTiming
from zyx.builtin.host import HostPool
from zyx.errors import BackendError, LaunchError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.testing.launching import Loaded, download, prepare, run_on, upload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, Device, MemoryPool
    from zyx.kernel.data import Kernel


def numbered(groups: Sequence[int], threads: Sequence[int] = ()) -> Kernel:
    """Return a kernel in which every point of a grid stores its number, groups first, at that place."""
    b = Builder()
    count = int(np.prod([*groups, *threads]))
    out = b.define(k.Memory.GLOBAL, dtypes.int32, count)
    number = b.const(0, dtypes.int64)
    for axis, sizes in ((k.Axis.GROUP, groups), (k.Axis.LOCAL, threads)):
        for place, size in enumerate(sizes):
            index = b.index(axis, place, size)
            number = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, number, b.const(size, dtypes.int64)), index)
    b.store(out, number, b.cast(number, dtypes.int32))
    return b.finish("numbered")


GRIDS = [
    (1,),
    (7,),
    (255,),
    (256,),
    (257,),
    (4099,),
    (65_535,),
    (65_536,),
    (70_001,),
    (3, 5),
    (17, 129),
    (2, 3, 5),
    (31, 1, 33),
    (2, 65_537),
    (65_537, 2),
    (3, 1, 65_539),
]


@pytest.mark.parametrize("groups", GRIDS, ids=lambda shape: "x".join(map(str, shape)))
def test_every_group_of_a_grid_runs_once(device: Device, groups: tuple[int, ...]) -> None:
    count = int(np.prod(groups))
    kernel = prepare(numbered(groups), device)
    (result,) = run_on(device, kernel, [np.full(count, -1, np.int32)])
    np.testing.assert_array_equal(result, np.arange(count, dtype=np.int32))


@pytest.mark.parametrize("threads", [(2,), (3,), (32,), (64,), (100,), (256,), (4, 8), (3, 5, 2)], ids=str)
def test_every_thread_of_a_group_runs_once(device: Device, threads: tuple[int, ...]) -> None:
    info = device.info
    if int(np.prod(threads)) > info.max_group_threads or any(
        size > most for size, most in zip(threads, info.max_group_shape, strict=False)
    ):
        pytest.skip(f"{device.name} has groups of {info.max_group_shape} threads, {info.max_group_threads} in all")
    count = 5 * int(np.prod(threads))
    (result,) = run_on(device, prepare(numbered((5,), threads), device), [np.full(count, -1, np.int32)])
    np.testing.assert_array_equal(result, np.arange(count, dtype=np.int32))


def copy(length: int) -> Kernel:
    """Return a kernel that copies its second param to its first."""
    b = Builder()
    out, x = (
        b.define(k.Memory.GLOBAL, dtypes.int32, length),
        b.define(k.Memory.GLOBAL, dtypes.int32, length, mutable=False),
    )
    at = b.index(k.Axis.GROUP, 0, length)
    b.store(out, at, b.load(x, at))
    return b.finish("copy")


@pytest.fixture
def program(device: Device) -> Program:
    """The program that copies 16 integers."""
    return device.compile(prepare(copy(16), device))


def _refuse(device: Device, program: Program, args: Sequence[Argument]) -> None:
    with pytest.raises(BackendError) as refused:
        device.memory_pool.sync_events([device.launch(program, args)])
    assert isinstance(refused.value, LaunchError), f"{type(refused.value).__name__} is no LaunchError"
    assert str(refused.value)


def test_arguments_that_do_not_fit_are_refused_and_change_nothing(
    device: Device, pool: MemoryPool, program: Program
) -> None:
    data = np.arange(16, dtype=np.int32)
    out, x, small = upload(pool, np.zeros(16, np.int32)), upload(pool, data), upload(pool, np.zeros(15, np.int32))
    gone = upload(pool, data)
    pool.deallocate(gone)
    foreign, _ = HostPool("elsewhere", 1 << 20).allocate(64)
    wrong: list[list[Argument]] = [
        [], [out], [out, x, x], [out, small], [small, x], [out, gone], [gone, x], [out, foreign], [foreign, x],
        [out, 3], [1.5, x],
    ]  # fmt: skip
    for args in wrong:
        _refuse(device, program, args)
    np.testing.assert_array_equal(download(pool, out, data), np.zeros(16, np.int32))
    pool.sync_events([device.launch(program, [out, x])])
    np.testing.assert_array_equal(download(pool, out, data), data)
    for buffer in (out, x, small):
        pool.deallocate(buffer)
    device.release(program)


def test_of_a_front_a_launch_may_give_less(device: Device, pool: MemoryPool) -> None:
    if not device.takes_fronts:
        pytest.skip("the device takes all of an array at each launch")
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 64)
    x = b.add(k.Define(k.Memory.GLOBAL, dtypes.int32, 64, mutable=False, is_front=True))
    count = b.variable(dtypes.int32, "count")
    position = b.index(k.Axis.GROUP, 0, 64, dtypes.int32)
    place = b.where(b.binary(BinaryOp.LT, position, count), position, b.const(0, dtypes.int32))
    b.store(out, position, b.load(x, place))
    program = device.compile(prepare(b.finish("front"), device))
    result = upload(pool, np.zeros(64, np.int32))
    for length in (1, 5, 63, 64, 3):
        data = np.arange(length, dtype=np.int32) + 7
        source = upload(pool, data)
        pool.sync_events([device.launch(program, [result, source, length])])
        np.testing.assert_array_equal(download(pool, result, np.zeros(64, np.int32))[:length], data)
        pool.deallocate(source)
    pool.deallocate(result)
    device.release(program)


def test_larger_buffers_than_needed_are_accepted(device: Device, pool: MemoryPool, program: Program) -> None:
    data = np.arange(100, dtype=np.int32)
    out, x = upload(pool, np.full(100, -1, np.int32)), upload(pool, data)
    pool.sync_events([device.launch(program, [out, x])])
    wanted = np.where(data < 16, data, -1)
    np.testing.assert_array_equal(download(pool, out, data), wanted)
    pool.deallocate(out)
    pool.deallocate(x)
    device.release(program)


def test_a_program_that_no_device_made_is_refused(device: Device) -> None:
    _refuse(device, Program("somebody_elses"), [])


def test_the_info_of_a_device_is_one_object_and_makes_sense(device: Device) -> None:
    info = device.info
    assert device.info is info
    assert hash(info) == hash(device.info)
    assert info.model
    assert info.driver
    assert info.flops_per_s > 0
    assert info.bytes_per_s > 0
    assert 0 < device.free_compute <= info.flops_per_s
    assert info.max_groups
    assert info.max_group_threads >= 1
    assert info.capabilities
    for dtype, capability in info.capabilities.items():
        assert all(lanes > 1 for lanes in capability.lanes), dtype
        assert info.lanes(dtype) in (1, *capability.lanes)


def steps(device: Device, length: int) -> tuple[Program, Program]:
    """Return programs that add 1 to, and double, every element of their param."""
    programs = []
    for name, op, constant in (("increment", BinaryOp.ADD, 1), ("double", BinaryOp.MUL, 2)):
        b = Builder()
        array = b.define(k.Memory.GLOBAL, dtypes.int32, length)
        at = b.index(k.Axis.GROUP, 0, length)
        b.store(array, at, b.binary(op, b.load(array, at), b.const(constant, dtypes.int32)))
        programs.append(device.compile(prepare(b.finish(name), device)))
    return programs[0], programs[1]


@pytest.fixture
def capture(device: Device) -> Callable[[Sequence[Launch], int], Program]:
    """The device's ability to capture; skips where there is none."""
    if not isinstance(device, SupportsCapture):
        pytest.skip(f"{device.name} does not capture sequences")
    return device.capture


def test_a_captured_sequence_does_what_its_launches_do(
    device: Device, pool: MemoryPool, capture: Callable[[Sequence[Launch], int], Program]
) -> None:
    length = 1003
    increment, double = steps(device, length)
    kept = upload(pool, np.arange(length, dtype=np.int32))
    sequence = [
        Launch(increment, (Slot(0),)),
        Launch(double, (Slot(0),)),
        Launch(double, (kept,)),
        Launch(increment, (Slot(1),)),
    ]
    captured = capture(sequence, 2)
    for turn in range(3):
        first, second = np.full(length, turn, np.int32), np.arange(length, dtype=np.int32)
        with Loaded(device, [first, second]) as loaded:
            pool.sync_events([device.launch(captured, loaded.args)])
            once, other = loaded.arrays()
        np.testing.assert_array_equal(once, (first + 1) * 2)
        np.testing.assert_array_equal(other, second + 1)
    np.testing.assert_array_equal(download(pool, kept, first), np.arange(length, dtype=np.int32) * 8)
    _refuse(device, captured, [kept])
    device.release(captured)
    with Loaded(device, [first]) as loaded:  # the programs outlive the sequence
        pool.sync_events([device.launch(increment, loaded.args)])
        np.testing.assert_array_equal(loaded.arrays()[0], first + 1)
    pool.deallocate(kept)


def test_launches_of_a_captured_sequence_see_each_other(
    device: Device, pool: MemoryPool, capture: Callable[[Sequence[Launch], int], Program]
) -> None:
    length, count = 100_003, 50
    increment, _ = steps(device, length)
    captured = capture([Launch(increment, (Slot(0),))] * count, 1)
    start = np.arange(length, dtype=np.int32)
    with Loaded(device, [start]) as loaded:
        event = device.launch(captured, loaded.args)
        pool.sync_events([device.launch(captured, loaded.args, [event])])
        np.testing.assert_array_equal(loaded.arrays()[0], start + 2 * count)
    device.release(captured)


def test_work_in_flight_takes_its_share_of_compute_until_it_is_done(device: Device, pool: MemoryPool) -> None:
    full, length, count = device.info.flops_per_s, 100_003, 30
    increment, _ = steps(device, length)
    with Loaded(device, [np.zeros(length, np.int32)]) as loaded:
        pool.synchronize()
        assert device.free_compute == full
        event = pool.completed()
        for _ in range(count):
            event = device.launch(increment, loaded.args, [event])
            assert 0 < device.free_compute <= full
        pool.sync_events([event])
        pool.synchronize()
        assert device.free_compute == full
        np.testing.assert_array_equal(loaded.arrays()[0], np.full(length, count, np.int32))
    device.release(increment)


def test_a_timed_launch_runs_and_takes_time(device: Device) -> None:
    if not isinstance(device, SupportsTiming):
        pytest.skip(f"{device.name} has no clock")
    increment, _ = steps(device, 1000)
    start = np.arange(1000, dtype=np.int32)
    with Loaded(device, [start]) as loaded:
        seconds = device.timed_launch(increment, loaded.args)
        np.testing.assert_array_equal(loaded.arrays()[0], start + 1)
    assert 0 < seconds < 60


def test_an_entry_does_what_a_launch_does_or_nothing(device: Device) -> None:
    if not isinstance(device, SupportsEntry):
        pytest.skip(f"{device.name} has no entries")
    increment, _ = steps(device, 100)
    enter = device.entry(increment)
    if enter is None:
        pytest.skip(f"{device.name} has no entry into this program")
    start = np.arange(100, dtype=np.int32)
    with Loaded(device, [start, start[:50]]) as loaded:
        pool = device.memory_pool
        own, small = loaded.args
        pool.synchronize()
        gone, event = pool.allocate(400)
        pool.deallocate(gone, [event])
        for args in ((), (own, own), (small,), (gone,), (3,), (None,)):
            assert enter(*args) is False
        np.testing.assert_array_equal(loaded.arrays()[0], start)
        assert enter(own) is True
        np.testing.assert_array_equal(loaded.arrays()[0], start + 1)
