"""A driver that refuses, runs out of memory, or loses its device: what is raised, when, and what is left.

The driver is a stand-in that does nothing until somebody waits, and then in the order that timelines allow.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from every_driver.refusals import (  # noqa: F401
    test_when_the_driver_has_no_memory_what_is_idle_goes_back_and_it_is_asked_again,
)

from zyx.drivers.faults import Fault
from zyx.errors import BackendError, DeviceLostError, LaunchError, TransferError
from zyx_backend_vulkan.errors import CODES, DEVICE_LOST, OUT_OF_DEVICE_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


pytest.importorskip("cffi", reason="the package vulkan is not installed")
try:
    from zyx_backend_vulkan import blocks
    from zyx_backend_vulkan.memory import VulkanPool
    from zyx_backend_vulkan.program import VulkanProgram
    from zyx_backend_vulkan.work import Ticket
except OSError as error:
    pytest.skip(f"Vulkan's loader is not installed: {error}", allow_module_level=True)

LOST = CODES.fault(DEVICE_LOST, "vkQueueSubmit")
REFUSED = CODES.fault(-13, "vkQueueSubmit")
MEMORY = CODES.fault(OUT_OF_DEVICE_MEMORY, "making a VkDeviceMemory")


class Driver:
    """What the stand-ins share: faults to come, by the name of the call, and what was done in which order."""

    def __init__(self) -> None:
        self.faults: dict[str, list[Fault]] = {}
        self.done: list[str] = []

    def call(self, name: str) -> None:
        if self.faults.get(name):
            raise self.faults[name].pop(0)


class FakeQueue:
    """A queue that does what it was given when somebody waits for it."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.timeline = self
        self.reached = 0
        self.begun = 0
        self.back = 0
        self.submitted: list[tuple[list[Any], list[tuple[FakeQueue, int]], int]] = []

    def begin(self, *, is_kept: bool = False) -> list[Callable[[], object]]:
        self.driver.call("begin")
        self.begun += 1
        return []

    def barrier(self, commands: Any) -> None:
        pass

    def copy(self, commands: list[Any], source: Any, target: Any, nbytes: int) -> None:
        def run() -> None:
            data = source.buffer[source.offset : source.offset + nbytes]
            target.buffer[target.offset : target.offset + nbytes] = data
            self.driver.done.append("copy")

        commands.append(run)

    def end(self, commands: Any) -> None:
        self.driver.call("end")

    def give_back(self, commands: Any) -> None:
        self.back += 1

    def submit(self, commands: Sequence[Any], waits: Sequence[tuple[FakeQueue, int]], value: int) -> None:
        self.driver.call("submit")
        self.submitted.append((list(commands), list(waits), value))

    def value(self) -> int:
        self.driver.call("value")
        return self.reached

    def wait(self, value: int, timeout_ns: int) -> bool:
        self.driver.call("wait")
        while self.reached < value:
            assert self.submitted, f"nobody will ever bring the timeline to {value}"
            commands, waits, number = self.submitted.pop(0)
            for queue, place in waits:
                queue.wait(place, timeout_ns)
            for one in commands:
                for run in one:
                    run()
            self.reached = number
        return True


class FakeHeaps:
    """Memory made of arrays."""

    local, upload, download = 0, 1, 2
    largest_bytes = capacity_bytes = 1 << 20
    is_mapped = is_cached = False

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.alive = 0
        self.number = 0

    def available_bytes(self) -> int | None:
        return None

    def obtain(self, nbytes: int, memory_type: int) -> Any:
        self.driver.call("allocate")
        self.alive += 1
        self.number += 1
        array = np.zeros(nbytes, np.uint8)
        buffer = SimpleNamespace(native=array, number=self.number)
        return SimpleNamespace(buffer=buffer, nbytes=nbytes, address=0, view=None if memory_type == 0 else array)

    def free(self, block: Any) -> None:
        self.alive -= 1


class FakeSession:
    """A device with three queues, of nothing."""

    def __init__(self, driver: Driver) -> None:
        self.compute, self.uploads, self.downloads = (FakeQueue(driver) for _ in range(3))
        self.closed: list[bool] = []

    def close(self, *, is_lost: bool = False) -> None:
        self.closed.append(is_lost)


