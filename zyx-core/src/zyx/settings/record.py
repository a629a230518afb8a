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

    >>> from zyx.settings.record import Devices
    >>> Devices().timeout_s
    20.0
    """

    default: str | None = None
    order: tuple[str, ...] = ()
    backends: tuple[str, ...] | None = None
    timeout_s: Seconds = 20.0


class Autotune(msgspec.Struct, frozen=True, kw_only=True):
    """How schedules and vendors' kernels are searched by measuring; see `zyx.autotune`.

    Attributes:
        enabled: Whether each launch for which nothing was found yet is searched before it is compiled. If not, a
            program is searched where it says so (`zyx.tune`, ``zyx tune``). What was found is used in either case.
        time_budget_s: How long the search of one launch may take, where `enabled`.
        save_to_disk: Whether what was found is kept in the folder of the caches, for processes to come.
        seed: Of the order in which schedules are looked at, and of the contents of buffers.
        n_launches: Timed launches of each candidate; fewer of those that take longer than some milliseconds.
        n_seeds: Schedules of all families that are timed first, those that are expected to take least.
        n_added_per_step: Schedules next to the best so far that are timed in a step.
        n_removed_per_step: Slowest schedules that are left aside after a step, as far as three are left.
        n_total_opts: Schedules that are timed in all, of one launch.
        library_kernels: ``off``: generated kernels only. ``measure``: a vendor's kernel is taken where it was measured
            to be faster; where nothing was measured, if its backend says so. ``prefer``: it is taken if there is one.

    >>> from zyx.settings.record import Autotune
    >>> Autotune().n_launches
    20
    """

    enabled: bool = False
    time_budget_s: Seconds = 2.0
    save_to_disk: bool = True
    seed: Count = 0
    n_launches: Positive = 20
    n_seeds: Count = 24
    n_added_per_step: Positive = 8
    n_removed_per_step: Count = 4
    n_total_opts: Count = 400
    library_kernels: Literal["off", "measure", "prefer"] = "measure"


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels as text, compiled programs and measured rates, kept on disk.

    Attributes:
        enabled: Whether anything is read or written.
        directory: Where; null means the user's cache folder.
        max_bytes: Size above which the entries not used for longest are dropped.
        calibration: Whether devices have the rates that ``zyx calibrate`` has kept of them.

    >>> from zyx.settings.record import Cache
    >>> Cache().enabled
    True
    """

    enabled: bool = True
    directory: str | None = None
    max_bytes: Count = 1 << 30
    calibration: bool = True


class Collectives(msgspec.Struct, frozen=True, kw_only=True):
    """What several processes do together; see `zyx.distributed`.

    Attributes:
        timeout_s: How long an operation waits for the other processes before it is an error; 0 means for ever.

    >>> from zyx.settings.record import Collectives
    >>> Collectives().timeout_s
    300.0
    """

    timeout_s: Seconds = 300.0


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where settings came from. Not a setting itself.

    Attributes:
        file: The configuration file, read or not there; None if the system has no place for one.
        origins: What set each key that is not at its default, by the key's path: ``{"devices.default": "ZYX_DEVICE"}``.
        variables: Variables that start with ``ZYX_`` and are not core's; backends look theirs up here.

    >>> from zyx.settings.record import Sources
    >>> Sources().origins
    {}
    """

    file: str | None = None
    origins: dict[str, str] = {}
    variables: dict[str, str] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be configured.

    Attributes:
        devices: Which devices are used.
        debug: What is shown.
        autotune: How schedules and vendors' kernels are searched by measuring.
        cache: What is kept on disk.
        collectives: What several processes do together.
        progress: Whether long work shows on a terminal how far it is; elsewhere nothing is shown.
        threads: Host threads to use; null means one for each processor that this process may use.
        deterministic: Whether floats that are scattered to one place (``scatter_add``, gradients of embeddings and of
            indexing) are combined in one order, so that sums have the same bits in every run on one machine. If not,
            devices with many threads take them in the order in which they come, which is many times faster. All other
            kernels that zyx generates give the same bits in either case. And whether each length has kernels of its
            own, which add up in the order that they do alone.
        backends: The sections of backends by name, as they were given; `zyx.settings.section` checks them. The key
            ``enabled`` switches a backend on or off, any other is the backend's own.
        sources: Where all this came from.

    >>> from zyx.settings.record import Settings
    >>> Settings().progress
    True
    """

    devices: Devices = Devices()
    debug: Debug = NOTHING
    autotune: Autotune = Autotune()
    cache: Cache = Cache()
    collectives: Collectives = Collectives()
    progress: bool = True
    threads: Positive | None = None
    deterministic: bool = False
    backends: dict[str, dict[str, Any]] = {}
    sources: Sources = Sources()
