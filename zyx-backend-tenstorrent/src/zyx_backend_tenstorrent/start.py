"""Put the parts together: servants, their pools, and zyx's devices."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from zyx.drivers.faults import Fault, failure
from zyx.errors import InitializationError, NoDeviceError
from zyx_backend_tenstorrent.device import TenstorrentDevice
from zyx_backend_tenstorrent.info import device_info
from zyx_backend_tenstorrent.memory import TenstorrentPool
from zyx_backend_tenstorrent.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import MemoryPool
    from zyx_backend_tenstorrent.driver import Servant
    from zyx_backend_tenstorrent.plugin import TenstorrentConfig


def open_simulator(section: TenstorrentConfig) -> Sequence[TenstorrentPool]:
    """Return the pool of the simulator.

    Raises:
        ImportError: It is not installed.
    """
    from zyx_backend_tenstorrent.driver_sim import MEMORY_BYTES, Simulator

    return pools_of([Simulator((section.grid_rows, section.grid_columns), section.memory_bytes or MEMORY_BYTES)])


def open_cards(section: TenstorrentConfig) -> Sequence[TenstorrentPool]:
    """Return the pool of each card, of which nothing is to be set.

    Raises:
        ImportError: TT-NN or the compiler of TT-Lang is not installed.
        NoDeviceError: There is no card.
        InitializationError: There is one, which cannot be opened.
    """
    import loguru

    # Both are read when TT-NN is loaded, which would print its settings and what it finds.
    loguru.logger.disable("ttnn")
    os.environ.setdefault("TT_METAL_LOGGER_LEVEL", "off")
    from zyx_backend_tenstorrent.driver_ttnn import Card, count_cards

    opened: list[Card] = []
    try:
        for number in range(count_cards()):
            opened.append(Card(number))
    except Fault as fault:
        for card in opened:
            with suppress(Fault):  # the first fault is the one that is told
                card.close()
        raise failure(f"card {len(opened)}", fault, InitializationError) from fault
    if not opened:
        raise NoDeviceError("TT-Metalium finds no card")
    return pools_of(opened)


def pools_of(servants: Sequence[Servant]) -> Sequence[TenstorrentPool]:
    """Return a pool for each servant."""
    return [TenstorrentPool(f"tenstorrent:{number} memory", servant) for number, servant in enumerate(servants)]


def open_devices(pools: Mapping[str, MemoryPool]) -> Sequence[TenstorrentDevice]:
    """Return the device of each pool, in order."""
    own = [pool for pool in pools.values() if isinstance(pool, TenstorrentPool)]
    return [
        TenstorrentDevice(f"tenstorrent:{number}", pool, device_info(pool.servant, __version__))
        for number, pool in enumerate(own)
    ]
