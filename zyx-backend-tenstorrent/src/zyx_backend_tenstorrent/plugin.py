"""The business card of the Tenstorrent backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from zyx.errors import DriverNotFoundError
from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_tenstorrent.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool

_INSTALL: Final = "pip install 'zyx-backend-tenstorrent[sim]'"


@dataclass(frozen=True)
class TenstorrentConfig:
    """The section ``backends.tenstorrent`` of the configuration.

    Attributes:
        grid_rows: Rows of cores that programs use of the simulator. More cores make it no faster.
        grid_columns: Columns of them.
        memory_bytes: How much memory the simulated card has; 0 means what a card has.
    """

    grid_rows: Annotated[int, msgspec.Meta(ge=1, le=10)] = 1
    grid_columns: Annotated[int, msgspec.Meta(ge=1, le=13)] = 1
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("tenstorrent", __version__, (2, 1), "Tenstorrent by TT-Lang: its simulator, so far")


@hookimpl
def zyx_may_have_devices() -> bool:
    """Return False: a simulator is worth choosing for those alone who name it, and takes a second to load."""
    return False


@hookimpl
def zyx_config_section() -> type[TenstorrentConfig]:
    """Return the class of this backend's configuration."""
    return TenstorrentConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[TenstorrentConfig]) -> Sequence[MemoryPool]:
    """Return the pool of the simulator.

    Raises:
        DriverNotFoundError: The simulator is not installed, or torch is not, which it needs.
    """
    missing = [name for name in ("ttl", "torch") if find_spec(name) is None]
    if missing:
        raise DriverNotFoundError(
            f"the simulator of TT-Lang is missing (no module {' and '.join(missing)}): {_INSTALL}"
        )
    try:
        from zyx_backend_tenstorrent.start import open_pools
    except ImportError as error:
        if (error.name or "").startswith("zyx"):  # of ours, and no driver
            raise
        raise DriverNotFoundError(f"the simulator of TT-Lang cannot be used ({error}): {_INSTALL}") from error
    return open_pools(config.section)


@hookimpl
def zyx_devices(pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools."""
    from zyx_backend_tenstorrent.start import open_devices

    return open_devices(pools)
