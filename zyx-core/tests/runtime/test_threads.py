"""Many threads at one runtime: everything under its lock, and nothing mixed up."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import zyx


def together(count, work) -> None:
    """Run ``work(number)`` in `count` threads that start at once; raise what one of them raised."""
    start, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            start.wait(60)
            work(number)
        except BaseException as error:  # noqa: BLE001  # raised again in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
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
    runtime._drop_plans()
    runtime.memory.reclaim()
    assert runtime.memory.live_bytes == 0
