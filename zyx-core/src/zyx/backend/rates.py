"""How fast a device does what kernels are made of: measured (`zyx calibrate`), or assumed from its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo

#: What is assumed of a device that nobody measured: each cache gives one unit so many times the bytes that main memory
#: gives all, or, of a device with threads, all units together; nearest first.
_CACHES_OF_PROCESSORS: Final = (8.0, 4.0, 2.5)
_CACHES_OF_CARDS: Final = (4.0, 2.0)
#: More units than these do not get more from main memory.
_UNITS_THAT_SATURATE: Final = 8
#: Seconds.
_LAUNCH_OF_PROCESSORS_S: Final = 2e-6
_LAUNCH_OF_CARDS_S: Final = 1e-6
_WAKE_S: Final = 8e-6
#: An H100, by 156 drawn nests: with the steps of a combination between two meetings.
_BARRIER_S: Final = 3.2e-7
#: An H100, by kernels of 14,000 to 470,000 groups of 16 to 256 threads, which do little.
_GROUP_S: Final = 8e-8
#: Simple operations that a transcendental function takes: written out, and where there is an instruction.
_WRITTEN_OUT: Final = 16.0
_NATIVE: Final = 4.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that times are estimated from.

    Attributes:
        flops_per_s: float32 operations of all units together, a fused multiply-add being two.
        bytes_per_s: Main memory, all units together, read in order.
        unit_bytes_per_s: Main memory, one unit alone.
        cache_bytes_per_s: Each cache, nearest first, one unit alone; an entry at least.
        transcendental: Simple operations that take as long as a transcendental function.
        launch_s: Seconds that a launch of the least kernel takes, waited for.
        wake_s: Seconds until all units work, beyond one; 0 where the launch has that in it.
        barrier_s: Seconds that a meeting of the threads of a group takes.
        group_s: Seconds that a unit takes to begin a group, whatever that does.
        is_measured: Whether they were measured on the device.
    """

    flops_per_s: float
    bytes_per_s: float
    unit_bytes_per_s: float
    cache_bytes_per_s: tuple[float, ...]
    transcendental: float
    launch_s: float
    wake_s: float
    barrier_s: float
    group_s: float = 0.0
    is_measured: bool = False


def assumed_rates(info: DeviceInfo) -> Rates:
    """Return what is usual for a device of that record."""
    has_threads = info.max_group_threads > 1
    saturating = info.units if has_threads else min(info.units, _UNITS_THAT_SATURATE)
    one = max(info.bytes_per_s, 1.0) / saturating
    factors = _CACHES_OF_CARDS if has_threads else _CACHES_OF_PROCESSORS
    caches = tuple(one * factors[min(level, len(factors) - 1)] for level in range(max(1, len(info.cache_bytes))))
    return Rates(
        flops_per_s=max(info.flops_per_s, 1.0),
        bytes_per_s=max(info.bytes_per_s, 1.0),
        unit_bytes_per_s=one,
        cache_bytes_per_s=caches,
        transcendental=_NATIVE if has_threads else _WRITTEN_OUT,
        launch_s=_LAUNCH_OF_CARDS_S if has_threads else _LAUNCH_OF_PROCESSORS_S,
        wake_s=0.0 if has_threads or info.units == 1 else _WAKE_S,
        barrier_s=_BARRIER_S,
        group_s=_GROUP_S if has_threads else 0.0,
    )


def rates_of(info: DeviceInfo) -> Rates:
    """Return the rates of a device: those that were measured, or else what is usual."""
    return info.rates or assumed_rates(info)
