"""While one thread waits in an operation, others compute; and what they do leaves that one alone."""

import contextvars
import threading
import time

import numpy as np
import pytest

import zyx
import zyx.distributed as dist
from zyx.distributed.engine import Engine
from zyx.distributed.group import Group
from zyx.errors import BackendError, CollectiveError
from zyx.runtime.runtime import Runtime, current, use

pytestmark = pytest.mark.usefixtures("interpreter")
LIMIT_S = 20


class Held(Engine):
    """An engine whose other process comes to each operation when it is let go; sums are twice what is given."""

    name, rank, size = "a wire", 0, 2

    def __init__(self):
        self.calls = []
        self.has_come = threading.Semaphore(0)
        self.goes = threading.Semaphore(0)

    def agree(self, call):
        self.calls.append(call)
        self.has_come.release()
        assert self.goes.acquire(timeout=LIMIT_S)

    def all_reduce(self, op, array):
        return array * 2

    def refuse(self, *arguments):
        raise NotImplementedError

    reduce = reduce_scatter = all_gather = broadcast = all_to_all = send = receive = end = refuse


def group_of(engine):
    """Return a group of which an operation is not the first: before that, processes tell each other what they have."""
    group = Group(0, 2, engine)
    group.links[current()] = {zyx.default_device(): None}
    return group


