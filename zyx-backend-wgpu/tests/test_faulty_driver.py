"""A driver that refuses, runs out of memory, or loses its device: what is raised, when, and what is left."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from every_driver.refusals import (  # noqa: F401
    test_when_the_driver_has_no_memory_what_is_idle_goes_back_and_it_is_asked_again,
)

from zyx.drivers.faults import Cause, Fault
from zyx.errors import CompileError, DeviceLostError, LaunchError, TransferError
from zyx_backend_wgpu.bindings import Dispatch, Memory
from zyx_backend_wgpu.memory import WgpuPool
from zyx_backend_wgpu.program import WgpuProgram
from zyx_backend_wgpu.render import Rendered
from zyx_backend_wgpu.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_wgpu.device import WgpuDevice

LOST = Fault(Cause.LOST, "Parent device is lost")
REFUSED = Fault(Cause.REFUSED, "Validation Error")
MEMORY = Fault(Cause.MEMORY, "Out of memory")


class FakeSession:
    """A device made of dictionaries, that fails where it is told to.

    Attributes:
        faults: What the next call of a method raises.
        waited: Submissions that were waited for.
    """

    has_clock = False

    def __init__(self) -> None:
        self.faults: dict[str, list[Fault]] = {}
        self.waited: list[int] = []
        self.submitted: list[list[Dispatch]] = []
        self.bytes: dict[int, bytearray] = {}
        self.is_closed = False

    def _call(self, name: str) -> None:
        if self.faults.get(name):
            raise self.faults[name].pop(0)

    def allocate(self, nbytes: int) -> Memory:
        self._call("allocate")
        number = len(self.bytes) + 1
        self.bytes[number] = bytearray(nbytes)
        return Memory(None, number, nbytes)

    def uniform(self, data: bytes) -> Memory:
        return self.allocate(len(data))

    def free(self, memory: Memory) -> None:
        self.bytes[memory.number] = bytearray()

    def write(self, memory: Memory, offset: int, source: memoryview) -> None:
        self._call("write")
        assert offset % 4 == source.nbytes % 4 == 0
        self.bytes[memory.number][offset : offset + source.nbytes] = source

    def read(self, memory: Memory, offset: int, target: memoryview) -> None:
        self._call("read")
        assert offset % 4 == 0
        target[:] = self.bytes[memory.number][offset : offset + target.nbytes]

    def group(self, kinds: tuple[str, ...], bound: object) -> object:
        self._call("group")
        return bound

    def submit(self, dispatches: Iterable[Dispatch]) -> int:
        self._call("submit")
        self.submitted.append(list(dispatches))
        return len(self.submitted)

    def wait(self, index: int) -> None:
        self._call("wait")
        self.waited.append(index)

    def is_idle(self) -> bool:
        return self.waited[-1:] == [len(self.submitted)]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def faulty(session: FakeSession) -> WgpuPool:
    return WgpuPool("wgpu:7 memory", session, "wgpu:7", 1 << 20, 1 << 20)  # type: ignore[arg-type]  # as far as it is used


@pytest.fixture
def scarce(session: FakeSession, faulty: WgpuPool) -> tuple[WgpuPool, Callable[[int], None]]:
    return faulty, lambda count: session.faults.update(allocate=[MEMORY] * count)


def program_of(pool: WgpuPool, name: str = "sum_8") -> WgpuProgram:
    return WgpuProgram("wgpu:7", pool, "pipeline", Rendered(name, "", (), (1, 1, 1), (1, 1, 1), (), 0))


def test_a_device_lost_while_kernels_run_is_told_at_the_next_wait_with_their_names(
    session: FakeSession, faulty: WgpuPool
):
    events = [faulty.event_of(program_of(faulty, name).run([])) for name in ("first", "second", "second")]
    session.faults["wait"] = [LOST]
    with pytest.raises(DeviceLostError) as lost:
        faulty.sync_events(events)
    assert "device wgpu:7 is lost" in str(lost.value)
    assert "running kernel first on wgpu:7, kernel second on wgpu:7" in str(lost.value)


def test_after_a_loss_everything_fails_at_once_and_giving_back_goes_on(session: FakeSession, faulty: WgpuPool):
    buffer, _ = faulty.allocate(16)
    program = program_of(faulty)
    session.faults["submit"] = [LOST]
    with pytest.raises(DeviceLostError, match=r"kernel sum_8 on wgpu:7: device wgpu:7 is lost"):
        program.run([])
    for use in (
        lambda: program.run([]),
        lambda: faulty.allocate(16),
        lambda: faulty.host_to_pool(memoryview(bytes(16)), buffer),
        lambda: faulty.pool_to_host(buffer, memoryview(bytearray(16))),
    ):
        with pytest.raises(DeviceLostError, match="wgpu:7"):
            use()
    assert len(session.submitted) == 0
    faulty.deallocate(buffer)
    assert faulty.free_bytes == 1 << 20
    faulty.close()
    assert session.is_closed


@pytest.mark.parametrize(
    ("method", "call", "kind"),
    [
        ("submit", lambda pool, buffer: program_of(pool).run([]), LaunchError),
        ("group", lambda pool, buffer: program_of(pool).run([]), LaunchError),
        ("write", lambda pool, buffer: pool.host_to_pool(memoryview(bytes(8)), buffer), TransferError),
        ("read", lambda pool, buffer: pool.pool_to_host(buffer, memoryview(bytearray(8))), TransferError),
        ("read", lambda pool, buffer: pool.host_to_pool(memoryview(bytes(3)), buffer), TransferError),
    ],
)
def test_what_the_driver_refuses_is_an_error_that_says_what_and_where_and_the_next_call_works(
    session: FakeSession, faulty: WgpuPool, method: str, call: Callable[[WgpuPool, object], object], kind: type
):
    buffer, _ = faulty.allocate(8)
    session.faults[method] = [REFUSED]
    with pytest.raises(kind, match=r"wgpu:7.*: Validation Error"):
        call(faulty, buffer)
    call(faulty, buffer)
    faulty.synchronize()
    assert faulty.work.count == 0


def test_work_nobody_waits_for_is_not_piled_up_without_end(session: FakeSession):
    work = Work("wgpu:7", session)
    for number in range(2000):
        work.submit((), f"kernel {number} on wgpu:7")
    assert len(work._running) <= 1024
    assert session.waited, "nothing was waited for"
    work.finish()
    assert session.waited[-1] == 2000


def test_a_wait_is_for_the_submission_of_its_event_and_what_is_complete_is_not_waited_for(session: FakeSession):
    work = Work("wgpu:7", session)
    tickets = [work.submit((), f"kernel {number} on wgpu:7") for number in range(4)]
    work.wait(tickets[1])
    assert session.waited == [2]
    work.wait(tickets[0])
    assert session.waited == [2]
    work.wait(work.uploaded())
    assert session.waited == [2, 5]
    assert work.count == 0


# ---- the real driver


def test_source_that_is_refused_is_a_compile_error_with_the_log(
    device: WgpuDevice, add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch
):
    import zyx_backend_wgpu.device as module

    good = module.render

    def broken(kernel: Kernel, language: object) -> Rendered:
        rendered = good(kernel, language)  # type: ignore[arg-type]
        return replace(rendered, text=rendered.text.replace("fn main", "fn main main"))

    monkeypatch.setattr(module, "render", broken)
    with pytest.raises(CompileError, match=r"kernel add_1 on wgpu:0: the WGSL compiler refused it\n(.|\n)*main main"):
        device.compile(add(1))


def test_buffers_that_may_not_be_bound_together_are_a_launch_error(
    device: WgpuDevice, integers: Callable[[int], object]
):
    from zyx import dtype as dtypes
    from zyx.kernel import data as k
    from zyx.kernel.build import Builder

    b = Builder()
    out, x = b.define(k.Memory.GLOBAL, dtypes.int32, 64), b.define(k.Memory.GLOBAL, dtypes.int32, 64, mutable=False)
    at = b.index(k.Axis.GROUP, 0, 64)
    b.store(out, at, b.load(x, at))
    program = device.compile(b.finish("copy_over"))
    buffer = integers(1)
    with pytest.raises(LaunchError, match="kernel copy_over on wgpu:0: Validation Error"):
        device.launch(program, [buffer, buffer])
    other = integers(2)
    device.pool.sync_events([device.launch(program, [buffer, other])])
    for each in (buffer, other):
        device.pool.deallocate(each)
    device.release(program)


def test_a_device_that_is_destroyed_is_lost(
    fresh: Callable[..., Runtime], add: Callable[..., Kernel], caplog: pytest.LogCaptureFixture
):
    from zyx_backend_wgpu import driver

    caplog.set_level(logging.CRITICAL, "wgpu")
    device = fresh().device()
    pool = device.memory_pool
    program, other = device.compile(add(1, "last_words")), add(2)
    buffer, event = pool.allocate(256)
    event = device.launch(program, [buffer], [event])
    driver.lib.wgpuDeviceDestroy(pool.session._device)  # type: ignore[attr-defined]
    with pytest.raises(DeviceLostError, match="device wgpu:0 is lost; it was running kernel last_words on wgpu:0"):
        pool.sync_events([event])
    for use in (
        lambda: device.launch(program, [buffer]),
        lambda: pool.pool_to_host(buffer, memoryview(np.zeros(256, np.uint8))),
        lambda: device.compile(other),
    ):
        with pytest.raises(DeviceLostError):
            use()
    pool.deallocate(buffer)
    device.release(program)
