"""How kernels get their buffers and numbers, are timed, kept on disk, and launched by several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.drivers.cache import MemoryCache
from zyx.errors import LaunchError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.device import VulkanDevice


def sum_of(buffers: int, numbers: int) -> Kernel:
    """A kernel that adds the elements of many arrays, and many numbers, to those of its first."""
    b = Builder()
    arrays = [b.define(k.Memory.GLOBAL, dtypes.int32, 64, mutable=number == 0) for number in range(buffers)]
    scalars = [b.variable(dtypes.int32, f"n{number}") for number in range(numbers)]
    at = b.index(k.Axis.GROUP, 0, 64, dtypes.int32)
    total = b.load(arrays[0], at)
    for value in [*(b.load(array, at) for array in arrays[1:]), *scalars]:
        total = b.binary(BinaryOp.ADD, total, value)
    b.store(arrays[0], at, total)
    return b.finish(f"sum_of_{buffers}_and_{numbers}")


def check_sum(device: VulkanDevice, buffers: int, numbers: int, turns: int = 3) -> None:
    pool = device.pool
    program = device.compile(sum_of(buffers, numbers))
    made = []
    for number in range(buffers):
        buffer, ready = pool.allocate(256)
        data = np.full(64, number + 1, np.int32)
        pool.sync_events([pool.host_to_pool(data.view(np.uint8).data, buffer, [ready])])
        made.append(buffer)
    expected = 1
    for turn in range(turns):
        given = [turn * number for number in range(numbers)]
        pool.sync_events([device.launch(program, [*made, *given])])
        expected += sum(range(2, buffers + 1)) + sum(given)
    found = np.zeros(64, np.int32)
    pool.pool_to_host(made[0], found.view(np.uint8).data)
    assert set(found.tolist()) == {expected}
    for buffer in made:
        pool.deallocate(buffer)
    device.release(program)


@pytest.mark.parametrize(("buffers", "numbers"), [(1, 0), (1, 1), (3, 5), (8, 20)])
def test_buffers_are_pushed_and_numbers_too(device: VulkanDevice, buffers: int, numbers: int):
    check_sum(device, buffers, numbers)


def test_numbers_that_are_too_many_for_push_constants_lie_in_a_buffer(device: VulkanDevice):
    check_sum(device, 2, device.dialect.push_bytes // 4 + 3)
    # What held them is used again.
    nbytes = device.pool.constants.nbytes
    check_sum(device, 2, device.dialect.push_bytes // 4 + 3, turns=50)
    assert device.pool.constants.nbytes == nbytes


def test_buffers_come_as_addresses_where_descriptors_do_not_reach(device: VulkanDevice):
    if not device.dialect.has_addresses:
        pytest.skip(f"{device.info.model} has no addresses")
    target, info = device.dialect, device.info
    few = type(device)("vulkan:0", device.pool, info, replace(target, max_buffers=2), device._pipelines, None)
    check_sum(few, 5, 2)
    check_sum(few, 20, 3)  # more addresses than push constants hold


def test_without_push_descriptors_there_are_sets_that_are_used_again(
    device: VulkanDevice, fresh: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    del device  # there is one
    from zyx_backend_vulkan import driver_programs
    from zyx_backend_vulkan.driver_features import Properties

    good = Properties.__init__

    def without(self: Properties, device: Any) -> None:
        good(self, device)
        self.max_pushed = 0

    monkeypatch.setattr(Properties, "__init__", without)
    device = fresh().device()
    assert device.pool.session.push is None
    check_sum(device, 3, 2)
    held = device.pool.session.held
    check_sum(device, 3, 2, turns=4 * driver_programs._SETS)
    assert device.pool.session.held == held


def test_the_source_of_a_program_is_its_module_as_text(device: VulkanDevice, add: Callable[..., Kernel]):
    program = device.compile(add(7))
    assert "OpEntryPoint GLCompute" in program.source
    assert "OpIAdd" in program.source
    device.release(program)


def test_a_kernel_without_arguments_runs(device: VulkanDevice):
    b = Builder()
    b.define(k.Memory.LOCAL, dtypes.int32, 4)
    program = device.compile(b.finish("nothing"))
    device.pool.sync_events([device.launch(program, [])])
    device.release(program)


def test_the_duration_of_a_launch_is_that_of_the_clock_and_grows_with_the_work(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Any, values: Any
):
    buffer = integers(0)
    program = device.compile(add(1))
    assert 0 < device.timed_launch(program, [buffer]) < 10
    assert values(buffer) == {1}
    device.pool.deallocate(buffer)


def test_without_a_clock_the_hosts_serves(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Any, values: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(device.pool.session.compute, "_clock_bits", 0)
    buffer = integers(0)
    program = device.compile(add(1))
    assert 0 < device.timed_launch(program, [buffer]) < 10
    assert values(buffer) == {1}
    device.pool.deallocate(buffer)


def test_what_the_driver_compiled_is_kept_and_given_to_it_again(
    device: VulkanDevice, add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch, integers: Any, values: Any
):
    cache = MemoryCache()
    keeping = type(device)("vulkan:0", device.pool, device.info, device.dialect, device._pipelines, cache)
    keeping.release(keeping.compile(add(40)))
    ((_, image),) = cache.items()
    assert len(image) >= 32, "a header at least"  # VkPipelineCacheHeaderVersionOne
    given = []
    build = device._pipelines.build

    def build_noting(*args: Any) -> Any:
        given.append(args[4])
        return build(*args)

    monkeypatch.setattr(device._pipelines, "build", build_noting)
    program = keeping.compile(add(40))
    assert given == [image]
    buffer = integers(2)
    device.pool.sync_events([device.launch(program, [buffer])])
    assert values(buffer) == {42}
    keeping.release(keeping.compile(add(41)))
    assert given[1:] == [b""]
    device.pool.deallocate(buffer)


def test_arguments_that_do_not_fit_are_a_launch_error_and_nothing_runs(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Any, values: Any
):
    program = device.compile(add(1))
    buffer, short = integers(3), device.pool.allocate(16)[0]
    for args in ([], [short], [buffer, buffer], [3]):
        with pytest.raises(LaunchError, match="kernel add_1 on vulkan:0"):
            device.launch(program, args)
    assert values(buffer) == {3}
    for each in (buffer, short):
        device.pool.deallocate(each)


def test_threads_compile_launch_and_read_at_once(device: VulkanDevice, add: Callable[..., Kernel], integers: Any):
    pool = device.pool

    def use(number: int) -> set[int]:
        program = device.compile(add(number))
        result = np.zeros(64, np.int32)
        buffer = buffers[number]
        events: list[Any] = []
        for _ in range(20):
            events = [device.launch(program, [buffer], events)]
        pool.pool_to_host(buffer, result.view(np.uint8).data, events)
        return set(result.tolist())

    buffers = [integers(0) for _ in range(8)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, range(8))) == [{20 * number} for number in range(8)]
    for buffer in buffers:
        pool.deallocate(buffer)
