"""Tensors to files and back, and how little of a file is read."""

import builtins
import os
import stat
import time

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import zyx
from zyx import io, nn, optim
from zyx.builtin.disk import DiskPool
from zyx.errors import DTypeError, FileChangedError, FormatError, TraceError, TransferError
from zyx.io.header import RESERVED
from zyx.runtime.lazy import Unread

pytestmark = pytest.mark.usefixtures("interpreter")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]


@pytest.fixture
def reads(monkeypatch):
    """Return a list that grows by the number of bytes of each read of a file."""
    sizes = []
    original = DiskPool.pool_to_host

    def counting(self, source, target, events=(), offset=0):
        sizes.append(target.nbytes)
        return original(self, source, target, events, offset)

    monkeypatch.setattr(DiskPool, "pool_to_host", counting)
    return sizes


@pytest.fixture
def matrix(tmp_path):
    """Return the path of a file with w = 0 .. 23 in 6 rows of 4, float32."""
    path = tmp_path / "matrix.safetensors"
    io.save(path, {"w": np.arange(24, dtype=np.float32).reshape(6, 4), "other": np.ones(3)})
    return path


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_as_it_was(dtype, tmp_path):
    path = tmp_path / "x.safetensors"
    x = zyx.Tensor(np.array([[0, 1], [2, 3]])).astype(dtype)
    io.save(path, {"x": x})
    found = io.load(path)["x"]
    assert found.dtype is x.dtype
    assert np.array_equal(found.numpy(), x.numpy())


def test_all_shapes_come_back_also_those_without_elements(tmp_path):
    path = tmp_path / "x.safetensors"
    shapes = [(), (1,), (0,), (3, 0, 2), (2, 3, 4)]
    io.save(path, {str(shape): zyx.zeros(*shape) for shape in shapes})
    assert {name: str(tensor.shape) for name, tensor in io.load(path).items()} == {str(s): str(s) for s in shapes}
    assert io.load(path)["(3, 0, 2)"].numpy().shape == (3, 0, 2)


def test_other_libraries_read_what_we_write_and_the_other_way_round(tmp_path):
    path = tmp_path / "x.safetensors"
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    io.save(path, {"a": zyx.Tensor(array), "b": array.T}, {"made by": "a test"})
    found = safetensors.numpy.load_file(path)
    assert np.array_equal(found["a"], array)
    assert np.array_equal(found["b"], array.T)
    assert io.read_metadata(path) == {"made by": "a test"}
    safetensors.numpy.save_file({"h": array.astype(ml_dtypes.bfloat16)}, path)
    assert io.load(path)["h"].dtype is zyx.bfloat16
    assert io.read_metadata(path) == {}


def test_modules_and_optimisers_are_saved_by_their_names(tmp_path):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = optim.Adam(dict(net.named_parameters()))
    io.save(tmp_path / "net.safetensors", net)
    io.save(tmp_path / "state.safetensors", optimizer)
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    other.load_state_dict(io.load(tmp_path / "net.safetensors"))
    for name, tensor in net.state_dict().items():
        assert np.array_equal(other.state_dict()[name].numpy(), tensor.numpy())
    assert (
        not optim.Adam(dict(other.named_parameters())).load_state_dict(io.load(tmp_path / "state.safetensors")).missing
    )


def test_a_network_of_another_file_is_refused_by_names(tmp_path):
    path = tmp_path / "net.safetensors"
    io.save(path, nn.Linear(2, 3))
    with pytest.raises(zyx.errors.StateError, match=r"weight is \(3, 2\) and should be \(3, 4\)"):
        nn.Linear(4, 3).load_state_dict(zyx.load(path))


# ---- reading late, and little


def test_loading_reads_no_values_and_each_tensor_is_read_once(matrix, reads):
    loaded = io.load(matrix)
    assert reads == []
    assert loaded["w"].shape == (6, 4)
    assert (loaded["w"] + 1.0).sum().item() == 300
    assert reads == [96]
    assert np.array_equal(loaded["w"].numpy(), np.arange(24).reshape(6, 4))
    assert (loaded["w"] * 2.0).sum().item() == 552
    assert reads == [96]


def test_rows_are_read_without_the_others(matrix, reads):
    w = io.load(matrix)["w"]
    assert (w[1:3] + 1.0).tolist() == [[5, 6, 7, 8], [9, 10, 11, 12]]
    assert w[4].tolist() == [16, 17, 18, 19]
    assert w[2, 1:3].tolist() == [9, 10]
    assert reads == [32, 16, 8]
    assert isinstance(w.node.storage, Unread)


def test_what_is_no_row_is_read_as_a_whole(matrix, reads):
    w = io.load(matrix)["w"]
    assert w[:, 1].tolist() == [1, 5, 9, 13, 17, 21]
    assert reads == [96]
    w = io.load(matrix)["w"]
    assert (w[1].sum() + w.sum()).item() == 22 + 276
    assert reads == [96, 96]


