"""All that the author of a backend reads: what to implement, and the records that go with it."""

from typing import Final

from zyx.backend.device import (
    Argument,
    Device,
    Launch,
    Program,
    Queue,
    Slot,
    SupportsCapture,
    SupportsEntry,
    SupportsNests,
    SupportsQueue,
    SupportsTiming,
)
from zyx.backend.event import Event, take_all
from zyx.backend.info import STORAGE_ONLY, Capability, DeviceInfo, TileUnit, full_capability
from zyx.backend.pool import MemoryPool, PoolBuffer

#: Version of this interface, (major, minor). Core refuses a backend of another major version, or of a later minor one.
API_VERSION: Final = (2, 1)

__all__ = [
    "API_VERSION", "STORAGE_ONLY", "Argument", "Capability", "Device", "DeviceInfo", "Event", "Launch", "MemoryPool",
    "PoolBuffer", "Program", "Queue", "Slot", "SupportsCapture", "SupportsEntry", "SupportsNests", "SupportsQueue",
    "SupportsTiming", "TileUnit", "full_capability", "take_all",
]  # fmt: skip
