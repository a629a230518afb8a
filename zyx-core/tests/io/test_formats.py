"""`zyx.load` knows files by what is in them, whatever they are called."""

import io as streams
import json
import pickle
import zipfile

import numpy as np
import pytest

import zyx
from zyx import io
from zyx.builtin.disk import DiskPool
from zyx.errors import FileChangedError, FormatError, TransferError
from zyx.io.formats import FileFormat, format_of

pytestmark = pytest.mark.usefixtures("interpreter")

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _safetensors(path):
    io.save_safetensors(path, {"x": X})


def _sharded(path):
    io.save(path.parent / "model-1.safetensors", {"x": X})
    path.write_text("\n" + json.dumps({"weight_map": {"x": "model-1.safetensors"}}), encoding="utf-8")


def _npz(path):
    io.save_npz(path, {"x": X})


def _npy(path):
    io.save_npy(path, X)


def _gguf(path):
    io.save_gguf(path, {"x": X}, {"general.alignment": 8})


def _torch(path):
    data = (
        b"\x80\x02}X\x01\x00\x00\x00xctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89ccollections\nOrderedDict\n)RtRs."
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("any/data.pkl", data)
        archive.writestr("any/data/0", X.tobytes())


WRITERS = {
    FileFormat.SAFETENSORS: _safetensors,
    FileFormat.SHARDED: _sharded,
    FileFormat.NPZ: _npz,
    FileFormat.NPY: _npy,
    FileFormat.TORCH: _torch,
    FileFormat.GGUF: _gguf,
}


@pytest.mark.parametrize("format_", WRITERS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["model.bin", "model.safetensors", "model.npy", "model"])
def test_files_are_known_by_what_is_in_them(format_, name, tmp_path):
    path = tmp_path / name
    WRITERS[format_](path)
    assert format_of(path) is format_
    found = zyx.load(path)
    if format_ is FileFormat.NPY:
        assert found.tolist() == X.tolist()
        with pytest.raises(FormatError, match="is npy: one array, which has no name"):
            zyx.load(path, ["x"])
    else:
        assert list(found) == ["x"]
        assert found["x"].tolist() == X.tolist()
        assert list(zyx.load(path, ["x"], "interpreter")) == ["x"]
        assert zyx.load(path, []) == {}
        with pytest.raises(FormatError, match=r"has no .*'y'"):
            zyx.load(path, ["y"])


def test_an_archive_without_arrays_is_one(tmp_path):
    io.save_npz(tmp_path / "x", {})
    assert zyx.load(tmp_path / "x") == {}


def test_an_index_is_known_wherever_its_braces_are(tmp_path):
    (tmp_path / "x").write_text('{"meta":{}, "weight_map": {}}', encoding="utf-8")
    assert zyx.load(tmp_path / "x") == {}


@pytest.mark.parametrize("length", [123, 32, 10, 0x8007B])
def test_a_header_is_known_whatever_its_length_looks_like(length, tmp_path):
    header = b"{}".ljust(length)
    (tmp_path / "x").write_bytes(length.to_bytes(8, "little") + header)
    assert zyx.load(tmp_path / "x") == {}


def test_onnx_is_known_and_gives_a_network(tmp_path):
    (tmp_path / "x").write_bytes(b"\x08\x0a\x12\x03zyx\x3a\x00")
    assert format_of(tmp_path / "x") is FileFormat.ONNX
    onnx = pytest.importorskip("onnx", reason="reads networks of ONNX: needs the package onnx")
    info, single = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    node = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [info("x", single, (2,))], [info("y", single, (2,))])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "x")
    assert zyx.load(tmp_path / "x")(np.float32([1, 2])).tolist() == [2, 4]
    with pytest.raises(zyx.errors.FormatError, match="without `names`"):
        zyx.load(tmp_path / "x", names=["w"])


def test_pickles_are_refused_by_what_they_are(tmp_path):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "x").write_bytes(pickle.dumps({"x": 1}, protocol))
        with pytest.raises(FormatError, match=r"is a pickle, which may run any code and is not read; .*torch.save"):
            zyx.load(tmp_path / "x")


UNKNOWN = [b"", b"a", b"hello, world", b"\0" * 4096, b"\x89PNG\r\n\x1a\n", b"\x93NUMP", b"PK\x01\x02", b"\x08\x00\x12"]


@pytest.mark.parametrize("data", UNKNOWN, ids=repr)
def test_what_is_of_no_known_format_is_refused(data, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(FormatError, match="is of no format that is known: it begins with"):
        zyx.load(tmp_path / "x.safetensors")


@pytest.mark.parametrize("format_", WRITERS, ids=lambda each: each.name)
def test_every_file_that_is_cut_off_is_refused(format_, tmp_path):
    path = tmp_path / "x"
    WRITERS[format_](path)
    whole = path.read_bytes()
    for length in {*range(0, len(whole), 5), len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            zyx.load(path)


@pytest.mark.parametrize("format_", WRITERS, ids=lambda each: each.name)
@pytest.mark.parametrize("moment", ["after loading", "while the header is read"])
def test_no_value_is_read_of_a_file_that_was_replaced(format_, moment, tmp_path, monkeypatch):
    path = tmp_path / "x"
    WRITERS[format_](path)
    stored = tmp_path / "model-1.safetensors" if format_ is FileFormat.SHARDED else path
    other = stored.with_name("other")
    other.write_bytes(stored.read_bytes())
    if moment == "after loading":
        found = zyx.load(path)
        other.replace(stored)
    else:
        original = DiskPool.file

        def replacing(self, path):
            looked_at = original(self, path)
            other.replace(stored)
            return looked_at

        monkeypatch.setattr(DiskPool, "file", replacing)
        found = zyx.load(path)
    with pytest.raises(FileChangedError, match="was replaced since it was loaded"):
        (found if format_ is FileFormat.NPY else found["x"]).numpy()
    monkeypatch.undo()
    assert (zyx.load(path) if format_ is FileFormat.NPY else zyx.load(path)["x"]).tolist() == X.tolist()


def test_what_is_no_plain_file_is_refused(tmp_path):
    with pytest.raises(TransferError, match="no plain file"):
        zyx.load(tmp_path)
    with pytest.raises(TransferError, match="cannot be read"):
        zyx.load(tmp_path / "absent")


def test_a_zip_bomb_is_refused_before_it_is_inflated(tmp_path):
    stream = streams.BytesIO()
    np.lib.format.write_array(stream, np.zeros(1 << 20))
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", stream.getvalue())
    data = bytearray((tmp_path / "x").read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24  # the size that the list of members declares
    data[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(FormatError, match="array 'x' would have 4294967280 bytes, out of"):
        zyx.load(tmp_path / "x")
    assert (tmp_path / "x").stat().st_size < 20_000
