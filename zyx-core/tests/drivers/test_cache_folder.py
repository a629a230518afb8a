"""Whose the folder of the cache is, and what lies in it: links, pipes and files of others are not followed or used."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest

from zyx.cli.main import main
from zyx.drivers import disk_cache
from zyx.drivers.cache_folder import check_file, fault_of_cache, fault_of_folder, user_key
from zyx.drivers.disk_cache import DiskCache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners of this kind on this system")
OTHER = "zyx.drivers.cache_folder.os.geteuid"


def filled(folder: Path) -> None:
    cache = DiskCache(folder, "c", executable=True)
    cache.put("a", b"one")
    cache.close()


def is_off(folder: Path, caplog: pytest.LogCaptureFixture, reason: str) -> bool:
    """Whether a cache keeps things in memory, and says so once with a reason."""
    cache = DiskCache(folder, "c", executable=True)
    assert cache.get("a") is None
    cache.put("b", b"two")
    assert cache.get("b") == b"two"
    assert cache.statistics().path is None
    warnings = [record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage()]
    assert len(warnings) == 1
    assert reason in warnings[0]
    return True


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path / "kept")
    user = os.geteuid()
    monkeypatch.setattr(OTHER, lambda: user + 1)
    assert is_off(tmp_path / "kept", caplog, f"{tmp_path / 'kept'} belongs to user {user}, not to user {user + 1}")


@pytest.mark.parametrize("which", ["kept", "."], ids=["the folder", "the one around it"])
def test_a_folder_that_everybody_may_write_to_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    filled(tmp_path / "around" / "kept")
    around = tmp_path / "around"
    (around / which).chmod(0o777)
    assert is_off(around / "kept", caplog, f"every user may write to {around / which}")
    assert "chmod o-w" in fault_of_cache(around / "kept")
    (around / which).chmod(0o1777)  # the mark of /tmp: others cannot replace what is ours there
    assert bool(fault_of_folder(around / "kept")) is (which == "kept")


def test_a_system_without_owners_and_such_flags_has_caches_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("zyx.drivers.cache_folder._user", lambda: None)
    monkeypatch.setattr("zyx.drivers.cache_folder._SAFELY", 0)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o777)
    filled(tmp_path / "kept")
    assert DiskCache(tmp_path / "kept", "c", executable=True).get("a") == b"one"
    assert fault_of_cache(tmp_path / "kept") == ""
    (tmp_path / "kept" / "key").unlink()
    make_link(tmp_path / "kept" / "key")
    assert is_off(tmp_path / "kept", caplog, "is a link; remove")


def test_a_folder_that_is_not_there_is_judged_by_those_around_it(tmp_path: Path) -> None:
    assert fault_of_folder(tmp_path / "a" / "b") == ""
    tmp_path.chmod(0o777)
    assert "every user may write" in fault_of_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_link_of_the_users_to_a_folder_of_the_users_is_followed(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "kept").symlink_to(tmp_path / "large disk")
    filled(tmp_path / "kept")
    assert DiskCache(tmp_path / "large disk", "c", executable=True).get("a") == b"one"


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "elsewhere")


def make_dangling(path: Path) -> None:
    path.symlink_to(path.parent.parent / "not there")


@pytest.mark.parametrize("make", [make_pipe, make_link, make_dangling])
@pytest.mark.parametrize("name", ["key", "c-1.sqlite", "c-1.sqlite-journal", "c-1.sqlite-wal", "c-1.sqlite-shm"])
def test_links_and_pipes_are_neither_followed_nor_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, make: Callable[[Path], None]
) -> None:
    filled(tmp_path / "kept")
    elsewhere = tmp_path / "elsewhere"
    if name == "c-1.sqlite":
        with sqlite3.connect(elsewhere) as mine:
            mine.execute("CREATE TABLE t (x)")
        mine.close()
    else:
        elsewhere.write_bytes(b"k" * 32)
        elsewhere.chmod(0o600)
    before = elsewhere.read_bytes()
    path = tmp_path / "kept" / name
    path.unlink(missing_ok=True)
    make(path)
    assert is_off(tmp_path / "kept", caplog, f"; remove {path}")
    assert elsewhere.read_bytes() == before
    assert not (tmp_path / "not there").exists()
    assert fault_of_cache(tmp_path / "kept").endswith(f"; remove {path}")


def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    user = os.geteuid()
    monkeypatch.setattr(OTHER, lambda: user + 1)
    for name in ("key", "c-1.sqlite"):
        with pytest.raises(PermissionError, match=f"belongs to user {user}"):
            check_file(tmp_path / name)
    with pytest.raises(PermissionError, match=f"belongs to user {user}"):
        user_key(tmp_path)


def test_a_key_that_is_swapped_all_the_time_is_the_users_own_or_none(tmp_path: Path) -> None:
    own = user_key(tmp_path)
    (tmp_path / "planted").write_bytes(b"known to somebody else, 32 bytes")
    (tmp_path / "planted").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "planted")
    (tmp_path / "own").write_bytes(own)
    (tmp_path / "own").chmod(0o600)
    done = threading.Event()

    def swap() -> None:
        turn = 0
        while not done.is_set():
            os.link(tmp_path / ("link", "own")[turn % 2], tmp_path / "next", follow_symlinks=False)
            (tmp_path / "next").replace(tmp_path / "key")
            (tmp_path / "next").unlink(missing_ok=True)  # where both were one file already
            turn += 1

    thread = threading.Thread(target=swap)
    thread.start()
    found: list[bytes | None] = []
    until = time.monotonic() + 0.3
    while time.monotonic() < until or len(found) < 50:
        try:
            found.append(user_key(tmp_path))
        except OSError:
            found.append(None)
    done.set()
    thread.join()
    assert set(found) <= {own, None}
    assert own in found


def locked(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    return other


def test_a_lock_that_is_kept_is_waited_for_once_and_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(disk_cache, "_TIMEOUT_S", 0.2)
    filled(tmp_path)
    caplog.set_level("INFO", "zyx.cache")
    now = 100.0
    monkeypatch.setattr("zyx.drivers.disk_cache.time.monotonic", lambda: now)
    for cache in (DiskCache(tmp_path, "c", executable=True), opened := DiskCache(tmp_path, "c", executable=True)):
        if cache is opened:
            assert cache.get("a") == b"one"
        other = locked(tmp_path / "c-1.sqlite")
        started = time.perf_counter()
        for number in range(20):
            cache.put(f"k{number}", b"value")
            assert cache.get(f"k{number}") == b"value"
            assert cache.get(f"n{number}") is None
        assert time.perf_counter() - started < 0.2 * 5  # one wait, where there were sixty
        other.execute("ROLLBACK")
        other.close()
        assert cache.get("a") is None  # for a while it is not even asked for
        now += 61
        assert cache.get("a") == b"one"
    assert caplog.text.count("is locked by another process") == 2


def test_bytes_are_counted_as_they_are(tmp_path: Path) -> None:
    first, second = (DiskCache(tmp_path, "c", executable=True, max_bytes=10_000) for _ in range(2))
    for _ in range(30):
        first.put("same", bytes(1000))
    assert first._bytes == 1000
    first.put("b", bytes(3000))
    first.remove("b")
    first.remove("not there")
    assert first._bytes == 1000
    assert second.get("same") == bytes(1000)
    for number in range(8):
        first.put(f"first {number}", bytes(1000))
    assert first.statistics().entries == 9
    second.put("second", bytes(3000))  # which has to know of the first one's
    assert second.statistics().nbytes <= 10_000
    first.put("small", bytes(10))
    assert first._bytes == first.statistics().nbytes


def test_the_command_line_and_the_doctor_say_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZYX_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ZYX_BACKENDS", "interpreter")
    filled(tmp_path / "kept")
    path = tmp_path / "kept" / "c-1.sqlite"
    path.unlink()
    make_pipe(path)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert f"WRONG  cache: nothing is kept: {path} is no file" in text
    assert f"next step: remove {path}" in text
    assert main(["cache", "list"]) == 0
    assert f"cannot be read: {path} is no file" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert not path.exists()