def test_reshaped_tensors_share_what_was_read(matrix, reads):
    w = io.load(matrix)["w"]
    assert w.reshape(24).numpy()[5] == 5
    assert w.numpy()[1, 1] == 5
    assert reads == [96]


def test_gradients_reach_a_tensor_of_a_file_through_its_rows(matrix, reads):
    w = io.load(matrix)["w"]
    with zyx.Tape() as tape:
        loss = (w[1:3] * 2.0).sum()
    assert np.array_equal(tape.gradient(loss, w).numpy(), np.repeat([0, 2, 2, 0, 0, 0], 4).reshape(6, 4))


def test_traced_functions_find_tensors_of_files(matrix, reads):
    w = io.load(matrix)["w"]
    double = zyx.jit(lambda x: x + w)
    assert double(zyx.zeros(4))[0].tolist() == [0, 1, 2, 3]
    assert double(zyx.ones(4))[0].tolist() == [1, 2, 3, 4]
    assert double(io.load(matrix)["w"][0])[1].tolist() == [4, 6, 8, 10]
    with pytest.raises(TraceError, match="read it before, and pass the tensor"):
        zyx.jit(lambda x: x + io.load(matrix)["w"])(w)


def test_a_tensor_that_a_traced_function_overwrites_does_not_change_others_of_its_file(matrix):
    w = io.load(matrix)["w"]
    kept = w.detach()
    zyx.jit(lambda: w.assign(w + 1.0))()
    assert w[0].tolist() == [1, 2, 3, 4]
    assert kept[0].tolist() == [0, 1, 2, 3]


def test_only_the_names_asked_for_are_loaded(matrix):
    assert list(io.load(matrix, names=["other"])) == ["other"]
    with pytest.raises(FormatError, match="has no tensor 'nothing'; it has"):
        io.load(matrix, names=["nothing"])


def test_raw_numbers_are_read_from_any_file(tmp_path, reads):
    path = tmp_path / "raw.bin"
    path.write_bytes(b"head" + np.arange(10, dtype="<i4").tobytes())
    assert io.from_file(path, "int32", offset=4)[2:4].tolist() == [2, 3]
    assert reads == [8]
    assert io.from_file(path, "int32", (2, 5), 4).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert io.from_file(path).shape == (44,)
    assert zyx.Tensor.from_file(path, "int32", (2, 5), 4)[1].tolist() == [5, 6, 7, 8, 9]
    assert zyx.Tensor.from_file(path, offset=40, device="interpreter").tolist() == [9, 0, 0, 0]
    assert io.from_file(path, "int32", 0, 44).shape == (0,)
    with pytest.raises(FormatError, match="the 43 bytes from byte 1 on are no whole number of int32"):
        io.from_file(path, "int32", offset=1)
    with pytest.raises(TransferError, match="has 44 bytes, and the window ends at byte 48"):
        io.from_file(path, "int32", 11, 4)
    with pytest.raises(TransferError, match="cannot be read"):
        io.from_file(tmp_path / "nothing.bin")


@pytest.mark.parametrize("way", ["replaced", "written to", "cut", "restored"])
def test_values_of_two_versions_of_a_file_never_come_together(way, matrix, interpreter):
    loaded = io.load(matrix)
    assert loaded["other"].tolist() == [1, 1, 1]
    whole = matrix.read_bytes()
    before = interpreter.memory.live_bytes
    os.utime(matrix, ns=(1, 1))  # writing sets another time, however coarse the file system's are
    w = io.load(matrix)["w"]
    if way == "replaced":
        io.save(matrix, {"w": np.zeros((6, 4), np.float32), "other": np.zeros(3)})
    else:
        matrix.write_bytes(whole[:-40] if way == "cut" else bytes(reversed(whole)))
    if way == "restored":  # to the same bytes, which takes reading all of them to find out
        matrix.write_bytes(whole)
    for _ in range(2):
        with pytest.raises(FileChangedError, match=f"was {'replaced' if way == 'replaced' else 'written to'} since"):
            w.numpy()
        with pytest.raises(FileChangedError, match="Load it anew"):
            w[1:2].numpy()
    interpreter.memory.reclaim()
    assert interpreter.memory.live_bytes == before
    if way in {"replaced", "restored"}:
        assert io.load(matrix)["w"][0, 1].item() == (way == "restored")


def test_a_file_that_is_away_for_a_while_is_read_when_it_is_back(matrix):
    w = io.load(matrix)["w"]
    away = matrix.rename(matrix.parent / "away")
    with pytest.raises(TransferError, match="cannot be read"):
        w.numpy()
    away.rename(matrix)
    assert w.numpy()[0, 1] == 1


