"""Where the configuration file and the cache lie.

On Linux and the BSDs by the XDG base directory specification (freedesktop.org, 0.8), which says that a relative value
of its variables is invalid and to be ignored; elsewhere where the system wants them (platformdirs).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.settings.record import Settings


def config_file(environ: Mapping[str, str]) -> Path | None:
    """Return where the configuration file is looked for; None if there is no home folder."""
    if _system_has_own_folders():
        import platformdirs

        return platformdirs.user_config_path("zyx", appauthor=False) / "config.json"
    return _xdg(environ, "XDG_CONFIG_HOME", ".config", "config.json")


def cache_directory(settings: Settings, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the cache, not made yet.

    None if caching is off, there is no home folder, or this Python was built without SQLite.
    """
    if not settings.cache.enabled or not _has_sqlite():
        return None
    if settings.cache.directory is not None:
        return Path(settings.cache.directory).expanduser().absolute()
    if _system_has_own_folders():
        import platformdirs

        return platformdirs.user_cache_path("zyx", appauthor=False)
    return _xdg(environ, "XDG_CACHE_HOME", ".cache")


def thread_count(settings: Settings) -> int:
    """Return how many host threads to use: those configured, else one for each processor that this process may use.

    That is the least of the processors that it may run on, and those whose time it is given: see `quota`.
    """
    if settings.threads is not None:
        return settings.threads
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = quota()
    return there if given is None else max(1, min(there, int(given)))


def quota(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Return the time that the control groups of this process are given, in processors; None if there is no limit.

    Of version 2 (``cpu.max``: "quota period", or "max period") and version 1 (``cpu.cfs_quota_us``, -1 for none) of
    Linux's control groups, and of those around a group, which limit it as well.

    Args:
        groups: Where the groups are mounted.
        own: What says which ones this process is in.
    """
    try:
        lines = own.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = groups
        elif "cpu" in controllers.split(","):
            base = next((groups / name for name in (controllers, "cpu") if (groups / name).is_dir()), groups)
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for each in (group, *group.parents):
            found += _limits(base / each)
    return min(found, default=None)


def _limits(group: Path) -> list[float]:
    """Return the limit of one group, if it has one; a file that cannot be read, or understood, says nothing."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            given = " ".join((group / name).read_text(encoding="ascii") for name in names).split()
            allowed, period = int(given[0]), int(given[1])
        except (OSError, ValueError, IndexError):  # "max" is no number
            continue
        if allowed > 0 and period > 0:
            return [allowed / period]
    return []


def _has_sqlite() -> bool:
    """Whether Python has what caches are files of; it is not imported."""
    from importlib.util import find_spec

    try:
        return find_spec("_sqlite3") is not None
    except (ImportError, ValueError):  # what stands in for a module, or keeps it away
        return False


def _system_has_own_folders() -> bool:
    return sys.platform in {"darwin", "win32"}


def _xdg(environ: Mapping[str, str], variable: str, default: str, *parts: str) -> Path | None:
    base = Path(environ.get(variable, ""))
    if not base.is_absolute():
        try:
            base = Path(environ["HOME"] if environ.get("HOME") else Path.home()) / default
        except RuntimeError:  # an account without a home folder
            return None
    return base.joinpath("zyx", *parts)
