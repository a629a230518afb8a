"""The memory behind handles: what each stands for, how it is read as an array, and how results get into it.

    a handle  ->  a block: bytes on the device, as the flat tensor of the dtype in which they were last used
    read      ->  a tensor on that memory, of the dtype and layout that a call names: nothing is copied
    write     ->  a result over all of it takes its place; a result in a part is stored there, the rest left as it is

A tensor that somebody else reads keeps its values: the store goes to a copy then, as all assignment to tensors does.
A write that fails leaves the block as it was.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.compute.layout import ArrayLayout, dense, read_at, written_to
from zyx.compute.names import Region
from zyx.runtime.ownership import source_with_same_layout
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.compute.arguments import CheckedCall
    from zyx.dtype import DType
    from zyx.graph.node import Node
    from zyx.runtime.runtime import Runtime

#: The largest element: with a whole number of these, memory is a whole number of elements of any dtype.
_ALIGNMENT: Final = dtypes.complex128.itemsize
#: By their bytes, what bytes are copied as.
_UNITS: Final = {4: dtypes.uint32, 2: dtypes.uint16, 1: dtypes.uint8}
#: Bits of a handle that count the handles of one backend; those above say which backend it is.
_SERIAL_BITS: Final = 40
#: Numbers of backends, so that a handle tells whose it is. Zero is none.
_BACKENDS: Final = itertools.count(1)


class HandleBlock:
    """Memory that a handle stands for.

    Attributes:
        tensor: All of it, flat, in the dtype in which it was last used.
        nbytes: What was asked for.
        capacity: Bytes that there are: `nbytes` and what aligns it.
    """

    __slots__ = ("capacity", "nbytes", "tensor")

    def __init__(self, tensor: Tensor, nbytes: int, capacity: int) -> None:
        self.tensor = tensor
        self.nbytes = nbytes
        self.capacity = capacity


@dataclass(frozen=True, slots=True)
class Operand:
    """An array in the memory of a handle.

    Attributes:
        argument: Its name.
        block: The memory; None of an array without elements, for which no handle is looked up.
        layout: Where its elements are.
        dtype: Of its elements.
    """

    argument: str
    block: HandleBlock | None
    layout: ArrayLayout
    dtype: DType

    @property
    def bounds(self) -> tuple[int, int]:
        """The first byte, and that behind the last."""
        size = self.dtype.itemsize
        return self.layout.start * size, (self.layout.start + self.layout.reach) * size

    def is_same_as(self, other: Operand) -> bool:
        """Whether both are the same elements of the same memory."""
        return self.block is other.block and self.layout == other.layout

    def overlaps(self, other: Operand) -> bool:
        """Whether both reach over a byte of the same memory."""
        first, second = self.bounds, other.bounds
        return self.block is not None and self.block is other.block and first[0] < second[1] and second[0] < first[1]


class HandleMemory:
    """The blocks of one backend.

    Args:
        runtime: What computes.
        device: Name of the device.
    """

    def __init__(self, runtime: Runtime, device: str) -> None:
        self._runtime = runtime
        self._device = device
        self._blocks: dict[int, HandleBlock] = {}
        self._family = next(_BACKENDS) << _SERIAL_BITS
        self._last = self._family

    @property
    def nbytes(self) -> int:
        """Bytes that were asked for and not freed."""
        return sum(block.nbytes for block in self._blocks.values())

    @property
    def count(self) -> int:
        """Number of handles that were not freed."""
        return len(self._blocks)

    def allocate(self, nbytes: int) -> int:
        """Return a handle of `nbytes` > 0 bytes, whose contents are undefined.

        Raises:
            AllocationError: No room.
        """
        capacity = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        with self._runtime.lock:
            buffer = self._runtime.allocate(self._device, capacity)
        leaf = self._runtime.graph.leaf((capacity,), dtypes.uint8, self._device, buffer)
        self._last += 1
        self._blocks[self._last] = HandleBlock(Tensor.of(leaf, self._runtime), nbytes, capacity)
        return self._last

    def free(self, call: CheckedCall, handle: object) -> None:
        """Let go of memory; what is queued on it still runs."""
        self.block(call, "handle", handle)
        del self._blocks[handle]  # type: ignore[arg-type]  # it was found

    def clear(self) -> None:
        """Free everything."""
        self._blocks.clear()

    def block(self, call: CheckedCall, argument: str, handle: object) -> HandleBlock:
        """Return what a handle stands for.

        Raises:
            InvalidArgumentError: It was freed, or is none of this backend.
        """
        number = call.integer(argument, handle, 0, "a handle that alloc returned")
        found = self._blocks.get(number)
        if found is not None:
            return found
        wanted = "a handle that alloc returned"
        if self._family < number <= self._last:
            wanted = "a handle that is in use; this one was freed"
        elif 0 < number >> _SERIAL_BITS != self._family >> _SERIAL_BITS:
            wanted = f"a handle of this backend, on {self._device}; this one is of another"
        raise call.error(argument, number, wanted)

    def operand(self, call: CheckedCall, argument: str, place: object, layout: ArrayLayout, dtype: DType) -> Operand:
        """Return the array of a layout that begins at a place. One without elements needs no handle.

        Raises:
            InvalidArgumentError: No handle, an offset that is no whole number of elements, or memory that ends before.
        """
        if not layout.reach:
            return Operand(argument, None, layout, dtype)
        handle, offset = place if isinstance(place, Region) else (place, 0)
        block = self.block(call, argument, handle)
        offset = call.integer(f"the offset of {argument}", offset, 0, "an integer >= 0")
        if offset % dtype.itemsize:
            call.refuse(
                f"the offset of {argument}", offset, f"a multiple of {dtype.itemsize} bytes, an element of {dtype}"
            )
        placed = ArrayLayout(layout.start + offset // dtype.itemsize, layout.sizes, layout.strides)
        needed = offset + (layout.start + layout.reach) * dtype.itemsize
        if needed > block.nbytes:
            where = f" behind offset {offset}" if offset else ""
            wanted = (
                f"a handle of at least {needed} bytes for {' x '.join(map(str, layout.sizes))} elements of "
                f"{dtype}{where} with strides {layout.strides}; it has {block.nbytes}"
            )
            call.refuse(argument, handle, wanted)
        return Operand(argument, block, placed, dtype)

    def flat(self, block: HandleBlock, dtype: DType) -> Node:
        """Return all of a block as elements of `dtype`."""
        node = block.tensor.node
        if node.dtype is not dtype:
            shape = (block.capacity // dtype.itemsize,)
            node = self._runtime.graph.leaf(shape, dtype, self._device, node.storage)
            block.tensor = Tensor.of(node, self._runtime)
        return node

    def read(self, operand: Operand) -> Tensor:
        """Return the values of an array. Later writes to its memory do not change them."""
        graph, layout = self._runtime.graph, operand.layout
        if operand.block is None:
            return self.zeros(operand)
        return Tensor.of(read_at(graph, self.flat(operand.block, operand.dtype), layout), self._runtime)

    def zeros(self, operand: Operand) -> Tensor:
        """Return zeros for an array."""
        node = self._runtime.graph.const(0, operand.dtype, self._device, operand.layout.sizes)
        return Tensor.of(node, self._runtime)

    def write(self, results: Sequence[tuple[Operand, Tensor]]) -> None:
        """Let arrays have the values of tensors, computed together; return before the work is done.

        Raises:
            BackendError: It was refused. Every block is as it was.
        """
        whole: list[tuple[HandleBlock, Tensor]] = []
        parts: list[HandleBlock] = []
        try:
            for operand, values in results:
                if operand.block is None:
                    continue
                if self._is_whole(operand):
                    whole.append((operand.block, self._as_whole(values)))
                else:
                    parts.append(operand.block)
                    self._store(operand, values)
            self._runtime.realize([*(tensor for _, tensor in whole), *(block.tensor for block in parts)])
        except BaseException:
            for block in parts:
                self._restore(block)
            raise
        for block, tensor in (*whole, *((block, block.tensor) for block in parts)):
            # A leaf of its own: a tape that records what tensors are computed from remembers it by the old one.
            node = tensor.node
            leaf = self._runtime.graph.leaf(node.shape, node.dtype, self._device, node.storage)
            block.tensor = Tensor.of(leaf, self._runtime)

    def _is_whole(self, operand: Operand) -> bool:
        layout = operand.layout
        assert operand.block is not None
        return layout.is_dense and layout.count * operand.dtype.itemsize == operand.block.capacity

    def _as_whole(self, values: Tensor) -> Tensor:
        """Return the values for memory of their own."""
        graph = self._runtime.graph
        node = graph.reshape(values.node, (values.numel(),))
        if node.storage is not None or source_with_same_layout(node) is not None:
            node = graph.copy(node)
        return Tensor.of(node, self._runtime)

    def _store(self, operand: Operand, values: Tensor) -> None:
        """Let the tensor of a block stand for it with `values` written to; nothing else may refer to what it was."""
        block = operand.block
        assert block is not None
        self.flat(block, operand.dtype)
        node = written_to(self._runtime.graph, block.tensor.node, operand.layout, values.node)
        self._runtime.assign(block.tensor, node)

    def _restore(self, block: HandleBlock) -> None:
        """Let a block be what it was before it was written to."""
        node = block.tensor._node
        while node.storage is None and node.sources:
            node = node.sources[0]
        block.tensor = Tensor.of(node, self._runtime)


def bytes_at(
    call: CheckedCall, argument: str, place: object, nbytes: int, memory: HandleMemory, unit: int | None = None
) -> Operand:
    """Return so many bytes from a place on, as elements of a number of bytes; the largest that fits for None.

    Elements are unsigned and have up to 32 bits, which is what all devices have.
    """
    if unit is None:
        offset = place.offset if isinstance(place, Region) and isinstance(place.offset, int) else 0
        unit = next(each for each in _UNITS if nbytes % each == 0 == offset % each)
    return memory.operand(call, argument, place, dense(0, nbytes // unit), _UNITS[unit])
