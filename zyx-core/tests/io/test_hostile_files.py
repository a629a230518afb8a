"""Files that are not what they seem are refused with the tensor and what is wrong, before a value is read."""

import json

import pytest

from zyx import io
from zyx.errors import FormatError, TransferError

pytestmark = pytest.mark.usefixtures("interpreter")


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def written(tmp_path, header, data=b"\0" * 8, length=None):
    """Return the path of a file with a header, an object or bytes, and data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def test_a_file_that_is_well_formed_is_loaded(tmp_path):
    assert io.load_safetensors(written(tmp_path, {"x": entry()}))["x"].tolist() == [0, 0]


DUPLICATE = (
    b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
)

ONE = b'"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'

CASES = {
    "duplicate name": (b"{" + ONE + b"," + ONE + b"}", "tensor 'x' comes twice"),
    "not JSON": (b"{not json", "the header is no JSON"),
    "not UTF-8": (b'{"\xff": 1}', "the header is no JSON"),
    "deep nesting": (b"[" * 100_000, "the header is no JSON"),
    "a list": (b"[]", "the header is a list, not an object"),
    "no description": ({"x": 3}, "'x' is not described by dtype, shape and data_offsets"),
    "a field too many": ({"x": {**entry(), "more": 1}}, "'x' is not described by"),
    "a field too few": ({"x": {"dtype": "F32", "shape": [2]}}, "'x' is not described by"),
    "negative size": ({"x": entry(shape=(-2,))}, r"'x' has \[-2\] for a shape"),
    "a size that is no integer": ({"x": entry(shape=(2.0,))}, r"'x' has \[2.0\] for a shape"),
    "a size that is a bool": ({"x": entry(shape=(True, 2))}, r"'x' has \[True, 2\] for a shape"),
    "negative offset": ({"x": entry(offsets=(-8, 0))}, r"'x' has \[-8, 0\] for data_offsets"),
    "offsets in the wrong order": ({"x": entry(offsets=(8, 0))}, r"'x' has \[8, 0\] for data_offsets"),
    "three offsets": ({"x": entry(offsets=(0, 4, 8))}, r"'x' has \[0, 4, 8\] for data_offsets"),
    "past the end": ({"x": entry(shape=(4,), offsets=(0, 16))}, "'x' reaches to byte .* the file is cut off"),
    "far past the end": ({"x": entry(shape=(2,), offsets=(1 << 62, (1 << 62) + 8))}, "'x' reaches to byte"),
    "too few bytes": ({"x": entry(shape=(3,))}, r"'x' has 8 bytes, and F32 of shape \(3,\) takes 12"),
    "too many bytes": ({"x": entry(shape=(1,))}, r"'x' has 8 bytes, and F32 of shape \(1,\) takes 4"),
    "a size that overflows": ({"x": entry(shape=(1 << 63, 2))}, "'x' has 8 bytes, and F32 of shape"),
    "overlap": (
        {"x": entry(), "y": entry(offsets=(4, 8), shape=(1,))},
        "tensors 'x' and 'y' overlap at byte",
    ),
    "unknown dtype": ({"x": entry("F4", (16,))}, "'x' has dtype F4; there are BOOL"),
    "float8 of another size": ({"x": entry("F8_E4M3", (9,))}, r"'x' has 8 bytes, and F8_E4M3 of shape \(9,\) takes 9"),
    "invented dtype": ({"x": entry("F33", (2,))}, "bad.safetensors"),
    "a dtype that is no text": ({"x": {**entry(), "dtype": 7}}, "'x' has 7 for a dtype"),
    "metadata that is no text": ({"__metadata__": {"a": 1}, "x": entry()}, "__metadata__ is not an object of texts"),
    "metadata that is a list": ({"__metadata__": [], "x": entry()}, "__metadata__ is not an object of texts"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_header_is_refused(name, tmp_path):
    header, message = CASES[name]
    path = written(tmp_path, header)
    with pytest.raises(FormatError, match=message) as caught:
        io.load_safetensors(path)
    assert str(path) in str(caught.value)


def test_bytes_that_no_tensor_has_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"bad\.safetensors"):
        io.load_safetensors(written(tmp_path, {"x": entry()}, b"\0" * 16))


@pytest.mark.parametrize("length", [1 << 20, 1 << 63, (1 << 64) - 1])
def test_a_header_longer_than_the_file_is_refused(length, tmp_path):
    with pytest.raises(FormatError, match=f"the header would have {length} bytes, and the file has"):
        io.load_safetensors(written(tmp_path, {"x": entry()}, length=length))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 40])
def test_a_file_that_was_cut_is_refused(count, tmp_path):
    path = written(tmp_path, {"x": entry()})
    path.write_bytes(path.read_bytes()[:count])
    with pytest.raises(FormatError, match=r"bad\.safetensors"):
        io.load_safetensors(path)


def test_every_cut_of_a_file_is_refused(tmp_path):
    path = written(tmp_path, {"x": entry()})
    whole = path.read_bytes()
    for count in range(len(whole)):
        path.write_bytes(whole[:count])
        with pytest.raises(FormatError):
            io.load_safetensors(path)


def test_other_tensors_can_be_loaded_beside_one_of_an_unknown_dtype(tmp_path):
    path = written(tmp_path, {"x": entry("F8_E4M3", (4,), (0, 4)), "y": entry(shape=(1,), offsets=(4, 8))})
    assert io.load_safetensors(path, names=["y"])["y"].tolist() == [0]


def test_a_file_that_is_not_there_or_a_folder_is_an_error_of_the_system(tmp_path):
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    for path in (tmp_path / "nothing.safetensors", folder):
        with pytest.raises(TransferError, match="cannot be read"):
            io.load_safetensors(path)


def test_refused_files_leave_no_memory_behind(tmp_path, interpreter):
    before = interpreter.memory.live_bytes
    for header, _ in CASES.values():
        with pytest.raises(FormatError):
            io.load_safetensors(written(tmp_path, header))
    assert interpreter.memory.live_bytes == before
