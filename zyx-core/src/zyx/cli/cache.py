"""``zyx cache``: what is kept on disk, and how to get rid of it.

zyx cache list [NAME...]     the caches: what is in them, how much of it, and when it was used
zyx cache size [NAME...]     bytes on disk
zyx cache path               the folder
zyx cache clear [NAME...]    remove all entries of the caches named, or of all
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from zyx.autotune.store import NAME as SCHEDULES
from zyx.drivers.cache_files import cache_files, empty
from zyx.errors import SettingsError
from zyx.plugins.describe import columns, size
from zyx.plugins.measured import NAME as RATES
from zyx.plugins.state import KNOWN, package_of
from zyx.runtime.kernel_cache import NAME as KERNELS
from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from zyx.drivers.cache_files import CacheFile
    from zyx.settings.record import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        choices=("list", "size", "path", "clear"),
        nargs="?",
        default="list",
        help="list what is kept, print its size in bytes, print the folder, or remove the entries (%(default)s)",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="caches, as the list names them; all if none is named")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Do it; 1 if a cache cannot be cleared."""
    settings = load_settings()
    switched_on = msgspec.structs.replace(settings.cache, enabled=True)  # what was kept is there still
    directory = cache_directory(msgspec.structs.replace(settings, cache=switched_on))
    if directory is None:
        console.print("nothing is kept: there is no home folder")
        return 0
    if arguments.action == "path":
        console.print(str(directory))
        return 0
    caches = chosen(cache_files(directory), arguments.names, directory)
    match arguments.action:
        case "size":
            console.print(str(sum(cache.file_bytes for cache in caches)))
        case "clear":
            return clear(caches, directory, console)
        case _:
            _list(caches, directory, settings, console)
    return 0


def chosen(caches: Sequence[CacheFile], names: Sequence[str], directory: Path) -> list[CacheFile]:
    """Return the caches of these names, or all if there are no names.

    Raises:
        SettingsError: There is none of a name.
    """
    there = {cache.name for cache in caches}
    for name in names:
        if name not in there:
            raise SettingsError(f"no cache {name} in {directory}; there {_are(sorted(there))}")
    return [cache for cache in caches if not names or cache.name in names]


def _are(names: list[str]) -> str:
    return f"are {', '.join(names)}" if len(names) > 1 else f"is {names[0]}" if names else "is none"


def _list(caches: Sequence[CacheFile], directory: Path, settings: Settings, console: Console) -> None:
    limit = f"what was not used for longest goes when a cache has {size(settings.cache.max_bytes)}"
    if not settings.cache.enabled:
        limit = "switched off, so nothing is read or written"
    console.print(f"{directory}: {size(sum(cache.file_bytes for cache in caches))}; {limit}\n")
    rows = [("CACHE", "CONTENT", "ENTRIES", "SIZE", "USED"), *map(row, caches)]
    for line in columns(rows) if caches else ["there is no cache yet"]:
        console.print(line)


def row(cache: CacheFile) -> tuple[str, ...]:
    """Return what the list says of a cache."""
    content = f"compiled programs of {package_of(cache.name)}" if cache.name in KNOWN else "of a backend of that name"
    ours = {
        RATES: "rates of devices (zyx calibrate)",
        KERNELS: "kernels as text",
        SCHEDULES: "schedules that were measured (zyx tune)",
    }
    content = ours.get(cache.name, content)
    if cache.fault:
        return (cache.name, content, "?", size(cache.file_bytes), f"cannot be read: {cache.fault}")
    return (cache.name, content, str(cache.entries), size(cache.file_bytes), used(cache))


def used(cache: CacheFile) -> str:
    """Return from when to when entries were used last, in local time."""
    if cache.first_used is None or cache.last_used is None:
        return "never"
    first, last = (f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}" for at in (cache.first_used, cache.last_used))
    return last if first == last else f"{first} to {last}"


def clear(caches: Sequence[CacheFile], directory: Path, console: Console) -> int:
    """Empty caches, and say what became of each; return the exit status."""
    status = 0
    for cache in caches:
        try:
            empty(cache)
        except OSError as error:
            console.print(f"{cache.name}: not cleared: {error}")
            status = 1
        else:
            what = "a damaged file" if cache.fault else "1 entry" if cache.entries == 1 else f"{cache.entries} entries"
            console.print(f"{cache.name}: removed {what}, {size(cache.file_bytes)}")
    if not caches:
        console.print(f"there is nothing in {directory}")
    return status
