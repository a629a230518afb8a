"""The cache on disk: it remembers, it checks, it never raises."""

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx.drivers.cache import MemoryCache, open_programs
from zyx.drivers.disk_cache import DiskCache

is_root = hasattr(os, "geteuid") and os.geteuid() == 0
BOTH = pytest.mark.parametrize("executable", [True, False])


def open_cache(folder: Path | None, *, executable: bool = True, max_bytes: int = 1 << 20) -> DiskCache:
    return DiskCache(folder, "test", executable=executable, max_bytes=max_bytes)


@BOTH
def test_what_was_put_is_there_for_the_next_process(tmp_path: Path, executable: bool) -> None:
    first = open_cache(tmp_path / "deep" / "folder", executable=executable)
    first.put("a", b"one")
    first.put("b", b"")
    first.put("a", b"two")
    first.close()
    second = open_cache(tmp_path / "deep" / "folder", executable=executable)
    assert (second.get("a"), second.get("b"), second.get("c")) == (b"two", b"", None)
    assert (second.statistics().entries, second.statistics().nbytes) == (2, 3)


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    open_cache(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_nobody_holds_closes_its_file(tmp_path: Path) -> None:
    cache = open_cache(tmp_path / "folder")
    cache.put("a", b"one")
    connection = cache._connection
    assert connection is not None
    del cache
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_the_folder_and_the_key_are_the_users_alone(tmp_path: Path) -> None:
    cache = open_cache(tmp_path / "folder")
    cache.put("a", b"one")
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    key = tmp_path / "folder" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32
    assert not list((tmp_path / "folder").glob("key.*"))


@BOTH
def test_a_value_with_a_flipped_bit_is_dropped(
    tmp_path: Path, executable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path, executable=executable)
    cache.put("a", b"machine code")
    cache.close()
    with sqlite3.connect(cache.path) as database:
        database.execute("UPDATE entries SET value = ?", (b"machine cope",))
    database.close()
    assert cache.get("a") is None
    assert "damaged" in caplog.text
    assert cache.statistics().entries == 0


@BOTH
def test_a_value_moved_to_another_key_is_dropped(tmp_path: Path, executable: bool) -> None:
    cache = open_cache(tmp_path, executable=executable)
    cache.put("a", b"machine code")
    cache.close()
    with sqlite3.connect(cache.path) as database:
        database.execute("UPDATE entries SET key = 'b'")
    database.close()
    assert cache.get("b") is None


def test_code_sealed_with_another_key_is_not_returned(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    cache.put("a", b"machine code")
    cache.close()
    (tmp_path / "key").write_bytes(bytes(32))
    assert cache.get("a") is None


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_cache(tmp_path).put("a", b"machine code")
    (tmp_path / "key").chmod(0o644)
    cache = open_cache(tmp_path)
    assert cache.get("a") is None
    assert "open to other users" in caplog.text
    cache.put("a", b"other code")
    assert cache.get("a") == b"other code"  # in memory


def test_a_file_that_is_no_database_is_started_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = open_cache(tmp_path)
    cache.put("a", b"one")
    cache.close()
    cache.path.write_bytes(b"this is no database, but it is long enough to be taken for one" * 100)
    assert cache.get("a") is None
    assert "started anew" in caplog.text
    cache.put("a", b"two")
    cache.close()
    assert open_cache(tmp_path).get("a") == b"two"


def test_a_database_damaged_in_the_middle_does_no_harm(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    for number in range(200):
        cache.put(str(number), bytes([number]) * 1000)
    cache.close()
    image = bytearray(cache.path.read_bytes())
    for place in range(4096, len(image), 997):
        image[place] ^= 0xFF
    cache.path.write_bytes(bytes(image))
    for number in range(200):
        assert cache.get(str(number)) in (None, bytes([number]) * 1000)
        cache.put(str(number), b"new")
    assert cache.get("7") == b"new"


def test_a_folder_that_cannot_be_made_means_memory_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = open_cache(tmp_path / "file" / "folder")
    for number in range(3):
        cache.put(str(number), b"value")
        assert cache.get(str(number)) == b"value"
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    assert "kept in memory" in caplog.text


@pytest.mark.skipif(is_root, reason="root may write anywhere")
def test_a_folder_that_can_only_be_read_still_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_read_only(tmp_path, caplog)


def test_a_folder_that_can_only_be_read_still_serves_when_permissions_are_simulated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    check_read_only(tmp_path, caplog)


def check_read_only(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = open_cache(folder)
    writer.path.parent.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", lambda *_: True)
        writer.put("a", b"one")
        writer.close()
    folder.chmod(0o500)
    try:
        reader = open_cache(folder)
        assert reader.get("a") == b"one"
        reader.put("b", b"two")
        assert reader.get("b") == b"two"
        assert "can only be read" in caplog.text
        assert reader.statistics().entries == 1
    finally:
        folder.chmod(0o700)


def test_a_full_disk_means_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = open_cache(tmp_path)
    cache.put("a", b"one")
    connection = cache._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    cache.put("b", bytes(100_000))
    assert cache.get("b") == bytes(100_000)
    assert "kept in memory" in caplog.text
    cache.put("c", b"three")
    assert cache.get("c") == b"three"


def test_the_least_recently_used_values_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000
    monkeypatch.setattr("zyx.drivers.disk_cache.time.time", lambda: now)
    cache = open_cache(tmp_path, max_bytes=10_000)
    for number in range(9):
        now += 10_000
        cache.put(str(number), bytes(1000))
    now += 10_000
    assert cache.get("0") is not None  # used again
    now += 10_000
    cache.put("9", bytes(1000))
    cache.put("10", bytes(1000))
    assert cache.get("10") is not None
    assert cache.get("0") is not None
    assert cache.get("1") is None
    assert cache.statistics().nbytes <= 10_000


def test_entries_can_be_removed_and_cleared(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    for key in "abc":
        cache.put(key, b"value")
    cache.remove("a")
    assert cache.get("a") is None
    cache.clear()
    assert cache.get("b") is None
    assert cache.statistics().entries == 0


def test_without_a_folder_everything_is_in_memory() -> None:
    cache = open_cache(None)
    cache.put("a", b"one")
    assert cache.get("a") == b"one"
    assert cache.statistics().path is None
    cache.remove("a")
    assert cache.get("a") is None
    cache.put("b", b"two")
    cache.clear()
    assert cache.get("b") is None


def test_threads_may_share_a_cache(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    failures: list[object] = []

    def work(number: int) -> None:
        for i in range(20):
            cache.put(f"{number}-{i}", bytes([number, i]))
            if cache.get(f"{number}-{i}") != bytes([number, i]):
                failures.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.statistics().entries == 80


def test_several_processes_may_write_at_once(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from zyx.drivers.disk_cache import DiskCache
import sys
cache = DiskCache(Path({str(tmp_path)!r}), "test", executable=True)
for i in range(30):
    cache.put(f"{{sys.argv[1]}}-{{i}}", b"x" * 500)
    assert cache.get(f"{{sys.argv[1]}}-{{i}}") == b"x" * 500
"""
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(number)], stderr=subprocess.PIPE) for number in range(3)
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, b"")
    assert open_cache(tmp_path).statistics().entries == 90


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_opens_the_file_itself(tmp_path: Path) -> None:
    script = f"""
import os
from pathlib import Path
from zyx.drivers.disk_cache import DiskCache
cache = DiskCache(Path({str(tmp_path)!r}), "test", executable=True)
cache.put("a", b"one")
child = os.fork()
cache.put(str(os.getpid()), b"mine")
ok = cache.get("a") == b"one"
if child == 0:
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
assert ok and status == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert open_cache(tmp_path).statistics().entries == 3


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.binary(max_size=40)), max_size=30))
def test_a_cache_in_memory_keeps_what_fits_newest_first(writes: list[tuple[str, bytes]]) -> None:
    cache = MemoryCache(max_bytes=100)
    model: dict[str, bytes] = {}
    for key, value in writes:
        cache.put(key, value)
        model.pop(key, None)
        model[key] = value
        while sum(map(len, model.values())) > 100:
            del model[next(iter(model))]
    for key in "abcdef":
        assert cache.get(key) == model.get(key)


def test_programs_of_a_backend_are_kept_where_something_may_be_kept(tmp_path: Path):
    assert open_programs(None, "acme", 1 << 20) is None
    cache = open_programs(tmp_path, "acme", 1 << 20)
    assert cache is not None
    cache.put("add", b"image")
    again = open_programs(tmp_path, "acme", 1 << 20)
    assert again is not None
    assert again.get("add") == b"image"
