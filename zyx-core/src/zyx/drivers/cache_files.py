"""The files of caches, seen from outside: what is in them, and how to empty them.

A file is read without being changed, so looking at it is safe while others use it, and while it is damaged.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.drivers.cache_folder import check_file

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"(?P<name>.+)-(?P<version>\d+)\.sqlite")
#: Seconds to wait for another process that is writing.
_TIMEOUT_S: Final = 2.0
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A file of `zyx.drivers.disk_cache`, this version's or another's.

    Attributes:
        name: What is cached: the name that its user gave it, such as that of a backend.
        path: The file.
        entries: How many there are.
        file_bytes: Size of the file.
        first_used, last_used: When the entry not used for longest, and the one used last, were used, in seconds since
            1970, to the hour; None if there are no entries.
        fault: Why it cannot be read; empty if it can.
    """

    name: str
    path: Path
    entries: int
    file_bytes: int
    first_used: int | None = None
    last_used: int | None = None
    fault: str = ""


def cache_files(directory: Path) -> list[CacheFile]:
    """Return the caches in a folder, by name; none if there is no such folder."""
    found = []
    for path in sorted(directory.glob("*.sqlite")):
        name = _NAME.fullmatch(path.name)
        if name is not None:
            found.append(_look_at(name["name"], path))
    return found


def _look_at(name: str, path: Path) -> CacheFile:
    size = 0
    try:
        check_file(path)  # a pipe would be waited for
        size = path.stat().st_size
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_TIMEOUT_S)) as connection:
            query = "SELECT COUNT(*), MIN(used), MAX(used) FROM entries"
            entries, first, last = connection.execute(query).fetchone()
    except (sqlite3.Error, OSError) as error:
        return CacheFile(name, path, 0, size, fault=str(error))
    return CacheFile(name, path, entries, size, first, last)


def empty(cache: CacheFile) -> None:
    """Remove all entries of a cache. A file that cannot be read as a cache is removed as a whole.

    Raises:
        OSError: The file cannot be changed, or another process is writing to it all the time.
    """
    try:
        check_file(cache.path)
    except PermissionError:  # a pipe, or a link, of which what it leads to stays
        cache.path.unlink(missing_ok=True)
        return
    try:
        uri = f"{cache.path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("DELETE FROM entries")
            connection.execute("VACUUM")
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _BUSY:
            raise OSError(f"{cache.path} is in use by another process; try again") from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise OSError(f"{cache.path} cannot be changed: {error}") from error
        cache.path.unlink(missing_ok=True)
