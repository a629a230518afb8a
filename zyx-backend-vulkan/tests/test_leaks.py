"""Whatever the real driver refuses, and however often devices are opened and lost: nothing is left behind."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zyx.errors import AllocationError, CompileError, DeviceLostError
from zyx_backend_vulkan.errors import DEVICE_LOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_vulkan.device import VulkanDevice

pytest.importorskip("cffi", reason="the package vulkan is not installed")
try:
    from zyx_backend_vulkan import driver_memory, driver_programs, driver_queue
except OSError as error:
    pytest.skip(f"Vulkan's loader is not installed: {error}", allow_module_level=True)

#: What drivers keep when devices were opened and closed for a while is all they keep: so many bytes a time at most.
_KEPT_BYTES = 1 << 14
_PROC = Path("/proc/self")


class Patched:
    """Functions of Vulkan, some of them replaced."""

    def __init__(self, lib: Any, **functions: Callable[..., object]) -> None:
        self._lib = lib
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)


def returning(code: int) -> Callable[..., int]:
    return lambda *_: code


def test_words_that_are_refused_are_a_compile_error(
    device: VulkanDevice, add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch
):
    program = device.compile(add(1))
    refusing = Patched(driver_programs.lib, vkCreateComputePipelines=returning(-13))
    monkeypatch.setattr(driver_programs, "lib", refusing)
    held = device.pool.session.held
    with pytest.raises(CompileError, match=r"kernel add_77 on vulkan:0: .*: VK_ERROR_UNKNOWN"):
        device.compile(add(77))
    assert device.pool.session.held == held, "the module or the cache was left behind"
    device.release(program)


def test_ten_thousand_allocations_that_fail_leave_nothing_behind(fresh: Callable[..., Runtime]):
    pool: Any = fresh(memory_bytes=1 << 20).device().memory_pool
    kept, _ = pool.allocate(1 << 19)
    free, held = pool.free_bytes, pool.session.held
    for _ in range(10_000):
        with pytest.raises(AllocationError):
            pool.allocate(1 << 20)
    assert (pool.free_bytes, pool.session.held) == (free, held)
    pool.deallocate(kept)
    assert pool.trim() > 0
    assert pool.session.held < held


@pytest.mark.parametrize("call", ["vkAllocateMemory", "vkCreateBuffer", "vkBindBufferMemory", "vkMapMemory"])
@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_memory_that_the_driver_refuses_leaves_nothing_behind(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, call: str, count: int
):
    pool: Any = fresh().device().memory_pool
    nbytes = 9 << 20  # too large to share a block
    pool.deallocate(pool.allocate(nbytes)[0])
    pool.trim()
    free, held, pieces = pool.free_bytes, pool.session.held, pool.heaps._count
    with monkeypatch.context() as patch:
        refusing = Patched(driver_memory.lib, **{call: returning(-2)})
        patch.setattr(driver_memory, "lib", refusing)
        patch.setattr("zyx_backend_vulkan.driver_device.lib", refusing)
        for _ in range(count):
            with pytest.raises(AllocationError, match=r"vulkan:0 memory has no room.*VK_ERROR_OUT_OF_DEVICE_MEMORY"):
                pool.allocate(nbytes)
    assert (pool.free_bytes, pool.session.held, pool.heaps._count) == (free, held, pieces)
    pool.deallocate(pool.allocate(nbytes)[0])


@pytest.mark.parametrize("call", ["vkWaitSemaphores", "vkQueueSubmit", "vkGetSemaphoreCounterValue"])
def test_one_device_that_is_lost_leaves_others_going_and_a_later_one_works(
    fresh: Callable[..., Runtime], device: VulkanDevice, add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch,
    call: str,
):  # fmt: skip
    before = fresh()
    lost: Any = before.device()
    program, buffer = lost.compile(add(1, "last_words")), lost.pool.allocate(256)[0]
    lost.pool.sync_events([lost.launch(program, [buffer])])
    with monkeypatch.context() as patch:
        patch.setattr(driver_queue, "lib", Patched(driver_queue.lib, **{call: returning(DEVICE_LOST)}))
        with pytest.raises(DeviceLostError, match=r"device vulkan:0 is lost.*VK_ERROR_DEVICE_LOST"):
            lost.pool.sync_events([lost.launch(program, [buffer]) for _ in range(2)])
    with pytest.raises(DeviceLostError, match="vulkan:0"):
        lost.launch(program, [buffer])
    for each in (device, fresh().device()):
        assert one_more(each, add) == {1}
    session = lost.pool.session
    before.close()
    assert session.held == 0
    assert one_more(fresh().device(), add) == {1}


def one_more(device: Any, add: Callable[..., Kernel]) -> set[int]:
    """Return what is in a buffer of zeros after 1 was added on a device."""
    program = device.compile(add(1))
    buffer, event = device.pool.allocate(256)
    written = device.pool.host_to_pool(memoryview(bytes(256)), buffer, [event])
    found = bytearray(256)
    device.pool.pool_to_host(buffer, memoryview(found), [device.launch(program, [buffer], [written])])
    device.pool.deallocate(buffer)
    device.release(program)
    return set(memoryview(found).cast("i"))


def resources() -> tuple[int, int, int]:
    """Return how many files and threads this process has, and its bytes of memory."""
    gc.collect()
    pages = int((_PROC / "statm").read_text().split()[1])
    return (
        len(list((_PROC / "fd").iterdir())),
        len(list((_PROC / "task").iterdir())),
        pages * os.sysconf("SC_PAGE_SIZE"),
    )


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_opening_and_closing_again_and_again_leaves_nothing_behind(open_device: Callable[..., Runtime], times: int):
    def once() -> None:
        runtime = open_device()
        session: Any = runtime.device().memory_pool.session  # type: ignore[attr-defined]  # of this backend
        assert session.held > 0
        runtime.close()
        assert session.held == 0
        assert session.listed.instance.native is None

    once()
    has_proc = _PROC.exists()
    before = resources() if has_proc else (0, 0, 0)
    halves = []
    for _ in range(2):
        for _ in range(times // 2):
            once()
        halves.append(resources() if has_proc else before)
    assert halves[-1][0] <= before[0], "files were left open"
    assert halves[-1][1] <= before[1] + 1, "threads were left"  # Python's own, of compilers, may be there or not
    if times >= 1000:  # by then drivers have what they keep for good
        assert halves[1][2] - halves[0][2] <= _KEPT_BYTES * times // 2
