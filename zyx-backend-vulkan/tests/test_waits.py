"""Waiting: the timeline of a GPU is looked at for a while before the thread sleeps, and a lost device is never done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from zyx.drivers.faults import Cause, Fault
from zyx_backend_vulkan import driver_queue

if TYPE_CHECKING:
    from zyx_backend_vulkan.device import VulkanDevice
    from zyx_backend_vulkan.driver_queue import Queue


@pytest.fixture
def queue(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """The queue of launches, which looks longer than that of a GPU: until it has seen what there is to see."""
    queue = device.pool.session.compute
    monkeypatch.setattr(queue, "_looked_ns", 10**10)
    return queue


def test_a_wait_ends_when_the_timeline_is_seen_there(queue: Queue, monkeypatch: pytest.MonkeyPatch):
    here = queue.value()
    seen = iter([here, here, here + 1])
    monkeypatch.setattr(queue, "value", lambda: next(seen))
    monkeypatch.setattr(queue, "_value", [here + 1])
    assert queue.wait(here + 1, 10**10)
    assert not list(seen)


def test_a_timeline_beyond_what_was_submitted_is_none_of_a_device_that_is_done(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
):
    lost = Fault(Cause.LOST, "gone")

    def refuse(*_: Any) -> int:
        raise lost

    monkeypatch.setattr(queue, "_looked_ns", 10**6)
    monkeypatch.setattr(queue, "value", lambda: (1 << 64) - 1)  # what a driver may say then
    monkeypatch.setattr(driver_queue, "check", refuse)
    with pytest.raises(Fault) as raised:
        queue.wait(queue._value[0] + 1, 10**6)
    assert raised.value is lost


def test_processors_are_not_looked_at(device: VulkanDevice):
    if device.pool.session.listed.kind == driver_queue.CPU:
        assert device.pool.session.compute._looked_ns == 0
    else:
        assert device.pool.session.compute._looked_ns > 0
