"""What was found by measuring, kept in the user's cache folder: ``schedules-1.sqlite``.

An entry is for the nests of a launch, by their digest, on a device's model, driver and versions, with so many units,
and for this version of core; or for a whole graph, of what it stores between its launches. It holds moves as data
(`zyx.autotune.written`) and places of nodes, not code: whatever an entry says, kernels compute what their nests mean.
It is sealed and checked as what is executed is, since it chooses what is. An entry that cannot be read is dropped; it
is as if there was none.
"""

from __future__ import annotations

import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zyx.autotune.choice import Choice  # noqa: TC001  # msgspec looks for it
from zyx.autotune.written import read_moves
from zyx.drivers.rendered import identity
from zyx.errors import FormatError
from zyx.lazy_import import lazy_import
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from zyx.backend import Device
    from zyx.drivers import disk_cache
else:
    disk_cache = lazy_import("zyx.drivers.disk_cache", globals())

logger: Final = logging.getLogger("zyx")

NAME: Final = "schedules"
#: Bytes of all entries together: some ten thousand kernels.
_MOST_BYTES: Final = 64 << 20
#: How long a file that was not there is not looked for again, in seconds: each kernel asks three times, and a system
#: call waits for the threads that compile.
_ABSENT_S: Final = 1.0
#: What is said of files of another kind.
_FORMAT: Final = "zyx schedules 1"


