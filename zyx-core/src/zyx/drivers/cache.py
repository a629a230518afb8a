"""Where compiled programs are kept between runs.

A cache is an aid: it may forget anything at any time, and it never raises. Keys are texts that name everything the
value depends on, versions included; hash them if they are long.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from pathlib import Path

    from zyx.drivers import disk_cache
else:
    disk_cache = lazy_import("zyx.drivers.disk_cache", globals())


class ProgramCache(Protocol):
    """Values by key. Methods may be called from any thread, and do not raise."""

    def get(self, key: str) -> bytes | None:
        """Return the value of `key` as it was put, or None."""

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`, in place of what was there."""


#: Bytes that a cache in memory holds at most.
MEMORY_BYTES: Final = 64 << 20


class MemoryCache:
    """A cache that ends with the process: the least recently used values go first."""

    def __init__(self, max_bytes: int = MEMORY_BYTES) -> None:
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def items(self) -> list[tuple[str, bytes]]:
        """Return keys with their values."""
        with self._lock:
            return list(self._values.items())

    def remove(self, key: str) -> None:
        """Forget the value of `key`, if there is one."""
        with self._lock:
            self._bytes -= len(self._values.pop(key, b""))

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`; a value larger than the cache is not kept."""
        with self._lock:
            self._bytes += len(value) - len(self._values.pop(key, b""))
            self._values[key] = value
            while self._bytes > self._max_bytes:
                _, oldest = self._values.popitem(last=False)
                self._bytes -= len(oldest)


def open_programs(directory: Path | None, name: str, max_bytes: int) -> disk_cache.DiskCache | None:
    """Return where a backend keeps what its compiler made; None if nothing may be kept.

    Args:
        directory: Where, such as `BackendConfig.cache_directory`.
        name: Of the backend.
        max_bytes: How much, such as `BackendConfig.cache_bytes`.
    """
    return None if directory is None else disk_cache.DiskCache(directory, name, executable=True, max_bytes=max_bytes)
