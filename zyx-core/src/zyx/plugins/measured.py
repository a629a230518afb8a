"""Rates of devices that were measured, kept in the user's cache folder: ``rates-1.sqlite``.

An entry is for a device's model, driver and versions, the number of its units, and this version of the measurement: of
anything else there is none, and rates are assumed. What is read is checked, by the cache and field by field; a file
that is damaged, or missing, or that others could write to, changes nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Final

from zyx.backend.rates import Rates
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from pathlib import Path

    from zyx.backend.info import DeviceInfo
    from zyx.drivers import disk_cache
else:
    disk_cache = lazy_import("zyx.drivers.disk_cache", globals())

NAME: Final = "rates"
#: Version of what is measured.
_VERSION: Final = 1
_MOST_BYTES: Final = 1 << 20
#: More operations or bytes a second, or seconds, than there can be.
_TOO_MUCH: Final = 1e21


def kept_rates(directory: Path | None, info: DeviceInfo) -> Rates | None:
    """Return what was measured of a device of that record, if anything was."""
    if directory is None or not (directory / f"{NAME}-1.sqlite").exists():
        return None
    cache = disk_cache.DiskCache(directory, NAME, executable=False, max_bytes=_MOST_BYTES)
    try:
        value = cache.get(_key(info))
    finally:
        cache.close()
    return None if value is None else _parsed(value, info)


def keep_rates(directory: Path, info: DeviceInfo, rates: Rates) -> bool:
    """Keep what was measured; return whether it can be found again."""
    cache = disk_cache.DiskCache(directory, NAME, executable=False, max_bytes=_MOST_BYTES)
    try:
        cache.put(_key(info), json.dumps(asdict(rates)).encode())
    finally:
        cache.close()
    return kept_rates(directory, info) == rates


def _key(info: DeviceInfo) -> str:
    return "\0".join((str(_VERSION), info.model, info.driver, str(info.units)))


def _parsed(value: bytes, info: DeviceInfo) -> Rates | None:
    """Return the rates that an entry has, None unless all of them are numbers that a device can have."""
    try:
        given = json.loads(value)
    except ValueError:
        return None
    if not isinstance(given, dict) or set(given) != {field.name for field in fields(Rates)}:
        return None
    caches = given.pop("cache_bytes_per_s")
    if given.pop("is_measured") is not True or not isinstance(caches, list):
        return None
    if len(caches) != max(1, len(info.cache_bytes)) or not all(map(_is_rate, caches)):
        return None
    seconds = {name: given.pop(name) for name in ("launch_s", "wake_s", "barrier_s", "group_s")}
    if not all(_is_rate(number) for number in given.values()):
        return None
    if not all(number == 0 or _is_rate(number) for number in seconds.values()):
        return None
    return Rates(**given, **seconds, cache_bytes_per_s=tuple(caches), is_measured=True)


def _is_rate(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 < value < _TOO_MUCH  # type: ignore[arg-type,operator]  # a number
