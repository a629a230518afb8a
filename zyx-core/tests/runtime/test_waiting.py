"""While somebody waits for a device, others compute: the runtime's lock is free."""

from __future__ import annotations

import contextvars
import threading

import numpy as np
import pytest

import zyx
from zyx.errors import LaunchError
from zyx.runtime.buffer import Pending


def ones(count=4, device="lab:0"):
    return zyx.Tensor(np.ones(count, np.float32), device=device)


class Waits:
    """Lets whoever waits for a pool stop there, the thread of the test excepted, until the end of a ``with`` block."""

    def __init__(self, pool) -> None:
        self.pool = pool
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.found: list[object] = []

    def __enter__(self):
        mine = threading.get_ident()

        def stop() -> None:
            if threading.get_ident() != mine and not self.go_on.is_set():
                self.reached.set()
                assert self.go_on.wait(60)

        self.pool.before_waiting = stop
        return self

    def start(self, work) -> None:
        """Do ``work()`` in a thread, as far as to where it waits."""

        def run() -> None:
            try:
                self.found.append(work())
            except Exception as error:  # noqa: BLE001  # looked at by the test
                self.found.append(error)

        self.thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
        self.thread.start()
        assert self.reached.wait(60)

    def __exit__(self, *_):
        self.go_on.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def in_time(work):
    """Return what ``work()`` gives, in a thread that nobody may hold up."""
    found, context = [], contextvars.copy_context()
    thread = threading.Thread(target=lambda: found.append(context.run(work)), daemon=True)
    thread.start()
    thread.join(30)
    assert found, "the lock is held"
    return found[0]


@pytest.fixture
def apart(pool):
    pool.waits_apart = True
    return pool


def read(x):
    return x.tolist()


def elsewhere():
    return (ones(device="lab:1") + 3.0).tolist()


def synchronize(x):
    zyx.synchronize()
    return x.tolist()


def share(x):
    return x.runtime.shared_buffer(x).raw.array.view(np.float32).tolist()


@pytest.mark.parametrize("wait", [read, synchronize, share])
def test_others_compute_while_one_waits(apart, wait):
    x = (ones() * 2.0).realize()
    with Waits(apart) as waits:
        waits.start(lambda: wait(x))
        assert in_time(elsewhere) == [4] * 4
        queued = in_time((x + 1.0).realize)  # behind what is waited for
    assert waits.found == [[2] * 4]
    assert queued.tolist() == [3] * 4


def test_others_compute_while_one_waits_for_an_upload(apart):
    array = np.ones(4, np.float32)
    with Waits(apart) as waits:
        waits.start(lambda: zyx.Tensor(array, device="lab:0"))
        assert in_time(elsewhere) == [4] * 4
    array[:] = 9
    assert waits.found[0].tolist() == [1] * 4


def test_what_is_read_is_neither_given_back_nor_stored_over_meanwhile(apart):
    state = (ones(1000) * 5.0).realize()
    step = zyx.jit(lambda: state.assign(state + 1.0))
    step()
    step()
    with Waits(apart) as waits:
        waits.start(state.numpy)
        for _ in range(3):
            in_time(step)
        others = [in_time((ones(1000) * number).realize) for number in range(3)]
    assert set(waits.found[0].tolist()) == {7.0}
    assert state.tolist() == [10] * 1000
    assert [set(other.tolist()) for other in others] == [{0.0}, {1.0}, {2.0}]


def test_a_tensor_that_dies_while_it_is_read_is_read_whole(apart):
    tensors = [(ones(1000) * 5.0).realize()]
    with Waits(apart) as waits:
        waits.start(tensors.pop().numpy)
        others = [in_time((ones(1000) * number).realize) for number in range(3)]
    assert set(waits.found[0].tolist()) == {5.0}
    assert [set(other.tolist()) for other in others] == [{0.0}, {1.0}, {2.0}]


def test_an_error_of_the_work_reaches_all_who_wait(device, apart):
    device.fails_while_running = ""
    x = (ones() * 2.0).realize()
    with Waits(apart) as waits:
        waits.start(x.numpy)
        behind = in_time((x + 1.0).realize)
    device.fails_while_running = None
    assert isinstance(waits.found[0], LaunchError)
    for tensor in (x, x, behind):
        with pytest.raises(LaunchError, match="failed while running"):
            tensor.numpy()


@pytest.mark.parametrize("missing", ["waits_apart", "gives_events_again"])
def test_where_a_pool_cannot_do_it_the_lock_is_kept(apart, missing):
    setattr(apart, missing, False)
    x = (ones() * 2.0).realize()
    with Waits(apart) as waits:
        waits.start(x.numpy)
        assert not x.runtime.lock.acquire(blocking=False)
    assert waits.found[0].tolist() == [2] * 4


def test_a_runtime_is_closed_when_nobody_waits_any_more(lab, apart):
    x = (ones() * 2.0).realize()
    with Waits(apart) as waits:
        waits.start(x.numpy)
        threading.Timer(0.1, waits.go_on.set).start()
        lab.close()
        assert not lab._waiting._apart._count
    assert waits.found[0].tolist() == [2] * 4


def test_work_that_was_never_queued_is_waited_for_by_the_whole_pool(pool):
    """A handler of a signal that raises, as Ctrl-C does, may come when events are taken and nothing is queued yet."""
    x = (ones() * 2.0).realize()
    buffer = x._node.storage
    taken = buffer.pending.last()
    event, taken.event = taken.event, None  # given to a launch that has not come to its end
    assert taken.is_taken
    assert pool.queued
    assert ((x + 1.0).tolist(), x.tolist()) == ([3] * 4, [2] * 4)
    assert not taken.is_taken
    pool.release_events([event])


def test_work_behind_work_that_was_done_at_once_is_not_taken(pool):
    done = Pending(pool.completed(), pool)
    done.wait()
    assert done.is_done
    assert not done.is_taken
