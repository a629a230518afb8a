"""What a graph stores between its launches, as a choice that is found by running it."""

import numpy as np
import pytest
from meanings import formulas

import zyx
from zyx.autotune.choice import Choice, choices_of, digest_of_graph
from zyx.errors import LaunchError, ScheduleError
from zyx.fusion.partition import partition
from zyx.graph.walk import topological
from zyx.runtime import dividing
from zyx.runtime.dividing import Dividing
from zyx.runtime.planner import _Making

FEW = {"n_launches": 1, "n_seeds": 1, "n_total_opts": 1}


def values(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def softmax(x):
    """One kernel over rows, which takes in a maximum, exponentials and their sum."""
    shifted = zyx.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


@pytest.fixture
def all_faster(monkeypatch):
    """Whatever is tried is faster than the best before it."""
    monkeypatch.setattr(Dividing, "_in_turns", lambda self, one, other, leaves: ([2.0] * 5, [1.0] * 5))


def launches_of(runtime, make):
    """Return how many launches compute what `make` gives, and its values."""
    plans = []
    planned = runtime.trace.planned
    runtime.trace.planned = lambda plan, seconds: plans.append(plan) or planned(plan, seconds)
    found = make().numpy()
    del runtime.trace.planned
    return sum(plan.launches for plan in plans), found


def test_what_is_faster_stored_is_stored_from_then_on_and_in_later_processes(opened, all_faster):
    array = values(30, 7)
    with opened(autotune=FEW) as runtime:
        x = zyx.Tensor(array).realize()
        before, _ = launches_of(runtime, lambda: softmax(x))
        with zyx.tune(2) as tuning:
            softmax(x).realize()
        (graph,) = [row for row in tuning.results() if row.kernel.startswith("graph")]
        assert graph.gain > 1.0 and graph.tried >= 1 and not graph.wrong
        assert "stores" in graph.why
        after, found = launches_of(runtime, lambda: softmax(x))
        assert after > before
        np.testing.assert_allclose(found, formulas.softmax(array), rtol=1e-5)
    with opened() as runtime:
        again, found = launches_of(runtime, lambda: softmax(zyx.Tensor(array).realize()))
        assert again == after
        np.testing.assert_allclose(found, formulas.softmax(array), rtol=1e-5)
        traced = zyx.jit(softmax)
        np.testing.assert_allclose(traced(zyx.Tensor(array)).numpy(), formulas.softmax(array), rtol=1e-5)


def test_what_is_not_faster_stays_as_the_rules_say(opened, monkeypatch):
    monkeypatch.setattr(
        Dividing, "_in_turns", lambda self, one, other, leaves: ([1.0] * 5, [0.99, 0.5, 1.01, 0.5, 0.5])
    )
    with opened(autotune=FEW) as runtime:
        x = zyx.Tensor(values(30, 7)).realize()
        before, _ = launches_of(runtime, lambda: softmax(x))
        with zyx.tune(2) as tuning:
            softmax(x).realize()
        (graph,) = [row for row in tuning.results() if row.kernel.startswith("graph")]
        assert (graph.gain, graph.why) == (1.0, "nothing else to store is faster")
        assert launches_of(runtime, lambda: softmax(x))[0] == before


def test_what_gives_other_results_is_left_aside_and_named(opened, all_faster, monkeypatch):
    monkeypatch.setattr(dividing, "differs", lambda found, wanted: "result 0 differs")
    with opened(autotune=FEW) as runtime:
        x = zyx.Tensor(values(30, 7)).realize()
        before, _ = launches_of(runtime, lambda: softmax(x))
        with zyx.tune(2) as tuning:
            softmax(x).realize()
        (graph,) = [row for row in tuning.results() if row.kernel.startswith("graph")]
        assert graph.gain == 1.0
        assert len(graph.wrong) == graph.tried >= 1
        assert "wrong, and left aside: graph" in str(tuning)
        assert launches_of(runtime, lambda: softmax(x))[0] == before


def test_a_choice_that_does_not_do_is_dropped_and_seen(opened, all_faster, monkeypatch, capsys):
    array = values(30, 7)
    with opened(autotune=FEW), zyx.tune(2):
        softmax(zyx.Tensor(array).realize()).realize()
    refused = []
    with opened() as runtime, zyx.debug("autotune"):
        entries = {key: each for key, each in runtime.compiler.store.entries().items() if each.choice}
        assert len(entries) == 1
        draw = _Making._drawn

        def refusing(self, parts, device):
            if not refused:
                refused.append(parts)
                raise ScheduleError("not today")
            return draw(self, parts, device)

        monkeypatch.setattr(_Making, "_drawn", refusing)
        found = softmax(zyx.Tensor(array).realize()).numpy()
        assert refused
        np.testing.assert_allclose(found, formulas.softmax(array), rtol=1e-5)
        assert not any(each.choice for each in runtime.compiler.store.entries().values())
    assert "what was measured: ScheduleError: not today; next: stored as the rules say" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["_results", "choices"])
