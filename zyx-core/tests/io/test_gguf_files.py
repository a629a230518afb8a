"""GGUF: what the format's own package writes is read, and the other way round; blocks mean what they mean there."""

import struct

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import DTypeError, FormatError, TransferError
from zyx.runtime.lazy import Unread

pytestmark = pytest.mark.usefixtures("interpreter")

DTYPES = ["float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64"]


def some(kind, rows=3, blocks=2):
    """Return random bytes of blocks whose scales are float16 that are neither large nor infinite."""
    block = io.BLOCK_TYPES[kind]
    random = np.random.default_rng(1)
    data = random.integers(0, 256, (rows, blocks, block.nbytes)).astype(np.uint8)
    halves = [208] if kind == "Q6_K" else [0, 2] if kind in {"Q4_1", "Q5_1", "Q4_K", "Q5_K"} else [0]
    for at in halves:
        data[..., at : at + 2] = random.standard_normal((rows, blocks, 1)).astype(np.float16).view(np.uint8)
    return data.reshape(rows, -1)


def by_definition(kind, data):
    """Return the numbers of one block, each by itself, as `zyx.io.gguf_blocks` defines them."""
    half = [float(data[at : at + 2].view(np.float16)[0]) for at in (0, 2)]
    numbers = []
    for i in range(io.BLOCK_TYPES[kind].count):
        if kind in {"Q4_0", "Q4_1", "Q5_0", "Q5_1"}:
            start = {"Q4_0": 2, "Q4_1": 4, "Q5_0": 6, "Q5_1": 8}[kind]
            q = int(data[start + i % 16]) >> (4 if i >= 16 else 0) & 15
            if kind.startswith("Q5"):
                q |= (int(data[start - 4 + i // 8]) >> i % 8 & 1) << 4
            middle = {"Q4_0": -8, "Q5_0": -16}.get(kind)
            numbers.append(half[0] * (q + middle) if middle else half[0] * q + half[1])
        elif kind == "Q8_0":
            numbers.append(half[0] * int(data[2 + i].view(np.int8)))
        elif kind == "Q6_K":
            part, within = divmod(i, 128)
            low = int(data[64 * part + within % 64]) >> (4 if within >= 64 else 0) & 15
            high = int(data[128 + 32 * part + within % 32]) >> 2 * (within // 32) & 3
            d = float(data[208:210].view(np.float16)[0])
            numbers.append(d * int(data[192 + i // 16].view(np.int8)) * ((high << 4 | low) - 32))
        else:
            part = i // 32
            packed = [int(byte) for byte in data[4:16]]
            if part < 4:
                s, t = packed[part] & 63, packed[part + 4] & 63
            else:
                s = packed[part + 4] & 15 | packed[part - 4] >> 6 << 4
                t = packed[part + 4] >> 4 | packed[part] >> 6 << 4
            start = 16 if kind == "Q4_K" else 48
            q = int(data[start + 32 * (part // 2) + i % 32]) >> 4 * (part % 2) & 15
            if kind == "Q5_K":
                q |= (int(data[16 + i % 32]) >> part & 1) << 4
            numbers.append(half[0] * s * q - half[1] * t)
    return numbers


@pytest.mark.parametrize("kind", sorted(io.BLOCK_TYPES))
def test_blocks_mean_what_the_definition_says(kind):
    data = some(kind)
    count, nbytes = io.BLOCK_TYPES[kind].count, io.BLOCK_TYPES[kind].nbytes
    found = io.Blocks(zyx.Tensor(data), kind, (3, 2 * count)).dequantize()
    expected = np.array([by_definition(kind, block) for block in data.reshape(-1, nbytes)]).reshape(3, 2 * count)
    assert found.dtype is zyx.float32
    assert np.allclose(found.numpy(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(io.BLOCK_TYPES))
def test_blocks_mean_what_they_mean_to_the_package_of_the_format(kind):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    data = some(kind, 8, 5)
    found = io.Blocks(zyx.Tensor(data), kind, (8, 5 * io.BLOCK_TYPES[kind].count)).dequantize()
    assert np.array_equal(found.numpy(), gguf.dequantize(data, gguf.GGMLQuantizationType[kind]))


def test_every_float16_is_a_scale():
    halves = np.arange(1 << 16, dtype=np.uint16)
    data = np.zeros((1 << 16, 34), np.uint8)
    data[:, :2] = halves.view(np.uint8).reshape(-1, 2)
    data[:, 2:] = 1
    found = io.Blocks(zyx.Tensor(data), "Q8_0", (1 << 16, 32)).dequantize()[:, 0].numpy()
    assert np.array_equal(found, halves.view(np.float16).astype(np.float32), equal_nan=True)


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


@pytest.mark.parametrize("kind", sorted(io.BLOCK_TYPES))
def test_blocks_are_read_late_and_written_as_they_are(kind, tmp_path):
    data, count = some(kind), io.BLOCK_TYPES[kind].count
    blocks = io.Blocks(zyx.Tensor(data), kind, (3, 2 * count))
    io.save_gguf(tmp_path / "x.gguf", {"w": blocks, "v": np.ones(3, np.float32)})
    packed = io.load_gguf(tmp_path / "x.gguf", packed=True)
    assert (packed["w"].kind, packed["w"].shape) == (kind, (3, 2 * count))
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
        {"w": values, "q": io.Blocks(zyx.Tensor(q8), "Q8_0", (4, 256)), "h": values.astype(ml_dtypes.bfloat16)},
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


def test_blocks_of_another_shape_dtype_or_kind_are_refused():
    data = zyx.zeros(2, 34, dtype="uint8")
    assert io.Blocks(data, "Q8_0", (2, 32)).dequantize().tolist() == [[0.0] * 32] * 2
    for given, text in [
        ((data, "Q9_9", (2, 32)), "no blocks are called 'Q9_9'; there are Q4_0"),
        ((data, "Q8_0", (2, 31)), "no whole number of blocks of 32"),
        ((data, "Q8_0", ()), "no whole number of blocks"),
        ((data, "Q8_0", (3, 32)), r"is uint8 of shape \(3, 34\), not uint8 of shape \(2, 34\)"),
        ((data.astype("int8"), "Q8_0", (2, 32)), "not int8"),
    ]:
        with pytest.raises(FormatError, match=text):
            io.Blocks(*given)
    assert io.Blocks(zyx.zeros(0, 34, dtype="uint8"), "Q8_0", (0, 32)).dequantize().shape == (0, 32)


MADE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def spread():
    """Return rows of numbers of all magnitudes that float16 has scales for, zeros, equal ones and halves among them."""
    random = np.random.default_rng(4)
    rows = random.standard_normal((12, 96)).astype(np.float32) * np.float32(10.0) ** np.arange(-6, 6)[:, None] / 50
    rows[0], rows[1], rows[2] = 0, 3, np.arange(-48, 48) / 2
    return rows.astype(np.float32)


@pytest.mark.parametrize("kind", MADE)
def test_numbers_are_put_into_blocks_as_near_as_their_bits_allow(kind):
    rows = spread()
    blocks = io.quantize(zyx.Tensor(rows), kind)
    assert (blocks.kind, blocks.shape, blocks.data.dtype) == (kind, (12, 96), zyx.uint8)
    found = blocks.dequantize().numpy().reshape(-1, 32)
    given = rows.reshape(-1, 32)
    width = given.max(1) - given.min(1) if kind.endswith("_1") else 2 * np.abs(given).max(1)
    steps = {"Q4_0": 16, "Q4_1": 15, "Q5_0": 32, "Q5_1": 31, "Q8_0": 254}[kind]
    # A step at most for numbers at the end that has no code of its own, and what float16 rounds of scale and offset.
    allowed = width / steps * (1 if kind in {"Q4_0", "Q5_0"} else 0.5) + np.abs(given).max(1) * 2e-3
    allowed = allowed + 2.0**-25 * 128  # half the distance of the smallest float16, times the greatest code
    assert (np.abs(found - given).max(1) <= allowed).all()


@pytest.mark.parametrize("kind", MADE)
def test_blocks_are_made_as_by_the_package_of_the_format(kind):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    rows = spread()
    made = io.quantize(zyx.Tensor(rows), kind).data.numpy()
    assert np.array_equal(made, gguf.quantize(rows, gguf.GGMLQuantizationType[kind]))


def test_what_cannot_be_put_into_blocks_is_refused():
    x = zyx.ones(2, 32)
    for given, kind, text in [
        (x, "Q6_K", "blocks of Q6_K are read and written, but not made"),
        (x, "Q1", "no blocks are called 'Q1'"),
        (zyx.ones(2, 31), "Q8_0", "no whole number of blocks of 32"),
        (x * np.inf, "Q8_0", "not finite"),
        (x * 1e38, "Q8_0", "too large for its float16"),
    ]:
        with pytest.raises(FormatError, match=text):
            io.quantize(given, kind)
    for given in (zyx.ones(2, 32, dtype="int8"), np.ones((2, 32))):
        with pytest.raises(DTypeError, match=r"quantize: floats are put into blocks, not (int8|ndarray)"):
            io.quantize(given, "Q8_0")
    assert io.quantize(x.astype("bfloat16"), "Q8_0").dequantize().numpy().max() == pytest.approx(1, rel=1e-3)


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