def test_a_file_that_is_written_to_during_a_read_is_an_error(matrix, monkeypatch):
    os.utime(matrix, ns=(1, 1))
    w = io.load(matrix)["w"]
    original = os.fstat

    def writing(descriptor):
        found = original(descriptor)
        if found.st_mtime_ns == 1 and found.st_ino == matrix.stat().st_ino:
            matrix.write_bytes(matrix.read_bytes())
        return found

    monkeypatch.setattr("zyx.builtin.disk.os.fstat", writing)
    with pytest.raises(FileChangedError, match="was written to since"):
        w.numpy()


# ---- writing


def test_a_file_is_replaced_as_a_whole_or_not_at_all(matrix):
    before = matrix.read_bytes()
    with pytest.raises(DTypeError, match="'b' is a str, not a tensor or an array"):
        io.save(matrix, {"a": zyx.ones(3), "b": "text"})
    with pytest.raises(DTypeError, match="names of tensors are texts, not 1"):
        io.save(matrix, {1: zyx.ones(3)})
    assert matrix.read_bytes() == before
    assert list(matrix.parent.iterdir()) == [matrix]


def test_a_file_may_be_saved_over_the_one_its_tensors_come_from(matrix):
    io.save(matrix, io.load(matrix))
    assert io.load(matrix)["w"].numpy()[1, 1] == 5


def test_new_files_have_the_rights_that_other_files_get(matrix):
    plain = matrix.parent / "plain"
    plain.write_bytes(b"")
    assert stat.S_IMODE(matrix.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_that_is_there_keeps_its_mode(matrix, mode):
    matrix.chmod(mode)
    for values in (zyx.ones(3), np.zeros(2)):
        io.save(matrix, {"a": values})
        assert stat.S_IMODE(matrix.stat().st_mode) == mode
    assert list(io.load(matrix)) == ["a"]
    assert list(matrix.parent.iterdir()) == [matrix]


def test_a_file_that_is_written_over_is_new(matrix):
    os.utime(matrix, (1, 1))
    io.save(matrix, {"a": zyx.ones(3)})
    assert time.time() - matrix.stat().st_mtime < 1000


@pytest.mark.skipif(os.name == "nt", reason="links take rights that not everybody has")
@pytest.mark.parametrize("is_relative", [False, True])
def test_a_symbolic_link_stays_and_what_it_leads_to_is_replaced(matrix, tmp_path, is_relative):
    matrix.chmod(0o600)
    folder = tmp_path / "links"
    folder.mkdir()
    first, second = folder / "first.safetensors", folder / "second.safetensors"
    first.symlink_to(os.path.relpath(matrix, folder) if is_relative else matrix)
    second.symlink_to(first)
    io.save(second, {"a": zyx.ones(3)})
    assert first.is_symlink()
    assert second.is_symlink()
    assert not matrix.is_symlink()
    assert list(io.load(matrix)) == list(io.load(second)) == ["a"]
    assert stat.S_IMODE(matrix.stat().st_mode) == 0o600
    assert sorted(folder.iterdir()) == [first, second]


@pytest.mark.skipif(os.name == "nt", reason="links take rights that not everybody has")
def test_what_a_symbolic_link_leads_to_may_be_new(tmp_path):
    link, target = tmp_path / "link.safetensors", tmp_path / "target.safetensors"
    link.symlink_to(target)
    io.save(link, {"a": zyx.ones(3)})
    assert link.is_symlink()
    assert list(io.load(target)) == ["a"]
    round_and_round = tmp_path / "loop.safetensors"
    round_and_round.symlink_to(round_and_round)
    with pytest.raises(TransferError, match="cannot be written"):
        io.save(round_and_round, {"a": zyx.ones(3)})
    assert round_and_round.is_symlink()


def test_what_is_no_plain_file_is_not_replaced(tmp_path):
    folder = tmp_path / "x.safetensors"
    folder.mkdir()
    with pytest.raises(TransferError, match="it is no plain file"):
        io.save(folder, {"a": zyx.ones(3)})
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="an administrator may write everywhere")
def test_a_file_that_must_not_be_written_to_is_left_alone(matrix):
    matrix.chmod(0o444)
    with pytest.raises(TransferError, match="read-only"):
        io.save(matrix, {"a": zyx.ones(3)})
    assert "w" in io.load(matrix)


def test_a_name_that_the_format_reserves_is_refused_before_anything_is_computed(matrix, tmp_path):
    for name in sorted(RESERVED):
        tensor = zyx.ones(3) + 1
        for metadata in (None, {"epoch": "3"}):
            with pytest.raises(FormatError, match=f"no tensor of a safetensors file can be called '{name}'"):
                io.save(tmp_path / "new.safetensors", {"a": tensor, name: tensor}, metadata)
        with pytest.raises(FormatError, match="can be called"):
            io.save_safetensors(matrix, {name: np.ones(2)})
        assert not tensor.is_realized
    assert list(tmp_path.iterdir()) == [matrix]