class Kernelish(VulkanProgram):
    """A program that adds its number to the bytes of a buffer, if it is given one."""

    def enqueue(self, natives: Sequence[Any]) -> None:
        driver = self.pool.compute.queue.driver  # type: ignore[attr-defined]
        commands = self.pool.compute.commands()
        driver.call("record")

        def run() -> None:
            driver.done.append(self.name)
            for memory in natives:
                memory.buffer[memory.offset : memory.offset + memory.nbytes] += 1

        commands.append(run)

    def free(self) -> None:
        self.pool.compute.bury(lambda: self.pool.compute.queue.driver.done.append("freed"))  # type: ignore[attr-defined]


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def faulty(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> VulkanPool:
    monkeypatch.setattr(blocks, "described", lambda *_: None)
    return VulkanPool("vulkan:7 memory", FakeSession(driver), FakeHeaps(driver), "vulkan:7")  # type: ignore[arg-type]


@pytest.fixture
def scarce(driver: Driver, faulty: VulkanPool) -> tuple[VulkanPool, Callable[[int], None]]:
    def refuse(count: int) -> None:
        driver.faults["allocate"] = [MEMORY] * (2 * count if count > 1 else 1)  # a block is asked for, then the size

    return faulty, refuse


def launch(pool: VulkanPool, name: str, *buffers: Any, behind: Sequence[Any] = ()) -> Any:
    """Queue a kernel as a device does, and return its event."""
    program = Kernelish(name, "", f"kernel {name} on vulkan:7", pool, ())
    lane = pool.compute
    tickets = pool.take(behind)
    with lane.lock:
        lane.wait_for(tickets, program.what)
        try:
            program.enqueue([buffer.memory for buffer in buffers])
        except Fault as fault:
            lane.abandoned(program.what)
            raise pool.work.failed(program.what, fault, LaunchError) from fault
        return pool.event((Ticket(lane, lane.queued(program.what)),))


def test_transfers_and_kernels_in_queues_of_their_own_keep_the_order_of_their_events(
    driver: Driver, faulty: VulkanPool
):
    buffer, event = faulty.allocate(300)
    for turn in range(20):
        event = faulty.host_to_pool(memoryview(bytes([turn]) * 300), buffer, [event])
        for _ in range(turn):
            event = launch(faulty, "add", buffer, behind=[event])
        found = bytearray(300)
        faulty.pool_to_host(buffer, memoryview(found), [event.again()])
        assert set(found) == {2 * turn}
    faulty.deallocate(buffer, [event])


def test_launches_are_submitted_together_while_the_device_is_busy(faulty: VulkanPool):
    queue = faulty.session.compute
    events = [launch(faulty, f"k{number}") for number in range(33)]
    assert [value for _, _, value in queue.submitted] == [1, 17, 33]
    faulty.sync_events(events[:1])
    assert queue.reached == 1
    events += [launch(faulty, "last")]
    faulty.sync_events(events[-1:])
    assert queue.reached == 34
    assert queue.back == queue.begun == 4, "command buffers are used again"


def test_work_nobody_waits_for_is_not_piled_up_without_end(faulty: VulkanPool):
    for number in range(10_000):
        launch(faulty, f"k{number}")
    assert len(faulty.session.compute.submitted) < 600
    assert faulty.compute.done > 0


def test_a_device_lost_while_kernels_run_is_told_at_the_next_wait_with_their_names(driver: Driver, faulty: VulkanPool):
    events = [launch(faulty, name) for name in ("first", "second", "second")]
    driver.faults["wait"] = [LOST]
    with pytest.raises(DeviceLostError) as lost:
        faulty.sync_events(events)
    assert "device vulkan:7 is lost; it was running kernel first on vulkan:7, kernel second on vulkan:7" in str(
        lost.value
    )
    assert "VK_ERROR_DEVICE_LOST" in str(lost.value)


@pytest.mark.parametrize("call", ["submit", "value"])
def test_after_a_loss_everything_fails_at_once_and_giving_back_and_closing_goes_on(
    driver: Driver, faulty: VulkanPool, call: str
):
    buffer, _ = faulty.allocate(16)
    launch(faulty, "before")
    driver.faults[call] = [LOST]
    with pytest.raises(DeviceLostError, match="device vulkan:7 is lost"):
        for _ in range(16):
            launch(faulty, "sum_8")
    for use in (
        lambda: launch(faulty, "sum_8"),
        lambda: faulty.allocate(16),
        lambda: faulty.host_to_pool(memoryview(bytes(16)), buffer),
        lambda: faulty.pool_to_host(buffer, memoryview(bytearray(16))),
        faulty.synchronize,
    ):
        with pytest.raises(DeviceLostError, match="vulkan:7"):
            use()
    faulty.deallocate(buffer)
    assert faulty.free_bytes == 1 << 20
    faulty.close()
    assert faulty.session.closed == [True]  # and is not waited for


def test_a_timeline_beyond_all_work_is_a_device_that_is_lost(faulty: VulkanPool):
    launch(faulty, "k")
    faulty.session.compute.reached = (1 << 64) - 1
    with pytest.raises(DeviceLostError, match="vulkan:7"):
        launch(faulty, "k")


@pytest.mark.parametrize(
    ("call", "use", "kind"),
    [
        ("submit", lambda pool, buffer: launch(pool, "k", buffer), LaunchError),
        ("end", lambda pool, buffer: launch(pool, "k", buffer), LaunchError),
        ("begin", lambda pool, buffer: launch(pool, "k", buffer), LaunchError),
        ("record", lambda pool, buffer: launch(pool, "k", buffer), LaunchError),
        ("submit", lambda pool, buffer: pool.host_to_pool(memoryview(bytes(8)), buffer), TransferError),
        ("begin", lambda pool, buffer: pool.host_to_pool(memoryview(bytes(8)), buffer), TransferError),
        ("submit", lambda pool, buffer: pool.pool_to_host(buffer, memoryview(bytearray(8))), TransferError),
        ("end", lambda pool, buffer: pool.pool_to_host(buffer, memoryview(bytearray(8))), TransferError),
    ],
)
def test_what_the_driver_refuses_is_an_error_that_says_what_and_where_and_the_next_call_works(
    driver: Driver, faulty: VulkanPool, call: str, use: Callable[[VulkanPool, object], object], kind: type
):
    buffer, _ = faulty.allocate(8)
    driver.faults[call] = [REFUSED]
    with pytest.raises(kind, match=r"vulkan:7.*: vkQueueSubmit"):
        use(faulty, buffer)
    use(faulty, buffer)
    faulty.synchronize()
    assert faulty.compute.pending == 0


def test_work_behind_a_refused_submission_waits_for_what_that_was_to_wait_for(driver: Driver, faulty: VulkanPool):
    buffer, ready = faulty.allocate(8)
    written = faulty.host_to_pool(memoryview(bytes(8)), buffer, [ready])
    again = written.again()
    driver.faults["submit"] = [REFUSED]
    with pytest.raises(LaunchError, match="kernel refused on vulkan:7: vkQueueSubmit"):
        launch(faulty, "refused", buffer, behind=[written])
    faulty.sync_events([launch(faulty, "next", buffer, behind=[again])])
    assert driver.done == ["copy", "next"]


def test_the_failure_of_work_whose_caller_has_gone_on_is_told_at_the_next_wait_and_once(
    driver: Driver, faulty: VulkanPool
):
    first = launch(faulty, "running")
    gone = launch(faulty, "gone")
    driver.faults["submit"] = [REFUSED]
    with pytest.raises(LaunchError, match="kernel gone on vulkan:7: vkQueueSubmit"):
        faulty.sync_events([gone])
    faulty.sync_events([first])
    event = launch(faulty, "later")
    faulty.sync_events([event])
    assert driver.done == ["running", "later"]


def test_what_is_behind_failed_work_does_not_run_and_says_so(driver: Driver, faulty: VulkanPool):
    launch(faulty, "running")
    gone = launch(faulty, "gone")
    again = gone.again()
    driver.faults["submit"] = [REFUSED]
    with pytest.raises(LaunchError, match="gone"):
        faulty.sync_events([gone])
    buffer, _ = faulty.allocate(8)
    with pytest.raises(BackendError, match=r"did not run, since work before it failed: .*gone"):
        faulty.host_to_pool(memoryview(bytes(8)), buffer, [again])


def test_memory_and_programs_that_are_in_use_are_freed_when_they_are_not(driver: Driver, faulty: VulkanPool):
    buffer, _ = faulty.allocate(1 << 18)
    event = launch(faulty, "long", buffer)
    program = Kernelish("k", "", "kernel k on vulkan:7", faulty, ())
    program.release()
    faulty.deallocate(buffer, [event])
    assert faulty.heaps.alive == 1
    assert driver.done == []
    faulty.trim()
    assert faulty.heaps.alive == 0
    assert driver.done == ["long", "freed"]
    again = Kernelish("k", "", "kernel k on vulkan:7", faulty, ())
    again.release()  # which nothing uses
    assert driver.done == ["long", "freed", "freed"]
