"""Arrays in NumPy's files: what NumPy writes is read lazily, and the other way round; bad files are refused."""

import io as streams
import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import DTypeError, FormatError, TransferError
from zyx.runtime.lazy import Unread

pytestmark = pytest.mark.usefixtures("interpreter")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_and_zyx_read_what_the_other_wrote(dtype, order, tmp_path):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    found = io.load_npy(tmp_path / "a.npy")
    assert found.dtype.name == dtype
    assert np.array_equal(found.numpy(), array)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", x=array, **{"in/side": array[0]})
        both = io.load_npz(tmp_path / "a.npz")
        assert list(both) == ["x", "in/side"]
        assert np.array_equal(both["x"].numpy(), array)
        assert np.array_equal(both["in/side"].numpy(), array[0])
    io.save_npy(tmp_path / "b.npy", zyx.Tensor(array))
    io.save_npz(tmp_path / "b.npz", {"x": zyx.Tensor(array), "y": array})
    for back in (np.load(tmp_path / "b.npy"), *np.load(tmp_path / "b.npz").values()):
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4)])
def test_all_shapes_come_back(shape, tmp_path):
    io.save_npy(tmp_path / "a.npy", zyx.ones(*shape))
    io.save_npz(tmp_path / "a.npz", {"x": zyx.ones(*shape)})
    assert io.load_npy(tmp_path / "a.npy").numpy().shape == shape
    assert io.load_npz(tmp_path / "a.npz")["x"].numpy().shape == shape


