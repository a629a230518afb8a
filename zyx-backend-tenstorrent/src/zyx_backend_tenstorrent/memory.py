"""Memory of a device: row-major bytes, and beside them the tiles that programs have made of them, or made themselves.

A buffer that a program has written is tiles; it becomes bytes when somebody reads those, or another matrix of it. Tiles
that were made of bytes are kept until the bytes change, or there is no room: then those used longest ago go.

Between the two is staging, a program of its own on a card; here it is `zyx.tiles.staging`, on memory of the host.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.drivers.faults import DeviceWork, Fault
from zyx.drivers.work_event import CompletedEvent
from zyx.errors import AllocationError, TransferError
from zyx.tiles.data import Pads
from zyx.tiles.staging import from_tiles, has_pads, shape_in_tiles, to_tiles
from zyx_backend_tenstorrent.info import TILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zyx.backend import Event, PoolBuffer
    from zyx.dtype import DType
    from zyx.tiles.data import Matrix
    from zyx_backend_tenstorrent.driver import Servant, Tensor

    Array = npt.NDArray[Any]


@dataclass(slots=True)
class _Form:
    """A matrix of a buffer as tiles.

    Attributes:
        tensor: The tiles.
        nbytes: How much memory they take.
        pads: What is beside the elements.
    """

    tensor: Tensor
    nbytes: int
    pads: Pads


@dataclass(slots=True, eq=False)
class Memory:
    """A piece of memory.

    Attributes:
        data: The bytes, row-major; meaningless while `written` is a matrix.
        forms: Matrices of it that are there as tiles.
        written: The matrix whose tiles are what the buffer has.
    """

    data: npt.NDArray[np.uint8]
    forms: dict[Matrix, _Form] = field(default_factory=dict)
    written: Matrix | None = None


TenstorrentBuffer: TypeAlias = CachedBuffer[Memory]


class TenstorrentPool(CachingPool[Memory, int]):
    """The memory of one device. Everything is done when a call returns, so events are complete.

    Args:
        name: Such as ``tenstorrent:0 memory``.
        servant: The device, open. It is closed with the pool.

    Attributes:
        staged_tiles: How many tiles were made of bytes, or bytes of them, so far.
    """

    def __init__(self, name: str, servant: Servant) -> None:
        super().__init__(name, servant.memory_bytes)
        self.servant: Final = servant
        self.work: Final = DeviceWork(name.removesuffix(" memory"))
        self.staged_tiles = 0
        self._form_bytes = 0
        self._forms: OrderedDict[tuple[Memory, Matrix], None] = OrderedDict()

    # ---- allocation

    def obtain(self, nbytes: int) -> Memory:
        try:
            return Memory(np.empty(nbytes, np.uint8))
        except MemoryError as error:
            raise AllocationError("the host has no memory for it") from error

    def allocate(self, nbytes: int) -> tuple[TenstorrentBuffer, Event]:
        self.work.check(f"an allocation of {nbytes} bytes")
        return super().allocate(nbytes)

    def make_buffer(self, nbytes: int, memory: Memory, capacity: int) -> TenstorrentBuffer:
        self._forget(memory)
        return super().make_buffer(nbytes, memory, capacity)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        memory = buffer.memory if isinstance(buffer, CachedBuffer) and buffer.pool is self else None
        super().deallocate(buffer, events)
        if memory is not None:
            self._forget(memory)

    def discard(self, memory: Memory, work: Sequence[int]) -> None:
        self._forget(memory)

    @property
    def cached_bytes(self) -> int:
        return super().cached_bytes + self._form_bytes

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        self.take(events)
        own = self.own(target, source.nbytes)
        if source.nbytes:
            self.work.check(f"an upload of {source.nbytes} bytes to {self.name}")
            if source.nbytes < own.nbytes:
                self._as_bytes(own.memory)
            self._forget(own.memory)
            own.memory.data[: source.nbytes] = np.frombuffer(source, np.uint8)
        return self.completed()

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        self.take(events)
        self.check_read(source, target, offset)
        own = self.own(source)
        self.work.check(f"a read of {target.nbytes} bytes of {self.name}")
        if target.nbytes:
            self._as_bytes(own.memory)
            np.frombuffer(target, np.uint8)[:] = own.memory.data[offset : offset + target.nbytes]

    # ---- tiles

    def tiles_of(self, buffer: TenstorrentBuffer, matrix: Matrix, pads: Pads) -> Tensor:
        """Return a matrix of a buffer as tiles: those that there are, or new ones.

        Raises:
            BackendError: The servant refused, or there is no room.
        """
        memory = buffer.memory
        form = memory.forms.get(matrix)
        if form is not None and (pads in (Pads.ANY, form.pads) or not has_pads(matrix, TILE)):
            self._forms.move_to_end((memory, matrix))
            return form.tensor
        self._as_bytes(memory)
        self._drop(memory, matrix)
        flat = self._flat(buffer, matrix)
        pads = Pads.ZERO if pads is Pads.ANY else pads
        tensor = self._tensor(to_tiles(flat, matrix, TILE, pads), matrix)
        self._keep(memory, matrix, _Form(tensor, self._count(matrix), pads))
        return tensor

    def empty(self, matrix: Matrix) -> Tensor:
        """Return new tiles for a matrix that a program is to write."""
        rows, columns = shape_in_tiles(matrix, TILE)
        return self._tensor(np.zeros((rows * TILE[0], columns * TILE[1]), matrix.tile_dtype.numpy), matrix)

    def written(self, buffer: TenstorrentBuffer, matrix: Matrix, tensor: Tensor, *, is_whole: bool) -> None:
        """Note that a program has written tiles for a matrix of a buffer, which is all of that if it `is_whole`."""
        memory = buffer.memory
        if is_whole:
            self._forget(memory)
            self._keep(memory, matrix, _Form(tensor, 0, Pads.ANY))
            memory.written = matrix
            return
        self._as_bytes(memory)
        self._forget(memory)
        self._store(memory, matrix, tensor, self._flat(buffer, matrix))

    def elements(self, buffer: TenstorrentBuffer, dtype: DType, *, is_written: bool) -> Array:
        """Return the elements of a buffer, on its memory, for the host to read, or to write as well."""
        self._as_bytes(buffer.memory)
        if is_written:
            self._forget(buffer.memory)
        size = dtype.itemsize
        found: Array = buffer.memory.data[: buffer.nbytes // size * size].view(dtype.numpy)
        return found

    def _as_bytes(self, memory: Memory) -> None:
        """Have the bytes of a piece of memory say what it has."""
        matrix = memory.written
        if matrix is not None:
            memory.written = None
            flat = memory.data[: len(memory.data) // matrix.dtype.itemsize * matrix.dtype.itemsize]
            self._store(memory, matrix, memory.forms[matrix].tensor, flat.view(matrix.dtype.numpy))

    def _store(self, memory: Memory, matrix: Matrix, tensor: Tensor, flat: Array) -> None:
        try:
            from_tiles(self.servant.matrix(tensor, matrix.tile_dtype), flat, matrix, TILE)
        except Fault as fault:
            raise self.work.failed(f"reading tiles of {self.name}", fault, TransferError) from fault
        self._count(matrix)

    def _flat(self, buffer: TenstorrentBuffer, matrix: Matrix) -> Array:
        size = matrix.dtype.itemsize
        return buffer.memory.data[: buffer.nbytes // size * size].view(matrix.dtype.numpy)

    def _tensor(self, elements: Array, matrix: Matrix) -> Tensor:
        self._make_room(elements.nbytes)
        try:
            return self.servant.tensor(elements, matrix.tile_dtype)
        except Fault as fault:
            raise self.work.failed(
                f"tiles of {elements.nbytes} bytes in {self.name}", fault, AllocationError
            ) from fault

    def _count(self, matrix: Matrix) -> int:
        rows, columns = shape_in_tiles(matrix, TILE)
        self.staged_tiles += rows * columns
        return self._nbytes(matrix)

    @staticmethod
    def _nbytes(matrix: Matrix) -> int:
        rows, columns = shape_in_tiles(matrix, TILE)
        return rows * columns * TILE[0] * TILE[1] * matrix.tile_dtype.itemsize

    # ---- which tiles are kept

    def _keep(self, memory: Memory, matrix: Matrix, form: _Form) -> None:
        form.nbytes = self._nbytes(matrix)
        memory.forms[matrix] = form
        self._forms[memory, matrix] = None
        self._form_bytes += form.nbytes

    def _drop(self, memory: Memory, matrix: Matrix) -> None:
        form = memory.forms.pop(matrix, None)
        if form is not None:
            self._form_bytes -= form.nbytes
            del self._forms[memory, matrix]

    def _forget(self, memory: Memory) -> None:
        memory.written = None
        for matrix in list(memory.forms):
            self._drop(memory, matrix)

    def _make_room(self, nbytes: int) -> None:
        """Drop tiles, those used longest ago first, until there is room for `nbytes` beside buffers and tiles."""
        while self._forms and self._form_bytes + nbytes > self.free_bytes:
            memory, matrix = next(iter(self._forms))
            if memory.written is matrix or memory.written == matrix:
                self._as_bytes(memory)
            self._drop(memory, matrix)
        if nbytes > self.free_bytes:
            raise AllocationError(
                f"pool {self.name} has no room for {nbytes} bytes of tiles: {self.free_bytes} of {self.capacity_bytes} "
                "bytes are free"
            )

    # ---- events

    def sync_events(self, events: Sequence[Event]) -> None:
        self.take(events)
        self.work.check("waiting")

    def completed(self) -> Event:
        return CompletedEvent(self)

    def trim(self) -> int:
        """Drop the tiles that the bytes have, too; return how many bytes all that was kept took."""
        before = self._form_bytes
        for memory, matrix in list(self._forms):
            if memory.written != matrix:
                self._drop(memory, matrix)
        return super().trim() + before - self._form_bytes

    def close(self) -> None:
        """Close the device. Buffers that are alive go with their last reference."""
        if self._is_open:
            self._is_open = False
            self.trim()
            self.servant.close()
