"""Rendered kernels on disk, and which nests become which: a later process neither schedules nor renders.

An entry is for a kernel, or for nests or a hand-written kernel which become one; and for all that the way from these to
the text depends on: the device's record and dialect, and the code of core and of the backend, by the sizes and times of
their files. Entries are pickled: the cache gives back only what was sealed with the user's key, as it does for machine
code. Whatever is wrong with an entry, it is as if there was none.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.backend.rendered import SupportsRendering, identity
from zyx.version import __version__

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.backend.cache import ProgramCache

logger: Final = logging.getLogger("zyx")

NAME: Final = "kernels"


class Origin(NamedTuple):
    """What nests, or a hand-written kernel, become.

    Attributes:
        kernel: Digest of the kernel as the device is given it.
        schedule: Number of the schedule that the nests had.
    """

    kernel: bytes
    schedule: int


class KeptKernels:
    """What is kept; see the module.

    Args:
        directory: The folder of the caches. None keeps nothing.
        max_bytes: Size above which what was not used for longest goes.
    """

    def __init__(self, directory: Path | None, max_bytes: int) -> None:
        self._cache: ProgramCache | None = None
        if directory is not None:
            from zyx.backend.disk_cache import DiskCache

            self._cache = DiskCache(directory, NAME, executable=True, max_bytes=max_bytes)
        self._identities: dict[Device, str] = {}

    def origin(self, device: Device, digest: bytes) -> Origin | None:
        """Return what nests, or a hand-written kernel, with that digest become on `device`, if it is known."""
        found = self._read(device, f"origin {digest.hex()}")
        return found if isinstance(found, Origin) else None

    def note(self, device: Device, digest: bytes, origin: Origin) -> None:
        """Keep what nests, or a hand-written kernel, with that digest become."""
        self._write(device, f"origin {digest.hex()}", origin)

    def rendered(self, device: Device, digest: bytes) -> object | None:
        """Return what `device` builds for the kernel with that digest, if it is kept."""
        return self._read(device, f"kernel {digest.hex()}")

    def keep(self, device: Device, digest: bytes, rendered: object) -> None:
        """Keep a rendered kernel that `device` has built."""
        self._write(device, f"kernel {digest.hex()}", rendered)

    def _read(self, device: Device, what: str) -> object | None:
        key = self._key(device, what)
        value = self._cache.get(key) if self._cache is not None and key is not None else None
        if value is None:
            return None
        try:
            found: object = pickle.loads(value)
        except Exception as error:  # noqa: BLE001  # whatever classes that changed raise
            logger.info("%s: what is kept of a kernel cannot be read: %s", device.name, error)
            return None
        return found

    def _write(self, device: Device, what: str, record: object) -> None:
        key = self._key(device, what)
        if self._cache is not None and key is not None:
            self._cache.put(key, pickle.dumps(record, pickle.HIGHEST_PROTOCOL))

    def _key(self, device: Device, what: str) -> str | None:
        """Return the key of an entry; None for a device that renders nothing, or if the code cannot be told apart."""
        known = self._identities.get(device)
        if known is None:
            if not isinstance(device, SupportsRendering):
                return None
            package = type(device).__module__.partition(".")[0]
            core, backend = _code_of("zyx"), _code_of(package)
            if core is None or backend is None:
                return None
            parts = (__version__, core, package, backend, type(device).__qualname__)
            known = self._identities[device] = identity(*parts, device.info, device.dialect)
        return f"{known} {what}"


@functools.cache
def _code_of(package: str) -> str | None:
    """Return a digest of the sizes and times of the files of a package, which change with its code.

    None is of a package that lies in no folder, such as one in a zip file.
    """
    file = importlib.import_module(package).__file__
    if file is None:
        return ""
    if not Path(file).is_file():
        return None
    found: list[tuple[str, int, int]] = []
    folders = [str(Path(file).parent)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append((entry.path, status.st_size, status.st_mtime_ns))
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return identity(sorted(found))
