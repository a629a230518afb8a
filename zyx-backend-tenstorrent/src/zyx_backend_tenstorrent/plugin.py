"""The business card of the Tenstorrent backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from zyx.errors import DriverNotFoundError, NoDeviceError
from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_tenstorrent.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool

#: What each servant needs: its packages, and the extra that brings them. The compiler has the simulator, too.
_CARDS: Final = (("tt-lang", "ttnn", "torch"), "cards")
_SIMULATOR: Final = (("tt-lang-sim", "torch"), "sim")


@dataclass(frozen=True)
class TenstorrentConfig:
    """The section ``backends.tenstorrent`` of the configuration.

    Attributes:
        serve: What programs run on: cards, the simulator, or, where there is no card, that in their place.
        grid_rows: Rows of cores that programs use of the simulator. More cores make it no faster.
        grid_columns: Columns of them.
        memory_bytes: How much memory the simulated card has; 0 means what a card has.
    """

    serve: Literal["any", "cards", "simulator"] = "any"
    grid_rows: Annotated[int, msgspec.Meta(ge=1, le=10)] = 1
    grid_columns: Annotated[int, msgspec.Meta(ge=1, le=13)] = 1
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("tenstorrent", __version__, (2, 1), "Tenstorrent's cards by TT-Lang, and its simulator")


@hookimpl
def zyx_may_have_devices() -> bool:
    """Return False: neither a simulator nor what has seen no card is worth choosing for those who do not name it."""
    return False


@hookimpl
def zyx_config_section() -> type[TenstorrentConfig]:
    """Return the class of this backend's configuration."""
    return TenstorrentConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[TenstorrentConfig]) -> Sequence[MemoryPool]:
    """Return the pool of each card, or that of the simulator.

    Raises:
        DriverNotFoundError: Neither can be had, and what one of them needs is not installed.
        NoDeviceError: Only cards are asked for, and there is none.
        InitializationError: There is a card, which cannot be opened. The simulator does not take its place.
    """
    reasons: dict[str, DriverNotFoundError | NoDeviceError] = {}
    for name in ("cards", "simulator"):
        if config.section.serve not in {"any", name}:
            continue
        try:
            return _open(name, config.section)
        except (DriverNotFoundError, NoDeviceError) as error:
            reasons[name] = error
    *_, last = reasons.values()
    raise type(last)("; ".join(f"no {name}: {error}" for name, error in reasons.items()))


def _open(name: str, section: TenstorrentConfig) -> Sequence[MemoryPool]:
    packages, extra = _CARDS if name == "cards" else _SIMULATOR
    advice = f"pip install 'zyx-backend-tenstorrent[{extra}]'"
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        raise DriverNotFoundError(f"no package {' and '.join(missing)}: {advice}")
    from zyx.drivers.opening import needing

    with needing(" and ".join(packages), advice):
        from zyx_backend_tenstorrent.start import open_cards, open_simulator

        return (open_cards if name == "cards" else open_simulator)(section)


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


@hookimpl
def zyx_devices(pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools."""
    from zyx_backend_tenstorrent.start import open_devices

    return open_devices(pools)
