"""A search: what is timed, what is left aside, and what takes the place of what was chosen."""

import numpy as np
import pytest

import zyx
from zyx.autotune.measure import Scratch
from zyx.autotune.search import Search
from zyx.backend import Program
from zyx.backend.library import Convolution, Gemm, LibraryKernel
from zyx.builtin.interpreter import InterpreterProgram
from zyx.hookspecs import KernelPass
from zyx.kernel.data import Define, Memory
from zyx.nest.data import Kind
from zyx.schedule.moves import Mark, Split

ON = {"enabled": True, "time_budget_s": 60.0, "n_launches": 1}


def x(*shape):
    return zyx.Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).realize()


def halved(nest, choice):
    """Split the first range, and write its inner part out."""
    (factor,) = choice
    label = nest.ranges[0].label
    return Mark(f"{label}.1", Kind.UNROLL).apply(Split(label, factor).apply(nest))


def pass_of(apply=halved, choices=lambda nest: [(2,)], name="halve"):
    return KernelPass(name, choices=choices, apply=apply)


def tuned(runtime):
    (winner,) = runtime.compiler.store.entries().values()
    return winner


def test_a_pass_of_a_plugin_is_called_and_what_is_faster_by_it_is_kept(opened, each_faster):
    with opened([pass_of()], autotune=ON | {"n_seeds": 0, "n_total_opts": 1}) as runtime:
        values = x(6, 4)
        np.testing.assert_allclose((values * 2.0).numpy(), values.numpy() * 2.0)
        (moves,) = tuned(runtime).schedules
        assert moves[-1] == {"move": "KernelPass", "name": "halve", "choice": [2]}
        assert tuned(runtime).tried == 1
    # A process that has the pass uses what was found; one without it falls back, and drops it.
    with opened([pass_of()], autotune={}) as runtime:
        np.testing.assert_allclose((x(6, 4) * 2.0).numpy(), x(6, 4).numpy() * 2.0)
        assert runtime.tuner.searches == 0
        assert runtime.compiler.store.entries()
    with opened([], autotune={}, cache={"directory": str(runtime.settings.cache.directory)}) as runtime:
        np.testing.assert_allclose((x(6, 4) * 2.0).numpy(), x(6, 4).numpy() * 2.0)


def test_a_pass_that_is_not_there_any_more_falls_back_and_is_dropped_visibly(opened, each_faster, capsys):
    with opened([pass_of()], autotune=ON | {"n_seeds": 0, "n_total_opts": 1}) as runtime:
        (x(6, 4) * 2.0).numpy()
        assert tuned(runtime).is_faster
    with opened([]) as runtime, zyx.debug("autotune", "ir"):
        np.testing.assert_allclose((x(6, 4) * 2.0).numpy(), x(6, 4).numpy() * 2.0)
        assert not runtime.compiler.store.entries()
    said = capsys.readouterr().err
    assert (
        "the schedule that was measured: FormatError: the device has no kernel pass 'halve'; it has none; next" in said
    )


@pytest.mark.parametrize("fault", ["raises", "returns nothing", "another nest"])
def test_a_pass_that_fails_is_left_aside(opened, fault):
    def apply(nest, choice):
        if fault == "raises":
            raise RuntimeError("no")
        return None if fault == "returns nothing" else others[0]

    others = []

    def choices(nest):
        others.append(nest)
        return [(1,)]

    with opened([pass_of(apply, choices), pass_of(choices=lambda nest: 1 / 0, name="bad")], autotune=ON) as runtime:
        np.testing.assert_allclose((x(5, 3) + 1.0).numpy(), x(5, 3).numpy() + 1.0)
        np.testing.assert_allclose((x(4, 4).sum(0)).numpy(), x(4, 4).numpy().sum(0), rtol=1e-5)
        for winner in runtime.compiler.store.entries().values():
            assert "KernelPass" not in str(winner.schedules)


