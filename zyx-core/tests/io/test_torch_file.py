"""Checkpoints of PyTorch: what it saves is read late and without it; no pickle is run, and hostile ones are refused."""

import io as streams
import math
import os
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict, defaultdict

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import FormatError, TransferError
from zyx.io.torch_file import STORAGES
from zyx.runtime.lazy import Unread

pytestmark = pytest.mark.usefixtures("interpreter")

#: What PyTorch calls the storages of NumPy's dtypes.
KINDS = {dtype.name: name for name, dtype in STORAGES.items()}


class Stored:
    """A tensor as PyTorch pickles it."""

    def __init__(self, array, size=None, strides=None, offset=0, key="0", kind=None, count=None, metadata=()):
        self.array = array
        self.size = array.shape if size is None else size
        own = tuple(math.prod(self.size[axis + 1 :]) for axis in range(len(self.size)))
        self.strides = own if strides is None else strides
        self.offset, self.key, self.metadata = offset, key, metadata
        self.kind = kind or KINDS[array.dtype.name]
        self.count = array.size if count is None else count


class Kept:
    """What stands for a storage until it is pickled."""

    def __init__(self, stored):
        self.stored = stored


class Parameter:
    """A parameter as PyTorch pickles it."""

    def __init__(self, stored):
        self.stored = stored


