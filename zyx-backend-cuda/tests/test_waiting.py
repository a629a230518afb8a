"""One thread waits for the paper device while others queue work on it."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import FakeSession

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.device import CudaDevice


@pytest.mark.parametrize("wait", ["sync_events", "pool_to_host", "synchronize"])
def test_launches_transfers_and_memory_go_on_while_one_waits(
    device: CudaDevice, session: FakeSession, add: Callable[..., Kernel], integers, values, monkeypatch, wait: str
):
    pool = device.pool
    assert pool.waits_apart
    program, buffers = device.compile(add(1)), [integers(pool, 0) for _ in range(3)]
    reached, go_on, found = threading.Event(), threading.Event(), np.empty(64, np.int32)
    for name in ("synchronize", "drain"):
        original = getattr(session, name)

        def stop(*args: object, original: Callable[..., object] = original) -> object:
            if threading.current_thread().name == "waits":
                reached.set()
                assert go_on.wait(60)
            return original(*args)

        monkeypatch.setattr(session, name, stop)
    event = device.launch(program, [buffers[0]])
    work = {
        "sync_events": lambda: pool.sync_events([event]),
        "pool_to_host": lambda: pool.pool_to_host(buffers[0], memoryview(found).cast("B"), [event]),
        "synchronize": pool.synchronize,
    }[wait]
    thread = threading.Thread(target=work, name="waits", daemon=True)
    thread.start()
    assert reached.wait(60)
    for _ in range(100):  # so that the driver's events are recorded anew
        pool.sync_events([device.launch(program, [buffers[1]])])
        pool.deallocate(integers(pool, 7))
    device.launch(program, [buffers[2]])
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    if wait == "pool_to_host":
        assert set(found.tolist()) == {1}
    pool.synchronize()
    assert [values(buffer) for buffer in buffers] == [{1}, {100}, {1}]


def test_what_is_queued_while_one_waits_is_not_taken_for_done(
    runtime: Runtime, session: FakeSession, monkeypatch: pytest.MonkeyPatch
):
    with use(runtime):
        x = zyx.Tensor(np.ones(64, np.float32)).realize()
        for _ in range(3):
            (x + x).realize()
            (x * x).realize()
        first = (x + x).realize()
        reached, go_on = threading.Event(), threading.Event()
        original = session.synchronize

        def stop(event: object) -> None:
            if threading.current_thread().name == "waits":
                reached.set()
                assert go_on.wait(60)
            original(event)

        monkeypatch.setattr(session, "synchronize", stop)
        thread = threading.Thread(target=first.numpy, name="waits", daemon=True)
        thread.start()
        assert reached.wait(60)
        second = (x * x).realize()
        go_on.set()
        thread.join(60)
        assert not thread.is_alive()
        pending = runtime.buffer_of(second.node).pending
        assert pending is not None
        assert not pending.last().is_done
        assert set(second.numpy().tolist()) == {1.0}


def test_threads_read_and_launch_at_once(runtime: Runtime):
    with use(runtime):
        start, wrong = threading.Barrier(4), []

        def work(number: int) -> None:
            start.wait(60)
            for turn in range(15):
                x = zyx.Tensor(np.full((8, 40), number + turn, np.float32))
                for _ in range(3):
                    x = (x + 1.0).realize()
                if set(x.numpy().ravel().tolist()) != {number + turn + 3.0}:
                    wrong.append((number, turn))

        threads = [threading.Thread(target=contextvars.copy_context().run, args=(work, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads)
        assert not wrong