def test_a_pass_that_computes_something_else_is_found_out(opened, each_faster, monkeypatch):
    found = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, seconds: found.append(run(self, seconds)) or found[-1])

    def wrong(nest, choice):
        """Leave the last point of the first range out."""
        from dataclasses import replace

        first = nest.statements[0].order[0]
        pool = nest.pool
        inside = pool.less(pool.ref(first), first.size - 1)
        return replace(nest, statements=tuple(replace(s, mask=inside) for s in nest.statements))

    with opened([pass_of(wrong)], autotune=ON | {"n_seeds": 0, "n_total_opts": 1}) as runtime, zyx.debug("autotune"):
        np.testing.assert_allclose((x(6, 4) * 2.0).numpy(), x(6, 4).numpy() * 2.0)
        assert not tuned(runtime).is_faster
    assert len(found[0].wrong) == 1
    assert found[0].wrong[0].startswith("kernel pass halve: result 0 differs in")


def test_a_pass_that_does_not_come_back_is_waited_for_once(opened):
    import threading

    forever, calls = threading.Event(), []

    def hangs(nest, choice):
        calls.append(nest)
        forever.wait()

    with opened([pass_of(hangs)], autotune=ON, devices={"default": "toy", "timeout_s": 0.5}) as runtime:
        np.testing.assert_allclose((x(5, 3) + 1.0).numpy(), x(5, 3).numpy() + 1.0)
        np.testing.assert_allclose((x(4, 4).sum(0)).numpy(), x(4, 4).numpy().sum(0), rtol=1e-5)
        assert len(calls) == 1
        assert runtime.compiler.store.entries()
    forever.set()


class Product(InterpreterProgram):
    """What a library computes, by a function of arrays."""

    __slots__ = ()

    def __init__(self, params, executable):
        Program.__init__(self, "vendor")
        self.params, self.executable = params, executable


def library(compute=np.matmul, *, unmeasured=False):
    def prepare(problem):
        sizes = problem.m * problem.k, problem.k * problem.n, problem.m * problem.n
        params = tuple(Define(Memory.GLOBAL, problem.dtype, size, number == 2) for number, size in enumerate(sizes))

        def executable(arrays):
            a, b, c = arrays
            c[:] = compute(a.reshape(problem.m, problem.k), b.reshape(problem.k, problem.n)).ravel()

        return Product(params, executable)

    return LibraryKernel("vendor 1.0", Gemm, prepare, unmeasured)


def test_a_library_of_a_plugin_is_timed_and_taken_where_it_is_faster(opened, each_faster):
    with opened([], [library()], autotune=ON | {"n_seeds": 0, "n_total_opts": 1}) as runtime:
        a, b = x(8, 16), x(16, 4)
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5)
        assert tuned(runtime).library == "vendor 1.0"
        assert zyx.explain_plan(a @ b)["steps"][0]["is_library"]
    with opened([], [library()]) as runtime:  # a later process takes it without measuring
        a, b = x(8, 16), x(16, 4)
        assert zyx.explain_plan(a @ b)["steps"][0]["is_library"]
        assert runtime.tuner.searches == 0


def test_a_library_s_convolution_is_timed_and_taken_where_it_is_faster(opened, each_faster):
    asked = []

    def prepare(problem):
        asked.append(problem)
        sizes = 2 * 3 * 10, 4 * 3 * 3, 2 * 4 * 8
        params = tuple(Define(Memory.GLOBAL, problem.dtype, size, number == 2) for number, size in enumerate(sizes))

        def executable(arrays):
            data, filters, y = arrays
            windows = np.lib.stride_tricks.sliding_window_view(data.reshape(2, 3, 10), 3, 2)
            y[:] = np.einsum("bcik,ock->boi", windows, filters.reshape(4, 3, 3)).ravel()

        return Product(params, executable)

    def result():
        return zyx.conv(x(2, 3, 10), x(4, 3, 3))

    vendor = LibraryKernel("vendor 1.0", Convolution, prepare)
    with opened() as runtime:
        wanted = result().numpy()
    with opened([], [vendor], autotune=ON | {"n_seeds": 0, "n_total_opts": 1}) as runtime:
        np.testing.assert_allclose(result().numpy(), wanted, rtol=1e-4, atol=1e-5)
        assert tuned(runtime).library == "vendor 1.0"
        assert zyx.explain_plan(result())["steps"][0]["is_library"]
    assert asked[0].kernel == (3,) and asked[0].size == (10,)


