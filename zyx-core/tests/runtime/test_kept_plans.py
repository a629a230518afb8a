"""Plans on disk: taken by who comes later with the same graph, code, device and measurements, and by nobody else."""

from __future__ import annotations

import sqlite3
from collections import Counter

import msgspec
import numpy as np
import pytest

import zyx
from zyx.autotune import store
from zyx.drivers.disk_cache import DiskCache
from zyx.runtime import kept_plan, kernel_cache
from zyx.runtime.planner import Planner
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

from .test_kept import WritingBackend

LAYERS = 12
#: Of float32, whose errors grow by the layers.
NEAR = {"rtol": 1e-4, "atol": 1e-5}
X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8)
WEIGHTS = np.random.default_rng(0).standard_normal((LAYERS, 8, 8)).astype(np.float32)


def layers(x, weights, factor=0.5):
    """Equal layers behind each other: more nodes than the least graph has whose plan is kept."""
    for weight in weights:
        x = x + factor * zyx.tanh(x @ weight)
    return x


def expected(factor=0.5, weights=WEIGHTS):
    x = X.astype(np.float64)
    for weight in weights:
        x = x + factor * np.tanh(x @ weight)
    return x


@pytest.fixture
def process(tmp_path, monkeypatch):
    """A function that computes in a runtime of its own, with the cache of this test; returns values and counts."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    made = Counter()
    make = Planner.make

    def counted(planner, *args):
        made["plans"] += 1
        return make(planner, *args)

    monkeypatch.setattr(Planner, "make", counted)

    def run(compute=layers, **settings):
        made.clear()
        runtime = open_runtime("lab:0", [WritingBackend()], {"cache": {"directory": str(folder)}, **settings})
        with use(runtime):
            weights = [zyx.Tensor(weight) for weight in WEIGHTS]
            found = compute(zyx.Tensor(X), weights).numpy()
        counts = made["plans"], runtime.planner.kept.restored, runtime.compiler.scheduled
        runtime.close()
        return found, counts

    return run


def plans_in(folder):
    with sqlite3.connect(folder / "cache" / "kernels-1.sqlite") as connection:
        return [key for (key,) in connection.execute("SELECT key FROM entries") if " plan " in key]


def test_a_second_process_plans_nothing_and_schedules_nothing(process):
    first, (made, restored, scheduled) = process()
    assert (made, restored) == (1, 0)
    assert scheduled > 0
    second, counts = process()
    assert counts == (0, 1, 0)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(second, expected(), **NEAR)


def test_traced_functions_take_theirs_and_store_over_what_they_are_given(process):
    def compute(x, weights):
        state = zyx.Tensor(np.zeros_like(X))

        @zyx.jit
        def step(x):
            state.assign(state + layers(x, weights))
            return state * 2

        step(x)
        return step(x)

    first, counts = process(compute)
    assert counts[:2] == (1, 0)
    second, counts = process(compute)
    assert counts == (0, 1, 0)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(second, 4 * expected(), **NEAR)


@pytest.mark.parametrize("what", ["code", "constants", "nodes", "order of sums"])
def test_what_differs_has_a_plan_of_its_own(process, monkeypatch, what):
    process()
    settings, compute, values = {}, layers, expected()
    if what == "code":
        monkeypatch.setattr(kernel_cache, "_code_of", lambda package: "changed")
    elif what == "constants":
        values = expected(0.25)

        def compute(x, weights):
            return layers(x, weights, 0.25)
    elif what == "nodes":
        values = expected(weights=WEIGHTS[1:])

        def compute(x, weights):
            return layers(x, weights[1:])
    else:
        settings = {"deterministic": True}
    found, (made, restored, _) = process(compute, **settings)
    assert (made, restored) == (1, 0)
    np.testing.assert_allclose(found, values, **NEAR)


def test_what_was_measured_since_makes_another_plan(process, tmp_path):
    process()
    schedules = DiskCache(tmp_path / "cache", store.NAME, executable=True)
    schedules.put("of another device", b"{}")
    schedules.close()
    assert process()[1][:2] == (1, 0)
    assert process()[1][:2] == (0, 1)


@pytest.mark.parametrize("kind", [" kernel ", " plan "])
@pytest.mark.parametrize("value", [None, b"", msgspec.msgpack.encode([1, 2])], ids=["gone", "empty", "another record"])
def test_a_plan_that_cannot_be_used_is_made_again(process, tmp_path, kind, value):
    process()
    cache = DiskCache(tmp_path / "cache", kernel_cache.NAME, executable=True)
    for key, _ in cache.items():
        if kind in key:
            cache.remove(key) if value is None else cache.put(key, value)
    cache.close()
    found, (made, restored, _) = process()
    assert (made, restored) == (1, 0)
    np.testing.assert_allclose(found, expected(), **NEAR)
    assert process()[1] == (0, 1, 0)


def test_where_kernels_are_shown_or_followed_plans_are_made(process, capsys):
    process()
    assert process(debug="schedule")[1][:2] == (1, 0)
    assert "schedule " in capsys.readouterr().err

    def compute(x, weights):
        with zyx.profile():
            return layers(x, weights).realize()

    assert process(compute)[1][:2] == (1, 0)


def test_small_graphs_and_functions_of_the_host_are_not_kept(process, tmp_path):
    def on_host(x, weights):
        return zyx.linalg.qr(layers(x, weights))[1]

    for compute in (lambda x, weights: x @ weights[0], on_host):
        process(compute)
        assert process(compute)[1][:2] == (1, 0)
    assert not plans_in(tmp_path)


def test_keys_say_what_plans_depend_on():
    graph = zyx.Tensor(X)
    deep = layers(graph, [zyx.Tensor(weight) for weight in WEIGHTS])
    (node,), leaf = [deep.node], graph.node
    key = kept_plan.key_of([node], [leaf], {})
    assert key == kept_plan.key_of([node], [leaf], {})
    others = [([node, node.sources[0]], [leaf], {}), ([node], [leaf, leaf], {}), ([node], [leaf], {node: leaf})]
    assert len({key[0], *(kept_plan.key_of(*other)[0] for other in others)}) == 4