def begun(function, *arguments):
    """Return a thread that calls a function, with the default device that there is here."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(function, *arguments), daemon=True)
    thread.start()
    return thread


class Waits:
    """Run a function in a thread, which comes to an operation of `group`, and what is given while it waits there."""

    def __init__(self, function, *arguments):
        self.engine = Held()
        self.group = group_of(self.engine)
        self.found = self.error = None

        def run():
            try:
                self.found = function(self.group, *arguments)
            except Exception as error:  # noqa: BLE001  # raised where it is waited for
                self.error = error

        self._run = run

    def __enter__(self):
        self.thread = begun(self._run)
        assert self.engine.has_come.acquire(timeout=LIMIT_S)
        return self

    def __exit__(self, *error):
        self.goes_on()

    def goes_on(self):
        self.engine.goes.release(100)
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error


def within_the_limit(function):
    """Return what a function gives in a thread of its own, which does not wait for others."""
    found = []
    begun(lambda: found.append(function())).join(LIMIT_S)
    assert found, "it waits"
    return found[0]


def test_other_threads_compute_while_one_waits():
    x = zyx.Tensor([1.0, 2.0])
    with Waits(dist.barrier):
        assert within_the_limit((x * 3 + 1).tolist) == [4.0, 7.0]
        assert within_the_limit(lambda: zyx.jit(lambda x: (x @ x).sum())(x).item()) == 5.0
        assert within_the_limit(lambda: zyx.grad(lambda x: (x**2).sum())(x).tolist()) == [2.0, 4.0]


def test_other_threads_compute_while_a_traced_function_or_a_gradient_waits():
    x = zyx.Tensor([1.0, 2.0])

    def traced(group):
        return zyx.jit(lambda x: dist.all_reduce(x + 1, group=group) * 10)(x)

    def backward(group):
        w = zyx.ones(2, requires_grad=True)
        (dist.all_reduce(w, group=group) * x).sum().backward()
        return w.grad

    for function, wanted in ((traced, [40.0, 60.0]), (backward, [2.0, 4.0])):
        with Waits(function) as waits:
            assert within_the_limit((x * 3).tolist) == [3.0, 6.0]
        assert waits.found.tolist() == wanted


def step_of(model, group):
    """Return a step of training as programs have it, whose loss is averaged when weights are assigned."""

    @zyx.jit
    def step(x):
        slope = dist.all_reduce(x, group=group)
        model["w"].assign(model["w"] - slope)
        model["n"].assign(model["n"] + 1)
        return dist.all_reduce(slope.sum(), group=group)

    return step


def test_what_others_take_while_a_step_waits_stays_as_it_was():
    engine = Held()
    group = group_of(engine)
    model = {"w": zyx.Tensor([5.0, 7.0]), "n": zyx.Tensor([0.0])}
    step = step_of(model, group)
    engine.goes.release(4)
    x = zyx.Tensor([1.0, 2.0])
    for number in (1, 2):
        step(x)
        assert model["n"].tolist() == [number]
    assert model["w"].tolist() == [1.0, -1.0]
    for _ in range(4):
        assert engine.has_come.acquire(timeout=LIMIT_S)
    found = []
    thread = begun(lambda: found.append(step(x)))
    taken = []
    for _ in range(2):  # both waits of the step
        assert engine.has_come.acquire(timeout=LIMIT_S)
        taken += [model["w"] * 1, model["w"].reshape((2, 1))[:, 0], model["n"] * 1]
        assert within_the_limit(model["w"].tolist) == [1.0, -1.0]
        engine.goes.release()
    thread.join(LIMIT_S)
    assert found[0].item() == 12.0
    assert [part.tolist() for part in taken] == [[1.0, -1.0], [1.0, -1.0], [2.0]] * 2
    assert model["w"].tolist() == [-1.0, -5.0]
    assert model["n"].tolist() == [3.0]


def test_a_step_that_waits_may_be_run_by_others():
    engine = Held()
    group = group_of(engine)

    @zyx.jit
    def step(x):
        y = x @ x.T  # lies in memory while the step waits
        return (dist.all_reduce(y, group=group) @ y).sum(0)

    def wanted(x):
        return (2 * (x @ x.T) @ (x @ x.T)).sum(0).tolist()

    arrays = [np.arange(4 * rows, dtype=np.float32).reshape(rows, 4) * sign for rows, sign in ((3, 1), (3, -2))]
    engine.goes.release(2)
    for array in arrays:
        assert step(zyx.Tensor(array)).tolist() == wanted(array)
    for _ in arrays:
        assert engine.has_come.acquire(timeout=LIMIT_S)
    found = [None, None]

    def run(number):
        found[number] = step(zyx.Tensor(arrays[number])).tolist()

    threads = [begun(run, number) for number in range(2)]
    assert engine.has_come.acquire(timeout=LIMIT_S)
    time.sleep(0.2)  # for the other one to come as far as it can
    engine.goes.release(2)
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == [wanted(array) for array in arrays]


def test_what_is_assigned_before_a_step_waits_is_not_seen_by_others():
    engine = Held()
    group = group_of(engine)
    w = zyx.Tensor([1.0, 2.0])

    @zyx.jit
    def step(x):
        w.assign(w + x)
        return dist.all_reduce(w @ w, group=group)

    x = zyx.Tensor([1.0, 1.0])
    engine.goes.release(2)
    assert [step(x).item() for _ in range(2)] == [2 * (4 + 9), 2 * (9 + 16)]
    for _ in range(2):
        assert engine.has_come.acquire(timeout=LIMIT_S)
    found = []
    thread = begun(lambda: found.append(step(x).item()))
    assert engine.has_come.acquire(timeout=LIMIT_S)
    assert within_the_limit(w.tolist) == [3.0, 4.0]
    engine.goes.release()
    thread.join(LIMIT_S)
    assert found == [2 * (16 + 25)]
    assert w.tolist() == [4.0, 5.0]


def test_operations_of_two_threads_are_done_one_after_the_other_and_once():
    engine = Held()
    group = group_of(engine)
    x = zyx.Tensor([1.0])
    found = []
    threads = [begun(lambda: found.append(dist.all_reduce(x, group=group).item())) for _ in range(2)]
    assert engine.has_come.acquire(timeout=LIMIT_S)
    assert not engine.has_come.acquire(timeout=0.2)  # the other one waits for its turn
    assert within_the_limit((x * 3).item) == 3.0
    engine.goes.release(2)
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == [2.0, 2.0]
    assert engine.calls == ["all_reduce sum of float32 [1]"] * 2


def test_lengths_that_vary_are_those_of_the_call_that_waits():
    engine = Held()
    group = group_of(engine)

    @zyx.jit
    def double(x):
        return dist.all_reduce(x[:1] * 3, group=group) * x + 1

    engine.goes.release(6)
    for length in (3, 4, 5, 6, 7, 8):
        assert double(zyx.ones(length)).tolist() == [7.0] * length
    for _ in range(6):
        assert engine.has_come.acquire(timeout=LIMIT_S)
    found = {}
    threads = [begun(lambda: found.setdefault(9, double(zyx.ones(9)).tolist()))]
    assert engine.has_come.acquire(timeout=LIMIT_S)
    threads.append(begun(lambda: found.setdefault(10, double(zyx.ones(10)).tolist())))
    time.sleep(0.2)  # for it to come as far as it can
    engine.goes.release(2)
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == {length: [7.0] * length for length in (9, 10)}


def test_devices_that_are_closed_meanwhile_are_an_error():
    with use(Runtime({"devices": {"default": "interpreter"}})) as runtime:
        x = zyx.ones(2)
        waits = Waits(lambda group: dist.all_reduce(x + 1, group=group))
        with pytest.raises(BackendError, match="closed by another thread"), waits:
            runtime._opened, before = None, runtime._opened  # as after the patience of close()
        runtime._opened = before
        assert x.tolist() == [1.0, 1.0]
    assert current() is not runtime


def test_an_error_while_waiting_leaves_the_lock_as_it_was():
    class Fails(Held):
        def agree(self, call):
            raise CollectiveError("cut")

    group = Group(0, 2, Fails())
    for _ in range(2):
        with pytest.raises(CollectiveError, match="cut"):
            dist.all_reduce(zyx.ones(2), group=group)
    lock = current().lock
    assert not lock._is_owned()
    assert within_the_limit((zyx.ones(2) * 2).tolist) == [2.0, 2.0]
