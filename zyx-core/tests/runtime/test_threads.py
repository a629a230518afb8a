"""Many threads at one runtime: everything under its lock, and nothing mixed up."""

from __future__ import annotations

import contextvars
import queue
import sys
import threading

import numpy as np
import pytest

import zyx
from zyx.runtime import lifetime
from zyx.runtime import runtime as runtimes
from zyx.runtime.runtime import Runtime, current, use
from zyx.testing.opening import open_runtime


def together(count, work) -> None:
    """Run ``work(number)`` in `count` threads that start at once; raise what one of them raised."""
    start, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            start.wait(60)
            work(number)
        except BaseException as error:  # noqa: BLE001  # raised again in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(run, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.fixture(params=["lab", "interpreter"])
def runtime(request):
    return request.getfixturevalue(request.param)


def place(runtime) -> str:
    return "lab:0" if "lab:0" in runtime.backends.devices else "interpreter"


def test_threads_compute_different_graphs(runtime):
    device = place(runtime)

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(6):
            a = rng.standard_normal((4 + number, 5)).astype(np.float32)
            x = zyx.Tensor(a, device=device)
            np.testing.assert_allclose((x.tanh() + number).sum(axis=0).numpy(), (np.tanh(a) + number).sum(0), 1e-4)

    together(6, work)


def test_threads_compute_the_same_structure_and_compile_it_once(runtime):
    device = place(runtime)
    results = {}

    def work(number: int) -> None:
        x = zyx.Tensor(np.full((8, 8), number, np.float32), device=device)
        results[number] = (x * 3.0 + 1.0).sum().item()

    together(8, work)
    assert results == {number: 64 * (3 * number + 1) for number in range(8)}
    assert runtime.compiler.compiled <= 2


def test_threads_read_one_tensor_that_is_not_computed_yet(runtime):
    x = zyx.Tensor(np.arange(64, dtype=np.float32), device=place(runtime)).exp().log()
    found = [None] * 8

    def work(number: int) -> None:
        found[number] = x.numpy()

    together(8, work)
    for array in found:
        np.testing.assert_allclose(array, np.arange(64), 1e-4, 1e-4)


def test_threads_call_one_traced_function(runtime):
    device = place(runtime)

    @zyx.jit
    def double(x):
        return x * 2.0 + 1.0

    def work(number: int) -> None:
        for _ in range(5):
            x = zyx.Tensor(np.full(16, number, np.float32), device=device)
            assert double(x).tolist() == [2.0 * number + 1] * 16

    together(6, work)


def test_memory_is_all_given_back(runtime):
    device = place(runtime)

    def work(number: int) -> None:
        for size in range(1, 12):
            (zyx.Tensor(np.ones((size, 3), np.float32), device=device) * number).numpy()

    together(6, work)
    runtime.drop_plans()
    runtime.memory.reclaim()
    assert runtime.memory.live_bytes == 0


class Traced:
    """A traced function that stops half way until it is told to go on, in a thread of its own."""

    def __init__(self, function, *args) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.result: list[object] = []

        def stopping(*args):
            result = function(*args)
            self.reached.set()
            assert self.go_on.wait(60)
            return result

        self.function = zyx.jit(stopping)
        self.args = args

    def __enter__(self):
        work = contextvars.copy_context().run
        self.thread = threading.Thread(target=lambda: self.result.append(work(self.function, *self.args)))
        self.thread.start()
        assert self.reached.wait(60)
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self.thread.join(60)


def elsewhere(work):
    """Return what ``work()`` does in another thread, which is not to be held up by anybody."""
    found, context = [], contextvars.copy_context()
    thread = threading.Thread(target=lambda: found.append(context.run(work)), daemon=True)
    thread.start()
    thread.join(60)
    assert found, "the other thread waits, or has failed"
    return found[0]


def test_threads_make_compute_and_read_tensors_while_another_one_traces(runtime):
    x = zyx.Tensor(np.arange(4, dtype=np.float32), device=place(runtime))
    with Traced(lambda v: v * 2.0, x) as traced:
        assert elsewhere(lambda: zyx.Tensor(np.ones(3, np.float32), device=place(runtime)).exp().shape) == (3,)
        assert elsewhere(x.tolist) == [0, 1, 2, 3]
        assert elsewhere(lambda: repr(x)).startswith("Tensor([0., 1., 2., 3.]")
        assert elsewhere(lambda: zyx.jit(lambda v: v + 5.0)(x).tolist()) == [5, 6, 7, 8]
    assert traced.result[0].tolist() == [0, 2, 4, 6]
    assert (x + 1.0).tolist() == [1, 2, 3, 4]
    assert not runtime.traces


