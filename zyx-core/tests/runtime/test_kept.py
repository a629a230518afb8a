"""Rendered kernels on disk: taken by whoever comes later with the same code and device, and by nobody else."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass, make_dataclass, replace
from enum import Enum

import msgspec
import numpy as np
import pytest

import zyx
from zyx.drivers.rendered import Rendered, identity
from zyx.kernel.parse import parse_kernel
from zyx.runtime import kernel_cache
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

from .conftest import LabBackend, LabDevice


class Writing(LabDevice):
    """Compiles printed kernels."""

    dialect = "printed"
    rendered_type = Rendered

    def compile(self, kernel):
        return self.build(self.render(kernel))

    def render(self, kernel):
        return Rendered.of(kernel, str(kernel))

    def build(self, rendered):
        return super().compile(parse_kernel(rendered.text))


class WritingBackend(LabBackend):
    def __init__(self, device=Writing):
        self.device = device

    def zyx_devices(self, pools):
        return [self.device("lab:0", pools["lab:0"])]

    zyx_devices.__dict__.update(LabBackend.zyx_devices.__dict__)


X = np.arange(35, dtype=np.float32).reshape(5, 7)


@pytest.fixture
def computed(tmp_path):
    """A function that computes sums in a runtime of its own, whose cache is this test's; it returns the compiler."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)

    def compute(device=Writing, **settings):
        settings = {"cache": {"directory": str(folder)}, **settings}
        runtime = open_runtime("lab:0", [WritingBackend(device)], settings)
        with use(runtime):
            assert (zyx.Tensor(X) * 2.0).sum(axis=1).tolist() == (X * 2).sum(1).tolist()
        compiler = runtime.compiler
        runtime.close()
        return compiler

    return compute


@pytest.fixture
def entries(tmp_path):
    """A function that returns the keys in the cache."""

    def read():
        with sqlite3.connect(tmp_path / "cache" / "kernels-1.sqlite") as connection:
            return sorted(key for (key,) in connection.execute("SELECT key FROM entries"))

    return read


def counts(compiler):
    return compiler.scheduled, compiler.compiled, compiler.restored


def test_a_second_process_takes_what_the_first_has_rendered(computed):
    assert counts(computed()) == (1, 1, 0)
    assert counts(computed()) == (0, 1, 1)


def test_each_kernel_is_kept_once_with_what_becomes_it(computed, entries):
    computed()
    device, others = entries()[0].split()[0], [key.split() for key in entries()]
    assert [(name, kind) for name, kind, _ in others] == [(device, "kernel"), (device, "origin")]


@pytest.mark.parametrize("what", ["code", "dialect", "record"])
def test_what_other_code_or_another_device_has_kept_is_not_taken(computed, monkeypatch, what):
    computed()
    if what == "code":
        monkeypatch.setattr(kernel_cache, "_code_of", lambda package: "changed")
    elif what == "dialect":
        monkeypatch.setattr(Writing, "dialect", "another")
    else:
        monkeypatch.setattr(Writing, "info", property(lambda self: replace(self._info, registers=99)))
    assert counts(computed()) == (1, 1, 0)
    assert counts(computed()) == (0, 1, 1)


