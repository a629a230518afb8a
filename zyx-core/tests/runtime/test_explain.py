"""Graphs and plans as drawings and as data."""

import json
import re

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, TraceError


@pytest.fixture
def x(interpreter):
    return zyx.Tensor(np.arange(12, dtype=np.float32).reshape(4, 3))


def nodes_of(text):
    """Return the labels of a drawing by name, and its arrows."""
    labels = dict(re.findall(r'^  (\w+) \[shape=\w+,.* label="(.*)".*\];$', text, re.MULTILINE))
    arrows = re.findall(r"^  (\w+) -> (\w+);$", text, re.MULTILINE)
    assert {name for arrow in arrows for name in arrow} <= set(labels)
    assert len(labels) + len(arrows) + 2 == len(text.splitlines())
    return labels, arrows


def test_a_graph_is_drawn_with_what_is_stored_and_what_is_asked_for(x):
    y = (x - x.max(axis=1, keepdims=True)).exp()
    text = zyx.plot_dot_graph(y)
    labels, arrows = nodes_of(text)
    assert text.startswith("digraph ")
    assert text.count("shape=box") == 1
    assert text.count("peripheries=2") == 1
    assert any(label.startswith("reduce op=max, axes=(1,)\\nf32[4, 1]") for label in labels.values())
    assert any(label == "leaf\\nf32[4, 3]\\ninterpreter:0" for label in labels.values())
    assert len(arrows) >= 4
    assert y.node.storage is None  # nothing was computed
    assert text == zyx.plot_dot_graph((x - x.max(axis=1, keepdims=True)).exp())
    assert zyx.plot_dot_graph(y.realize()).count("shape=box") == 1  # what it was computed from is not shown


def test_a_plan_says_its_steps_what_they_read_and_write_and_how_much_they_do(x):
    plan = zyx.explain_plan((x * 2).sum(), x.max())
    assert json.loads(json.dumps(plan)) == plan
    assert [each["shape"] for each in plan["inputs"]] == [[4, 3]]
    assert [(each["shape"], each["dtype"], each["bytes"]) for each in plan["results"]] == [([], "float32", 4)] * 2
    written = {number for step in plan["steps"] for number in step["writes"]}
    assert written == {each["buffer"] for each in plan["results"]}
    assert all(step["kind"] == "launch" and not step["is_library"] for step in plan["steps"])
    assert sum(step["counts"]["flops"] for step in plan["steps"]) >= 12 + 12
    assert all(step["counts"]["read_footprint"] <= 48 for step in plan["steps"])


def test_the_plan_is_the_one_that_is_run(lab, device):
    a, b = (zyx.Tensor(np.ones(shape, np.float32)) for shape in ((8, 16), (16, 8)))
    y = (a @ b).sum(axis=0) + 1
    plan = zyx.explain_plan(y)
    assert not device.launched
    assert y.node.storage is None
    compiled = list(device.compiled)
    np.testing.assert_array_equal(y.numpy(), np.full(8, 129))
    assert device.launched == [step["name"] for step in plan["steps"]]
    assert device.compiled == compiled  # and its kernels are compiled already
    counts = [step["counts"]["flops"] for step in plan["steps"]]
    assert sum(counts) >= 2 * 8 * 16 * 8


def test_copies_and_temporaries_are_in_the_plan(lab):
    y = (zyx.Tensor(np.ones(8, np.float32)).cumsum(axis=0) * 3).to("lab:1") + 1
    plan = zyx.explain_plan(y)
    (copy,) = (step for step in plan["steps"] if step["kind"] == "copy")
    assert {place["pool"] for place in plan["temporaries"]} == {"lab:0", "lab:1"}
    assert set(copy["reads"] + copy["writes"]) <= {place["buffer"] for place in plan["temporaries"]}


def test_a_plan_is_drawn(lab):
    y = (zyx.Tensor(np.ones(8, np.float32)) * 3).to("lab:1") + 1
    labels, arrows = nodes_of(zyx.plot_dot_plan(y))
    assert sum(label.endswith("FLOP") for label in labels.values()) == 2
    assert "1: copy" in labels.values()
    assert len(arrows) == 6


def test_what_is_computed_needs_no_steps(x):
    assert zyx.explain_plan(x, x.reshape(12))["steps"] == []
    assert zyx.explain_plan() == {"inputs": [], "results": [], "temporaries": [], "steps": []}


def test_a_group_of_devices_is_explained_too(lab):
    with zyx.device("lab:0", "lab:1"):
        plan = zyx.explain_plan(zyx.ones(5) + zyx.Tensor(np.ones(5, np.float32)))
    assert plan["steps"][0]["device"] in {"lab:0", "lab:1"}


def test_there_is_no_plan_while_a_function_is_traced_nor_of_other_things(x):
    with pytest.raises(TraceError, match="no plan while"):
        zyx.jit(zyx.explain_plan)(x)
    with pytest.raises(DTypeError, match=r"explain_plan takes a zyx\.Tensor, not list"):
        zyx.explain_plan([x])


def test_a_plan_of_complex_numbers_is_that_of_their_parts(interpreter):
    z = zyx.Tensor(np.array([1 + 2j, 3 - 4j, 0.5j], np.complex64))
    plan = zyx.explain_plan(z * z)
    assert [(value["dtype"], value["shape"], value["bytes"]) for value in plan["results"]] == [("complex64", [3], 24)]
    assert [value["dtype"] for value in plan["inputs"]] == ["complex64"]
    assert [step["kind"] for step in plan["steps"]] == ["launch"]
    (source,), (result,) = plan["inputs"], plan["results"]
    assert plan["steps"][0]["reads"] == [source["buffer"]]
    assert plan["steps"][0]["writes"] == [result["buffer"]]
