"""Bad input, on the default device: a clear error, a runtime that goes on, and no memory lost."""

from __future__ import annotations

import gc
import json
import os
import struct

import numpy as np
import pytest

import zyx
from zyx import io
from zyx.errors import (
    AllocationError,
    DTypeError,
    FormatError,
    IndexRangeError,
    NoDeviceError,
    SettingsError,
    ShapeError,
    TransferError,
)
from zyx.runtime.runtime import Runtime, use

pytestmark = pytest.mark.usefixtures("runtime")


def works(runtime) -> bool:
    """Return whether the runtime still computes."""
    return (zyx.Tensor([[1.0, 2.0], [3.0, 4.0]]) @ zyx.Tensor([[1.0], [1.0]]) + 1.0).tolist() == [[4.0], [8.0]]


def live(runtime) -> int:
    gc.collect()
    runtime.synchronize()
    runtime.memory.reclaim()
    return runtime.memory.live_bytes


def matrix(*shape, dtype=np.float32):
    return zyx.Tensor(np.ones(shape, dtype))


MISTAKES = {
    "shapes": (lambda: matrix(2, 3) + matrix(2, 4), ShapeError, r"\(2, 3\).*\(2, 4\)"),
    "inner sizes": (lambda: matrix(2, 3) @ matrix(2, 3), ShapeError, r"\(2, 3\).*\(2, 3\)"),
    "reshape": (lambda: matrix(2, 3).reshape(4, 2), ShapeError, r"\(2, 3\)"),
    "filters": (lambda: zyx.conv2d(matrix(1, 3, 8, 8), matrix(4, 2, 3, 3)), ShapeError, "3 channels"),
    "window": (lambda: zyx.conv2d(matrix(1, 1, 2, 2), matrix(1, 1, 3, 3)), ShapeError, "larger than the padded"),
    "concat": (lambda: zyx.concat([matrix(2, 3), matrix(2, 4)]), ShapeError, r"\(2, 4\)"),
    "target": (lambda: zyx.cross_entropy(matrix(4, 3), zyx.Tensor([0, 1])), ShapeError, r"\(2,\)"),
    "ragged": (lambda: zyx.Tensor([[1.0, 2.0], [3.0]]), ShapeError, "row|length"),
    "ragged inside": (lambda: zyx.Tensor([[[1], [2]], [[3], [4, 5]]]), ShapeError, "row|length"),
    "mixed depth": (lambda: zyx.Tensor([[1.0], 2.0]), ShapeError, "row|length|number"),
    "text": (lambda: zyx.Tensor(["a", "b"]), DTypeError, "str|number"),
    "object": (lambda: zyx.Tensor([object()]), DTypeError, "object|number"),
    "order of complex numbers": (lambda: zyx.Tensor([1 + 2j]) < 2, DTypeError, "complex"),
    "complex as real": (lambda: zyx.Tensor([1 + 2j]).astype("float32"), DTypeError, "complex"),
    "too large": (lambda: zyx.Tensor(1 << 70), DTypeError, "integer|fit|64"),
    "float bits": (lambda: matrix(2) & matrix(2), DTypeError, "float32"),
    "promotion": (lambda: matrix(2, dtype=np.uint64) + matrix(2, dtype=np.int64), DTypeError, "uint64.*int64"),
    "unknown dtype": (lambda: matrix(2).astype("float31"), DTypeError, "float31"),
    "axis": (lambda: matrix(2, 3).sum(axis=2), ShapeError, "axis 2 is out of range"),
    "axes twice": (lambda: matrix(2, 3).sum(axis=(0, -2)), ShapeError, "twice|repeat|once|0"),
    "index": (lambda: matrix(2, 3)[2], IndexRangeError, "index 2 is out of range for axis 0 of size 2"),
    "list index": (lambda: matrix(2, 3)[[0, 5]], IndexRangeError, "index 5 is out of range for axis 0 of size 2"),
    "device": (lambda: zyx.Tensor([1.0], device="nothing:0"), NoDeviceError, "no device 'nothing:0'.*interpreter:0"),
    "device number": (lambda: matrix(2).to("interpreter:7"), NoDeviceError, "interpreter:7.*interpreter:0"),
    "loss": (lambda: zyx.mse_loss(matrix(2), matrix(2), "average"), ShapeError, "average"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_at_its_line_and_nothing_is_left(runtime, name):
    action, kind, text = MISTAKES[name]
    assert works(runtime)
    before = live(runtime)
    with pytest.raises(kind, match=f"(?s){text}") as caught:
        action()
    del caught
    assert works(runtime)
    assert live(runtime) == before


# ---- files


def header(entries: object, body: bytes = b"\0" * 16, length: int | None = None) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(begin: int, end: int, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


FILES = {
    "empty": b"",
    "cut in its length": b"\x10\0\0",
    "header longer than the file": header({"a": entry(0, 16, (4,))}, length=1 << 40),
    "header larger than any": header({"a": entry(0, 16, (4,))}, length=(1 << 64) - 1),
    "cut in its values": header({"a": entry(0, 16, (4,))}, b"\0" * 15),
    "no JSON": struct.pack("<Q", 4) + b"{{{{" + b"\0" * 16,
    "overlapping": header({"a": entry(0, 8), "b": entry(4, 12)}, b"\0" * 12),
    "beyond the end": header({"a": entry(0, 1 << 40, (1 << 38,))}),
    "backwards": header({"a": entry(8, 0)}),
    "of another size": header({"a": entry(0, 16, (3,))}),
    "negative": header({"a": entry(0, 16, (-4,))}),
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused_and_nothing_is_read(runtime, name, tmp_path):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(FILES[name])
    assert works(runtime)
    before = live(runtime)
    with pytest.raises((FormatError, TransferError), match=r"hostile\.safetensors"):
        io.load(path)
    assert works(runtime)
    assert live(runtime) == before


def test_a_good_file_is_read_after_a_hostile_one(runtime, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(FILES["overlapping"])
    with pytest.raises(FormatError):
        io.load(path)
    io.save(path, {"w": matrix(2, 2)})
    assert io.load(path)["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


# ---- settings and caches


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"devices": {"defualt": "c"}}', "defualt.*default"),
        ('{"cache": {"max_bytes": "many"}}', "cache.max_bytes"),
        ('{"devices": ', "config.json"),
    ],
)
def test_a_typo_in_the_configuration_names_file_and_key(content, text, tmp_path, monkeypatch, runtime):
    assert works(runtime)
    file = tmp_path / "zyx" / "config.json"
    file.parent.mkdir()
    file.write_text(content)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    broken = Runtime()  # reads nothing before it is used
    with use(broken), pytest.raises(SettingsError, match=f"(?s){text}") as caught:
        zyx.ones(2).numpy()
    broken.close()
    assert str(file) in str(caught.value)
    assert works(runtime)
    file.write_text("{}")
    mended = Runtime()
    with use(mended):
        assert zyx.ones(2).tolist() == [1.0, 1.0]
    mended.close()


def computes_with_cache(folder) -> list[float]:
    own = Runtime({"cache": {"enabled": True, "directory": str(folder)}})
    with use(own):
        found = (zyx.Tensor([1.0, 2.0, 3.0]) * 2.0).tolist()
    own.close()
    return found


def test_a_damaged_cache_is_no_obstacle(tmp_path):
    expected = [2.0, 4.0, 6.0]
    assert computes_with_cache(tmp_path) == expected
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        content = bytearray(path.read_bytes())
        for position in range(0, len(content), 7):
            content[position] ^= 0x55
        path.write_bytes(content)
    assert computes_with_cache(tmp_path) == expected
    assert computes_with_cache(tmp_path) == expected


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    assert computes_with_cache(blocked / "cache") == [2.0, 4.0, 6.0]
    locked = tmp_path / "locked"
    locked.mkdir()
    os.chmod(locked, 0o500)  # noqa: PTH101
    try:
        assert computes_with_cache(locked) == [2.0, 4.0, 6.0]
    finally:
        os.chmod(locked, 0o700)  # noqa: PTH101


# ---- memory


def test_more_memory_than_there_is_is_an_error_that_says_how_much(runtime):
    assert works(runtime)
    before = live(runtime)
    huge = zyx.zeros((1 << 22, 1 << 22), dtype="float64")  # takes nothing until it is computed
    with pytest.raises(AllocationError, match=str(8 << 44)):
        huge.realize()
    assert not huge.is_realized
    assert huge[5, 7].item() == 0.0
    del huge
    assert works(runtime)
    assert live(runtime) == before
