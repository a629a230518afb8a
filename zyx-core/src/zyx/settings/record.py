"""The typed record of all settings, with the defaults.

Keys of the configuration file are the names of these fields: ``{"autotune": {"n_launches": 20}}``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from zyx.settings.debug import NOTHING, Debug

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """Which devices there are, and which one is used where none is named.

    Attributes:
        default: Name of a device or backend, or ``cpu``; null means the first of `order` that is there, or else the
            fastest.
        order: Names of devices or backends to prefer where nothing is asked for by name, best first.
        backends: The only backends to load; null means all that are installed.
        timeout_s: How long a backend's import, its opening, and each other hook may take before the rest goes on
            without it; 0 means as long as they like, in the thread that asks for a device.
    """

    default: str | None = None
    order: tuple[str, ...] = ()
    backends: tuple[str, ...] | None = None
    timeout_s: Seconds = 20.0


class Autotune(msgspec.Struct, frozen=True, kw_only=True):
    """Whether what could compute the same is timed, and the faster one taken.

    Schedules are chosen by the estimate, and not timed: what is timed is a vendor's kernel beside the generated one.

    Attributes:
        enabled: Whether to time.
        n_launches: Timed launches of each candidate.
        library_kernels: ``off``: generated kernels only. ``measure``: a vendor's kernel is taken where it is faster; if
            `enabled` is false, where its backend says so, unmeasured. ``prefer``: it is taken where there is one.
    """

    enabled: bool = False
    n_launches: Positive = 20
    library_kernels: Literal["off", "measure", "prefer"] = "measure"


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels as text, compiled programs and measured rates, kept on disk.

    Attributes:
        enabled: Whether anything is read or written.
        directory: Where; null means the user's cache folder.
        max_bytes: Size above which the entries not used for longest are dropped.
        calibration: Whether devices have the rates that ``zyx calibrate`` has kept of them.
    """

    enabled: bool = True
    directory: str | None = None
    max_bytes: Count = 1 << 30
    calibration: bool = True


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where settings came from. Not a setting itself.

    Attributes:
        file: The configuration file, read or not there; None if the system has no place for one.
        origins: What set each key that is not at its default, by the key's path: ``{"devices.default": "ZYX_DEVICE"}``.
        variables: Variables that start with ``ZYX_`` and are not core's; backends look theirs up here.
    """

    file: str | None = None
    origins: dict[str, str] = {}
    variables: dict[str, str] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be configured.

    Attributes:
        devices: Which devices are used.
        debug: What is shown.
        autotune: Whether vendors' kernels are timed beside generated ones.
        cache: What is kept on disk.
        threads: Host threads to use; null means one for each processor that this process may use.
        deterministic: Whether floats that are scattered to one place (``scatter_add``, gradients of embeddings and of
            indexing) are combined in one order, so that sums have the same bits in every run on one machine. If not,
            devices with many threads take them in the order in which they come, which is many times faster. All other
            kernels that zyx generates give the same bits in either case. And whether each length has kernels of its
            own, which add up in the order that they do alone.
        backends: The sections of backends by name, as they were given; `zyx.settings.section` checks them. The key
            ``enabled`` switches a backend on or off, any other is the backend's own.
        sources: Where all this came from.
    """

    devices: Devices = Devices()
    debug: Debug = NOTHING
    autotune: Autotune = Autotune()
    cache: Cache = Cache()
    threads: Positive | None = None
    deterministic: bool = False
    backends: dict[str, dict[str, Any]] = {}
    sources: Sources = Sources()
