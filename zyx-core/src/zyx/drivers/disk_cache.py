"""A cache in a file, shared by all processes of a user.

One SQLite database a cache, in the user's cache directory: ``<name>-1.sqlite`` with a table of key, value, seal and
time of last use. What is read is checked, since the database's own checks miss flipped bytes:

* plain values carry a SHA-256 over key and value;
* values that will be executed carry an HMAC with a key from a file that only the user can read (``key``, mode 0600), so
  that who can write to the database, but not read that file, cannot plant code. A value whose seal is wrong is dropped.

The folder has to be the user's alone, and the files in it plain ones of the user's (`zyx.drivers.cache_folder`).

Nothing that happens to the file reaches the caller. A damaged database is started anew; where the directory cannot be
written, or is open to others, or the disk is full, values are kept in memory and the logger ``zyx.cache`` says so,
once. While another process keeps the file locked, it is waited for once in a while, and values are kept in memory. The
journal is SQLite's rollback journal, which works on network drives; it is not synced, as losing the last entries costs
a compilation.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import sqlite3
import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from zyx.drivers.cache import MemoryCache
from zyx.drivers.cache_folder import check_file, own_folder, user_key

if TYPE_CHECKING:
    from pathlib import Path

logger: Final = logging.getLogger("zyx.cache")

#: Version of the table; part of the file's name, so that other versions are left alone.
_VERSION: Final = 1
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS entries (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, seal BLOB NOT NULL, bytes INTEGER NOT NULL, used INTEGER NOT NULL
    ) WITHOUT ROWID
"""
#: Seconds to wait for another process that is writing.
_TIMEOUT_S: Final = 1.0
#: Seconds for which the file is left alone when that was not enough.
_ASIDE_S: Final = 60.0
#: What SQLite writes beside a database; it would follow what others have put there.
_SIDE_FILES: Final = ("", "-journal", "-wal", "-shm")
#: Length of what is kept, found without reading it.
_BYTES: Final = "SELECT COALESCE(SUM(LENGTH(value)), 0) FROM entries"
#: Seconds after which a use is noted again; writing it at every read would cost more than reading.
_USE_GRAIN_S: Final = 3600
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache holds: number of entries, bytes of their values, and the file, None if there is none."""

    entries: int
    nbytes: int
    path: Path | None


class DiskCache:
    """A `ProgramCache` in a file; see the module.

    Args:
        directory: Where the file lies; made if needed, for the user alone. None keeps everything in memory.
        name: What is cached, such as ``programs``: part of the file's name.
        executable: Whether values are executed, and so are sealed with the user's key.
        max_bytes: Size of all values together; when it is passed, the least recently used ones go.
    """

    def __init__(self, directory: Path | None, name: str, *, executable: bool, max_bytes: int = 512 << 20) -> None:
        self.path: Final = None if directory is None else directory.absolute() / f"{name}-{_VERSION}.sqlite"
        self._executable = executable
        self._max_bytes = max_bytes
        self._memory = MemoryCache()
        self._connection: sqlite3.Connection | None = None
        self._key = b""
        self._bytes = 0
        self._seen_version = 0
        self._aside_until = 0.0
        self._can_write = True
        self._is_off = directory is None
        self._process = 0
        self._abandoned: list[sqlite3.Connection] = []
        self._lock = Lock()

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, checked, or None."""
        found = self._memory.get(key)
        if found is not None:
            return found
        with self._lock:
            for _ in range(2):  # again if the file turns out to be damaged
                try:
                    connection = self._open()
                    return None if connection is None else self._read(connection, key)
                except (sqlite3.Error, OSError) as error:
                    if not self._survives(error):
                        return None
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`: in the file, or in memory where that cannot be."""
        with self._lock:
            for _ in range(2):
                try:
                    connection = self._open()
                    if connection is None or not self._can_write:
                        break
                    self._write(connection, key, value)
                    return
                except (sqlite3.Error, OSError) as error:
                    if not self._survives(error):
                        break
        self._memory.put(key, value)

    def remove(self, key: str) -> None:
        """Forget the value of `key`."""
        with self._lock:
            self._memory.remove(key)
            try:
                connection = self._open()
                if connection is not None and self._can_write:
                    self._delete(connection, key)
            except (sqlite3.Error, OSError) as error:
                self._survives(error)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._memory = MemoryCache()
            try:
                connection = self._open()
                if connection is not None and self._can_write:
                    connection.execute("DELETE FROM entries")
                    connection.execute("VACUUM")
                    self._bytes = 0
            except (sqlite3.Error, OSError) as error:
                self._survives(error)

    def items(self) -> list[tuple[str, bytes]]:
        """Return all entries that are genuine, by key; their use is not noted."""
        found = dict(self._memory.items())
        with self._lock:
            for _ in range(2):
                try:
                    connection = self._open()
                    rows = [] if connection is None else connection.execute("SELECT key, value, seal FROM entries")
                    found = {
                        key: value
                        for key, value, seal in rows
                        if isinstance(value, bytes) and isinstance(seal, bytes) and self._is_genuine(key, value, seal)
                    } | found
                    break
                except (sqlite3.Error, OSError) as error:
                    if not self._survives(error):
                        break
        return sorted(found.items())

    def statistics(self) -> CacheStatistics:
        """Return what the file holds."""
        with self._lock:
            try:
                connection = self._open()
                if connection is not None:
                    query = "SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM entries"
                    entries, nbytes = connection.execute(query).fetchone()
                    return CacheStatistics(int(entries), int(nbytes), self.path)
            except (sqlite3.Error, OSError) as error:
                self._survives(error)
        return CacheStatistics(0, 0, None)

    def close(self) -> None:
        """Close the file. Later calls open it again."""
        with self._lock:
            self._close()

    def __del__(self) -> None:
        # From Python 3.13 on, sqlite3 complains of connections that nobody closed. One of a parent is not to be closed.
        connection = getattr(self, "_connection", None)
        if connection is not None and self._process == os.getpid():
            connection.close()

    # ---- the file

    def _open(self) -> sqlite3.Connection | None:
        """Return the connection, None if there is to be no file."""
        if self._is_off or self.path is None or time.monotonic() < self._aside_until:
            return None
        if self._connection is not None:
            if self._process == os.getpid():
                return self._connection
            self._abandoned.append(self._connection)  # of the parent of this process: not even to be closed here
            self._connection = None
        directory = own_folder(self.path.parent)
        if self._executable:
            self._key = user_key(directory)
        file = directory / self.path.name
        for suffix in _SIDE_FILES:
            check_file(directory / f"{self.path.name}{suffix}")
        try:
            self._connect(f"{file.as_uri()}?mode=rwc")
            self._can_write = os.access(file, os.W_OK) and os.access(directory, os.W_OK)
        except sqlite3.Error as error:
            if _code(error) in (*_DAMAGED, *_BUSY) or not file.exists():
                raise
            self._connect(f"{file.as_uri()}?mode=ro")  # a file that can only be read is still good for that
            self._can_write = False
        if not self._can_write:
            logger.warning("the cache %s can only be read; new results are kept in memory", self.path)
        return self._connection

    def _connect(self, uri: str) -> None:
        connection = sqlite3.connect(
            uri, uri=True, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            connection.execute("PRAGMA synchronous = OFF")
            if not uri.endswith("ro"):
                connection.execute(_TABLE)
            self._seen_version = -1
            self._count(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._process = connection, os.getpid()

    def _read(self, connection: sqlite3.Connection, key: str) -> bytes | None:
        row = connection.execute("SELECT value, seal, used FROM entries WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        value, seal, used = row
        if not isinstance(value, bytes) or not isinstance(seal, bytes) or not self._is_genuine(key, value, seal):
            logger.warning("an entry of the cache %s was damaged and is dropped", self.path)
            if self._can_write:
                self._delete(connection, key)
            return None
        now = int(time.time())
        if self._can_write and not now - _USE_GRAIN_S < used <= now:
            connection.execute("UPDATE entries SET used = ? WHERE key = ?", (now, key))
        return value

    def _write(self, connection: sqlite3.Connection, key: str, value: bytes) -> None:
        row = (key, value, self._seal(key, value), len(value), int(time.time()))
        self._count(connection)
        replaced = _size_of(connection, key)
        connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", row)
        self._bytes += len(value) - replaced
        if self._bytes > self._max_bytes:
            self._evict(connection)

    def _delete(self, connection: sqlite3.Connection, key: str) -> None:
        removed = _size_of(connection, key)
        connection.execute("DELETE FROM entries WHERE key = ?", (key,))
        self._bytes -= removed

    def _count(self, connection: sqlite3.Connection) -> None:
        """Bring `_bytes` up to date with what others have written since it was counted, if they have."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._seen_version:
            self._seen_version = version
            self._bytes = int(connection.execute(_BYTES).fetchone()[0])

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Drop the least recently used entries, until a fifth of the room is free."""
        kept = 0
        doomed = []
        for key, nbytes in connection.execute("SELECT key, LENGTH(value) FROM entries ORDER BY used DESC, key"):
            if kept + nbytes > self._max_bytes * 4 // 5:
                doomed.append((key,))
            else:
                kept += nbytes
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("DELETE FROM entries WHERE key = ?", doomed)
        finally:
            connection.execute("COMMIT")
        self._bytes = kept

    def _seal(self, key: str, value: bytes) -> bytes:
        message = len(key).to_bytes(8, "little") + key.encode() + value
        if self._executable:
            return hmac.digest(self._key, message, "sha256")
        return hashlib.sha256(message).digest()

    def _is_genuine(self, key: str, value: bytes, seal: bytes) -> bool:
        return hmac.compare_digest(self._seal(key, value), seal)

    def _survives(self, error: Exception) -> bool:
        """Deal with what went wrong; return whether to try again."""
        code = _code(error)
        if code in _BUSY:
            self._aside_until = time.monotonic() + _ASIDE_S
            logger.info("the cache %s is locked by another process; results are kept in memory for a while", self.path)
            return False
        self._close()
        if code in _DAMAGED and self.path is not None:
            logger.warning("the cache %s is damaged and is started anew: %s", self.path, error)
            try:
                self.path.unlink(missing_ok=True)
            except OSError as reason:
                error = reason
            else:
                return True
        self._is_off = True
        logger.warning("the cache %s cannot be used, results are kept in memory: %s", self.path, error)
        return False

    def _close(self) -> None:
        if self._connection is not None:
            if self._process == os.getpid():
                self._connection.close()
            else:
                self._abandoned.append(self._connection)
            self._connection = None


def _size_of(connection: sqlite3.Connection, key: str) -> int:
    row = connection.execute("SELECT LENGTH(value) FROM entries WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _code(error: Exception) -> int:
    """Return SQLite's primary code of an error, 0 if it is none of SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