def test_what_another_thread_assigns_is_no_part_of_a_trace(runtime):
    x, state = (zyx.Tensor(np.zeros(4, np.float32), device=place(runtime)) for _ in range(2))
    with Traced(lambda v: v * 2.0 + state, x) as traced:
        elsewhere(lambda: state.assign(state + 1.0))
    assert state.tolist() == [1] * 4
    for _ in range(3):
        assert traced.function(x).tolist() == [1] * 4  # what the state is at the time of the call
    assert state.tolist() == [1] * 4


def test_two_threads_trace_one_function_at_the_same_time(runtime):
    x = zyx.Tensor(np.arange(4, dtype=np.float32), device=place(runtime))
    together_inside = threading.Barrier(2)

    @zyx.jit
    def double(v):
        together_inside.wait(60)
        return v * 2.0

    results = {}

    def work(number: int) -> None:
        results[number] = double(x).tolist()

    together(2, work)
    assert results == {0: [0, 2, 4, 6], 1: [0, 2, 4, 6]}
    assert len(double.traces) == 1
    assert elsewhere(lambda: double(x).tolist()) == [0, 2, 4, 6]


def test_a_trace_is_made_again_if_another_thread_has_changed_its_state_s_dtype_meanwhile(runtime):
    network = zyx.nn.Module()
    network.weight = zyx.nn.Parameter(zyx.Tensor(np.ones(4, np.float32), device=place(runtime)))
    with Traced(lambda: network.weight + 1.0) as traced:
        elsewhere(lambda: network.to(dtype="float64"))
    assert traced.result[0].dtype is zyx.float64
    assert traced.result[0].tolist() == [2] * 4


def test_an_error_in_a_trace_leaves_no_trace_behind(runtime):
    x = zyx.Tensor(np.ones(4, np.float32), device=place(runtime))

    @zyx.jit
    def fails(v):
        raise KeyError(v * 2.0)

    with pytest.raises(KeyError):
        fails(x)
    assert not runtime.traces
    assert runtime.tracing is None
    assert (x + 1.0).tolist() == [2] * 4


def test_steps_of_training_go_on_beside_a_thread_that_makes_batches(runtime):
    device = place(runtime)
    weight = zyx.Tensor(np.zeros(3, np.float32), device=device)
    batches: queue.Queue = queue.Queue(4)

    def fetch() -> None:
        for number in range(60):
            batches.put(zyx.Tensor(np.full(3, number, np.float32), device=device) * 2.0)

    @zyx.jit
    def step(batch):
        weight.assign(weight + batch)
        return batch.sum()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(fetch,), daemon=True)
    thread.start()
    losses = [step(batches.get(timeout=60)).item() for _ in range(60)]
    thread.join(60)
    assert losses == [6.0 * number for number in range(60)]
    assert weight.tolist() == [2.0 * sum(range(60))] * 3


def test_each_thread_computes_with_the_runtime_that_it_uses():
    turns = threading.Barrier(3)
    three = [open_runtime("interpreter") for _ in range(3)]

    def work(number: int) -> None:
        with use(three[number]) as runtime:
            twice = zyx.jit(lambda x: x * 2.0)
            for turn in range(5):
                turns.wait(60)  # each block has begun, whichever was the last
                x = zyx.Tensor([float(number + turn)])
                assert x.runtime is runtime
                assert twice(x).tolist() == [2.0 * (number + turn)]
        assert current() is outside

    outside = current()
    together(3, work)
    assert current() is outside
    for runtime in three:
        runtime.close()


def test_threads_that_are_the_first_to_compute_start_one_runtime(monkeypatch):
    begun, found = threading.Barrier(2), []

    def start() -> Runtime:
        begun.wait(60)  # two find that there is none
        return Runtime()

    monkeypatch.setattr(runtimes, "Runtime", start)
    monkeypatch.setattr(runtimes, "_started", {})
    together(2, lambda _: found.append(current()))
    assert found == [current()] * 2


class Idle:
    """Lives for a moment, and does nothing before a fork nor after it."""

    def end(self) -> None:
        pass

    def before_fork(self) -> None:
        pass

    def after_fork(self, *, is_child: bool) -> None:
        pass


def test_a_process_may_fork_while_threads_begin_runtimes(monkeypatch):
    monkeypatch.setattr(lifetime, "_alive", type(lifetime._alive)())
    over = threading.Event()
    staying = [Idle() for _ in range(50)]
    for each in staying:
        lifetime.begin(each)

    def begin() -> None:
        while not over.is_set():
            lifetime.begin(Idle())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=begin)
    thread.start()
    try:
        for _ in range(20_000):
            lifetime._before_fork()
            lifetime._after_fork(is_child=False)
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)