class Winner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was found for the nests of a launch, or for a graph.

    Attributes:
        kernel: The name of the kernel.
        device: The device's model.
        what: What it computes: the last statement of its last nest.
        schedules: The moves of each nest, as data; None if what is chosen without measuring stays.
        library: The library's kernel that takes its place; empty if a generated one stays.
        choice: Of a graph, what it stores other than by rule; None if it stores what the rules say, and of nests.
        expected_s: What the schedule found is expected to take, in seconds; 0 of a library's.
        before_s: The median time of a launch by the schedule chosen without measuring.
        seconds: That of what was found.
        tried: How many others were measured.
        found_at: When, in seconds since 1970.
    """

    kernel: str
    device: str
    what: str
    schedules: list[list[dict[str, Any]]] | None
    library: str = ""
    choice: Choice | None = None
    expected_s: float = 0.0
    before_s: float
    seconds: float
    tried: int
    found_at: int

    @property
    def gain(self) -> float:
        """How many times as fast as without measuring."""
        return self.before_s / self.seconds if self.seconds else 1.0

    @property
    def is_faster(self) -> bool:
        """Whether something takes the place of what is chosen without measuring."""
        return self.schedules is not None or self.choice is not None or bool(self.library)


class TuningStore:
    """The entries.

    Args:
        directory: The folder of the caches; None keeps them in memory.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._opened: disk_cache.DiskCache | None = None
        self._absent_until = 0.0
        self._keys: dict[Device, str] = {}

    def get(self, device: Device, digest: bytes) -> Winner | None:
        """Return what was found for nests of that digest on `device`; None if nothing was looked for."""
        cache = self._cache(is_made=False)
        if cache is None:
            return None
        key = self._key(device, digest)
        value = cache.get(key)
        return None if value is None else self._read(cache, key, value)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever found."""
        return self._cache(is_made=False) is None

    @property
    def state(self) -> tuple[int, ...] | None:
        """Size and time of the file, in nanoseconds, which change with what is found; () while nothing was.

        None if it is not known: what was found is in memory, or the file is being made or removed.
        """
        if self.is_empty:
            return ()
        try:
            status = None if self._directory is None else (self._directory / f"{NAME}-1.sqlite").stat()
        except OSError:
            status = None
        return None if status is None else (status.st_size, status.st_mtime_ns)

    def put(self, device: Device, digest: bytes, winner: Winner) -> None:
        """Keep what was found, in place of what was."""
        cache = self._cache(is_made=True)
        assert cache is not None  # it is made
        cache.put(self._key(device, digest), msgspec.json.encode(winner))

    def drop(self, device: Device, digest: bytes) -> None:
        """Forget what was found."""
        cache = self._cache(is_made=False)
        if cache is not None:
            cache.remove(self._key(device, digest))

    def entries(self) -> dict[str, Winner]:
        """Return all entries by key."""
        cache = self._cache(is_made=False)
        found: dict[str, Winner] = {}
        for key, value in [] if cache is None else cache.items():
            winner = self._read(cache, key, value)  # type: ignore[arg-type]  # there is one
            if winner is not None:
                found[key] = winner
        return found

    def take(self, entries: dict[str, Winner], *, only_faster: bool = False) -> int:
        """Keep entries of other stores, and return how many.

        Args:
            entries: By key.
            only_faster: Whether an entry gives way only to one that takes less time.
        """
        there = self.entries() if only_faster else {}
        taken = {key: w for key, w in entries.items() if key not in there or w.seconds < there[key].seconds}
        cache = self._cache(is_made=bool(taken))
        for key, winner in taken.items():
            cache.put(key, msgspec.json.encode(winner))  # type: ignore[union-attr]  # it is made
        return len(taken)

    def forget(self, keys: Iterable[str]) -> None:
        """Forget entries."""
        cache = self._cache(is_made=False)
        for key in keys if cache is not None else ():
            cache.remove(key)  # type: ignore[union-attr]  # it is none

    def close(self) -> None:
        """Close the file; later calls open it again."""
        if self._opened is not None:
            self._opened.close()

    def _cache(self, *, is_made: bool) -> disk_cache.DiskCache | None:
        """Return the cache; None if there is no file yet, and none `is_made`."""
        if self._opened is None:
            if not is_made and not self._is_there():
                return None
            self._opened = disk_cache.DiskCache(self._directory, NAME, executable=True, max_bytes=_MOST_BYTES)
        return self._opened

    def _is_there(self) -> bool:
        """Whether there is a file, which another process may have made since it was looked for."""
        now = time.monotonic()
        if self._directory is None or now < self._absent_until:
            return False
        found = (self._directory / f"{NAME}-1.sqlite").exists()
        self._absent_until = 0.0 if found else now + _ABSENT_S
        return found

    def _key(self, device: Device, digest: bytes) -> str:
        known = self._keys.get(device)
        if known is None:
            info = device.info
            known = self._keys[device] = identity(__version__, info.model, info.driver, info.units)
        return f"{known} {digest.hex()}"

    def _read(self, cache: disk_cache.DiskCache, key: str, value: bytes) -> Winner | None:
        try:
            return msgspec.json.decode(value, type=Winner)
        except msgspec.DecodeError as error:  # of a version that wrote something else
            logger.warning("an entry of the schedules that were measured cannot be read and is dropped: %s", error)
            cache.remove(key)
            return None


def digest_with(digest: bytes, winner: Winner | None) -> bytes:
    """Return a digest of nests and of what was found for them: of what their kernel depends on."""
    if winner is None or winner.schedules is None:
        return digest
    return hashlib.sha256(digest + msgspec.json.encode(winner.schedules)).digest()


def to_text(entries: dict[str, Winner]) -> str:
    """Return entries as JSON."""
    rows = [{"key": key, **msgspec.to_builtins(winner)} for key, winner in sorted(entries.items())]
    return msgspec.json.format(msgspec.json.encode({"format": _FORMAT, "schedules": rows}), indent=1).decode() + "\n"


def from_text(text: bytes, name: str) -> dict[str, Winner]:
    """Return the entries that `to_text` wrote.

    Raises:
        FormatError: It is something else; the text has `name`, and which entry is wrong.
    """
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise FormatError(f"{name} is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("schedules"), list):
        raise FormatError(f"{name} has no schedules that zyx tune export wrote (it says {_FORMAT!r})")
    found: dict[str, Winner] = {}
    for number, row in enumerate(data["schedules"]):
        try:
            winner = msgspec.convert({key: value for key, value in row.items() if key != "key"}, Winner)
            for moves in winner.schedules or ():
                read_moves([move for move in moves if move.get("move") != "KernelPass"])
            found[_checked(row.get("key"))] = winner
        except (msgspec.ValidationError, FormatError, AttributeError) as error:
            raise FormatError(f"{name}: entry {number} is wrong: {error}") from error
    return found


def _checked(key: object) -> str:
    parts = key.split() if isinstance(key, str) else []
    if len(parts) != 2 or not all(len(part) == 64 and set(part) <= set("0123456789abcdef") for part in parts):
        raise FormatError(f"it has the key {key!r:.80}, not two digests")
    return " ".join(parts)
