"""Whatever this backend does, the validation layer finds nothing wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import open_checked

import zyx
from zyx.backend import Launch, Slot
from zyx.errors import NoDeviceError
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.device import VulkanDevice


@pytest.fixture
def checked(device: VulkanDevice) -> Iterator[Any]:
    """A runtime on the first device, with the layer, which has found nothing when the test is over."""
    runtime = open_checked()
    messages = runtime.device().memory_pool.session.listed.instance.messages
    yield runtime
    runtime.close()
    assert messages.texts == []


def test_a_layer_that_is_missing_is_said(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch):
    from zyx_backend_vulkan import driver_validation

    monkeypatch.setattr(driver_validation, "LAYER", "VK_LAYER_no_such_layer")
    with pytest.raises(NoDeviceError, match=r"finds no VK_LAYER_no_such_layer\. Install it .*vulkan-validationlayers"):
        open_runtime("vulkan", settings={"backends": {"vulkan": {"validation": True}}})


def test_messages_are_kept_and_logged(caplog: pytest.LogCaptureFixture, device: VulkanDevice):
    from zyx_backend_vulkan.driver import ffi, struct
    from zyx_backend_vulkan.driver_validation import Messages

    messages = Messages()
    data = struct("VkDebugUtilsMessengerCallbackDataEXT", pMessage="VUID-1: no good")
    assert messages.info.pfnUserCallback(0x1000, 1, data, ffi.NULL) == 0
    assert messages.texts == ["VUID-1: no good"]
    assert caplog.messages == ["validation: VUID-1: no good"]
    own = struct(
        "VkDebugUtilsMessengerCallbackDataEXT",
        pMessage="Timeout",
        pMessageIdName="UNASSIGNED-VkSemaphore-state-timeout",
    )
    assert messages.info.pfnUserCallback(0x1000, 1, own, ffi.NULL) == 0
    assert len(messages.texts) == 1, "the layer's own mistakes are none of ours"


def test_programs_are_valid(checked: Any):
    with use(checked):
        generator = np.random.default_rng(1)
        x = zyx.Tensor(generator.random((64, 48), np.float32))
        y = (x @ x.T).exp()
        info = checked.device().info
        casts = [
            x.astype(dtype) + 1 for dtype in (zyx.float16, zyx.int8, zyx.int64, zyx.float64) if info.can_store(dtype)
        ]
        for each in (y, *casts, zyx.sort(x, axis=1), (x > 0.5)):
            assert each.numpy().size
        step = zyx.jit(lambda value, number: (value * number).sum() + value.max())
        for number in range(5):
            step(x, float(number)).item()


def test_transfers_launches_and_recordings_are_valid(checked: Any, add: Callable[..., Kernel], add_number: Kernel):
    device = checked.device()
    pool = device.memory_pool
    program, number = device.compile(add(1)), device.compile(add_number)
    buffer, ready = pool.allocate(256)
    event = pool.host_to_pool(memoryview(bytes(256)), buffer, [ready])
    for _ in range(40):
        event = device.launch(program, [buffer], [event])
    event = pool.host_to_pool(memoryview(bytes(256)), buffer, [event])  # through the ring, if that runs still
    sequence = device.capture(
        [Launch(program, (Slot(0),)), Launch(number, (Slot(0), Slot(1))), Launch(program, (Slot(0),))], 2
    )
    for turn in range(4):
        event = device.launch(sequence, [buffer, turn], [event])
    assert device.timed_launch(program, [buffer]) > 0
    found = np.zeros(64, np.int32)
    pool.pool_to_host(buffer, found.view(np.uint8).data, [event])
    assert set(found.tolist()) == {15}
    pool.deallocate(buffer)
    for each in (sequence, program, number):
        device.release(each)
    pool.trim()


def test_queues_of_their_own_are_valid(queues_apart: None, checked: Any):
    with use(checked):
        for number in range(20):
            x = zyx.Tensor(np.full((100, 100), number, np.float32))
            assert float(((x @ x) * 2 + 1).max().item()) == 200 * number**2 + 1


def test_staging_is_valid(checked: Any):
    pool = checked.device().memory_pool
    pool.heaps.is_cached = False
    buffer, ready = pool.allocate(100_001)
    pool.sync_events([pool.host_to_pool(memoryview(bytes(range(256)) * 390), buffer, [ready])])
    found = bytearray(99_000)
    pool.pool_to_host(buffer, memoryview(found), (), 256)
    assert found == bytes(range(256)) * 386 + bytes(range(184))
    pool.deallocate(buffer)
