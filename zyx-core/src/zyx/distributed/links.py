"""Which processes can exchange tensors from device to device, without the host.

All of a group can, or none does. They tell each other what they have at the first operation with tensors on a device:
if the backend of each has a library for it, and it is the same backend, that library connects the devices. From then on
operations on these devices go by it. So the first operation on a device is one in all processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from zyx.errors import BackendError, UnsupportedError
from zyx.runtime.devices import GROUP

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.backend.collectives import Collectives
    from zyx.distributed.engine import Engine
    from zyx.distributed.group import Group
    from zyx.runtime.runtime import Runtime

_MESSAGE_BYTES: Final = 512
#: What processes agree on while they connect devices.
_READY: Final = "whether the library is there"
_CONNECTED: Final = "whether devices are connected"

#: Of each device that the processes have told each other of: it, and what connects it; None if nothing does.
Links: TypeAlias = "dict[str, tuple[Device, Collectives] | None]"


def links_of(runtime: Runtime, group: Group, name: str, call: str) -> Collectives | None:
    """Return what connects a device of this process with those of the others; None if operations go by the host.

    Args:
        runtime: Of the device.
        group: The processes.
        name: Of the device, or of a group of devices, of which none is connected.
        call: What all processes call. If only two do, it is "", and nothing is connected that is not yet.

    Raises:
        CollectiveError: Other processes are at another call, or cannot be reached.
    """
    known = group.links.setdefault(runtime, {})
    found = known.get(name)
    if found is not None:
        device, links = found
        if runtime.backends.devices.get(device.name) is device:
            return links
        del known[name]  # it was closed, by all processes: another that was not is told of a first operation
    if name in known or group.engine is None or not call or not group.engine.connects_devices:
        return None
    device_or_none = None if GROUP in name else runtime.device(name)
    links_or_none, how = _connected(runtime, group.engine, device_or_none, call)
    runtime.trace.linked(f"tensors on {name} are exchanged by {how}, between {group.size} processes")
    made = None if device_or_none is None or links_or_none is None else (device_or_none, links_or_none)
    known[name] = made
    return links_or_none


def _connected(runtime: Runtime, engine: Engine, device: Device | None, call: str) -> tuple[Collectives | None, str]:
    """Return what connects the devices of all processes, if something does, and how they exchange, for people."""
    backends = runtime.backends
    own, reason = b"", "several devices share the tensors"
    if device is not None:
        try:
            own = backends.collectives_identifier([device], is_first=engine.rank == 0)
        except UnsupportedError as error:
            reason = str(error)
    name = b"" if device is None else backends.backend_of(device).encode()
    told = _told(engine, name + b"\n" + own if own else b"", f"{call}, the first one on a device")
    if device is None or not all(told) or len({text.partition(b"\n")[0] for text in told}) > 1:
        if own:
            reason = "other processes have their tensors elsewhere, or no library for them"
        return None, f"{engine.name} through the host: {reason}"
    links: Collectives | None = None
    try:
        identifier = told[0].partition(b"\n")[2]
        timeout_s = runtime.settings.collectives.timeout_s
        links = backends.collectives([device], [engine.rank], engine.size, identifier, timeout_s)
    except UnsupportedError as error:
        reason = str(error)
    if links is not None and all(_told(engine, b"ready", _READY)):
        try:
            links.connect()
        except BackendError as error:
            reason = str(error)
        else:
            if all(_told(engine, b"connected", _CONNECTED)):
                return links, links.name
            links.close()
            return None, f"{engine.name} through the host: other processes could not connect their devices"
        _told(engine, b"", _CONNECTED)
    elif links is None:
        _told(engine, b"", _READY)
    else:
        reason = "other processes could not start the library"
    if links is not None:
        links.close()
    return None, f"{engine.name} through the host: {reason}"


def _told(engine: Engine, own: bytes, what: str) -> list[bytes]:
    """Return what each process tells, in the order of their ranks."""
    engine.agree(what)
    message = np.zeros(_MESSAGE_BYTES, np.uint8)
    message[:2] = np.frombuffer(len(own).to_bytes(2, "little"), np.uint8)
    message[2 : 2 + len(own)] = np.frombuffer(own, np.uint8)
    rows = [row.tobytes() for row in engine.all_gather(message)]
    return [row[2 : 2 + int.from_bytes(row[:2], "little")] for row in rows]
