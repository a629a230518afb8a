"""``zyx cache``: what is kept on disk is shown as it is, and goes when it is told to."""

import os
import re
import sqlite3
from pathlib import Path

import pytest

from zyx.cli.main import main
from zyx.drivers import cache_files
from zyx.drivers.disk_cache import DiskCache

is_root = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZYX_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "kept"


def fill(folder: Path, name: str, entries: int, nbytes: int = 1000) -> None:
    cache = DiskCache(folder, name, executable=True)
    for number in range(entries):
        cache.put(f"key {number}", bytes(nbytes))
    cache.close()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["cache", *arguments])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_a_cache_that_was_never_used_is_no_trouble(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys)
    assert status == 0
    assert text.startswith(f"{folder}: 0 B;")
    assert "there is no cache yet" in text
    assert run(capsys, "size") == (0, "0\n")
    assert run(capsys, "clear") == (0, f"there is nothing in {folder}\n")
    assert not folder.exists()


def test_the_list_says_what_is_in_each_cache(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder, "c", 3)
    fill(folder, "somebodys", 1)
    status, text = run(capsys, "list")
    lines = text.splitlines()
    assert status == 0
    assert lines[0] == f"{folder}: {size_of(folder)}; what was not used for longest goes when a cache has 1 GiB"
    assert lines[2].split() == ["CACHE", "CONTENT", "ENTRIES", "SIZE", "USED"]
    assert re.fullmatch(r"c +compiled programs of zyx-backend-c +3 +\d+ KiB +\d{4}-\d\d-\d\d", lines[3])
    assert re.fullmatch(r"somebodys +of a backend of that name +1 +\d+ KiB +\d{4}-\d\d-\d\d", lines[4])
    assert len(lines) == 5
    assert "somebodys" not in run(capsys, "list", "c")[1]


def size_of(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.glob('*.sqlite')) / 1024:.3g} KiB"


def test_size_is_in_bytes_and_path_is_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder, "c", 3)
    fill(folder, "d", 3)
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.sqlite")}
    assert run(capsys, "size") == (0, f"{sum(sizes.values())}\n")
    assert run(capsys, "size", "d") == (0, f"{sizes['d-1.sqlite']}\n")
    assert run(capsys, "path") == (0, f"{folder}\n")


def test_clearing_removes_the_entries_of_the_caches_that_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, "c", 300)
    fill(folder, "d", 2)
    before = (folder / "c-1.sqlite").stat().st_size
    status, text = run(capsys, "clear", "c")
    assert status == 0
    assert re.fullmatch(r"c: removed 300 entries, \d\.\d+ MiB\n", text)
    assert (folder / "c-1.sqlite").stat().st_size < before // 10
    assert [cache.entries for cache in cache_files.cache_files(folder)] == [0, 2]
    assert "never" in run(capsys, "list", "c")[1]
    assert run(capsys, "clear")[1].startswith("c: removed 0 entries")
    assert [cache.entries for cache in cache_files.cache_files(folder)] == [0, 0]


def test_a_process_that_has_the_cache_open_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = DiskCache(folder, "c", executable=True)
    cache.put("a", b"one")
    assert run(capsys, "clear")[0] == 0
    assert cache.get("a") is None
    cache.put("b", b"two")
    assert cache.get("b") == b"two"
    cache.close()
    assert run(capsys)[1].splitlines()[3].split()[5] == "1"


def test_a_damaged_cache_is_shown_and_can_be_cleared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / "c-1.sqlite").write_bytes(b"this is no database " * 100)
    status, text = run(capsys)
    assert status == 0
    assert "cannot be read: file is not a database" in text
    assert run(capsys, "clear") == (0, "c: removed a damaged file, 1.95 KiB\n")
    assert not list(folder.iterdir())


def test_files_of_other_kinds_are_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder, "c", 1)
    for name in ("notes.txt", "data.sqlite", "key.bak"):
        (folder / name).write_text("mine")
    assert "c: removed 1 entry" in run(capsys, "clear")[1]
    assert {path.name for path in folder.iterdir()} == {"c-1.sqlite", "key", "notes.txt", "data.sqlite", "key.bak"}


def test_a_cache_in_use_is_not_cleared_and_that_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_files, "_TIMEOUT_S", 0.05)
    fill(folder, "c", 2)
    other = sqlite3.connect(folder / "c-1.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        status, text = run(capsys, "clear")
        assert (status, "is in use by another process; try again" in text) == (1, True)
        assert "cannot be read: database is locked" in run(capsys)[1]
    finally:
        other.close()
    assert cache_files.cache_files(folder)[0].entries == 2


@pytest.mark.skipif(is_root, reason="root may write anywhere")
def test_a_cache_that_cannot_be_changed_is_not_cleared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder, "c", 2)
    (folder / "c-1.sqlite").chmod(0o400)
    status, text = run(capsys, "clear")
    assert status == 1
    assert "cannot be changed" in text


def test_a_name_that_is_not_there_is_an_error_that_lists_those_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "clear", "cuda") == (1, f"zyx cache: no cache cuda in {folder}; there is none\n")
    fill(folder, "c", 1)
    fill(folder, "d", 1)
    assert run(capsys, "clear", "cuda") == (1, f"zyx cache: no cache cuda in {folder}; there are c, d\n")


def test_what_was_kept_can_be_cleared_after_the_cache_is_switched_off(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, "c", 1)
    monkeypatch.setenv("ZYX_CACHE", "0")
    assert "switched off, so nothing is read or written" in run(capsys)[1]
    assert "c: removed 1 entry" in run(capsys, "clear")[1]