class Size(tuple):
    """torch.Size as PyTorch pickles it."""


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """Return a function that writes a checkpoint and returns its path."""
    found = {}
    for module in ("torch", "torch._utils"):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    names = [*STORAGES, "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter", "torch.Size"]
    names += ["torch.device", "torch.QUInt8Storage"]
    for full in names:
        module, _, name = full.rpartition(".")
        found[full] = type(name, (), {"__module__": module})
        setattr(sys.modules[module], name, found[full])

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if not isinstance(value, Kept):
                return None
            stored = value.stored
            return ("storage", found[stored.kind], stored.key, "cpu", stored.count)

        def reducer_override(self, value):
            if isinstance(value, Stored):
                arguments = (Kept(value), value.offset, tuple(value.size), tuple(value.strides), False, OrderedDict())
                return found["torch._utils._rebuild_tensor_v2"], (*arguments, *value.metadata)
            if isinstance(value, Parameter):
                return found["torch._utils._rebuild_parameter"], (value.stored, True, OrderedDict())
            if isinstance(value, Size):
                return found["torch.Size"], (tuple(value),)
            return NotImplemented

    def write(value, *, storages=None, members=(), data=None, protocol=2, compression=zipfile.ZIP_STORED):
        text = streams.BytesIO()
        Pickler(text, protocol).dump(value)
        path = tmp_path / "model.pt"
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("model/data.pkl", text.getvalue() if data is None else data)
            for key, array in (storages or {}).items():
                archive.writestr(f"model/data/{key}", array.tobytes())
            for name, content in members:
                archive.writestr(name, content)
        return path

    return write


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", sorted(KINDS))
def test_every_dtype_comes_back_as_it_was(dtype, checkpoint):
    array = numbers(2, 3, dtype=ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    found = io.load_torch(checkpoint({"x": Stored(array)}, storages={"0": array}))["x"]
    assert found.dtype.name == dtype
    assert np.array_equal(found.numpy(), array)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_holds_tensors_comes_back_in_all_protocols(checkpoint, protocol):
    array = numbers(4)
    x = Stored(array)
    state = OrderedDict(weight=x)
    state._metadata = {"": {"version": 1}}
    value = {
        "state": state, "optimizer": {0: [x, (1, 2.5, True, None)], "lr": 1e-3, "name": "\u00fc" * 300},
        "size": Size((2, 3)), "parameter": Parameter(x), "none": (), "big": -(2**40), "huge": 2**70,
    }  # fmt: skip
    found = io.load_torch(checkpoint(value, storages={"0": array}, protocol=protocol))
    assert isinstance(found["state"], OrderedDict)
    assert found["state"]["weight"].tolist() == found["parameter"].tolist() == [0, 1, 2, 3]
    assert found["optimizer"][0][1] == (1, 2.5, True, None)
    assert found["optimizer"]["name"] == "\u00fc" * 300
    assert (found["size"], found["none"], found["big"], found["huge"]) == ((2, 3), (), -(2**40), 2**70)
    assert type(found["size"]) is tuple


STRIDES = {
    "transposed": ((4, 3), (1, 4), 0),
    "rows left out": ((2, 4), (8, 1), 0),
    "columns": ((3, 2), (4, 1), 1),
    "diagonal": ((3,), (5,), 0),
    "repeated": ((5, 4), (0, 1), 4),
    "windows": ((3, 4), (2, 1), 2),
    "a number": ((), (), 7),
    "ones": ((1, 12, 1), (99, 1, 77), 0),
    "permuted": ((2, 3, 2), (1, 4, 2), 0),
    "nothing": ((0, 3), (3, 1), 0),
    "the end": ((4,), (1,), 8),
}


@pytest.mark.parametrize("case", STRIDES)
def test_strides_and_offsets_are_followed(case, checkpoint):
    size, strides, offset = STRIDES[case]
    array = numbers(12)
    path = checkpoint([Stored(array, size, strides, offset)], storages={"0": array})
    (found,) = io.load_torch(path)
    bytes_ = tuple(4 * step for step in strides)
    expected = np.lib.stride_tricks.as_strided(array[offset:], size, bytes_)
    assert found.shape == size
    assert np.array_equal(found.numpy(), expected)


def test_values_stay_in_the_file_and_tensors_of_one_storage_are_read_once(checkpoint):
    array = numbers(3, 4)
    x = Stored(array)
    path = checkpoint({"x": x, "tied": Stored(array), "row": Stored(array, (4,), (1,), 4)}, storages={"0": array})
    found = io.load_torch(path)
    assert all(type(each.node.storage) is Unread for each in found.values())
    assert found["x"][1:2].tolist() == [[4, 5, 6, 7]]
    assert found["x"].node.storage.buffer is None
    assert found["row"].tolist() == [4, 5, 6, 7]
    assert found["x"].tolist() == array.tolist()
    assert found["tied"].node is found["x"].node


def test_what_pytorch_saves_is_read(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Linear(4, 2, bias=False))
    optimizer = torch.optim.Adam(net.parameters())
    base = torch.arange(24, dtype=torch.bfloat16).reshape(2, 3, 4)
    value = {
        "net": net.state_dict(), "optimizer": optimizer.state_dict(), "base": base, "turned": base.permute(2, 0, 1),
        "cut": base[:, 1:, ::2], "parameter": torch.nn.Parameter(torch.ones(2)), "size": base.shape,
        "empty": torch.zeros(0, 3), "number": torch.tensor(3), "repeated": torch.ones(3).expand(2, 3),
        "complex": torch.tensor([1 + 2j]),
    }  # fmt: skip
    for protocol in (2, 4):
        torch.save(value, tmp_path / "model.bin", pickle_protocol=protocol)
        found = io.load_torch(tmp_path / "model.bin")
        assert list(found) == list(value)
        for name in ("base", "turned", "cut", "parameter", "empty", "number", "repeated", "complex"):
            expected = value[name].detach()
            assert found[name].dtype.name == str(expected.dtype).removeprefix("torch.")
            assert found[name].tolist() == expected.tolist()
        for name, tensor in net.state_dict().items():
            assert np.array_equal(found["net"][name].numpy(), tensor.numpy())
        assert found["optimizer"] == optimizer.state_dict()
        assert found["size"] == (2, 3, 4)
    torch.save(net, tmp_path / "model.bin")
    with pytest.raises(FormatError, match=r"uses torch.nn.modules.container.Sequential, which only unpickling gives"):
        io.load_torch(tmp_path / "model.bin")


# ---- hostile


class Runs:
    """Unpickling this runs a command."""

    def __reduce__(self):
        return os.system, ("exit 1",)


class Held:
    """An object of a class of one's own."""


PICKLED = {
    "a command": (Runs(), r"data.pkl uses (posix|nt).system, which only unpickling gives; that may run any code"),
    "an object": (Held(), r"uses .*test_torch_file.Held, which only"),
    "a class": (Held, r"uses .*test_torch_file.Held"),
    "a function": (print, "uses __builtin__.print"),
    "a set": ({1}, "uses __builtin__.set"),
    "bytes": (b"abc", "uses _codecs.encode"),
    "a complex number": (1j, "uses __builtin__.complex"),
    "a defaultdict": (defaultdict(list), "uses collections.defaultdict"),
    "an array": (np.ones(2), "uses numpy"),
}


@pytest.mark.parametrize("case", PICKLED)
def test_what_is_not_plain_is_refused_by_name(case, checkpoint, refused):
    value, text = PICKLED[case]
    refused(io.load_torch, checkpoint({"x": value}), text)


SYSTEM = b"cos\nsystem\n"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
ORDERED = b"ccollections\nOrderedDict\n"


def short(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


PROGRAMS = {
    "nothing": (b"", "is no pickle, or a damaged one"),
    "no end": (b"\x80\x02}", "is no pickle, or a damaged one"),
    "no instruction": (b"\xff.", "is no pickle, or a damaged one"),
    "an empty stack": (b".", "leaves 0 values"),
    "two values": (b"NN.", "leaves 2 values"),
    "a mark that is left": (b"(N.", "leaves 1 values"),
    "underflow": (b"\x85.", "takes more values than it has"),
    "underflow to a mark": (b"N(\x85.", "takes more values than it has"),
    "no mark": (b"t.", "ends a list that it did not begin"),
    "memory that is empty": (b"h\x07.", "takes value 7, which was not put aside"),
    "a text that is too long": (b"X\xff\xff\xff\x7fabc.", "is no pickle, or a damaged one"),
    "a text of 2^62 bytes": (b"\x8d" + struct.pack("<Q", 2**62) + b"abc.", "is no pickle, or a damaged one"),
    "a number of 2 GB": (b"\x8b\xff\xff\xff\x7f1.", "is no pickle, or a damaged one"),
    "a long number": (b"\x8b\x01\x00\x00\x001.", "has instruction LONG4"),
    "no UTF-8": (b"X\x01\x00\x00\x00\xff.", "is no pickle, or a damaged one"),
    "a frame of 2^62": (b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.", ""),
    "a command in text": (SYSTEM + b"(S'ls'\ntR.", "uses os.system"),
    "a command without arguments": (b"(S'ls'\nios\nsystem\n.", "has instruction STRING"),
    "an instance": (b"(ios\nsystem\n.", "has instruction INST"),
    "a new object": (b"N)\x81.", "has instruction NEWOBJ"),
    "an extension": (b"\x82\x01.", "has instruction EXT1"),
    "a buffer": (b"\x97.", "has instruction NEXT_BUFFER"),
    "a name from the stack": (b"\x80\x04" + short("os") + short("system") + b"\x93.", "uses os.system"),
    "a name with dots": (b"\x80\x04" + short("torch") + short("_utils.os.system") + b"\x93.", "uses torch._utils.os"),
    "a number as a name": (b"\x80\x04K\x01K\x02\x93.", "uses 1.2"),
    "a function itself": (TENSOR + b".", "holds torch._utils._rebuild_tensor_v2 itself"),
    "a storage type that is called": (b"ctorch\nFloatStorage\n)R.", "calls torch.FloatStorage as a function"),
    "a number that is called": (b"K\x01)R.", "calls int as a function"),
    "arguments that are no tuple": (ORDERED + b"]R.", "calls collections.OrderedDict as a function"),
    "arguments of an ordered dict": (ORDERED + b"]\x85R.", r"makes an OrderedDict of \(\[\],\)"),
    "no arguments of a tensor": (TENSOR + b")R.", r"makes a tensor of \(\)"),
    "a tensor of numbers": (TENSOR + b"(K\x01K\x00)))tR.", "makes a tensor of"),
    "a parameter of a number": (b"ctorch._utils\n_rebuild_parameter\nK\x01\x85R.", "makes a parameter of"),
    "a size of a text": (b"ctorch\nSize\nX\x01\x00\x00\x00a\x85\x85R.", "has .* for sizes"),
    "a size below zero": (b"ctorch\nSize\nJ\xff\xff\xff\xff\x85\x85R.", r"has \(-1,\) for sizes"),
    "an identifier": (b"K\x01Q.", "has 1 for a storage"),
    "an identifier in text": (b"P1\n.", "has instruction PERSID"),
    "a state of a list": (b"]}b.", "sets the state of a list"),
    "a state of a dict": (b"}}b.", "sets the state of a dict"),
    "appending to a number": (b"K\x01K\x02a.", "appends to a int"),
    "items of a list": (b"]K\x01K\x02s.", "sets items of a list"),
    "half an item": (b"}(K\x01u.", "sets items of a dict"),
    "a list as a key": (b"}]Ns.", "has a list for a key"),
    "a tuple as a key": (b"})Ns.", "has a tuple for a key"),
    "a key twice": (b"}(K\x01NK\x01Nu.", "has key 1 twice"),
    "a list that holds itself": (b"]q\x00h\x00a.", "has a list that holds itself"),
    "a dict that holds itself": (b"}q\x00K\x01h\x00s.", "has a dict that holds itself"),
    "deep": (b"]" * 100_000 + b"a" * 99_999 + b".", ""),
    "doubled 60 times": (b"(]q\x00" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(60)) + b"t.", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", PROGRAMS)
def test_programs_that_do_more_than_hold_data_are_refused(case, checkpoint, refused):
    data, text = PROGRAMS[case]
    path = checkpoint(None, data=data)
    if text:
        refused(io.load_torch, path, text)
    else:
        io.load_torch(path)


TENSORS = {
    "beyond the storage": ({"size": (13,)}, r"needs elements 0 to 13 of a storage of 12"),
    "an offset beyond it": ({"size": (2,), "offset": 11}, r"needs elements 11 to 13"),
    "an offset of 2^62": ({"size": (1,), "offset": 2**62}, "needs elements 4611686018427387904"),
    "strides beyond it": ({"size": (3, 4), "strides": (2**62, 1)}, "needs elements"),
    "a size of 2^62": ({"size": (2**62,), "strides": (1,)}, "which no memory has room for"),
    "repeated 2^62 times": ({"size": (2**62, 4), "strides": (0, 1)}, "which no memory has room for"),
    "a negative size": ({"size": (-1,), "strides": (1,)}, r"has \(-1,\) for sizes"),
    "a negative stride": ({"size": (3,), "strides": (-1,)}, r"has \(-1,\) for strides"),
    "a negative offset": ({"size": (3,), "offset": -1}, "offset -1"),
    "a size that is true": ({"size": (True,), "strides": (1,)}, r"has \(True,\) for sizes"),
    "too few strides": ({"size": (3, 4), "strides": (1,)}, "2 sizes, 1 strides"),
    "65 axes": ({"size": (1,) * 65, "strides": (1,) * 65}, "with 65 sizes"),
    "metadata": ({"size": (3,), "metadata": ({"conj": True},)}, "with hooks or metadata"),
    "an unknown dtype": ({"kind": "torch.QUInt8Storage"}, "uses torch.QUInt8Storage"),
    "another count": ({"size": (3,), "count": 3}, "storage '0' has 48 bytes, and 3 of float32 take 12"),
    "a count of 2^62": ({"size": (3,), "count": 2**62}, "storage '0' has 48 bytes, and 4611686018427387904"),
    "a negative count": ({"size": (3,), "count": -1}, "for a storage"),
    "another dtype": ({"size": (3,), "kind": "torch.LongStorage"}, "storage '0' has 48 bytes, and 12 of int64"),
    "a storage that there is not": ({"key": "1"}, "has no member 'model/data/1' for storage '1'"),
    "a storage elsewhere": ({"key": "../../../etc/passwd"}, "has no member"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_that_are_not_in_the_file_are_refused(case, checkpoint, refused):
    given, text = TENSORS[case]
    array = numbers(3, 4)
    refused(io.load_torch, checkpoint([Stored(array, **given)], storages={"0": array}), text)


def test_archives_that_are_no_checkpoints_are_refused(checkpoint, tmp_path):
    array = numbers(4)
    x = [Stored(array)]
    refused = {
        "has 0 members data.pkl": [],
        "has 2 members data.pkl": [("other/data.pkl", b"N.")],
        "is a TorchScript program": [("model/constants.pkl", b"N.")],
        "has byte order b'big'": [("model/byteorder", b"big")],
    }
    for text, members in refused.items():
        path = checkpoint(x, storages={"0": array}, members=members)
        if not members:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x.npy", b"")
        with pytest.raises(FormatError, match=text):
            io.load_torch(path)
    with pytest.raises(FormatError, match=r"data.pkl is compressed"):
        io.load_torch(checkpoint(x, storages={"0": array}, compression=zipfile.ZIP_DEFLATED))
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"x": 1}))
    with pytest.raises(FormatError, match="no archive of tensors"):
        io.load_torch(tmp_path / "old.pt")
    with pytest.raises(TransferError, match="cannot be read"):
        io.load_torch(tmp_path / "absent.pt")


def test_a_member_that_comes_twice_is_refused(checkpoint):
    array = numbers(4)
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = checkpoint([Stored(array)], storages={"0": array}, members=[("model/data/0", array.tobytes())])
    with pytest.raises(FormatError, match="member 'model/data/0' comes twice"):
        io.load_torch(path)


def test_every_file_that_is_cut_off_is_refused(checkpoint):
    array = numbers(4)
    path = checkpoint({"x": Stored(array)}, storages={"0": array})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            io.load_torch(path)


def test_changed_bytes_give_an_error_or_values_and_nothing_else(checkpoint):
    array = numbers(4)
    path = checkpoint({"x": Stored(array), "y": [Parameter(Stored(array))]}, storages={"0": array})
    whole = path.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(400):
        data = bytearray(whole)
        for at in random.integers(0, len(data), 3):
            data[at] = random.integers(0, 256)
        path.write_bytes(data)
        try:
            found = io.load_torch(path)
        except (FormatError, TransferError):
            continue
        assert found is not None


def test_storages_that_overlap_are_refused(checkpoint):
    array = numbers(4)
    path = checkpoint([Stored(array), Stored(array, key="1")], storages={"0": array, "1": array})
    with zipfile.ZipFile(path) as archive:
        first, second = (archive.getinfo(f"model/data/{key}").header_offset for key in "01")
    data = path.read_bytes()
    at = data.rindex(b"model/data/1") - 46 + 42  # where the list of members has the place of the second
    path.write_bytes(data[:at] + struct.pack("<I", first) + data[at + 4 :])
    assert second != first
    with pytest.raises(FormatError, match="overlap"):
        io.load_torch(path)
    assert zyx.Tensor(array).shape == (4,)
