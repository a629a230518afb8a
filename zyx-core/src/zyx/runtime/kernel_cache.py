"""The cache of rendered kernels on disk, by the nests that become each: a later process neither schedules nor renders.

An entry is for a kernel, for nests or a hand-written kernel which become one, or for a graph and the plan that computes
it by such kernels (`zyx.runtime.kept_plan`); and for all that the way from these to the text depends on: the device's
record and dialect, and the code of core and of the backend, by the sizes and times of their files. Entries are
MessagePack, data of declared types without code, and element types stand there by their names. The cache gives back
only what was sealed with the user's key, since a text is compiled and run. Whatever is wrong with an entry, it is as if
there was none.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from zyx.drivers.rendered import SupportsRendering, identity
from zyx.dtype import DType, as_dtype
from zyx.lazy_import import lazy_import
from zyx.runtime.kept_plan import KeptPlan
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device
    from zyx.drivers import disk_cache
    from zyx.drivers.cache import ProgramCache
else:
    disk_cache = lazy_import("zyx.drivers.disk_cache", globals())

_T = TypeVar("_T")

logger: Final = logging.getLogger("zyx")

NAME: Final = "kernels"
#: How entries are written; those of other versions are not found.
_FORMAT: Final = "MessagePack 1"


class Origin(NamedTuple):
    """What nests, or a hand-written kernel, become.

    Attributes:
        kernel: Digest of the kernel as the device is given it.
        schedule: Number of the schedule that the nests had.
    """

    kernel: bytes
    schedule: int


class _About(NamedTuple):
    """What is known of a device that renders.

    Attributes:
        identity: What its keys begin with.
        decoder: Reads what it renders.
    """

    identity: str
    decoder: msgspec.msgpack.Decoder[object]


class KernelCache:
    """What is kept; see the module.

    Args:
        directory: The folder of the caches. None keeps nothing.
        max_bytes: Size above which what was not used for longest goes.
    """

    def __init__(self, directory: Path | None, max_bytes: int) -> None:
        self._cache: ProgramCache | None = None
        if directory is not None:
            self._cache = disk_cache.DiskCache(directory, NAME, executable=True, max_bytes=max_bytes)
        self._devices: dict[Device, _About | None] = {}
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_encoded)
        self._origins = msgspec.msgpack.Decoder(Origin)
        self._plans = msgspec.msgpack.Decoder(KeptPlan)

    def origin(self, device: Device, digest: bytes) -> Origin | None:
        """Return the cached origin of a digest of nests, or of a hand-written kernel, on `device`; None on a miss."""
        about = self._about(device)
        return None if about is None else self._read(device, f"{about.identity} origin {digest.hex()}", self._origins)

    def note(self, device: Device, digest: bytes, origin: Origin) -> None:
        """Keep what nests, or a hand-written kernel, with that digest become."""
        about = self._about(device)
        if about is not None and self._cache is not None:
            self._cache.put(f"{about.identity} origin {digest.hex()}", self._encoder.encode(origin))

    def rendered(self, device: Device, digest: bytes) -> object | None:
        """Return the cached source of the kernel with that digest on `device`; None on a miss."""
        about = self._about(device)
        return None if about is None else self._read(device, f"{about.identity} kernel {digest.hex()}", about.decoder)

    def keep(self, device: Device, digest: bytes, rendered: object) -> None:
        """Keep a rendered kernel that `device` has built; nothing of it any more, if it is not of the declared type."""
        about = self._about(device)
        if about is None or self._cache is None:
            return
        assert isinstance(device, SupportsRendering)  # or nothing were known about it
        try:
            if type(rendered) is not device.rendered_type:
                raise TypeError(f"it is of {type(rendered)}, not of {device.rendered_type}")
            value = self._encoder.encode(rendered)
        except (TypeError, ValueError, OverflowError) as error:  # other values than fields of records can have
            self._give_up(device, error)
        else:
            self._cache.put(f"{about.identity} kernel {digest.hex()}", value)

    def plan(self, devices: Sequence[Device], digest: str) -> KeptPlan | None:
        """Return the cached plan of a graph on `devices`, by the digest of what else it depends on; None on a miss."""
        key = self._key_of_plan(devices, digest)
        return None if key is None else self._read(devices[0], key, self._plans)

    def keep_plan(self, devices: Sequence[Device], digest: str, plan: KeptPlan) -> None:
        """Keep the plan of a graph; see `plan`."""
        key = self._key_of_plan(devices, digest)
        if key is not None and self._cache is not None:
            self._cache.put(key, self._encoder.encode(plan))

    def keeps_plans_of(self, devices: Sequence[Device]) -> bool:
        """Whether plans of graphs on `devices` are kept: all of them render."""
        return self._cache is not None and all(self._about(device) is not None for device in devices)

    def _key_of_plan(self, devices: Sequence[Device], digest: str) -> str | None:
        known = [(device.name, about.identity) for device in devices if (about := self._about(device)) is not None]
        return f"{identity(*known)} plan {digest}" if len(known) == len(devices) else None

    def _read(self, device: Device, key: str, decoder: msgspec.msgpack.Decoder[_T]) -> _T | None:
        value = None if self._cache is None else self._cache.get(key)
        if value is None:
            return None
        try:
            return decoder.decode(value)
        except msgspec.DecodeError as error:
            logger.info("%s: what is kept of a kernel cannot be read: %s", device.name, error)
            return None

    def _about(self, device: Device) -> _About | None:
        """Return what is known of a device; None if it renders nothing, or if the code cannot be told apart."""
        if device in self._devices or not isinstance(device, SupportsRendering) or self._cache is None:
            return self._devices.get(device)
        package = type(device).__module__.partition(".")[0]
        core, backend = _code_of("zyx"), _code_of(package)
        about = None
        if core is not None and backend is not None:
            parts = (_FORMAT, __version__, core, package, backend, type(device).__qualname__)
            try:
                decoder = msgspec.msgpack.Decoder(device.rendered_type, dec_hook=_decoded)
            except Exception as error:  # noqa: BLE001  # of another package: no record, or names that it does not have
                self._give_up(device, error)
                return None
            about = _About(identity(*parts, device.info, device.dialect), decoder)
        self._devices[device] = about
        return about

    def _give_up(self, device: Device, error: Exception) -> None:
        logger.warning(
            "%s: rendered kernels are not kept on disk, since they cannot be written: %s", device.name, error
        )
        self._devices[device] = None


def _encoded(value: object) -> str:
    if isinstance(value, DType):
        return value.name
    raise TypeError(f"{value!r} is no plain value")


def _decoded(wanted: type, value: Any) -> DType:  # noqa: ANN401  # whatever the message has
    if wanted is DType and isinstance(value, str):
        return as_dtype(value)
    raise TypeError(f"{value!r} is not of {wanted}")


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
