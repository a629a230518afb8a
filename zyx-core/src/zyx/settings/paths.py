"""Where the configuration file and the cache lie.

On Linux and the BSDs by the XDG base directory specification (freedesktop.org, 0.8), which says that a relative value
of its variables is invalid and to be ignored; elsewhere where the system wants them (platformdirs).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
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
    """Return how many host threads to use: those configured, else one for each processor this process may run on."""
    if settings.threads is not None:
        return settings.threads
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
