"""Where work runs that may run on one of several devices.

The device of a tensor may be a group, written ``cuda:0|c:0``. Then each plan that computes such tensors runs on one
device of the group: the one that is likely to be done first, among those whose pools have room for what is computed and
for the inputs that lie elsewhere. Work in flight lowers what a device has left (`Device.free_compute`), so that the
next plan may go to another one.

A buffer stays where it was computed or uploaded. What a plan on another device reads of it is copied there once, and
the copy is kept beside it, until memory runs out or a traced function stores over the buffer.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from zyx.backend import Device
from zyx.errors import AllocationError, NoDeviceError, UnsupportedError
from zyx.runtime.buffer import Buffer
from zyx.runtime.copying import copy_buffer
from zyx.runtime.devices import GROUP
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from zyx.backend import MemoryPool
    from zyx.graph.node import Node
    from zyx.runtime.buffer import Allocator
    from zyx.runtime.trace import Trace

DeviceLike: TypeAlias = "str | int | Device | Sequence[DeviceLike]"
Placed: TypeAlias = "Mapping[str, Device]"

T = TypeVar("T")

#: What a copy between memories is taken to reach, to compare it with computing: that of a bus, not of a memory.
_COPY_BYTES_PER_S: Final = 1e10


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A device for each group of a plan.

    Attributes:
        devices: From the groups' names.
        seconds: A rough guess of when it is done.
        has_room: Whether the pools have room for results, and for inputs that lie elsewhere.
        text: The devices, and these sizes.
    """

    devices: Placed
    seconds: float
    has_room: bool
    text: str