def test_values_stay_in_the_file_until_they_are_needed(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    io.save_npy(tmp_path / "a.npy", array)
    io.save_npz(tmp_path / "a.npz", {"x": array})
    for x in (io.load_npy(tmp_path / "a.npy"), io.load_npz(tmp_path / "a.npz")["x"]):
        assert type(x.node.storage) is Unread
        assert x[1:2].numpy().tolist() == [[4, 5, 6, 7]]
        assert x.node.storage.buffer is None


def test_some_arrays_of_many_are_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", good=np.ones(2), bad=np.array(["text"]))
    assert list(io.load_npz(tmp_path / "a.npz", ["good"])) == ["good"]
    with pytest.raises(FormatError, match=r"has no array 'other'; it has good, bad"):
        io.load_npz(tmp_path / "a.npz", ["other"])


def npy(descr="'<f4'", shape="(2,)", data=b"\0" * 8, version=b"\x01\x00", length=None, order="False"):
    """Return the bytes of an npy file."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    size = len(text) if length is None else length
    return b"\x93NUMPY" + version + size.to_bytes(2 if version[0] == 1 else 4, "little") + text + data


HOSTILE = {
    "empty": (b"", "no header of an array"),
    "another magic": (b"\x93NUMPX" + npy()[6:], "no header of an array"),
    "cut in the header": (npy()[:30], "no header of an array"),
    "a header beyond the file": (npy(version=b"\x02\x00", length=(1 << 32) - 1), "no header of an array"),
    "cut in the values": (npy(data=b"\0" * 7), r"has 7 bytes of values, and .*float32 of shape \(2,\) takes 8"),
    "a size of 2^62": (npy(shape=f"({1 << 62},)"), "takes 18446744073709551616"),
    "sizes that overflow": (npy(shape=f"({1 << 62}, {1 << 62})"), "8 bytes of values"),
    "a negative size": (npy(shape="(-2,)"), r"has \(-2,\) for a shape"),
    "a size that is a bool": (npy(shape="(True, 2)"), r"has \(True, 2\) for a shape"),
    "a size that is no integer": (npy(shape="(2.0,)"), "no header of an array"),
    "an order that is no bool": (npy(order="2"), "no header of an array"),
    "Python objects": (npy(descr="'|O'"), "holds Python objects"),
    "objects in fields": (npy(descr="[('a', '|O')]"), "holds Python objects"),
    "big endian": (npy(descr="'>f4'"), "is big endian"),
    "fields": (npy(descr="[('a', '<f4')]"), "which zyx lacks"),
    "texts": (npy(descr="'<U1'"), "which zyx lacks"),
    "no dtype": (npy(descr="'float1000'"), "no header of an array"),
    "code": (npy(shape="(exit(),)"), "no header of an array"),
    "deep nesting": (npy(shape="(" * 4000), "no header of an array"),
    "version 3": (npy(version=b"\x03\x00"), "has version"),
    "a pickle": (pickle.dumps([1]), "no header of an array"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_arrays_are_refused(name, tmp_path):
    data, message = HOSTILE[name]
    (tmp_path / "bad.npy").write_bytes(data)
    with pytest.raises(FormatError, match=r"bad\.npy.*" + message):
        io.load_npy(tmp_path / "bad.npy")
    with zipfile.ZipFile(tmp_path / "bad.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(FormatError, match=r"bad\.npz.*"):
        io.load_npz(tmp_path / "bad.npz")


def archive_of(*members, method=zipfile.ZIP_STORED):
    stream = streams.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return bytearray(stream.getvalue())


def patched(data, signature, offset, value, size):
    at = data.rindex(signature) + offset
    data[at : at + size] = value.to_bytes(size, "little")
    return data


ARCHIVES = {
    "no archive": (b"text", "no archive of arrays"),
    "cut off": (archive_of(("x.npy", npy()))[:-5], "no archive of arrays"),
    "another member": (archive_of(("x.txt", b"text")), "is no array"),
    "encrypted": (patched(archive_of(("x.npy", npy())), b"PK\1\2", 8, 1, 2), "is encrypted"),
    "a bomb": (patched(archive_of(("x.npy", npy())), b"PK\1\2", 24, (1 << 32) - 2, 4), "would have 4294967294 bytes"),
    "sizes that differ": (patched(archive_of(("x.npy", npy())), b"PK\1\2", 24, 90, 4), "array 'x'"),
    "an offset outside": (patched(archive_of(("x.npy", npy())), b"PK\1\2", 42, 1 << 30, 4), "no archive of arrays"),
    "an unknown method": (patched(archive_of(("x.npy", npy())), b"PK\1\2", 10, 77, 2), "no archive of arrays"),
    "too many values": (archive_of(("x.npy", npy(data=b"\0" * 9))), "9 bytes of values"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_refused(name, tmp_path):
    data, message = ARCHIVES[name]
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        io.load_npz(tmp_path / "bad.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(tmp_path):
    (tmp_path / "bad.npz").write_bytes(archive_of(("x.npy", npy()), ("x.npy", npy())))
    with pytest.raises(FormatError, match="array 'x' comes twice"):
        io.load_npz(tmp_path / "bad.npz")


def test_what_cannot_be_written_leaves_the_file_alone(tmp_path):
    path = tmp_path / "a.npz"
    io.save_npz(path, {"x": np.ones(2)})
    before = path.read_bytes()
    for bad in (
        "text",
        np.array(["a"]),
        np.array([None]),
        np.ones(1, ml_dtypes.bfloat16),
        zyx.ones(2).astype("bfloat16"),
    ):
        with pytest.raises(DTypeError):
            io.save_npz(path, {"x": bad})
        with pytest.raises(DTypeError):
            io.save_npy(path, bad)
    with pytest.raises(FormatError, match="can be called ''"):
        io.save_npz(path, {"": np.ones(1)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_is_named(tmp_path):
    for load in (io.load_npy, io.load_npz):
        with pytest.raises(TransferError, match="absent"):
            load(tmp_path / "absent")


def test_save_writes_these_files_by_their_names(tmp_path):
    io.save(tmp_path / "a.npz", {"x": zyx.ones(1)})
    assert np.load(tmp_path / "a.npz")["x"].tolist() == [1.0]
    io.save(tmp_path / "a.npy", zyx.ones(2))
    assert np.load(tmp_path / "a.npy").tolist() == [1.0, 1.0]
    with pytest.raises(FormatError, match=r"which has no metadata"):
        io.save(tmp_path / "a.npz", {"x": zyx.ones(1)}, {"made by": "a test"})


def test_what_would_be_inflated_has_a_limit(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, zeros=np.zeros(1 << 20, np.int8), one=np.ones(1, np.int8))
    with pytest.raises(FormatError, match=r"arrays of 1048833 bytes that are compressed, and 1000000 are allowed"):
        io.load_npz(path, max_inflated_bytes=10**6)
    assert list(io.load_npz(path, ["one"], max_inflated_bytes=10**6)) == ["one"]
    assert len(io.load_npz(path, max_inflated_bytes=1 << 21)["zeros"]) == 1 << 20
    with pytest.raises(zyx.errors.IntegerError, match="max_inflated_bytes is an integer"):
        io.load_npz(path, max_inflated_bytes="much")
    io.save_npz(path, {"zeros": np.zeros(1 << 20, np.int8)})
    assert list(io.load_npz(path, max_inflated_bytes=0)) == ["zeros"]
