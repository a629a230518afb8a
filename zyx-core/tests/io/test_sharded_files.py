"""Tensors in several files with an index, and numbers of 8 bits."""

import json
import os

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import FormatError, TransferError
from zyx.io.float8 import FLOATS8
from zyx.runtime.lazy import Unread

pytestmark = pytest.mark.usefixtures("interpreter")

INDEX = "model.safetensors.index.json"


def indexed(folder, index):
    path = folder / INDEX
    path.write_bytes(index if isinstance(index, bytes) else json.dumps(index).encode())
    return path


@pytest.fixture
def shards(tmp_path):
    """Return the path of an index of tensors a, b in one file and c in another."""
    io.save(tmp_path / "model-1.safetensors", {"a": np.arange(3.0), "b": np.ones((2, 2), np.int8), "more": np.ones(1)})
    io.save(tmp_path / "model-2.safetensors", {"c": np.zeros(2)})
    places = {"c": "model-2.safetensors", "a": "model-1.safetensors", "b": "model-1.safetensors"}
    return indexed(tmp_path, {"metadata": {"total_size": 44}, "weight_map": places})


def test_tensors_of_all_files_come_in_the_order_of_the_index(shards):
    found = io.load_sharded(shards)
    assert list(found) == ["c", "a", "b"]
    assert all(type(tensor.node.storage) is Unread for tensor in found.values())
    assert found["a"].tolist() == [0, 1, 2]
    assert found["b"].tolist() == [[1, 1], [1, 1]]


def test_files_of_which_no_tensor_is_asked_for_are_not_looked_at(shards):
    (shards.parent / "model-2.safetensors").unlink()
    assert list(io.load_sharded(shards, ["b"])) == ["b"]
    with pytest.raises(FormatError, match="has no tensor 'd'; it has c, a, b"):
        io.load_sharded(shards, ["d"])
    with pytest.raises(TransferError, match=r"model-2.safetensors cannot be read"):
        io.load_sharded(shards)


def test_a_tensor_that_its_file_lacks_is_an_error(shards):
    io.save(shards.parent / "model-2.safetensors", {"d": np.zeros(2)})
    with pytest.raises(FormatError, match="has no tensor 'c'; it has d"):
        io.load_sharded(shards)


ELSEWHERE = [
    "../x.safetensors",
    "/etc/passwd",
    "sub/x.safetensors",
    "..\\x",
    "C:x",
    "",
    ".",
    "..",
    "a\0b",
    3,
    None,
    ["x"],
]


@pytest.mark.parametrize("file", ELSEWHERE, ids=repr)
def test_files_of_other_folders_are_refused(file, tmp_path):
    with pytest.raises(FormatError, match=r"tensor .a. would lie in .* which is no name of a file beside the index"):
        io.load_sharded(indexed(tmp_path, {"weight_map": {"a": file}}))


BAD = {
    "nothing": (b"", "is no JSON"),
    "cut off": (b'{"weight_map": {"a"', "is no JSON"),
    "no UTF-8": (b'{"\xff": 1}', "is no JSON"),
    "deep": (b"[" * 100_000, "is no JSON"),
    "a list": (b"[]", "has no weight_map of names"),
    "no map": ({}, "has no weight_map of names"),
    "a map that is a list": ({"weight_map": ["a"]}, "has no weight_map of names"),
    "two maps": (b'{"weight_map": {}, "weight_map": {}}', "or several"),
    "a name twice": (b'{"weight_map": {"a": "x", "a": "y"}}', "tensor 'a' comes twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_index_that_is_not_well_formed_is_refused(case, tmp_path, refused):
    index, text = BAD[case]
    refused(io.load_sharded, indexed(tmp_path, index), text)


def test_an_index_that_is_no_plain_file_or_too_large_is_refused(tmp_path):
    with pytest.raises(TransferError, match="no plain file"):
        io.load_sharded(tmp_path)
    with pytest.raises(TransferError, match="cannot be read"):
        io.load_sharded(tmp_path / "absent.json")
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 200_000_000)
    with pytest.raises(FormatError, match="has 200000000 bytes, and an index has 100000000 at most"):
        io.load_sharded(large)


# ---- numbers of 8 bits


@pytest.mark.parametrize("kind", sorted(FLOATS8))
def test_every_number_of_8_bits_is_read_as_float32(kind, tmp_path):
    path = tmp_path / "x.safetensors"
    header = json.dumps({"x": {"dtype": kind, "shape": [2, 128], "data_offsets": [0, 256]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(range(256)))
    found = io.load(path)["x"]
    with np.errstate(invalid="ignore"):
        expected = np.arange(256, dtype=np.uint8).reshape(2, 128).view(FLOATS8[kind]).astype(np.float32)
    assert found.dtype is zyx.float32
    assert not found.is_realized
    assert np.array_equal(found.numpy(), expected, equal_nan=True)
    if kind == "F8_E4M3":
        assert np.nanmax(expected) == float(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max) == 448
