"""Rendered kernels on disk: taken by whoever comes later with the same code and device, and by nobody else."""

from __future__ import annotations

import pickle
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

import zyx
from zyx.backend.rendered import Rendered, identity
from zyx.ir.parser import parse_kernel
from zyx.runtime import kept
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

from .conftest import LabBackend, LabDevice


class Writing(LabDevice):
    """Compiles printed kernels."""

    dialect = "printed"

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
        monkeypatch.setattr(kept, "_code_of", lambda package: "changed")
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
    before = kept._code_of.__wrapped__("some_package")
    assert kept._code_of.__wrapped__("some_package") == before
    file.write_text("x = 12\n")
    assert kept._code_of.__wrapped__("some_package") != before


@pytest.mark.parametrize("kind", ["kernel", "origin"])
@pytest.mark.parametrize("value", [b"", b"no pickle", pickle.dumps(3)], ids=["empty", "garbage", "other class"])
def test_entries_that_cannot_be_used_are_as_if_there_were_none(computed, entries, tmp_path, kind, value):
    from zyx.backend.disk_cache import DiskCache

    computed()
    cache = DiskCache(tmp_path / "cache", kept.NAME, executable=True)
    cache.put(next(key for key in entries() if kind in key), value)
    cache.close()
    assert computed().restored == 0


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
