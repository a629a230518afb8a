"""Files as memory: buffers are read-only windows of files, and no byte is read before it is asked for."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from zyx.backend.event import Event
from zyx.backend.pool import MemoryPool, PoolBuffer
from zyx.errors import (
    AllocationError,
    FileChangedError,
    InvalidBufferError,
    InvalidEventError,
    TransferError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Version:
    """What tells a file from the one that was at its path before; who writes to it changes the last two.

    Attributes:
        device: Number of the file system.
        inode: Number of the file there.
        nbytes: Size.
        modified_ns: When it was written to last, as exactly as the file system notes it.
    """

    device: int
    inode: int
    nbytes: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return it, out of what the system says of a file."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class DiskBuffer(PoolBuffer):
    """`nbytes` bytes of a version of the file `path` from byte `offset` on."""

    __slots__ = ("offset", "path", "version")

    def __init__(self, pool: MemoryPool, path: Path, version: Version, offset: int, nbytes: int) -> None:
        super().__init__(pool, nbytes)
        self.path = path
        self.version = version
        self.offset = offset

    def part(self, start: int, nbytes: int) -> DiskBuffer:
        """Return the window of `nbytes` of these bytes, from number `start` on.

        Raises:
            InvalidBufferError: There are not as many.
        """
        if start < 0 or nbytes <= 0 or start + nbytes > self.nbytes:
            raise InvalidBufferError(f"no part of {nbytes} bytes at byte {start} of a window of {self.nbytes} bytes")
        return DiskBuffer(self.pool, self.path, self.version, self.offset + start, nbytes)


class DiskFile:
    """A file as it was when it was looked at, once for all windows of it.

    Attributes:
        path: Where it is; absolute, as a later change of the working directory must not move it.
        nbytes: Its size.
        version: What it was; windows are read of no other.
    """

    __slots__ = ("nbytes", "path", "pool", "version")

    def __init__(self, pool: MemoryPool, path: Path, version: Version) -> None:
        self.pool = pool
        self.path = path
        self.nbytes = version.nbytes
        self.version = version

    def window(self, offset: int, nbytes: int) -> DiskBuffer:
        """Return the `nbytes` bytes of the file from byte `offset` on, without reading them.

        Raises:
            ValueError: `offset` is negative, or `nbytes` is not positive.
            TransferError: The file ends before the window does.
        """
        if offset < 0 or nbytes <= 0:
            raise ValueError(
                f"no window of {nbytes} bytes at byte {offset} of {self.path}: it has at least one byte, from 0 on"
            )
        if offset + nbytes > self.nbytes:
            raise TransferError(
                f"pool {self.pool.name}: {self.path} has {self.nbytes} bytes, and the window ends at byte "
                f"{offset + nbytes}"
            )
        return DiskBuffer(self.pool, self.path, self.version, offset, nbytes)


class DiskEvent(Event):
    """Work on a file: complete when it was made."""

    __slots__ = ()


class DiskPool(MemoryPool):
    """Windows of files. They are made by `window` or `file`, not allocated, and are never written to.

    A file is opened for each read, so a window costs no open file, and reads from several threads do not disturb each
    other. Before and after a read the file has to be what it was when it was looked at, so that values of two versions
    never come together, be it replaced or written over.
    """

    is_allocatable: ClassVar[bool] = False

    def __init__(self, name: str = "disk") -> None:
        super().__init__(name)

    @property
    def free_bytes(self) -> int:
        return 0

    def window(self, path: str | os.PathLike[str], offset: int, nbytes: int) -> DiskBuffer:
        """Return the `nbytes` bytes of the file from byte `offset` on, without reading them.

        Raises:
            ValueError: `offset` is negative, or `nbytes` is not positive.
            TransferError: There is no such file, or it ends before the window does.
        """
        return self.file(path).window(offset, nbytes)

    def file(self, path: str | os.PathLike[str]) -> DiskFile:
        """Look at a file, of which there may then be many windows.

        Raises:
            TransferError: There is no such file, or it is a folder, a pipe or the like.
        """
        absolute = Path(path).absolute()
        try:
            status = absolute.stat()
        except OSError as error:
            raise TransferError(f"pool {self.name}: {path} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(status.st_mode):
            raise TransferError(f"pool {self.name}: {path} cannot be read: it is no plain file")
        return DiskFile(self, absolute, Version.of(status))

    def allocate(self, nbytes: int) -> tuple[PoolBuffer, Event]:
        raise AllocationError(
            f"pool {self.name} has no room for {nbytes} bytes: 0 bytes are free, since it holds windows of files only"
        )

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        self._take(events)
        self.check_buffer(buffer)
        buffer.freed = True

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        self._take(events)
        self.check_buffer(target, source.nbytes)
        raise UnsupportedError(f"pool {self.name} is read-only: {source.nbytes} bytes were to be written to a file")

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        """Read exactly ``len(target)`` bytes of the file.

        Raises:
            InvalidBufferError: `source` is not of this pool, freed, or ends before ``offset + len(target)``.
            FileChangedError: It is another file than it was, or was written to.
            TransferError: It is gone, or cannot be read.
        """
        self._take(events)
        if offset < 0:
            raise InvalidBufferError(f"a read of pool {self.name} starts at byte {offset}")
        self.check_buffer(source, offset + target.nbytes)
        assert isinstance(source, DiskBuffer)  # buffers of this pool are made by `window` alone
        start, done = source.offset + offset, 0
        view = target.cast("B")
        try:
            with source.path.open("rb", buffering=0) as file:
                self._check(source, file.fileno())
                file.seek(start)
                while done < view.nbytes:
                    count = file.readinto(view[done:])
                    if not count:
                        break
                    done += count
                self._check(source, file.fileno())
        except FileChangedError:
            raise
        except OSError as error:
            raise TransferError(f"pool {self.name}: {source.path} cannot be read: {error.strerror}") from error
        if done < view.nbytes:
            raise TransferError(
                f"pool {self.name}: {source.path} ended after {done} of the {view.nbytes} bytes from byte {start} on"
            )

    def _check(self, source: DiskBuffer, descriptor: int) -> None:
        now = Version.of(os.fstat(descriptor))
        if now != source.version:
            what = "written to" if now.inode == source.version.inode else "replaced"
            raise FileChangedError(
                f"pool {self.name}: {source.path} was {what} since it was loaded, when it had {source.version.nbytes} "
                f"bytes; it has {now.nbytes}. Load it anew, or read the values before it is written"
            )

    def completed(self) -> Event:
        return DiskEvent()

    def sync_events(self, events: Sequence[Event]) -> None:
        self._take(events)

    def release_events(self, events: Sequence[Event]) -> None:
        self._take(events)

    def close(self) -> None:
        pass  # no file stays open

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            event.take()
        for event in events:
            if not isinstance(event, DiskEvent):
                raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(event).__name__}")
