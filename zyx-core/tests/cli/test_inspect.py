"""``zyx inspect``: what is in a file."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import io
from zyx.cli.main import main
from zyx.io.contents import contents_of
from zyx.io.formats import FileFormat

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def inspect(capsys):
    """Return a function that runs the command and returns its lines."""

    def call(*arguments, status=0):
        assert main(["inspect", *map(str, arguments)]) == status
        captured = capsys.readouterr()
        return (captured.err if status else captured.out).splitlines()

    return call


def test_a_table_has_tensors_dtypes_shapes_and_sizes_and_one_has_what_is_said(inspect, tmp_path):
    io.save(tmp_path / "x.safetensors", {"w": X, "n": np.ones((), np.int64)}, {"made by": "a test"})
    lines = inspect(tmp_path / "x.safetensors")
    assert lines[0] == f"{tmp_path / 'x.safetensors'}: safetensors; 2 tensors, 7 numbers, 32 B"
    assert [line.split() for line in lines[2:5]] == [
        ["TENSOR", "DTYPE", "SHAPE", "SIZE"],
        ["n", "I64", "-", "8", "B"],
        ["w", "F32", "2", "x", "3", "24", "B"],
    ]
    assert [line.split(maxsplit=1) for line in lines[6:]] == [["KEY", "VALUE"], ["made", "by  a test"]]


def test_files_of_numpy_and_an_index_are_listed(inspect, tmp_path):
    io.save_npy(tmp_path / "a", X)
    np.savez_compressed(tmp_path / "b.npz", x=X, y=X.astype(np.int8).T)
    assert inspect(tmp_path / "a")[3].split() == ["-", "float32", "2", "x", "3", "24", "B"]
    assert [line.split()[:5] for line in inspect(tmp_path / "b.npz")[3:]] == [
        ["x", "float32", "2", "x", "3"],
        ["y", "int8", "3", "x", "2"],
    ]
    io.save(tmp_path / "1.safetensors", {"x": X}, {"a": "b"})
    io.save(tmp_path / "2.safetensors", {"y": X})
    index = tmp_path / "i.json"
    index.write_text(json.dumps({"weight_map": {"y": "2.safetensors", "x": "1.safetensors"}}), encoding="utf-8")
    lines = inspect(index)
    assert [line.split()[0] for line in lines[3:5]] == ["y", "x"]
    assert lines[7].split() == ["1.safetensors:", "a", "b"]
    index.write_text(json.dumps({"weight_map": {"z": "2.safetensors"}}), encoding="utf-8")
    assert inspect(index, status=1) == [f"zyx inspect: {index}: tensor 'z' is not in 2.safetensors"]


def test_gguf_has_types_of_blocks_and_lists_that_begin(inspect, tmp_path):
    tokens = [f"token{i}" for i in range(100)]
    blocks = zyx.quantize.QuantizedTensor(zyx.zeros(2, 34, dtype="uint8", device="interpreter"), "Q8_0")
    io.save_gguf(tmp_path / "x", {"w": blocks}, {"tokens": tokens, "text": "a" * 200, "control": "a\x1b[31m\nb"})
    lines = inspect(tmp_path / "x")
    assert lines[0].endswith("GGUF; 1 tensor, 64 numbers, 68 B")
    assert lines[3].split() == ["w", "Q8_0", "2", "x", "32", "68", "B"]
    assert lines[6].startswith("tokens   100: ['token0', 'token1', 'token2', 'token3', 'token4', 'token5'] ...")
    assert lines[7].split() == ["text", "a" * 90, "..."]
    assert "\x1b" not in lines[8]
    assert len(lines) == 9
    whole = inspect(tmp_path / "x", "--all")
    assert "'token99'" in whole[6]
    assert whole[7].split() == ["text", "a" * 200]


def test_checkpoints_are_listed_through_what_holds_tensors(inspect, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    value = {"net": {"w": torch.ones(2, 3, dtype=torch.bfloat16)}, "steps": [3, torch.ones(4)[::2]], "none": ()}
    torch.save(value, tmp_path / "x")
    lines = inspect(tmp_path / "x")
    assert lines[0].endswith("a checkpoint of PyTorch; 2 tensors, 8 numbers, 20 B")
    assert [line.split() for line in lines[3:5]] == [
        ["net.w", "bfloat16", "2", "x", "3", "12", "B"],
        ["steps.1", "float32", "2", "8", "B"],
    ]
    assert [line.split() for line in lines[6:]] == [["KEY", "VALUE"], ["steps.0", "3"], ["none", "()"]]


def test_a_list_that_is_held_again_and_again_is_refused(inspect, tmp_path):
    data = b"]q\x00" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(60))
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr("x/data.pkl", b"(" + data + b"t.")
    (line,) = inspect(tmp_path / "x", status=1)
    assert line.endswith("has more than 1000000 values; the same lists are held again and again")


def test_what_cannot_be_read_is_one_message(inspect, tmp_path):
    (line,) = inspect(tmp_path / "absent", status=1)
    assert line == f"zyx inspect: {tmp_path / 'absent'} cannot be read: No such file or directory"
    (tmp_path / "x").write_bytes(b"hello")
    assert "is of no format that is known" in inspect(tmp_path / "x", status=1)[0]


def test_networks_are_shown_with_what_they_take_and_their_operators(inspect, tmp_path):
    onnx = pytest.importorskip("onnx", reason="reads networks of ONNX: needs the package onnx")
    info, double = onnx.helper.make_tensor_value_info, onnx.TensorProto.DOUBLE
    weight = onnx.helper.make_tensor("w", double, (3,), [1.0, 2.0, 3.0])
    node = onnx.helper.make_node("Mul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [info("x", double, ("n", 3))], [info("y", double, ("n", 3))], [weight])
    onnx.save(onnx.helper.make_model(graph, producer_name="someone"), tmp_path / "x")
    text = "\n".join(inspect(tmp_path / "x"))
    for part in ("ONNX; 1 tensor, 3 numbers, 24 B", "someone", "x: float64[n, 3]", "Mul x1"):
        assert part in text


def test_no_value_is_read_and_no_device_is_opened(tmp_path, monkeypatch):
    path = tmp_path / "x"
    for save, format_ in [
        (io.save_safetensors, FileFormat.SAFETENSORS),
        (io.save_npz, FileFormat.NPZ),
        (io.save_gguf, FileFormat.GGUF),
    ]:
        save(path, {"x": X})
        with monkeypatch.context() as patch:
            for module in ("torch_file", "numpy_file", "safetensors_file", "gguf_file"):
                patch.setattr(sys.modules[f"zyx.io.{module}"], "current", None)
            found = contents_of(Path(path))
        assert found.format is format_
        assert found.entries["x"].shape == (2, 3)
        assert found.entries["x"].nbytes == 24
