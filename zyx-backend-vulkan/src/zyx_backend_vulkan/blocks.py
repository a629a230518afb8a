"""Pieces of the driver's memory: drivers give a few thousand at most, each takes long, and tensors are many and small.

A large piece is a block of its own. Small ones share blocks, and a block goes back to the driver with the last of them.
Pieces begin at multiples of 256 bytes, which is the largest alignment that a driver may ask for.
"""

from __future__ import annotations

from bisect import insort
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from zyx.drivers.faults import Cause, Fault
from zyx_backend_vulkan.driver_memory import ALIGNMENT, described

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zyx_backend_vulkan.driver_memory import Block, Heaps

#: Size of a block that is shared, where memory is plenty, and the part of it that a small piece has at most.
_BLOCK_BYTES: Final = 32 << 20
_SMALL_PART: Final = 8
#: A shared block has at most this part of all memory.
_MEMORY_PART: Final = 32


class Memory:
    """A piece of memory.

    Attributes:
        block: The driver's buffer that it is in.
        buffer: The same, as commands name it.
        offset: Where it begins there.
        nbytes: Size.
        number: Tells it from all others that ever were.
        info: The piece as descriptors name it.
    """

    __slots__ = ("block", "buffer", "info", "nbytes", "number", "offset")

    def __init__(self, block: Block, offset: int, nbytes: int, number: int, reached: int) -> None:
        self.block = block
        self.buffer: Any = block.buffer.native
        self.offset = offset
        self.nbytes = nbytes
        self.number = number
        self.info: Any = described(block, offset, reached)

    @property
    def address(self) -> int:
        """Where kernels reach it."""
        return self.block.address + self.offset

    @property
    def view(self) -> NDArray[np.uint8] | None:
        """Its bytes, where the host can reach them; else None."""
        view = self.block.view
        return None if view is None else view[self.offset : self.offset + self.nbytes]


class _Shared:
    """A block and what is free of it: (start, end), which never touch one another."""

    __slots__ = ("block", "free")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.free: list[tuple[int, int]] = [(0, block.nbytes)]

    def take(self, nbytes: int) -> int | None:
        """Return where `nbytes` begin that are free no longer: in the least gap that has them."""
        fits = [(end - start, start) for start, end in self.free if end - start >= nbytes]
        if not fits:
            return None
        size, start = min(fits)
        self.free.remove((start, start + size))
        if size > nbytes:
            insort(self.free, (start + nbytes, start + size))
        return start

    def give(self, start: int, end: int) -> None:
        """Take back what `take` returned."""
        before = next((gap for gap in self.free if gap[1] == start), None)
        behind = next((gap for gap in self.free if gap[0] == end), None)
        if before is not None:
            self.free.remove(before)
            start = before[0]
        if behind is not None:
            self.free.remove(behind)
            end = behind[1]
        insort(self.free, (start, end))

    @property
    def is_empty(self) -> bool:
        return self.free == [(0, self.block.nbytes)]


class Blocks:
    """Memory of one type. Any thread may call.

    Args:
        heaps: The memory of the device.
        memory_type: The type.
        capacity_bytes: How much of it there is.
        most_reached: How many bytes of a piece a kernel can be shown at most.
    """

    def __init__(self, heaps: Heaps, memory_type: int, capacity_bytes: int, most_reached: int) -> None:
        self._heaps: Final = heaps
        self._type: Final = memory_type
        self._most_reached: Final = most_reached
        self._block_bytes: Final = min(_BLOCK_BYTES, capacity_bytes // _MEMORY_PART // ALIGNMENT * ALIGNMENT)
        self._shared: dict[int, _Shared] = {}  # by the number of the block's buffer
        self._number = 0
        self._lock: Final = Lock()
        self.nbytes = 0  # of all blocks

    def obtain(self, nbytes: int) -> Memory:
        """Return a piece of memory.

        Raises:
            Fault: The driver refused.
        """
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._number += 1
            if size * _SMALL_PART <= self._block_bytes:
                for shared in self._shared.values():
                    start = shared.take(size)
                    if start is not None:
                        return self._piece(shared.block, start, size)
                made = self._new_shared()
                if made is not None:
                    return self._piece(made.block, made.take(size) or 0, size)
            return self._piece(self._new(size), 0, size)

    def _piece(self, block: Block, start: int, size: int) -> Memory:
        return Memory(block, start, size, self._number, min(size, self._most_reached))

    def _new(self, nbytes: int) -> Block:
        block = self._heaps.obtain(nbytes, self._type)
        self.nbytes += nbytes
        return block

    def _new_shared(self) -> _Shared | None:
        """Return a new block to share; None if there is no room for one, and a smaller one may do."""
        try:
            block = self._new(self._block_bytes)
        except Fault as fault:
            if fault.cause is not Cause.MEMORY:
                raise
            return None
        made = self._shared[block.buffer.number] = _Shared(block)
        return made

    def discard(self, memory: Memory) -> None:
        """Take back a piece, which nothing that runs uses any more."""
        with self._lock:
            block = memory.block
            shared = self._shared.get(block.buffer.number)
            if shared is not None:
                shared.give(memory.offset, memory.offset + memory.nbytes)
                if not shared.is_empty:
                    return
                del self._shared[block.buffer.number]
            self.nbytes -= block.nbytes
            self._heaps.free(block)
