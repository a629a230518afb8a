"""Foreign functions: memory of a device, and of the host for its transfers."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.drivers.faults import Cause, Fault
from zyx_backend_vulkan.driver import NULL, WHOLE, check, ffi, lib, owned, struct
from zyx_backend_vulkan.driver_instance import CPU

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zyx_backend_vulkan.driver import Native
    from zyx_backend_vulkan.driver_device import Handle, Session

#: What pieces of memory are multiples of: the largest value that minStorageBufferOffsetAlignment may have.
ALIGNMENT: Final = 256
#: VkMemoryPropertyFlagBits.
_LOCAL: Final = 1
_VISIBLE: Final = 2
_COHERENT: Final = 4
_CACHED: Final = 8
_MAPPED: Final = _VISIBLE | _COHERENT
#: What memory may be: of other kinds, such as protected memory, nothing is known here.
_KNOWN: Final = _LOCAL | _VISIBLE | _COHERENT | _CACHED
#: VkBufferUsageFlagBits: to copy from and to, and for kernels; with an address.
_USAGE: Final = 0x23
_WITH_ADDRESS: Final = 0x20000
_CONCURRENT: Final = 1  # VK_SHARING_MODE_CONCURRENT
_ADDRESS_BIT: Final = 2  # VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT


class Block:
    """A buffer of the driver that has all of its memory.

    Attributes:
        buffer: The handle of the buffer.
        memory: That of the memory.
        nbytes: Size.
        address: Where kernels reach it; 0 if there are no addresses.
        view: Its bytes, where the host can reach them; else None.
    """

    __slots__ = ("address", "buffer", "memory", "nbytes", "view")

    def __init__(
        self, buffer: Handle, memory: Handle, nbytes: int, address: int, view: NDArray[np.uint8] | None
    ) -> None:
        self.buffer = buffer
        self.memory = memory
        self.nbytes = nbytes
        self.address = address
        self.view = view


class Heaps:
    """The memory of a device, by what it is for.

    Args:
        session: The device.

    Attributes:
        local: Memory type of buffers: of the largest memory of the device's own, and one that the host can reach where
            all of that can be.
        upload, download: Memory types of the host for transfers.
        capacity_bytes: Size of the memory that buffers are in.
        is_mapped: Whether the host can write to buffers.
        is_cached: Whether it can read from them at its usual speed.
        largest_bytes: Size of the largest buffer.

    Raises:
        Fault: The driver refused.
    """

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._count = 0
        self._lock: Final = Lock()
        listed = session.listed
        self._usage: Final = _USAGE | (_WITH_ADDRESS if session.features.v12.bufferDeviceAddress else 0)
        told, limits = listed.memory, listed.limits
        flags = {number: int(told.memoryTypes[number].propertyFlags) for number in self._allowed()}
        heaps = {number: int(told.memoryTypes[number].heapIndex) for number in flags}
        sizes = [int(told.memoryHeaps[number].size) for number in range(told.memoryHeapCount)]
        own = [number for number, flag in flags.items() if flag & _LOCAL] or list(flags)
        most = max(sizes[heaps[number]] for number in own)
        own = [number for number in own if sizes[heaps[number]] == most]
        self.local: Final = max(own, key=lambda number: (flags[number] & _MAPPED == _MAPPED, flags[number] & _CACHED))
        mapped = [number for number, flag in flags.items() if flag & _MAPPED == _MAPPED]
        self.upload: Final = min(mapped, key=lambda number: flags[number] & (_LOCAL | _CACHED))
        self.download: Final = max(mapped, key=lambda number: flags[number] & _CACHED)
        self.heap: Final = heaps[self.local]
        self.capacity_bytes: Final = most
        self.is_mapped: Final = flags[self.local] & _MAPPED == _MAPPED
        self.is_cached: Final = self.is_mapped and (bool(flags[self.local] & _CACHED) or listed.kind == CPU)
        self._most_blocks: Final = int(limits.maxMemoryAllocationCount)
        sizes_of_buffers = [
            int(limits.maxStorageBufferRange), int(listed.properties.v11.maxMemoryAllocationSize) or most, most
        ]  # fmt: skip
        if listed.properties.max_buffer_bytes:
            sizes_of_buffers.append(listed.properties.max_buffer_bytes)
        # Of whole pieces: one that is rounded up to its alignment is not too large either.
        self.largest_bytes: Final = min(sizes_of_buffers) // ALIGNMENT * ALIGNMENT

    def _allowed(self) -> list[int]:
        """Return the memory types that our buffers may be of."""
        buffer = self._session.make("VkBuffer", self._description(1 << 16))
        needed = struct("VkMemoryRequirements")
        lib.vkGetBufferMemoryRequirements(self._session.native, buffer.native, needed)
        self._session.free(buffer)
        told = self._session.listed.memory
        return [
            number
            for number in range(told.memoryTypeCount)
            if needed.memoryTypeBits >> number & 1 and not told.memoryTypes[number].propertyFlags & ~_KNOWN
        ]

    def _description(self, nbytes: int) -> Native:
        families = self._session.families
        # Several families take turns without being told, which for buffers costs nothing.
        shared: dict[str, Any] = {}
        if len(families) > 1:
            shared = {
                "sharingMode": _CONCURRENT,
                "queueFamilyIndexCount": len(families),
                "pQueueFamilyIndices": families,
            }
        return struct("VkBufferCreateInfo", size=nbytes, usage=self._usage, **shared)

    def available_bytes(self) -> int | None:
        """Return how much more this process may have, as others leave it; None if the driver does not tell."""
        return self._session.listed.heap_available_bytes(self.heap)

    def obtain(self, nbytes: int, memory_type: int) -> Block:
        """Return a buffer with memory of its own; nothing is left of it if the driver refuses.

        Raises:
            Fault: The driver refused, or gives no more pieces of memory, however small.
        """
        with self._lock:
            if self._count >= self._most_blocks:
                raise Fault(Cause.MEMORY, f"it gives at most {self._most_blocks} pieces of memory")
            self._count += 1
        try:
            return self._obtain(nbytes, memory_type)
        except Fault:
            with self._lock:
                self._count -= 1
            raise

    def _obtain(self, nbytes: int, memory_type: int) -> Block:
        session = self._session
        buffer = session.make("VkBuffer", self._description(nbytes))
        memory = None
        try:
            needed = struct("VkMemoryRequirements")
            lib.vkGetBufferMemoryRequirements(session.native, buffer.native, needed)
            has_address = session.features.v12.bufferDeviceAddress
            flags = struct("VkMemoryAllocateFlagsInfo", flags=_ADDRESS_BIT if has_address else 0)
            info = struct("VkMemoryAllocateInfo", allocationSize=needed.size, memoryTypeIndex=memory_type, pNext=flags)
            native = owned(lib.vkAllocateMemory, session.native, info, NULL, of="VkDeviceMemory")
            memory = session.hold(native, lib.vkFreeMemory)
            check(lib.vkBindBufferMemory(session.native, buffer.native, memory.native, 0), "vkBindBufferMemory")
            view = self._map(memory, nbytes, memory_type)
        except Fault:
            session.free(buffer, *(() if memory is None else (memory,)))
            raise
        return Block(buffer, memory, nbytes, session.address(buffer), view)

    def _map(self, memory: Handle, nbytes: int, memory_type: int) -> NDArray[np.uint8] | None:
        if self._session.listed.memory.memoryTypes[memory_type].propertyFlags & _MAPPED != _MAPPED:
            return None
        place = ffi.new("void **")
        check(lib.vkMapMemory(self._session.native, memory.native, 0, WHOLE, 0, place), "vkMapMemory")
        return np.frombuffer(ffi.buffer(place[0], nbytes), np.uint8)

    def free(self, block: Block) -> None:
        """Free a buffer with its memory; nothing that runs uses it any more."""
        block.view = None
        self._session.free(block.buffer, block.memory)
        with self._lock:
            self._count -= 1


def described(block: Block, offset: int, nbytes: int) -> Native:
    """Return a part of a buffer as descriptors name it."""
    return struct("VkDescriptorBufferInfo", buffer=block.buffer.native, offset=offset, range=nbytes)