def test_files_that_change_change_the_code(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    file = package / "inner" / "module.py"
    file.write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = kernel_cache._code_of.__wrapped__("some_package")
    assert kernel_cache._code_of.__wrapped__("some_package") == before
    file.write_text("x = 12\n")
    assert kernel_cache._code_of.__wrapped__("some_package") != before


ENCODED = msgspec.msgpack.encode


@pytest.mark.parametrize("kind", ["kernel", "origin"])
@pytest.mark.parametrize(
    "value",
    [
        b"", b"no message", b"\x80\x04K\x03.", ENCODED(3), ENCODED(["a", 1]), ENCODED({"name": "sum"}),
        ENCODED({"name": "", "text": "", "parameters": [{"scalar": "float31"}], "groups": [1] * 3, "threads": [1] * 3}),
    ],
    ids=["empty", "garbage", "pickle", "other class", "other fields", "fields missing", "no dtype"],
)  # fmt: skip
def test_entries_that_cannot_be_used_are_as_if_there_were_none(computed, entries, tmp_path, caplog, kind, value):
    from zyx.drivers.disk_cache import DiskCache

    computed()
    cache = DiskCache(tmp_path / "cache", kernel_cache.NAME, executable=True)
    cache.put(next(key for key in entries() if kind in key), value)
    cache.close()
    caplog.set_level(logging.INFO, "zyx")
    assert counts(computed()) == (1, 1, 0)
    (note,) = [record.getMessage() for record in caplog.records]
    assert note.startswith("lab:0: what is kept of a kernel cannot be read: ")
    assert counts(computed()) == (0, 1, 1)


class Letter(Enum):
    A = "a"


@dataclass(frozen=True, slots=True)
class Inner:
    dtype: zyx.DType | None
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Everything(Rendered):
    """A record with fields of all kinds that may be."""

    share: float
    code: bytes
    letter: Letter
    inner: list[Inner]
    types: dict[str, zyx.DType]
    is_small: bool = False


def test_records_come_back_as_they_were(computed, entries, tmp_path):
    inner = [Inner(zyx.bfloat16, ((0, 1), (2, 3))), Inner(None, ())]
    taken = []

    class Another(Writing):
        rendered_type = Everything

        def render(self, kernel):
            return Everything.of(kernel, str(kernel), 0.1, b"\0\xff", Letter.A, inner, {"x": zyx.bool_}, True)

        def build(self, rendered):
            taken.append(rendered)
            return super().build(rendered)

    assert counts(computed(Another)) == (1, 1, 0)
    assert counts(computed(Another)) == (0, 1, 1)
    made, found = taken
    assert found == made
    assert type(found) is Everything
    assert found.inner[0].dtype is zyx.bfloat16
    assert found.types["x"] is zyx.bool_
    with sqlite3.connect(tmp_path / "cache" / "kernels-1.sqlite") as connection:
        ((value,),) = connection.execute("SELECT value FROM entries WHERE key LIKE '%kernel%'")
    assert msgspec.msgpack.decode(value)["inner"] == [
        {"dtype": "bfloat16", "places": [[0, 1], [2, 3]]},
        {"dtype": None, "places": []},
    ]


@dataclass(frozen=True, slots=True)
class Lively(Rendered):
    what: object


@pytest.mark.parametrize(
    ("declared", "made", "why"),
    [
        (Rendered, lambda kernel: Lively.of(kernel, str(kernel), None), "Lively'>, not of"),
        (Lively, lambda kernel: Lively.of(kernel, str(kernel), X), "no plain value"),
        (Lively, lambda kernel: Lively.of(kernel, str(kernel), 1 << 70), "int"),
        (make_dataclass("Unknown", [("what", "Nothing")]), lambda kernel: Rendered.of(kernel, str(kernel)), "Nothing"),
    ],
    ids=["another class", "an array", "a large number", "a name that is not there"],
)
def test_a_record_that_cannot_be_written_is_built_and_said_once(computed, caplog, declared, made, why):
    another = type("Another", (Writing,), {"rendered_type": declared, "render": lambda self, kernel: made(kernel)})
    assert counts(computed(another)) == counts(computed(another)) == (1, 1, 0)
    notes = [record.getMessage() for record in caplog.records]
    assert len(notes) == 2  # of two processes
    assert all("lab:0: rendered kernels are not kept on disk" in note and why in note for note in notes), notes


def test_schedules_and_kernels_that_are_shown_are_made(computed, capsys):
    computed()
    assert counts(computed(debug="schedule")) == (1, 1, 0)
    assert "schedule sum_5" in capsys.readouterr().err
    assert counts(computed(debug="compile")) == (0, 1, 1)
    assert "restored sum_5 for lab:0" in capsys.readouterr().err


def test_a_device_that_renders_nothing_keeps_nothing(computed, tmp_path):
    assert counts(computed(LabDevice)) == counts(computed(LabDevice)) == (1, 1, 0)
    assert not (tmp_path / "cache" / "kernels-1.sqlite").exists()


def test_identities_are_of_contents_in_whatever_order():
    a, b = frozenset({zyx.float32, zyx.int8}), {"x": (1, 2.5), "y": None}
    assert identity(a, b) == identity(frozenset({zyx.int8, zyx.float32}), {"y": None, "x": (1, 2.5)})
    different = [identity(a, b), identity(a, {**b, "y": 0}), identity(a, {**b, "x": (1, 2.0)}), identity(b, a)]
    assert len({*different, identity(frozenset({zyx.int8}), b)}) == 5
