"""Put the parts together: servants, their pools, and zyx's devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx_backend_tenstorrent.device import TenstorrentDevice
from zyx_backend_tenstorrent.driver_sim import MEMORY_BYTES, Simulator
from zyx_backend_tenstorrent.info import device_info
from zyx_backend_tenstorrent.memory import TenstorrentPool
from zyx_backend_tenstorrent.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import MemoryPool
    from zyx_backend_tenstorrent.plugin import TenstorrentConfig


def open_pools(section: TenstorrentConfig) -> Sequence[TenstorrentPool]:
    """Return the pool of the simulator."""
    servant = Simulator((section.grid_rows, section.grid_columns), section.memory_bytes or MEMORY_BYTES)
    return [TenstorrentPool("tenstorrent:0 memory", servant)]


def open_devices(pools: Mapping[str, MemoryPool]) -> Sequence[TenstorrentDevice]:
    """Return the device of each pool, in order."""
    own = [pool for pool in pools.values() if isinstance(pool, TenstorrentPool)]
    return [
        TenstorrentDevice(f"tenstorrent:{number}", pool, device_info(pool.servant, __version__))
        for number, pool in enumerate(own)
    ]
