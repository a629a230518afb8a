"""One thread waits for the device while others queue work on it, and finish it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from refused import Refused

import zyx
from zyx.errors import BackendError, LaunchError
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl.device import ClDevice
    from zyx_backend_opencl.memory import ClBuffer, ClPool
    from zyx_backend_opencl.program import ClProgram

    Make = Callable[[int], ClBuffer]
    Read = Callable[[ClBuffer], set[int]]

OUT_OF_RESOURCES = -5
#: Waits that fail a test where they take so long.
PATIENCE_S = 60


class Waiter:
    """A thread that does some work, and is held where it would wait in the driver.

    Attributes:
        error: What the work raised.
    """

    def __init__(self, session: object, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: BackendError | None = None
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        for name in ("wait", "read", "finish"):
            monkeypatch.setitem(vars(session), name, self._held(getattr(session, name)))

    def _held(self, call: Callable[..., object]) -> Callable[..., object]:
        def hold(*args: object) -> object:
            if threading.current_thread() is self._thread:
                self._reached.set()
                assert self._go_on.wait(PATIENCE_S)
            return call(*args)

        return hold

    def start(self, work: Callable[[], object]) -> None:
        """Return when the thread waits."""

        def run() -> None:
            try:
                work()
            except BackendError as error:
                self.error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert self._reached.wait(PATIENCE_S)

    def end(self) -> None:
        """Let it go on, and return when it is over."""
        self._go_on.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive()


@pytest.fixture
def waiter(pool: ClPool, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiter]:
    waiter = Waiter(pool.session, monkeypatch)
    yield waiter
    waiter.end()


@pytest.fixture
def increment(device: ClDevice, add: Callable[..., Kernel]) -> Iterator[ClProgram]:
    program = device.compile(add(1, "increment"))
    yield program
    device.release(program)


@pytest.mark.parametrize("wait", ["sync_events", "pool_to_host", "synchronize"])
def test_launches_transfers_and_memory_go_on_while_one_waits(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, waiter: Waiter, wait: str
):
    assert pool.waits_apart
    buffers = [integers(0) for _ in range(3)]
    found = np.empty(64, np.int32)
    event = device.launch(increment, [buffers[0]])
    works: dict[str, Callable[[], None]] = {
        "sync_events": lambda: pool.sync_events([event]),
        "pool_to_host": lambda: pool.pool_to_host(buffers[0], memoryview(found).cast("B"), [event]),
        "synchronize": pool.synchronize,
    }
    waiter.start(works[wait])
    for _ in range(50):
        pool.sync_events([device.launch(increment, [buffers[1]])])
        pool.deallocate(integers(7))
    assert values(buffers[1]) == {50}
    device.launch(increment, [buffers[2]])
    pool.synchronize()  # which ends, and notes, what the other thread waits for
    assert pool.work.count == 0
    waiter.end()
    assert waiter.error is None
    if wait == "pool_to_host":
        assert set(found.tolist()) == {1}
    assert [values(buffer) for buffer in buffers] == [{1}, {50}, {1}]
    for buffer in buffers:
        pool.deallocate(buffer)


def test_a_failure_surfaces_at_each_wait_for_it_also_where_another_thread_has_seen_it(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, waiter: Waiter,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    broken, sound = integers(1), integers(1)
    event = device.launch(increment, [broken])
    again = event.again()
    assert again is not None
    native = event.work[0].native  # type: ignore[attr-defined]  # of this backend
    session = pool.session
    status, wait = session.status, session.wait

    def failing_wait(events: list[object]) -> None:
        wait(events)
        if native in events:
            raise Refused(OUT_OF_RESOURCES)

    with monkeypatch.context() as patch:
        patch.setitem(vars(session), "status", lambda one: OUT_OF_RESOURCES if one is native else status(one))
        patch.setitem(vars(session), "wait", failing_wait)
        waiter.start(lambda: pool.sync_events([event]))
        pool.sync_events([device.launch(increment, [sound])])  # is not concerned
        with pytest.raises(LaunchError, match="kernel increment"):
            pool.sync_events([again])
        waiter.end()
    assert isinstance(waiter.error, LaunchError)
    assert "kernel increment" in str(waiter.error)
    pool.synchronize()  # nobody is left to be told
    assert values(sound) == {2}
    for buffer in (broken, sound):
        pool.deallocate(buffer)


def test_while_a_tensor_is_read_another_thread_computes_and_reads(runtime: Runtime, waiter: Waiter):
    with use(runtime):
        x = zyx.Tensor(np.full((8, 40), 1.0, np.float32)) + 1.0
        found: list[float] = []

        def read() -> None:
            with use(runtime):
                found.extend(x.numpy().ravel().tolist())

        waiter.start(read)
        other = zyx.Tensor(np.full((4, 4), 5.0, np.float32)) * 3.0
        assert set(other.numpy().ravel().tolist()) == {15.0}
        assert found == []
        waiter.end()
        assert waiter.error is None
        assert set(found) == {2.0}


def test_threads_read_and_launch_at_once(runtime: Runtime):
    with use(runtime):
        start, wrong = threading.Barrier(4), []

        def work(number: int) -> None:
            with use(runtime):
                start.wait(PATIENCE_S)
                for turn in range(15):
                    x = zyx.Tensor(np.full((8, 40), number + turn, np.float32))
                    for _ in range(3):
                        x = (x + 1.0).realize()
                    if set(x.numpy().ravel().tolist()) != {number + turn + 3.0}:
                        wrong.append((number, turn))

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
        assert not wrong