def test_a_library_that_is_taken_unmeasured_is_the_one_to_beat(opened, each_faster):
    with opened([], [library(unmeasured=True)], autotune={"n_launches": 1, "n_total_opts": 4}) as runtime:
        a, b = x(8, 16), x(16, 4)
        step = zyx.jit(lambda a, b: a @ b)
        with zyx.tune(60) as tuning:
            step(a, b)
        (row,) = tuning.results()
        assert row.why == "the generated kernel for vendor 1.0"
        assert row.gain > 1.0
        compiled = runtime.compiler.compiled
        np.testing.assert_allclose(step(a, b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5)
        assert runtime.compiler.compiled == compiled
        assert not zyx.explain_plan(a @ b)["steps"][0]["is_library"]
    with opened([], [library(unmeasured=True)]):
        assert not zyx.explain_plan(x(8, 16) @ x(16, 4))["steps"][0]["is_library"]


def test_a_library_that_is_taken_unmeasured_stays_where_nothing_is_faster(opened, monkeypatch):
    monkeypatch.setattr(Scratch, "seconds", lambda _, program, *more, **how: 1.0 if program.name == "vendor" else 2.0)
    few = {"n_launches": 1, "n_total_opts": 4}
    for given in (few, few, few | {"enabled": True}):  # the second and third find what the first one kept
        with opened([], [library(unmeasured=True)], autotune=given) as runtime:
            with zyx.tune(60) as tuning:
                np.testing.assert_allclose(
                    (x(8, 16) @ x(16, 4)).numpy(), x(8, 16).numpy() @ x(16, 4).numpy(), rtol=1e-5
                )
            (row,) = tuning.results()
            assert (row.why, row.gain) == ("nothing is faster than vendor 1.0", 1.0)
            assert tuned(runtime).library == "vendor 1.0"
            assert zyx.explain_plan(x(8, 16) @ x(16, 4))["steps"][0]["is_library"]


def test_a_library_that_computes_something_else_is_found_out(opened, each_faster):
    wrong = library(lambda a, b: a @ b + 1.0)
    with opened([], [wrong], autotune=ON | {"n_seeds": 0, "n_total_opts": 1}) as runtime:
        a, b = x(8, 16), x(16, 4)
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5)
        assert not tuned(runtime).is_faster


def test_a_library_that_does_not_come_back_loses_the_device_and_nothing_else(opened, each_faster):
    import threading

    forever = threading.Event()
    hangs = library(lambda a, b: forever.wait() or a @ b)
    with opened([], [hangs], devices={"default": "toy", "timeout_s": 0.5}, autotune={"n_launches": 1}) as runtime:
        with zyx.tune(30) as tuning:
            (x(7) + 1.0).realize()
            (x(8, 16) @ x(16, 4)).realize()
        assert "did not come back within 0.5 s" in tuning.note
        assert "what was found before is kept" in tuning.note
        assert "toy:0" not in [device.name for device in runtime.devices]
        assert zyx.zeros(3, device="interpreter").sum().numpy() == 0
    forever.set()


def test_two_searches_with_one_seed_look_at_the_same(opened, each_faster, monkeypatch):
    looked = []
    timed = Search._time_one
    monkeypatch.setattr(Search, "_time_one", lambda self, *a: looked.append(a[3].moves) or timed(self, *a))

    def search(seed, folder):
        looked.clear()
        with opened(folder=folder, autotune=ON | {"seed": seed, "n_total_opts": 20}, cache={"enabled": False}):
            x(30, 40).sum(1).realize()
        return list(looked)

    assert search(3, "a") == search(3, "b")
    assert search(3, "a") != search(4, "a")


def test_without_memory_nothing_is_tuned_and_it_is_said(opened, monkeypatch):
    from zyx.errors import AllocationError

    with opened() as runtime, zyx.tune(5) as tuning:
        (x(9) + 2.0).realize()

        def full(self, *_):
            raise AllocationError("no room")

        monkeypatch.setattr("zyx.autotune.measure.Scratch._one_set", full)
    (row,) = tuning.results()
    assert row.why == "no memory to time it: no room"
    assert row.gain == 1.0
    assert not runtime.compiler.store.entries()
