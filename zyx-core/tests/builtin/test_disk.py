"""Windows of files."""

import os
from pathlib import Path

import pytest

from zyx.backend import Event
from zyx.builtin.disk import DiskPool
from zyx.builtin.host import HostPool
from zyx.errors import (
    AllocationError,
    FileChangedError,
    InvalidBufferError,
    InvalidEventError,
    TransferError,
    UnsupportedError,
)

DATA = bytes(range(256)) * 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def pool() -> DiskPool:
    return DiskPool()


@pytest.mark.parametrize(("offset", "nbytes"), [(0, 1), (0, 1024), (1, 7), (1023, 1), (513, 300)])
def test_a_window_reads_exactly_its_bytes(pool: DiskPool, file: Path, offset: int, nbytes: int) -> None:
    target = bytearray(nbytes)
    pool.pool_to_host(pool.window(file, offset, nbytes), memoryview(target))
    assert target == DATA[offset : offset + nbytes]


def test_a_part_of_a_window_can_be_read(pool: DiskPool, file: Path) -> None:
    target = bytearray(5)
    pool.pool_to_host(pool.window(file, 10, 100), memoryview(target), offset=20)
    assert target == DATA[30:35]


def test_a_window_goes_straight_into_another_pool(pool: DiskPool, file: Path) -> None:
    host = HostPool(capacity_bytes=4096)
    target, ready = host.allocate(100)
    host.release_events([ready])
    host.sync_events([host.pool_to_pool(pool.window(file, 3, 100), target)])
    assert target.array.tobytes() == DATA[3:103]


def test_making_a_window_opens_and_reads_nothing(pool: DiskPool, file: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    windows = [pool.window(file, 0, 8) for _ in range(50)]
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    assert len(windows) == 50
    assert before == after


def test_a_window_stays_where_it_was_when_the_working_directory_changes(
    pool: DiskPool, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(file.parent)
    window = pool.window(file.name, 0, 4)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    target = bytearray(4)
    pool.pool_to_host(window, memoryview(target))
    assert target == DATA[:4]


def test_a_window_past_the_end_and_a_missing_file_are_refused_at_once(pool: DiskPool, file: Path) -> None:
    with pytest.raises(TransferError, match="has 1024 bytes, and the window ends at byte 1025"):
        pool.window(file, 1020, 5)
    with pytest.raises(TransferError, match=r"missing\.bin cannot be read: No such file"):
        pool.window(file.with_name("missing.bin"), 0, 1)
    for offset, nbytes in [(-1, 4), (0, 0)]:
        with pytest.raises(ValueError, match="no window of"):
            pool.window(file, offset, nbytes)


def test_a_file_that_was_cut_since_gives_an_error_with_file_and_counts(pool: DiskPool, file: Path) -> None:
    window = pool.window(file, 1000, 24)
    file.write_bytes(DATA[:1010])
    with pytest.raises(FileChangedError, match=r"weights\.bin was written to .* it had 1024 bytes; it has 1010"):
        pool.pool_to_host(window, memoryview(bytearray(24)))
    file.unlink()
    with pytest.raises(TransferError, match="cannot be read"):
        pool.pool_to_host(window, memoryview(bytearray(24)))


def test_a_part_of_a_window_is_a_window_and_none_reaches_out_of_it(pool: DiskPool, file: Path) -> None:
    window = pool.file(file).window(100, 50)
    target = bytearray(8)
    pool.pool_to_host(window.part(42, 8), memoryview(target))
    assert target == DATA[142:150]
    for start, nbytes in [(43, 8), (-1, 8), (0, 0)]:
        with pytest.raises(InvalidBufferError, match="no part of"):
            window.part(start, nbytes)


def test_a_folder_is_no_file(pool: DiskPool, tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="no plain file"):
        pool.file(tmp_path)


def test_nothing_can_be_allocated_or_written(pool: DiskPool, file: Path) -> None:
    assert pool.free_bytes == 0
    assert not pool.is_allocatable
    with pytest.raises(AllocationError, match="pool disk has no room for 8 bytes: 0 bytes are free"):
        pool.allocate(8)
    with pytest.raises(UnsupportedError, match="read-only"):
        pool.host_to_pool(memoryview(b"abcd"), pool.window(file, 0, 4))
    assert file.read_bytes() == DATA


def test_a_freed_window_is_refused(pool: DiskPool, file: Path) -> None:
    window = pool.window(file, 0, 4)
    pool.deallocate(window, [pool.completed()])
    with pytest.raises(InvalidBufferError, match="after it was freed"):
        pool.pool_to_host(window, memoryview(bytearray(4)))
    with pytest.raises(InvalidBufferError, match="after it was freed"):
        pool.deallocate(window)


def test_a_read_past_the_end_of_a_window_is_refused(pool: DiskPool, file: Path) -> None:
    with pytest.raises(InvalidBufferError, match="9 bytes reach past the end"):
        pool.pool_to_host(pool.window(file, 0, 8), memoryview(bytearray(4)), offset=5)


def test_an_event_of_another_pool_is_refused_and_used_up(pool: DiskPool, file: Path) -> None:
    window = pool.window(file, 0, 4)
    for use in (
        pool.sync_events,
        pool.release_events,
        lambda events: pool.deallocate(window, events),
        lambda events: pool.pool_to_host(window, memoryview(bytearray(4)), events),
    ):
        event = Event()
        with pytest.raises(InvalidEventError, match="of another pool: Event"):
            use([event])
        with pytest.raises(InvalidEventError):
            event.take()
    assert not window.freed
