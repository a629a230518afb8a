"""``zyx run``: a network of an ONNX file, computed and timed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from zyx import io
from zyx.cli.main import main
from zyx.lazy_import import lazy_import

onnx = pytest.importorskip("onnx", reason="computes networks of ONNX files: needs the package onnx")

W = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and returns what it prints."""

    def call(*arguments, status=0):
        assert main(["run", *map(str, arguments)]) == status
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return call


@pytest.fixture
def model(tmp_path):
    info, single = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.helper.make_node("Relu", ["y"], ["z"])]
    outputs = [info("y", single, ("batch", 2)), info("z", single, ("batch", 2))]
    weight = onnx.numpy_helper.from_array(W, "w")
    graph = onnx.helper.make_graph(nodes, "g", [info("x", single, ("batch", 3))], outputs, [weight])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_outputs_of_given_inputs_are_printed_and_written(run, model, tmp_path):
    x = np.float32([[1, -2, 0.5], [0, 3, -1]])
    io.save_npy(tmp_path / "x.npy", x)
    text = run(model, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out.npz")
    assert [line.split()[:5] for line in text.splitlines()[1:3]] == [
        ["y", "float32", "2", "x", "2"],
        ["z", "float32", "2", "x", "2"],
    ]
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["y"], x @ W)
        np.testing.assert_allclose(found["z"], np.maximum(x @ W, 0))


def test_all_inputs_may_lie_in_one_file(run, model, tmp_path):
    io.save_npz(tmp_path / "x.npz", {"x": np.ones((1, 3), np.float32)})
    text = run(model, "--input", tmp_path / "x.npz")
    assert text.splitlines()[1].split()[-3:] == ["6", "7.5", "9"]


def test_inputs_are_drawn_and_calls_are_timed(run, model):
    text = run(model, "--random", "--size", "batch=5", "--time", 3)
    assert "5 x 2" in text
    assert "of 3 more the median" in text


def test_what_is_missing_or_wrong_is_said_with_the_next_step(run, model, tmp_path):
    assert "takes x: float32[batch, 3]: give each as --input NAME=FILE.npy" in run(model, status=1)
    assert "--input x: give NAME=FILE.npy" in run(model, "--input", "x", status=1)
    assert "--size batch: give NAME=N" in run(model, "--random", "--size", "batch", status=1)
    assert "at least 0" in run(model, "--random", "--time", -1, status=1)
    io.save_npy(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    assert "x" in run(model, "--input", f"x={tmp_path / 'x.npy'}", status=1)
    (tmp_path / "m.onnx").write_bytes(b"hello")
    assert "no ONNX model" in run(model, "--random", status=1)


def test_the_package_that_is_missing_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in [name for name in sys.modules if name.startswith("zyx.io.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    command = sys.modules["zyx.cli.run"]
    monkeypatch.setattr(command, "onnx", lazy_import("zyx.io.onnx", vars(command)))  # as before its first use
    assert "pip install 'zyx-core[onnx]'" in run(tmp_path / "m.onnx", status=1)


def test_a_network_that_branches_by_values_is_timed(run, tmp_path):
    info, single, boolean = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    one = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["a"])], "t", [], [info("a", single, (2,))])
    two = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["b"])], "e", [], [info("b", single, (2,))])
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=one, else_branch=two)
    flag = onnx.helper.make_node("Squeeze", ["cs"], ["c"])
    inputs = [info("cs", boolean, (1,)), info("x", single, (2,))]
    graph = onnx.helper.make_graph([flag, node], "g", inputs, [info("y", single, (2,))])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    assert "the least" in run(tmp_path / "m.onnx", "--random", "--time", 1)
