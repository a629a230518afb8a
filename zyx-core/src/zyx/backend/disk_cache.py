"""A cache in a file, shared by all processes of a user.

One SQLite database a cache, in the user's cache directory: ``<name>-1.sqlite`` with a table of key, value, seal and
time of last use. What is read is checked, since the database's own checks miss flipped bytes:

* plain values carry a SHA-256 over key and value;
* values that will be executed carry an HMAC with a key from a file that only the user can read (``key``, mode 0600), so
  that who can write to the database, but not read that file, cannot plant code. A value whose seal is wrong is dropped.

Nothing that happens to the file reaches the caller. A damaged database is started anew; where the directory cannot be
written, or the disk is full, values are kept in memory and the logger ``zyx.cache`` says so, once. The journal is
SQLite's rollback journal, which works on network drives; it is not synced, as losing the last entries costs a
compilation.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import sqlite3
import stat
import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from zyx.backend.cache import MemoryCache

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
_TIMEOUT_S: Final = 2.0
#: Seconds after which a use is noted again; writing it at every read would cost more than reading.
_USE_GRAIN_S: Final = 3600
_KEY_BYTES: Final = 32
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
                    connection.execute("DELETE FROM entries WHERE key = ?", (key,))
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

    def statistics(self) -> CacheStatistics:
        """Return what the file holds."""
        with self._lock:
            try:
                connection = self._open()
                if connection is not None:
                    query = "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM entries"
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
        if self._is_off or self.path is None:
            return None
        if self._connection is not None:
            if self._process == os.getpid():
                return self._connection
            self._abandoned.append(self._connection)  # of the parent of this process: not even to be closed here
            self._connection = None
        directory = self.path.parent
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._executable:
            self._key = _user_key(directory)
        try:
            self._connect(f"{self.path.as_uri()}?mode=rwc")
            self._can_write = os.access(self.path, os.W_OK) and os.access(directory, os.W_OK)
        except sqlite3.Error as error:
            if _code(error) in _DAMAGED or not self.path.exists():
                raise
            self._connect(f"{self.path.as_uri()}?mode=ro")  # a file that others wrote is still good to read
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
            self._bytes = int(connection.execute("SELECT COALESCE(SUM(bytes), 0) FROM entries").fetchone()[0])
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
                connection.execute("DELETE FROM entries WHERE key = ?", (key,))
            return None
        now = int(time.time())
        if self._can_write and not now - _USE_GRAIN_S < used <= now:
            connection.execute("UPDATE entries SET used = ? WHERE key = ?", (now, key))
        return value

    def _write(self, connection: sqlite3.Connection, key: str, value: bytes) -> None:
        row = (key, value, self._seal(key, value), len(value), int(time.time()))
        connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", row)
        self._bytes += len(value)
        if self._bytes > self._max_bytes:
            self._evict(connection)

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Drop the least recently used entries, until a fifth of the room is free."""
        kept = 0
        doomed = []
        for key, nbytes in connection.execute("SELECT key, bytes FROM entries ORDER BY used DESC, key"):
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


def _code(error: Exception) -> int:
    """Return SQLite's primary code of an error, 0 if it is none of SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _user_key(directory: Path) -> bytes:
    """Return the user's key, made at the first call.

    Raises:
        PermissionError: Somebody else could have read or written it.
        OSError: It cannot be made or read.
    """
    path = directory / "key"
    if not path.exists():
        _make_key(path)
    status = path.stat()
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077):
        raise PermissionError(f"{path} is open to other users; remove it")
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} does not hold a key of {_KEY_BYTES} bytes; remove it")
    return key


def _make_key(path: Path) -> None:
    """Write a new key, all at once: another process may do the same at the same time, and one of them wins."""
    draft = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            draft.rename(path)
            return
    finally:
        draft.unlink(missing_ok=True)