class Placement:
    """Chooses devices of groups, and keeps copies of buffers on more than one of them.

    Args:
        device_of: From the name of one device to the device.
        devices: All devices, fastest first.
        memory: Allocates buffers.

    Attributes:
        groups: For each name of a group that was asked for, its devices, fastest first.
    """

    def __init__(
        self, device_of: Callable[[str], Device], devices: Callable[[], Sequence[Device]], memory: Allocator
    ) -> None:
        self.groups: dict[str, tuple[Device, ...]] = {}
        self._device_of = device_of
        self._devices = devices
        self._memory = memory
        self._copies: weakref.WeakKeyDictionary[Buffer, dict[MemoryPool, Buffer]] = weakref.WeakKeyDictionary()
        self._dropper = self._copies.clear
        memory.droppers.insert(0, self._dropper)

    def close(self) -> None:
        """Give the copies back."""
        self._copies.clear()
        self._memory.droppers.remove(self._dropper)

    # ---- names

    def name_of(self, which: DeviceLike) -> str:
        """Return the full name of a device or of a group.

        Args:
            which: A name, names with ``|`` between them, a position in the list of all devices, a device, or several of
                these. A group has the same name in whatever order it is given.

        Raises:
            NoDeviceError: There is no such device, or none is given; the text lists those there are.
        """
        devices = {device.name: device for device in self._named(which)}
        if not devices:
            raise NoDeviceError(f"a group of no devices is asked for; there are {self._listed()}")
        name = GROUP.join(sorted(devices))
        if len(devices) > 1:
            self.groups[name] = tuple(
                sorted(devices.values(), key=lambda device: (-device.info.flops_per_s, device.name))
            )
        return name

    def _named(self, which: DeviceLike) -> Iterator[Device]:
        if isinstance(which, str):
            for name in which.split(GROUP):
                yield self._device_of(name)
        elif isinstance(which, Device):
            if which not in self._devices():
                raise NoDeviceError(f"device {which.name} is closed, or of another runtime")
            yield which
        elif not isinstance(which, int):
            for part in which:
                yield from self._named(part)
        else:
            devices = self._devices()
            if not 0 <= which < len(devices):
                raise NoDeviceError(f"no device number {which}: there are {self._listed()}")
            yield devices[which]

    def _listed(self) -> str:
        return ", ".join(f"{number}: {device.name}" for number, device in enumerate(self._devices()))

    def members(self, name: str) -> tuple[Device, ...]:
        """Return the devices of a group, fastest first, or the one device of that name."""
        if GROUP in name and name not in self.groups:
            self.name_of(name)
        return self.groups.get(name) or (self._device_of(name),)

    # ---- memory

    def allocate(self, name: str, nbytes: int) -> Buffer:
        """Return a buffer on a device; in a group, on the fastest that has room.

        Raises:
            AllocationError: None has; the text has `nbytes`, and what each has left.
        """
        members = self.members(name)
        if len(members) > 1:
            self._memory.reclaim()
            members = tuple(sorted(members, key=lambda device: device.memory_pool.free_bytes < nbytes))
        refusals: list[str] = []
        for device in members:
            try:
                return self._memory.allocate(device.memory_pool, nbytes)
            except AllocationError as error:
                if len(members) == 1:
                    raise
                refusals.append(f"{device.name}: {error}")
        raise AllocationError(f"no device of {name} has room for {nbytes} bytes:\n  " + "\n  ".join(refusals))

    def gather(
        self, leaves: Iterable[Node], buffers: Sequence[Buffer], placed: Placed, written: Collection[int] = ()
    ) -> list[Buffer]:
        """Return the buffers of leaves of groups on the devices of `placed`, copying those that are not there.

        What is stored over, the buffers number `written`, has no copies afterwards.

        Raises:
            AllocationError: No room for a copy.
        """
        gathered: list[Buffer] = []
        for number, (leaf, buffer) in enumerate(zip(leaves, buffers, strict=True)):
            device = placed.get(leaf.device)
            gathered.append(buffer if device is None else self._on(buffer, device.memory_pool))
            if number in written:
                self._copies.pop(buffer, None)
        return gathered

    def _on(self, buffer: Buffer, pool: MemoryPool) -> Buffer:
        if buffer.pool is pool:
            return buffer
        known = self._copies.get(buffer, {}).get(pool)
        if known is None:
            known = self._memory.allocate(pool, buffer.nbytes)
            copy_buffer(buffer, known)
            self._copies.setdefault(buffer, {})[pool] = known  # only now: allocating may have dropped all copies
        return known

    # ---- devices for plans

    def run(self, order: Sequence[Node], outputs: Sequence[Node], trace: Trace, attempt: Callable[[Placed], T]) -> T:
        """Run `attempt` with the best placement, then with the next best ones until a device accepts it.

        Args:
            order: All nodes of the plan.
            outputs: Those that are asked for.
            trace: Is told of the choice.
            attempt: Makes the plan, or runs it. If it raises `AllocationError` or `UnsupportedError`, it has changed
                nothing.

        Raises:
            AllocationError: No device of a group has room; the text has each one's reason.
            UnsupportedError: No device can do it, for reasons that are not all of memory.
        """
        ways = self._ways(order, outputs)
        refusals: list[AllocationError | UnsupportedError] = []
        for way in ways:
            for name, device in way.devices.items():
                trace.chosen(device, f"of {name}, the likely first to compute this, in {way.seconds * 1e3:.3g} ms")
            try:
                return attempt(way.devices)
            except (AllocationError, UnsupportedError) as error:
                if len(ways) == 1:
                    raise
                refusals.append(error)
        kind = next((type(error) for error in refusals if isinstance(error, UnsupportedError)), AllocationError)
        reasons = (f"  {way.text}: {error}" for way, error in zip(ways, refusals, strict=True))
        try:
            raise kind("\n".join(["no device can compute this:", *reasons])) from refusals[-1]
        finally:
            refusals.clear()  # or a cycle would keep them, and the buffers of the frames that they came through

    def _ways(self, order: Sequence[Node], outputs: Sequence[Node]) -> list[_Candidate]:
        """Return all choices: those with room before those without, the likely fastest first."""
        names = sorted({node.device for node in order if GROUP in node.device})
        if not names:
            return [_Candidate({}, 0.0, True, "")]
        self._memory.reclaim()
        choices = itertools.product(*(self.members(name) for name in names))
        ways = [self._way(dict(zip(names, choice, strict=True)), order, outputs) for choice in choices]
        return sorted(ways, key=lambda way: (not way.has_room, way.seconds))

    def _way(self, devices: Placed, order: Sequence[Node], outputs: Sequence[Node]) -> _Candidate:
        seconds = 0.0
        nbytes = dict.fromkeys((device.memory_pool for device in devices.values()), 0)
        asked = set(outputs)
        for node in order:
            device = devices.get(node.device)
            if device is None:
                continue
            size = size_of(node.shape) * node.dtype.itemsize
            if node.storage is None:
                seconds += size_of(node.shape) / max(device.free_compute, 1.0)
                nbytes[device.memory_pool] += size if node in asked else 0
            elif isinstance(node.storage, Buffer) and not self._is_on(node.storage, device.memory_pool):
                seconds += size / _COPY_BYTES_PER_S
                nbytes[device.memory_pool] += size
        text = ", ".join(
            f"{device.name} ({nbytes[device.memory_pool]} bytes of results and inputs from elsewhere, "
            f"{device.memory_pool.free_bytes} bytes free in pool {device.memory_pool.name})"
            for device in devices.values()
        )
        return _Candidate(devices, seconds, all(pool.free_bytes >= size for pool, size in nbytes.items()), text)

    def _is_on(self, buffer: Buffer, pool: MemoryPool) -> bool:
        return buffer.pool is pool or pool in self._copies.get(buffer, ())