@pytest.mark.parametrize(
    "name", ["", " ", "a.b", "__metadata", "metadata", "__METADATA__", "a\0b", "\u00fc", '"', "\\"]
)
def test_every_other_name_comes_back(tmp_path, name):
    path = tmp_path / "x.safetensors"
    io.save(path, {name: zyx.ones(3)}, {name: name})
    assert list(io.load(path)) == [name]
    assert io.read_metadata(path) == {name: name}


def test_texts_that_have_no_utf_8_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"the name of a tensor is .* UTF-8"):
        io.save(tmp_path / "x.safetensors", {"\ud800": zyx.ones(3)})
    with pytest.raises(FormatError, match=r"metadata is .* UTF-8"):
        io.save(tmp_path / "x.safetensors", {"a": zyx.ones(3)}, {"a": "\ud800"})
    with pytest.raises(DTypeError, match="metadata are texts by name, not a list"):
        io.save(tmp_path / "x.safetensors", {"a": zyx.ones(3)}, ["a"])
    assert list(tmp_path.iterdir()) == []


def test_many_tensors_are_found_by_looking_at_their_file_once(tmp_path, monkeypatch):
    count = 10_000
    path = tmp_path / "many.safetensors"
    safetensors.numpy.save_file({f"layer {i}": np.full(2, i, np.float32) for i in range(count)}, path)
    seen = {"stat": 0, "open": 0, "tensors": 0}

    def counting(name, original):
        def counted(*args, **kwargs):
            if str(path) in map(str, args):
                seen[name] += 1
            return original(*args, **kwargs)

        return counted

    monkeypatch.setattr(os, "stat", counting("stat", os.stat))
    monkeypatch.setattr(builtins, "open", counting("open", open))
    monkeypatch.setattr("pathlib.io.open", counting("open", open))
    started = time.thread_time()
    tensors = io.load(path)
    took_s = time.thread_time() - started
    seen["tensors"] = len(tensors)
    assert seen["tensors"] == count
    assert seen["stat"] <= 4
    assert seen["open"] <= 4
    assert took_s < 100e-6 * count  # about 20 us a tensor
    assert tensors["layer 7777"].tolist() == [7777, 7777]


@pytest.mark.parametrize("tensors", [[1.0], zyx.float32, 3, None, {"a": [1.0]}, {1: np.ones(1)}], ids=repr)
def test_what_has_no_names_or_is_no_tensor_is_refused(tensors, tmp_path):
    with pytest.raises(DTypeError):
        io.save(tmp_path / "x.safetensors", tensors)
    with pytest.raises(DTypeError, match="not a list"):
        zyx.save(tmp_path / "x.safetensors", [zyx.ones(1)])
    with pytest.raises(DTypeError, match="metadata are texts by name, not 3"):
        io.save(tmp_path / "x.safetensors", {"a": zyx.ones(1)}, {"epoch": 3})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names on this system")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    for call in (io.load, io.read_metadata, io.from_file):
        with pytest.raises(TransferError, match="no plain file"):
            call(tmp_path / "pipe.safetensors")


def test_what_cannot_be_written_or_is_of_another_kind_is_refused(tmp_path):
    with pytest.raises(TransferError, match="cannot be written"):
        io.save(tmp_path / "nowhere" / "x.safetensors", {"a": zyx.ones(1)})
    with pytest.raises(FormatError, match=r"only files named \*\.safetensors, \*\.npz.* are saved"):
        io.save(tmp_path / "x.pickle", {})
    with pytest.raises(FormatError, match=r"npz.*has no metadata"):
        io.save(tmp_path / "x.npz", {}, {"epoch": "3"})
    with pytest.raises(DTypeError, match="not dict for the path"):
        io.save({}, {})


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "gguf", "pt", "pth", "ckpt"])
def test_the_end_of_the_name_says_the_format_and_the_path_may_come_second(suffix, tmp_path):
    io.save(tmp_path / f"a.{suffix}", {"x": zyx.arange(3)})
    io.save({"x": zyx.arange(3)}, str(tmp_path / f"b.{suffix}"))
    assert (
        io.load(tmp_path / f"a.{suffix}")["x"].tolist() == io.load(tmp_path / f"b.{suffix}")["x"].tolist() == [0, 1, 2]
    )


def test_an_npy_file_has_one_array(tmp_path):
    io.save(tmp_path / "x.npy", zyx.arange(3))
    assert io.load(tmp_path / "x.npy").tolist() == np.load(tmp_path / "x.npy").tolist() == [0, 1, 2]
