"""The business card. Importing it loads no driver."""

from collections.abc import Mapping, Sequence

from zyx.backend import Device, MemoryPool
from zyx.hookspecs import BackendInfo, hookimpl


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Say who this is, and which interface it was written for."""
    return BackendInfo("tcc", "0.1.0", (2, 0), "one core, by the Tiny C Compiler", works_on_host_memory=True)


@hookimpl
def zyx_devices(pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the one device. The driver is loaded here."""
    from zyx_backend_tcc.device import TccDevice

    return [TccDevice("tcc:0", pools["host"])]