def test_a_graph_that_cannot_be_run_by_itself_stays_and_is_noted(opened, all_faster, monkeypatch, name):
    def refusing(*_):
        raise LaunchError("not today")

    monkeypatch.setattr(Dividing, name, refusing)
    with opened(autotune=FEW):
        array = values(30, 7)
        with zyx.tune(2) as tuning:
            found = softmax(zyx.Tensor(array).realize()).numpy()
        assert "not today" in tuning.note
        np.testing.assert_allclose(found, formulas.softmax(array), rtol=1e-5)


def test_nothing_is_chosen_where_sums_have_one_order(opened, all_faster):
    with opened(autotune=FEW, deterministic=True):
        x = zyx.Tensor(values(30, 7)).realize()
        with zyx.tune(5) as tuning:
            softmax(x).realize()
        assert not [row for row in tuning.results() if row.kernel.startswith("graph")]


def test_a_graph_with_another_constant_has_the_same_digest_and_one_with_another_shape_has_not(opened):
    with opened():

        def digest(shape, factor):
            outputs = [(zyx.Tensor(values(*shape)).realize() * factor).sum(1)._node]
            return digest_of_graph(topological(outputs), outputs)

        assert digest((3, 4), 2.0) == digest((3, 4), 3.0)
        assert len({digest((3, 4), 2.0), digest((4, 3), 2.0), digest((3, 5), 2.0)}) == 3


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_chosen_the_values_are_the_same(opened, seed):
    generator = np.random.default_rng(seed)
    array = values(12, 20)
    with opened() as runtime:
        x = zyx.Tensor(array).realize()
        y = zyx.exp(x) * 0.5
        outputs = [softmax(y)._node, (y.sum(0) + zyx.tanh(y).max(1).sum())._node, (softmax(y) @ y.T)._node]
        device = runtime.device("toy")
        order = topological(outputs)
        leaves = [node for node in order if node.storage is not None]
        wanted = _run(runtime, Choice(), outputs, leaves, device)
        choices = [c for part in partition(order, outputs, device.info) for c in choices_of(order, outputs, part)]
        assert choices
        for _ in range(4):
            picked = generator.choice(len(choices), min(3, len(choices)), replace=False)
            together = Choice()
            for number in picked:
                together |= choices[number]
            found = _run(runtime, together, outputs, leaves, device)
            for mine, theirs in zip(found, wanted, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def _run(runtime, choice, outputs, leaves, device):
    plan = runtime.planner.make_by(choice, outputs, leaves, device)
    results = plan.run([node.storage for node in leaves], runtime.memory, runtime.trace)
    arrays = [np.empty(buffer.nbytes // 4, np.float32) for buffer in results]
    for array, buffer in zip(arrays, results, strict=True):
        buffer.wait()
        buffer.pool.pool_to_host(buffer.raw, memoryview(array).cast("B"))
    return arrays
