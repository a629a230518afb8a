"""GGUF: what the format's own package writes is read, and the other way round; blocks mean what they mean there."""

import struct

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import DTypeError, FormatError, TransferError
from zyx.quantize import GGUF, QuantizedTensor
from zyx.runtime.lazy import Unread

pytestmark = pytest.mark.usefixtures("interpreter")

DTYPES = ["float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64"]


def some(kind, rows=3, blocks=2):
    """Return random bytes of blocks whose scales are float16 that are neither large nor infinite."""
    block = GGUF[kind]
    random = np.random.default_rng(1)
    data = random.integers(0, 256, (rows, blocks, block.nbytes)).astype(np.uint8)
    halves = [208] if kind == "Q6_K" else [0, 2] if kind in {"Q4_1", "Q5_1", "Q4_K", "Q5_K"} else [0]
    for at in halves:
        data[..., at : at + 2] = random.standard_normal((rows, blocks, 1)).astype(np.float16).view(np.uint8)
    return data.reshape(rows, -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_are_not_in_blocks_come_back(dtype, tmp_path):
    x = zyx.Tensor(np.arange(-3, 3).reshape(2, 3)).astype(dtype)
    io.save_gguf(tmp_path / "x.gguf", {"x": x, "y": x.numpy()[0], "z": x[0, 0]})
    found = io.load_gguf(tmp_path / "x.gguf")
    assert list(found) == ["x", "y", "z"]
    assert found["x"].dtype is x.dtype
    assert np.array_equal(found["x"].numpy(), x.numpy())
    assert found["y"].tolist() == [-3, -2, -1]
    assert found["z"].item() == -3


@pytest.mark.parametrize("kind", sorted(GGUF))
def test_blocks_are_read_late_and_written_as_they_are(kind, tmp_path):
    data, count = some(kind), GGUF[kind].count
    blocks = QuantizedTensor(zyx.Tensor(data), kind)
    io.save_gguf(tmp_path / "x.gguf", {"w": blocks, "v": np.ones(3, np.float32)})
    packed = io.load_gguf(tmp_path / "x.gguf", packed=True)
    assert (packed["w"].format, packed["w"].shape) == (kind, (3, 2 * count))
    assert type(packed["w"].data.node.storage) is Unread
    assert packed["w"].data[1:2].tolist() == data[1:2].tolist()
    assert type(packed["w"].data.node.storage) is Unread
    assert np.array_equal(packed["w"].data.numpy(), data)
    assert packed["v"].tolist() == [1, 1, 1]
    found = zyx.load(tmp_path / "x.gguf")
    assert not found["w"].is_realized
    assert np.array_equal(found["w"].numpy(), blocks.dequantize().numpy(), equal_nan=True)
    io.save_gguf(tmp_path / "y.gguf", packed)
    assert (tmp_path / "y.gguf").read_bytes() == (tmp_path / "x.gguf").read_bytes()


METADATA = {
    "general.architecture": "llama", "general.name": "\u00fc", "count": 7, "below": -7, "large": 2**40,
    "largest": 2**64 - 1, "short": 0.5, "long": 0.1, "yes": True, "no": False, "tokens": ["a", "", "\u00e4"],
    "scores": [0.5, 0.25], "ids": [1, -2], "flags": [True, False], "nothing": [], "texts": "",
}  # fmt: skip


def test_metadata_come_back(tmp_path):
    io.save_gguf(tmp_path / "x.gguf", {}, METADATA)
    assert io.read_metadata(tmp_path / "x.gguf") == METADATA
    assert io.load_gguf(tmp_path / "x.gguf") == {}
    io.save_gguf(tmp_path / "x.gguf", {}, {"a": np.uint8(3), "b": np.array([1, 2], np.int16), "c": np.float64(0.5)})
    assert io.read_metadata(tmp_path / "x.gguf") == {"a": 3, "b": [1, 2], "c": 0.5}


def test_the_package_of_the_format_reads_what_we_write_and_the_other_way_round(tmp_path):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    random = np.random.default_rng(2)
    values = random.standard_normal((4, 256)).astype(np.float32)
    q8 = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    io.save_gguf(
        tmp_path / "ours.gguf",
        {"w": values, "q": QuantizedTensor(zyx.Tensor(q8), "Q8_0"), "h": values.astype(ml_dtypes.bfloat16)},
        METADATA,
    )
    reader = gguf.GGUFReader(tmp_path / "ours.gguf")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert np.array_equal(tensors["w"].data, values)
    assert tensors["w"].shape.tolist() == [256, 4]
    assert tensors["q"].tensor_type.name == "Q8_0"
    assert np.array_equal(tensors["q"].data, q8)
    assert tensors["h"].tensor_type.name == "BF16"
    assert reader.get_field("general.architecture").contents() == "llama"
    assert reader.get_field("count").types == [gguf.GGUFValueType.UINT32]
    assert reader.get_field("short").types == [gguf.GGUFValueType.FLOAT32]
    assert reader.get_field("tokens").contents() == METADATA["tokens"]

    writer = gguf.GGUFWriter(tmp_path / "theirs.gguf", "llama")
    writer.add_uint32("llama.context_length", 4096)
    writer.add_array("tokens", ["a", "b"])
    writer.add_bool("yes", True)
    writer.add_custom_alignment(64)
    writer.add_tensor("w", values)
    writer.add_tensor("q", q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("h", values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = zyx.load(tmp_path / "theirs.gguf")
    assert np.array_equal(found["w"].numpy(), values)
    assert found["h"].dtype is zyx.float16
    assert np.array_equal(found["q"].numpy(), gguf.dequantize(q8, gguf.GGMLQuantizationType.Q8_0))
    said = io.read_metadata(tmp_path / "theirs.gguf")
    assert said["llama.context_length"] == 4096
    assert said["tokens"] == ["a", "b"]
    assert said["yes"] is True


def test_what_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "x.gguf"
    refused = {
        "'x' is bool, which GGUF lacks": ({"x": np.ones(2, bool)}, None),
        "'x' is complex64, which GGUF lacks": ({"x": zyx.ones(2, dtype="complex64")}, None),
        "'x' is a list, not a tensor": ({"x": [1.0]}, None),
        "the name of a tensor is a text, not 1": ({1: np.ones(2)}, None),
        "tensors are saved by name, as a dict, not a list": ([1], None),
        "metadata are values by name, not a list": ({}, [1]),
        "a key is a text, not 1": ({}, {1: 1}),
        "key 'a' is None, not a number": ({}, {"a": None}),
        r"key 'a' is \[1, 'b'\], not a number": ({}, {"a": [1, "b"]}),
        r"key 'a' is \[\[1\]\], not a number": ({}, {"a": [[1]]}),
        "key 'a' is 2361183241434822606848, not a number": ({}, {"a": 2**71}),
    }
    for text, (tensors, metadata) in refused.items():
        with pytest.raises(DTypeError, match=text):
            io.save_gguf(path, tensors, metadata)
    with pytest.raises(FormatError, match=r"'x' has shape \(1, 1, 1, 1, 1\), and .* at most 4 axes"):
        io.save_gguf(path, {"x": np.ones((1, 1, 1, 1, 1))})
    with pytest.raises(FormatError, match=r"general.alignment is 24, and has to be a power of two"):
        io.save_gguf(path, {}, {"general.alignment": 24})
    with pytest.raises(FormatError, match=r"UTF-8"):
        io.save_gguf(path, {"\ud800": np.ones(2)})
    with pytest.raises(TransferError, match="cannot be written"):
        io.save_gguf(tmp_path / "nowhere" / "x", {})
    assert list(tmp_path.iterdir()) == []


# ---- hostile


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def tensor(name="x", shape=(2,), code=0, offset=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, code, offset)


def written(tmp_path, *parts, keys=0, tensors=0, version=3, data=b"\0" * 64, magic=b"GGUF"):
    path = tmp_path / "bad.gguf"
    start = magic + struct.pack("<IQQ", version, tensors, keys) + b"".join(parts)
    path.write_bytes(start + b"\0" * (-len(start) % 32) + data)
    return path


BAD = {
    "another magic": (lambda: ((), {"magic": b"GGML"}), "does not begin with GGUF"),
    "version 1": (lambda: ((), {"version": 1}), "has version 1 of GGUF; 2 and 3 are read"),
    "big endian": (lambda: ((), {"version": 3 << 24}), "it is big endian"),
    "2^62 tensors": (lambda: ((), {"tensors": 2**62}), "4611686018427387904 tensors and 0 keys .* are left"),
    "2^62 keys": (lambda: ((), {"keys": 2**62}), "0 tensors and 4611686018427387904 keys"),
    "a key of 2^62 bytes": (lambda: ((struct.pack("<Q", 2**62),), {"keys": 1}), "a key at byte .* would take"),
    "a text of 2^62 bytes": (lambda: ((key("a", 8, struct.pack("<Q", 2**62)),), {"keys": 1}), "key 'a' at byte"),
    "2^62 numbers": (lambda: ((key("a", 9, struct.pack("<IQ", 4, 2**62)),), {"keys": 1}), "key 'a' at byte"),
    "2^62 texts": (lambda: ((key("a", 9, struct.pack("<IQ", 8, 2**62)),), {"keys": 1}), "values of key 'a'"),
    "a text of 2^62 bytes in a list": (
        lambda: ((key("a", 9, struct.pack("<IQ", 8, 2) + text("b") + struct.pack("<Q", 2**62)),), {"keys": 1}),
        "cut off: key 'a' at byte .* would take 4611686018427387904 bytes",
    ),
    "no UTF-8 in a list": (
        lambda: ((key("a", 9, struct.pack("<IQ", 8, 2) + text("b") + text(b"\xff")),), {"keys": 1}),
        "has no UTF-8 for key 'a'",
    ),
    "2^62 lists": (lambda: ((key("a", 9, struct.pack("<IQ", 9, 2**62)),), {"keys": 1}), "values of key 'a'"),
    "deep lists": (lambda: ((key("a", 9, struct.pack("<IQ", 9, 1) * 4),), {"keys": 1}), "lists of lists of lists"),
    "kind 13": (lambda: ((key("a", 13, b""),), {"keys": 1}), "a value of kind 13 for key 'a'"),
    "kind 13 in a list": (lambda: ((key("a", 9, struct.pack("<IQ", 13, 1)),), {"keys": 1}), "a value of kind 13"),
    "a bool of 2": (lambda: ((key("a", 7, b"\2"),), {"keys": 1}), "has 2 for a bool of key 'a'"),
    "a key twice": (lambda: ((key("a", 0, b"\1"), key("a", 0, b"\1")), {"keys": 2}), "has key 'a' twice"),
    "no UTF-8": (lambda: ((key("a", 8, text(b"\xff")),), {"keys": 1}), "has no UTF-8 for key 'a'"),
    "alignment 0": (
        lambda: ((key("general.alignment", 4, struct.pack("<I", 0)),), {"keys": 1}),
        "has 0 for general.alignment",
    ),
    "alignment in words": (lambda: ((key("general.alignment", 8, text("32")),), {"keys": 1}), "has '32' for"),
    "a name twice": (lambda: ((tensor(), tensor(offset=32)), {"tensors": 2}), "has tensor 'x' twice"),
    "five axes": (lambda: ((tensor(shape=(1,) * 5),), {"tensors": 1}), "'x' of 5 axes, and GGUF has at most 4"),
    "2^31 axes": (
        lambda: ((text("x") + struct.pack("<IQQ", 2**31, 1, 1),), {"tensors": 1}),
        "'x' of 2147483648 axes",
    ),
    "a size of 2^62": (lambda: ((tensor(shape=(2**62,)),), {"tensors": 1}), "'x', which reaches to byte"),
    "sizes that overflow": (lambda: ((tensor(shape=(2**32, 2**32)),), {"tensors": 1}), "'x', which reaches to byte"),
    "an offset of 2^62": (lambda: ((tensor(offset=2**62),), {"tensors": 1}), "'x', which reaches to byte"),
    "an unknown type": (lambda: ((tensor(code=99),), {"tensors": 1}), "'x' of type 99; there are F32, F16"),
    "a removed type": (lambda: ((tensor(code=4),), {"tensors": 1}), "'x' of type 4"),
    "a type that is not read": (lambda: ((tensor(code=10),), {"tensors": 1}), "'x' has type Q2_K; there are F32"),
    "half a block": (lambda: ((tensor(shape=(31,), code=8),), {"tensors": 1}), "whose rows are no whole number"),
    "a block without axes": (lambda: ((tensor(shape=(), code=8),), {"tensors": 1}), "whose rows are no whole number"),
    "overlap": (
        lambda: ((tensor(shape=(16,)), tensor("y", (8,), 0, 32)), {"tensors": 2}),
        "tensors 'x' and 'y' overlap at byte",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_headers_that_are_not_well_formed_are_refused(case, tmp_path, refused):
    give, expected = BAD[case]
    parts, keywords = give()
    refused(io.load_gguf, written(tmp_path, *parts, **keywords), expected)


def test_a_tensor_of_a_type_that_is_not_read_can_be_left_out(tmp_path):
    path = written(tmp_path, tensor(code=10), tensor("y", offset=32), tensors=2)
    assert io.load_gguf(path, ["y"])["y"].tolist() == [0, 0]
    with pytest.raises(FormatError, match="has no tensor 'z'; it has x, y"):
        io.load_gguf(path, ["z"])


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / "x.gguf"
    io.save_gguf(path, {"x": np.ones(8, np.float32), "y": np.ones(8, np.int8)}, METADATA)
    whole = path.read_bytes()
    for length in range(len(whole) - 24):  # the last 24 bytes are no number's
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            io.load_gguf(path)


def test_changed_bytes_give_an_error_or_values_and_nothing_else(tmp_path):
    path = tmp_path / "x.gguf"
    io.save_gguf(path, {"x": np.ones(8, np.float32), "y": np.ones(8, np.int8)}, METADATA)
    whole = path.read_bytes()
    random = np.random.default_rng(3)
    for _ in range(400):
        data = bytearray(whole)
        for at in random.integers(0, len(data) - 64, 3):
            data[at] = random.integers(0, 256)
        path.write_bytes(data)
        try:
            found = io.load_gguf(path)
        except FormatError:
            continue
        assert set(map(type, found)) <= {str}


@pytest.mark.parametrize(("value", "kind"), [([1, 2, 3], 5), ([0, 2**31], 4), ([-1, 2**31], 11), (7, 4), (-7, 5)])
def test_lists_of_integers_are_what_llama_cpp_takes(tmp_path, value, kind):
    """It refuses a file whose kinds of tokens are a list of uint32."""
    path = tmp_path / "one.gguf"
    io.save_gguf(path, {}, {"some.name": value})
    head = struct.pack("<I", kind) if isinstance(value, int) else struct.pack("<II", 9, kind)
    assert b"some.name" + head in path.read_bytes()
    assert io.read_metadata(path)["some.name"] == value
