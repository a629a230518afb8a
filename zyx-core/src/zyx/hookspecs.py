"""The hooks of a backend: what a package declares so that core finds, configures and opens its devices.

A backend is a package with an entry point in the group ``zyx.backends``. The entry point's name is the backend's name,
its value the module (or object) that implements the hooks below, by convention ``plugin.py``, the business card::

    [project.entry-points."zyx.backends"]
    toy = "zyx_backend_toy.plugin"

Importing that module must be cheap and must load no driver. Core calls the hooks at the first use of a device, one
backend at a time, sorted by name, in this order::

    zyx_backend_info -> zyx_config_section -> zyx_memory_pools -> zyx_devices
        before these, where the program names no device: zyx_may_have_devices
        and later, once for a device, when there is a product of matrices: zyx_library_kernels
        when schedules are searched by measuring: zyx_library_kernels, zyx_kernel_passes
        when processes first compute together on a device: zyx_collectives_identifier, zyx_collectives

`zyx_backend_info` is required, and one of `zyx_memory_pools` and `zyx_devices`. A hook may leave out arguments that it
does not need. A name that starts with ``zyx_`` and is not in this file is refused, so a misspelt hook is noticed.

What a hook raises is kept and shown by ``zyx devices``; other backends are not disturbed, and neither are they by one
that does not come back (``devices.timeout_s``). So hooks are called in a thread of their own, one at a time:

    ImportError of a module of zyx       the backend is written for another core
    DriverNotFoundError, ImportError     the driver or its Python package is missing
    NoDeviceError, an empty sequence     the driver works and finds no device
    other BackendErrors                  the driver is there and refuses
    anything but KeyboardInterrupt       a fault of the backend

The devices of backend ``toy`` are called ``toy:0``, ``toy:1`` and so on. The example of every hook is complete, and is
run by the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pluggy

from zyx.backend import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from zyx.backend import Device, MemoryPool
    from zyx.backend.collectives import Collectives
    from zyx.backend.library import LibraryKernel
    from zyx.nest.data import Nest

__all__ = [
    "API_VERSION", "BackendConfig", "BackendInfo", "KernelPass", "hookimpl", "zyx_backend_info", "zyx_collectives",
    "zyx_collectives_identifier", "zyx_config_section", "zyx_devices", "zyx_kernel_passes", "zyx_library_kernels",
    "zyx_may_have_devices", "zyx_memory_pools",
]  # fmt: skip

SectionT = TypeVar("SectionT")

hookspec = pluggy.HookspecMarker("zyx")
hookimpl = pluggy.HookimplMarker("zyx")


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """A backend's business card.

    Attributes:
        name: Name of the entry point, in lower case; devices are called after it.
        version: Of the package.
        api_version: `API_VERSION` of the core that the backend was written for. Core refuses another major version, and
            a minor version later than its own.
        summary: One line for people.
        works_on_host_memory: Whether its devices work on the pool ``host``: ``cpu`` means the fastest device of such
            backends.
        enabled_by_default: False for what should run only if the configuration says ``enabled``.

    >>> version = zyx.hookspecs.API_VERSION
    >>> zyx.hookspecs.BackendInfo(name="toy", version="0.1.0", api_version=version, summary="a toy").enabled_by_default
    True
    """

    name: str
    version: str
    api_version: tuple[int, int]
    summary: str
    works_on_host_memory: bool = False
    enabled_by_default: bool = True


def _ignore(text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class BackendConfig(Generic[SectionT]):
    """What a backend is configured with.

    Attributes:
        section: Its own section, of the class that `zyx_config_section` returned; None if it has none.
        threads: Host threads that it may use; at least 1.
        cache_directory: Where compiled programs may be kept, not made yet; None means that nothing may be kept.
        cache_bytes: How much of them.
        note: Tells people who look at the backend (``zyx devices``) something that did not stop it, such as which
            device was left out, and why.

    >>> zyx.hookspecs.BackendConfig(section=None, threads=2, cache_directory=None).threads
    2
    """

    section: SectionT
    threads: int
    cache_directory: Path | None
    cache_bytes: int = 1 << 30
    note: Callable[[str], None] = _ignore


@dataclass(frozen=True, slots=True)
class KernelPass:
    """A schedule move that only some devices know.

    It is tried where schedules are searched by measuring (`zyx.tune`, ``zyx tune``, ``autotune.enabled``): each choice
    after the schedule that core would choose. What computes something else, fails, or does not come back within
    ``devices.timeout_s`` is left aside; what is fastest is kept by the name and the choice, and applied by later
    processes, too.

    Attributes:
        name: Unique in the backend, and the same in later versions: it is written down with what was found.
        choices: Returns the arguments with which the move may be applied to a scheduled nest; each is a tuple of
            numbers. At most 64 of them are tried.
        apply: Returns another nest of the same params that computes the same values, such as by `zyx.schedule.moves`.
            Raises `ScheduleError` if the move does not apply.

    >>> zyx.hookspecs.KernelPass("nothing", lambda nest: [()], lambda nest, choice: nest).name
    'nothing'
    """

    name: str
    choices: Callable[[Nest], Iterable[tuple[int, ...]]]
    apply: Callable[[Nest, tuple[int, ...]], Nest]


@hookspec
def zyx_backend_info() -> BackendInfo:  # type: ignore[empty-body]  # a hook specification has no body
    """Say who you are. Called first; must not load a driver.

    Example::

        from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl

        @hookimpl
        def zyx_backend_info() -> BackendInfo:
            return BackendInfo(name="toy", version="0.1.0", api_version=API_VERSION, summary="a toy")
    """


@hookspec
def zyx_config_section() -> type:  # type: ignore[empty-body]
    """Return the class of the backend's configuration: a dataclass or `msgspec.Struct` whose fields all have defaults.

    A value comes from the key ``backends.<name>.<field>`` of the configuration file, or from the variable
    ``ZYX_<NAME>_<FIELD>``. It is checked against the field's type; limits are written with `msgspec.Meta`. The key
    ``enabled`` is core's, and is not a field.

    Example::

        from dataclasses import dataclass
        from typing import Annotated

        import msgspec

        from zyx.hookspecs import hookimpl

        @dataclass(frozen=True)
        class ToyConfig:
            device_ids: list[int] | None = None
            queues: Annotated[int, msgspec.Meta(ge=1, le=16)] = 2

        @hookimpl
        def zyx_config_section() -> type[ToyConfig]:
            return ToyConfig
    """


@hookspec
def zyx_may_have_devices() -> bool:  # type: ignore[empty-body]
    """Tell, by a look that loads no driver, whether there may be a device that is worth choosing where none is named.

    Where this is False, the backend is opened only if it is asked for, or if no other one has a device that compiles.
    Where there is no such hook, it is opened. It is for drivers that take long to load: a program whose first tensor
    names no device waits for all that may have the fastest one.

    Example::

        from pathlib import Path

        from zyx.hookspecs import hookimpl

        @hookimpl
        def zyx_may_have_devices() -> bool:
            return Path("/dev/toy").exists()
    """


@hookspec
def zyx_memory_pools(config: BackendConfig[object]) -> Sequence[MemoryPool]:  # type: ignore[empty-body]
    """Open and return the backend's pools, always in the same order. Drivers are loaded here.

    A backend whose devices work on host memory does not implement this hook.

    Raises:
        BackendError: A driver or device that is missing, or refuses; the others go on without this backend.

    Example::

        from collections.abc import Sequence

        from zyx.backend import MemoryPool
        from zyx.builtin.host import HostPool
        from zyx.hookspecs import BackendConfig, hookimpl

        @hookimpl
        def zyx_memory_pools(config: BackendConfig[None]) -> Sequence[MemoryPool]:
            return [HostPool("toy memory", capacity_bytes=1 << 20)]
    """


@hookspec
def zyx_devices(config: BackendConfig[object], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:  # type: ignore[empty-body]
    """Open and return the backend's devices, always in the same order, each tied to one of `pools`.

    Args:
        config: As for the pools.
        pools: The pool ``host``, and those that this backend returned from `zyx_memory_pools`, by name.

    Raises:
        BackendError: A driver or device that is missing, or refuses; the others go on without this backend.

    Example::

        from collections.abc import Mapping, Sequence

        from zyx.backend import Device, MemoryPool
        from zyx.builtin.interpreter import InterpreterDevice
        from zyx.hookspecs import BackendConfig, hookimpl

        @hookimpl
        def zyx_devices(config: BackendConfig[None], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
            return [InterpreterDevice("toy:0", pools["host"])]
    """


@hookspec
def zyx_library_kernels(device: Device) -> Sequence[LibraryKernel]:  # type: ignore[empty-body]
    """Return the vendor kernels that compete with generated ones on `device`, which is one of this backend's.

    Asked once for a device; what is returned is kept until the device is closed. Where schedules are searched by
    measuring, each is timed and its results are compared; elsewhere what was found is taken, or what the library says
    of itself (`LibraryKernel.unmeasured`).

    Raises:
        BackendError: The library is missing, or refuses.

    Example::

        from collections.abc import Sequence

        from zyx.backend import Device, Program
        from zyx.backend.library import Gemm, LibraryKernel, Problem
        from zyx.errors import UnsupportedError
        from zyx.hookspecs import hookimpl

        def prepare(problem: Problem) -> Program:
            raise UnsupportedError(f"toyblas 1.0 has no {problem}")

        @hookimpl
        def zyx_library_kernels(device: Device) -> Sequence[LibraryKernel]:
            return [LibraryKernel("toyblas 1.0", Gemm, prepare)]
    """


@hookspec
def zyx_kernel_passes(device: Device) -> Sequence[KernelPass]:  # type: ignore[empty-body]
    """Return the schedule moves that are tried on `device` besides core's where schedules are searched by measuring.

    Asked once for a device.

    Raises:
        BackendError: The device refuses.

    Example::

        from collections.abc import Iterable, Sequence

        from zyx.backend import Device
        from zyx.hookspecs import KernelPass, hookimpl
        from zyx.nest.data import Kind, Nest
        from zyx.schedule.moves import Mark, Split

        def choices(nest: Nest) -> Iterable[tuple[int, ...]]:
            return [(points,) for points in (4, 8) if nest.ranges and nest.ranges[-1].size > points]

        def written_out(nest: Nest, choice: tuple[int, ...]) -> Nest:
            label = nest.ranges[-1].label
            return Mark(f"{label}.1", Kind.UNROLL).apply(Split(label, choice[0]).apply(nest))

        @hookimpl
        def zyx_kernel_passes(device: Device) -> Sequence[KernelPass]:
            return [KernelPass("toy-written-out", choices, written_out)]
    """


@hookspec
def zyx_collectives_identifier(devices: Sequence[Device], is_first: bool) -> bytes:  # type: ignore[empty-body]
    """Return what says that `devices` can be members of a group, at most 200 bytes; see `zyx_collectives`.

    Every process of a group that is to be is asked, each for its own devices. What the one with the member of rank 0
    returns (`is_first`) is the identifier by which the members find each other; of what the others return it only
    matters that there is something.

    Raises:
        UnsupportedError: They cannot be members, as where a library is missing; the text says what brings it. Then all
            processes exchange by the host.

    Example::

        from collections.abc import Sequence

        from zyx.backend import Device
        from zyx.hookspecs import hookimpl

        @hookimpl
        def zyx_collectives_identifier(devices: Sequence[Device], is_first: bool) -> bytes:
            return b"toy group 1" if is_first else b"toy"
    """


@hookspec
def zyx_collectives(  # type: ignore[empty-body]
    devices: Sequence[Device], ranks: Sequence[int], size: int, identifier: bytes, timeout_s: float
) -> Collectives:
    """Return what exchanges buffers between `devices` of this backend and the other members of their group.

    Returns at once; `Collectives.connect` waits for the others.

    Args:
        devices: Those of this process.
        ranks: The number of each of them in the group.
        size: How many members the group has: at least 2, in this process or in others.
        identifier: What `zyx_collectives_identifier` returned in the process that has rank 0.
        timeout_s: How long waits for other members may go on without any progress; 0 means for ever.

    Raises:
        UnsupportedError: The devices cannot reach each other.

    Example::

        from collections.abc import Sequence

        from zyx.backend import Device
        from zyx.backend.collectives import Collectives
        from zyx.errors import UnsupportedError
        from zyx.hookspecs import hookimpl

        @hookimpl
        def zyx_collectives(devices: Sequence[Device], ranks: Sequence[int], size: int) -> Collectives:
            raise UnsupportedError(f"{', '.join(device.name for device in devices)} cannot reach {size} others")
    """
