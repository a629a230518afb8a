"""What a launch does: it builds nothing that was built before, and a replayed plan is one submission."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.backend import Launch, Slot
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_wgpu.device import WgpuDevice
    from zyx_backend_wgpu.memory import WgpuBuffer, WgpuPool

    Make = Callable[[int], WgpuBuffer]
    Read = Callable[[WgpuBuffer], set[int]]

BUILT = (
    "wgpuDeviceCreateShaderModuleTrusted", "wgpuDeviceCreateComputePipeline", "wgpuDeviceCreateBindGroupLayout",
    "wgpuDeviceCreatePipelineLayout",
)  # fmt: skip
GROUP, SUBMIT = "wgpuDeviceCreateBindGroup", "wgpuQueueSubmitForIndex"


@pytest.fixture
def counts(device: WgpuDevice, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the driver was asked to build something, or to start."""
    from zyx_backend_wgpu import driver

    counted: Counter[str] = Counter()

    def counting(name: str) -> None:
        function = getattr(driver.libf, name)

        def call(*args: object) -> object:
            counted[name] += 1
            return function(*args)

        monkeypatch.setattr(driver.libf, name, call)

    for name in (*BUILT, GROUP, SUBMIT):
        counting(name)
    return counted


def test_a_launch_builds_no_module_pipeline_or_layout_and_knows_its_buffers_again(
    device: WgpuDevice, pool: WgpuPool, add: Callable[..., Kernel], integers: Make, values: Read, counts: Counter[str]
):
    program = device.compile(add(1))
    first, second = integers(0), integers(10)
    counts.clear()
    for _ in range(5):
        device.launch(program, [first])
        device.launch(program, [second])
    assert counts == {GROUP: 2, SUBMIT: 10}
    assert values(first) == {5}
    assert values(second) == {15}
    for buffer in (first, second):
        pool.deallocate(buffer)
    device.release(program)


def test_programs_of_the_same_bindings_share_their_layouts(
    device: WgpuDevice, add: Callable[..., Kernel], counts: Counter[str]
):
    programs = [device.compile(add(constant)) for constant in (11, 12, 13)]
    assert counts["wgpuDeviceCreateBindGroupLayout"] <= 1
    assert counts["wgpuDeviceCreateComputePipeline"] == 3
    for program in programs:
        device.release(program)


def test_a_captured_sequence_is_one_submission(
    device: WgpuDevice, pool: WgpuPool, add: Callable[..., Kernel], integers: Make, values: Read, counts: Counter[str]
):
    programs = [device.compile(add(1)), device.compile(add(100))]
    sequence = device.capture([Launch(program, (Slot(0),)) for program in programs] * 20, 1)
    first, second = integers(0), integers(7)
    for buffer in (first, second):
        device.launch(sequence, [buffer])
    counts.clear()
    for buffer in (first, second):
        device.launch(sequence, [buffer])
    assert counts == {SUBMIT: 2}
    assert values(first) == {4040}
    assert values(second) == {4047}
    for buffer in (first, second):
        pool.deallocate(buffer)
    for program in (sequence, *programs):
        device.release(program)


def test_a_captured_sequence_is_one_encoder_with_one_pass_and_all_its_launches(
    device: WgpuDevice, pool: WgpuPool, add: Callable[..., Kernel], integers: Make, values: Read,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    from zyx_backend_wgpu import driver

    counted: Counter[str] = Counter()

    class Counting:
        """The native library, with its calls counted."""

        def __getattr__(self, name: str) -> object:
            counted[name] += 1
            return getattr(library, name)

    program = device.compile(add(1))
    sequence = device.capture([Launch(program, (Slot(0),))] * 30, 1)
    buffer, library = integers(0), driver.lib
    pool.sync_events([device.launch(sequence, [buffer])])
    monkeypatch.setattr(driver, "lib", Counting())
    event = device.launch(sequence, [buffer])
    assert counted["wgpuDeviceCreateCommandEncoder"] == 1
    assert counted["wgpuCommandEncoderBeginComputePass"] == 1
    monkeypatch.undo()
    pool.sync_events([event])
    assert values(buffer) == {60}
    pool.deallocate(buffer)
    for each in (sequence, program):
        device.release(each)


def test_a_jitted_step_is_replayed_by_one_submission(runtime: Runtime, counts: Counter[str]):
    with use(runtime):

        @zyx.jit
        def step(x: zyx.Tensor, y: zyx.Tensor) -> zyx.Tensor:
            return (x @ y).sum(axis=1) + (x * 2.0).max(axis=0)

        x = zyx.Tensor(np.arange(64, dtype=np.float32).reshape(8, 8)).realize()
        for _ in range(4):
            result = step(x, x)
        counts.clear()
        result = step(x, x)
        assert counts[SUBMIT] == 1
        assert not any(counts[name] for name in BUILT)
        array = np.arange(64, dtype=np.float32).reshape(8, 8)
        np.testing.assert_allclose(result.numpy(), (array @ array).sum(1) + (array * 2).max(0))


def test_memory_that_goes_back_to_the_driver_takes_its_groups_along(
    fresh: Callable[..., Runtime], add: Callable[..., Kernel]
):
    device = fresh().device()
    pool = device.memory_pool
    program = device.compile(add(1))
    for _ in range(3):
        buffer, _ = pool.allocate(256)
        pool.sync_events([pool.host_to_pool(memoryview(bytes(256)), buffer)])
        event = device.launch(program, [buffer])
        pool.deallocate(buffer, [event])
        assert pool.trim() == 256
        assert pool.trim() == 0
    device.release(program)
