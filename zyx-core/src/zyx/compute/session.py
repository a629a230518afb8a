"""A device in use: its beginning and end, memory on it, copies, and waiting."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.compute.arguments import CheckedCall
from zyx.compute.memory import HandleMemory, Operand, bytes_at
from zyx.compute.names import Region
from zyx.errors import InvalidArgumentError, NotInitializedError, TraceError
from zyx.functions.operands import is_tensor
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from zyx.backend import DeviceInfo
    from zyx.compute.layout import ArrayLayout
    from zyx.compute.names import Handle, Place
    from zyx.dtype import DType
    from zyx.functions.operands import Array
    from zyx.runtime.runtime import Runtime

#: Of devices that are a group: results may lie on either, and a handle means memory in one place.
_GROUP: Final = "|"


class Session:
    """What `ComputeBackend` is besides its operations.

    Any thread may call any method; calls on one backend are queued one after the other.
    """

    def __init__(self, device: str | None = None) -> None:
        self._wanted = device
        self._device = ""
        self._info: DeviceInfo | None = None
        self._memory: HandleMemory | None = None
        self._runtime: Runtime | None = None
        self._lock = threading.RLock()

    # ---- life

    def init(self) -> None:
        """Open the device: the first touch of its driver. A second call does nothing.

        Raises:
            NoDeviceError: There is no such device; the text lists those there are.
            InvalidArgumentError: A group of devices.
        """
        with self._lock:
            if self._memory is not None:
                return
            runtime = current()
            name = runtime.device_name(self._wanted)
            if _GROUP in name:
                CheckedCall("init").refuse("device", name, "one device, not a group")
            self._info = runtime.device(name).info
            self._device, self._runtime = name, runtime
            self._memory = HandleMemory(runtime, name)

    def close(self) -> None:
        """Free all handles. What is queued still runs; `init` begins anew. A second call does nothing."""
        with self._lock:
            if self._memory is not None:
                self._memory.clear()
            self._memory = self._runtime = self._info = None

    def __enter__(self) -> Self:
        self.init()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        memory = self._memory
        if memory is None:
            return f"<ComputeBackend on {self._wanted or 'the default device'}, not initialised>"
        return f"<ComputeBackend on {self._device}, {memory.count} handles of {memory.nbytes} bytes>"

    @property
    def is_initialized(self) -> bool:
        """Whether `init` was called. Before, everything else but `name` raises `NotInitializedError`."""
        return self._memory is not None

    @property
    def name(self) -> str:
        """Name of the device, such as ``c:0``; before `init`, what was asked for, or "" for the default one."""
        return self._device or self._wanted or ""

    @property
    def info(self) -> DeviceInfo:
        """What the device is and can do, such as ``info.can_store(zyx.float64)``; see `zyx.device_info`."""
        with self._call("info"):
            assert self._info is not None
            return self._info

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all handles that were not freed."""
        with self._call("allocated_bytes") as (_, memory):
            return memory.nbytes

    def synchronize(self) -> None:
        """Wait for all queued work. What failed of it is raised here.

        Raises:
            BackendError: The first error, when all is over; notes on it say what else failed.
        """
        with self._call("synchronize"):
            runtime = self._runtime
        if runtime is not None:
            runtime.synchronize()

    # ---- memory

    def alloc(self, nbytes: int) -> Handle:
        """Return a handle of memory on the device, whose contents are undefined.

        Raises:
            InvalidArgumentError: 0 bytes, or fewer.
            AllocationError: No room; the text has the pool, the bytes asked for and those free.
        """
        with self._call("alloc") as (call, memory):
            return memory.allocate(call.integer("nbytes", nbytes, 1, "an integer > 0"))

    def free(self, handle: Handle) -> None:
        """Let go of memory. What is queued on it still runs.

        Raises:
            InvalidArgumentError: It was freed before, or is no handle of this backend.
        """
        with self._call("free") as (call, memory):
            memory.free(call, handle)

    def size_bytes(self, handle: Handle) -> int:
        """Return how many bytes a handle was asked for with. Raises as `free` does."""
        with self._call("size_bytes") as (call, memory):
            return memory.block(call, "handle", handle).nbytes

    def copy_htod(self, dst: Place, src: Any) -> None:  # noqa: ANN401  # whatever has bytes
        """Copy bytes of the host to the device. `src` may be changed as soon as this returns.

        Args:
            dst: A handle, or a `Region` of one.
            src: A NumPy array, whose elements are taken in row-major order, or an object with a buffer. Nothing of an
                empty one is copied, and `dst` not looked at.

        Raises:
            InvalidArgumentError: `src` is larger than the memory from `dst` on, or has no bytes.
            AllocationError: No room for the copy on its way.
        """
        with self._call("copy_htod") as (call, memory):
            given = _bytes_of(call, "src", src)
            if given.nbytes == 0:
                return
            target = bytes_at(call, "dst", dst, given.nbytes, memory)
            block = target.block
            assert block is not None
            if given.nbytes == block.nbytes < block.capacity:  # all there is: no store to a part
                given = np.concatenate([given, np.zeros(block.capacity - block.nbytes, np.uint8)])
            if given.nbytes == block.capacity:
                block.tensor = self._tensor(given)
            else:
                memory.write([(target, self._tensor(given.view(target.dtype.numpy)))])

    def copy_dtoh(self, dst: Any, src: Place) -> None:  # noqa: ANN401  # whatever has room for bytes
        """Copy bytes of the device to the host, once all work on them is done.

        Args:
            dst: A NumPy array, or an object with a writable buffer; its size says how many bytes. Nothing is copied to
                an empty one, and `src` not looked at.
            src: A handle, or a `Region` of one.

        Raises:
            InvalidArgumentError: `dst` is larger than the memory from `src` on, read-only, or no memory.
            BackendError: The work on `src` failed.
        """
        with self._call("copy_dtoh") as (call, memory):
            target = _writable(call, dst)
            if target.nbytes == 0:
                return
            source = bytes_at(call, "src", src, target.nbytes, memory)
            block = source.block
            assert block is not None
            if source.layout.start == 0 and target.nbytes == block.nbytes:
                found = Tensor.of(block.tensor.node, block.tensor.runtime)
            else:
                found = memory.read(source)
        # Others may go on meanwhile: what they write does not change the tensor.
        read = found.numpy().reshape(-1).view(np.uint8)[: target.nbytes]
        target[...] = read.view(target.dtype).reshape(target.shape)

    def copy_dtod(self, dst: Place, src: Place, nbytes: int, source: Session | None = None) -> None:
        """Copy bytes of the device to the device, or of another one.

        Args:
            dst: A handle, or a `Region` of one.
            src: A handle, or a `Region` of one, of `source`.
            nbytes: How many. Nothing is copied if it is 0, and no handle looked at.
            source: The backend of the device that `src` is on; this one for None.

        Raises:
            InvalidArgumentError: More bytes than there are from `dst` or `src` on, or both overlap.
            AllocationError: No room for the copy on its way.
        """
        origin = self if source is None else source
        if not isinstance(origin, Session):
            CheckedCall("copy_dtod").refuse("source", source, "a ComputeBackend, or None for this one")
        with ExitStack() as both:
            for each in sorted({self, origin}, key=id):  # in one order, whoever copies which way
                both.enter_context(each._lock)
            call, memory = both.enter_context(self._call("copy_dtod"))
            _, other = both.enter_context(origin._call("copy_dtod"))
            if self._runtime is not origin._runtime:
                raise InvalidArgumentError("ComputeBackend.copy_dtod: source belongs to another runtime")
            count = call.size("nbytes", nbytes)
            if count == 0:
                return
            offsets = [each.offset for each in (dst, src) if isinstance(each, Region)]
            unit = next(each for each in (4, 2, 1) if not any(part % each for part in (count, *offsets)))
            target = bytes_at(call, "dst", dst, count, memory, unit)
            given = bytes_at(call, "src", src, count, other, unit)
            if target.overlaps(given):
                call.refuse("dst", dst, "memory that does not overlap with src")
            values = other.read(given)
            memory.write([(target, values if origin is self else values.to(self._device))])

    # ---- for the operations

    @contextmanager
    def _call(self, name: str) -> Iterator[tuple[CheckedCall, HandleMemory]]:
        """Check that calls can be made, and let one be made at a time.

        Raises:
            NotInitializedError: `init` was not called, or `close` was.
            TraceError: A function is being traced, whose tensors these are not.
        """
        with self._lock:
            memory, runtime = self._memory, self._runtime
            if memory is None or runtime is None:
                raise NotInitializedError(f"ComputeBackend.{name}: call init first, or use the backend in a with block")
            if runtime.tracing is not None:
                raise TraceError(
                    f"ComputeBackend.{name}: a function is being traced; calls on handles cannot be replayed"
                )
            yield CheckedCall(name), memory

    def _dtype(self, call: CheckedCall, dtype: object) -> DType:
        assert self._info is not None
        return call.dtype(dtype, self._device, self._info)

    def _tensor(self, array: Array) -> Tensor:
        """Return a tensor with a copy of an array, on the device."""
        assert self._runtime is not None
        return Tensor.of(self._runtime.upload(array, self._device), self._runtime)

    def _operands(
        self,
        call: CheckedCall,
        dtype: DType,
        places: Sequence[tuple[str, Place, ArrayLayout]],
        *,
        may_share: bool = False,
    ) -> list[Operand]:
        """Return arrays in memory, of which the last is written to; if that has no elements, no handle is looked at.

        Args:
            call: The call.
            dtype: Of their elements.
            places: Name of the argument, where it begins, and its layout.
            may_share: Whether the last may be another one, element by element.

        Raises:
            InvalidArgumentError: A place is none, or the last one overlaps with another.
        """
        assert self._memory is not None
        if not places[-1][2].count:
            return [Operand(name, None, layout, dtype) for name, _, layout in places]
        found = [self._memory.operand(call, name, place, layout, dtype) for name, place, layout in places]
        *sources, target = found
        for (name, _, _), source in zip(places, sources, strict=False):
            if target.overlaps(source) and not (may_share and target.is_same_as(source)):
                argument, place, _ = places[-1]
                same = f", or {name} itself" if may_share else ""
                call.refuse(argument, place, f"memory that does not overlap with {name}{same}")
        return found


def _bytes_of(call: CheckedCall, argument: str, given: object) -> Array:
    """Return the bytes of an array or of an object with a buffer."""
    if is_tensor(given):
        call.refuse(argument, given, "an array on the host; see numpy()")
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(memoryview(given))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        call.refuse(argument, given, "a NumPy array or an object with a buffer, such as bytes")
    if array.dtype.hasobject:
        call.refuse(argument, given, "an array of numbers")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _writable(call: CheckedCall, given: object) -> Array:
    """Return an array, or an array on the buffer of an object."""
    if is_tensor(given):
        call.refuse("dst", given, "memory of the host that can be written to")
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(memoryview(given))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        call.refuse("dst", given, "a NumPy array or an object with a writable buffer, such as a bytearray")
    if not array.flags.writeable or array.dtype.hasobject:
        call.refuse("dst", given, "memory that can be written to; this is read-only")
    return array
