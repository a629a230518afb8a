"""Memory of a device that tensors and arrays of other libraries have together, by DLPack: nothing is copied.

Who takes a capsule calls its deleter at the end; until then, what it points to stays in `_exported`.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import SharingError
from zyx.lazy_import import lazy_import
from zyx.runtime.devices import GROUP
from zyx.shape import size_of, strides_of

if TYPE_CHECKING:
    from zyx.backend import MemoryPool
    from zyx.backend import sharing as interface
    from zyx.backend.sharing import SupportsSharing
    from zyx.dtype import DType
    from zyx.functions import Tensor
    from zyx.functions.operands import Array
    from zyx.graph import Node
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape
else:
    interface = lazy_import("zyx.backend.sharing", globals())

#: Kinds of devices, and of numbers, in DLPack.
HOST: Final = (1, 0)
_CUDA: Final = 2
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_LETTERS: Final = {_INT: "i", _UINT: "u", _FLOAT: "f", _COMPLEX: "c", _BOOL: "b"}
#: References to a capsule that only we have: in the pair, and that of the call which counts.
_UNUSED: Final = 2
_FRESH: Final = b"dltensor"
_USED: Final = b"used_dltensor"

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Array(ctypes.Structure):
    """``DLTensor`` of DLPack, its device and dtype in line."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    """``DLManagedTensor`` of DLPack."""

    _fields_ = (("array", _Array), ("context", ctypes.c_void_p), ("deleter", _Deleter))


def _python(name: str, result: Any, *arguments: Any) -> Any:  # noqa: ANN401  # types and functions of ctypes
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# Capsules are objects, but for the one that is being destroyed: that must not be counted again.
_new_capsule: Final = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_pointer_of: Final = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_is_fresh: Final = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_rename: Final = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_dying_is_fresh: Final = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_pointer: Final = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

#: By address of the capsule's struct: the struct, and what must stay while somebody uses it.
_exported: Final[dict[int, tuple[object, ...]]] = {}


def _delete(address: int | None) -> None:
    if address is not None:
        _exported.pop(address, None)


def _destroy(capsule: int | None) -> None:
    """Free what nobody has taken."""
    if _dying_is_fresh(capsule, _FRESH):
        _exported.pop(_dying_pointer(capsule, _FRESH), None)


_DELETE: Final = _Deleter(_delete)
_DESTROY: Final = _Destructor(_destroy)


# ---- from tensors


def shared_pool(x: Tensor) -> SupportsSharing | None:
    """Return the pool of a tensor if its memory can be shared; where it is not decided yet, None."""
    device = x.runtime.backends.devices.get(x.node.device)
    pool: MemoryPool | None = None if device is None else device.memory_pool
    return pool if isinstance(pool, interface.SupportsSharing) else None


def to_capsule(x: Tensor, *, copy: bool = False) -> object:
    """Return a capsule of the values where they are, or of a copy there, all of them computed.

    Raises:
        TraceError: A function is being traced: there are no values.
        BackendError: The work failed.
    """
    buffer = x.runtime.shared_buffer(x, copy=copy)
    pool = buffer.pool
    if not isinstance(pool, interface.SupportsSharing):
        raise SharingError(f"pool {pool.name} does not share its memory")
    shape = x.node.shape
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    start = None if buffer.raw is None else pool.address(buffer.raw)
    return _capsule(start, pool.dlpack_device, len(shape), sizes, x.node.dtype, buffer)


def _capsule(
    start: int | None,
    place: tuple[int, int],
    rank: int,
    sizes: ctypes.Array[Any],
    dtype: DType,
    owner: object,
    destructor: Any = None,  # noqa: ANN401  # a function type of ctypes
) -> object:
    """Return a capsule of memory without gaps, which `owner` keeps."""
    managed = _Managed()
    array = managed.array
    array.data = start
    array.kind, array.number = place
    array.rank, array.shape = rank, sizes
    array.code, array.bits, array.lanes = _code_of(dtype), dtype.bits, 1
    managed.deleter = _DELETE
    address = ctypes.addressof(managed)
    _exported[address] = (managed, sizes, owner)
    return _new_capsule(address, _FRESH, _DESTROY if destructor is None else destructor)


#: Capsules on host memory, with the addresses of their structs. They have no destructor: one that is destroyed since
#: its receiver cannot read it is destroyed while that error is on its way, when no Python may run. So they are kept
#: here, and looked after when the next one is made.
_given: Final[list[tuple[object, int]]] = []


def host_capsule(values: Array, dtype: DType) -> object:
    """Return a capsule of an array in host memory, which NumPy would not make: of bfloat16."""
    for pair in list(_given):
        is_fresh = bool(_is_fresh(pair[0], _FRESH))
        if not is_fresh or sys.getrefcount(pair[0]) == _UNUSED:
            try:
                _given.remove(pair)
            except ValueError:  # another thread has; the address may be that of another struct by now
                continue
            if is_fresh:
                _exported.pop(pair[1], None)
    capsule = _host_capsule(values, dtype)
    _given.append((capsule, _pointer_of(capsule, _FRESH)))
    return capsule


def _host_capsule(values: Array, dtype: DType) -> object:
    sizes = (ctypes.c_int64 * max(values.ndim, 1))(*values.shape)
    return _capsule(values.ctypes.data, HOST, values.ndim, sizes, dtype, values, _Destructor())


def is_on_host(data: Any) -> bool:  # noqa: ANN401  # whatever has __dlpack__
    """Tell whether the values of an array of another library lie in host memory."""
    return tuple(int(part) for part in data.__dlpack_device__()) == HOST


def host_array(data: Any) -> Array:  # noqa: ANN401  # whatever has __dlpack__
    """Return a copy of an array of another library in host memory, also one of bfloat16, which NumPy does not read.

    Raises:
        SharingError: Its library does not share it, or it has a dtype that tensors lack.
    """
    if not is_on_host(data):
        raise SharingError(
            f"this {type(data).__name__} is on device {data.__dlpack_device__()}, whose memory no backend shares here; "
            "copy it to the host first"
        )
    try:
        capsule = data.__dlpack__()
    except (BufferError, RuntimeError) as error:
        try:
            return np.from_dlpack(data).copy()  # which can ask for what is read-only
        except (BufferError, RuntimeError, TypeError):
            raise SharingError(f"this {type(data).__name__} does not share its values: {error}") from error
    managed = _Managed.from_address(_pointer_of(capsule, _FRESH))
    owner = _Owner(managed, ctypes.addressof(managed))
    _rename(capsule, _USED)
    array = managed.array
    shape, dtype = tuple(array.shape[axis] for axis in range(array.rank)), _dtype_of(array, type(data).__name__)
    if 0 in shape:
        return np.zeros(shape, dtype.numpy)
    steps = [array.strides[axis] for axis in range(array.rank)] if array.strides else strides_of(shape)
    reaches = [(size - 1) * step for size, step in zip(shape, steps, strict=True)]
    before = -sum(min(reach, 0) for reach in reaches)  # elements in memory below the first, where strides are negative
    length = before + 1 + sum(max(reach, 0) for reach in reaches)
    first = (array.data or 0) + array.offset
    words = (ctypes.c_uint8 * (length * dtype.itemsize)).from_address(first - before * dtype.itemsize)
    flat = np.frombuffer(words, np.uint8).view(dtype.numpy)[before:]
    values = np.lib.stride_tricks.as_strided(flat, shape, [step * dtype.itemsize for step in steps]).copy()
    del owner  # only now: until here it has kept the memory
    return values


class _HostView:
    """Describes the memory of a buffer to NumPy, which keeps this as long as an array views it."""

    def __init__(self, buffer: Buffer, address: int, count: int) -> None:
        self._buffer = buffer
        self.__array_interface__ = {"shape": (count,), "typestr": "|u1", "data": (address, True), "version": 3}


def host_view(x: Tensor, what: str) -> Array:
    """Return the values where they lie in host memory, all of them computed, as an array that cannot be written to.

    They stay as they are as long as the array is there: what is assigned to the tensor goes elsewhere.

    Raises:
        SharingError: The device does not compute in host memory.
        TraceError: A function is being traced: there are no values.
        BackendError: The work failed.
    """
    device, dtype = x.runtime.backends.devices.get(x.node.device), x.node.dtype
    if device is None or not isinstance(device.memory_pool, interface.SupportsHostArrays):
        raise SharingError(f"{what}: values on {x.node.device} are copied to the host; copy=False cannot be kept")
    buffer = x.runtime.shared_buffer(x)
    if buffer.raw is None or buffer.raw.host_bytes is None:
        return np.zeros(x.node.shape, dtype.numpy)
    count = size_of(x.node.shape) * dtype.itemsize
    address = np.frombuffer(buffer.raw.host_bytes, np.uint8).ctypes.data
    return np.asarray(_HostView(buffer, address, count)).view(dtype.numpy).reshape(x.node.shape)


def cuda_array_interface(x: Tensor) -> dict[str, object]:
    """Return the description of the values on a CUDA device for ``__cuda_array_interface__``, all of them computed.

    Raises:
        AttributeError: They are not on one, or of dtype bfloat16, which the protocol has no name for.
    """
    pool = shared_pool(x)
    if pool is None or pool.dlpack_device[0] != _CUDA or x.node.dtype is dtypes.bfloat16:
        raise AttributeError(f"a tensor of {x.node.dtype} on {x.node.device} has no __cuda_array_interface__")
    buffer: Buffer = x.runtime.shared_buffer(x)
    address = 0 if buffer.raw is None else pool.address(buffer.raw)
    typestr = x.node.dtype.numpy.newbyteorder("<").str
    return {"shape": x.node.shape, "typestr": typestr, "data": (address, True), "strides": None, "version": 3}


def _code_of(dtype: DType) -> int:
    if dtype.is_complex:
        return _COMPLEX
    if dtype.is_float:
        return _BFLOAT if dtype is dtypes.bfloat16 else _FLOAT
    return _BOOL if dtype.is_bool else _UINT if dtype.is_unsigned else _INT


# ---- to tensors


class _Owner:
    """Calls the deleter of a capsule at the end."""

    def __init__(self, managed: _Managed, address: int) -> None:
        self._managed = managed
        self._address = address

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def from_device(data: Any, runtime: Runtime) -> Node | None:  # noqa: ANN401  # whatever has __dlpack__
    """Return a leaf on the memory of an array of another library; None if no pool shares memory of its device.

    Raises:
        SharingError: Its library does not share it; or it has gaps or another order than row-major, or a dtype that
            tensors lack.
    """
    place = tuple(int(part) for part in data.__dlpack_device__())
    if place == HOST:
        return None
    for device in runtime.devices:
        pool = device.memory_pool
        if isinstance(pool, interface.SupportsSharing) and pool.dlpack_device == place:
            try:
                with pool.selected() if isinstance(pool, interface.SupportsSelection) else nullcontext():
                    capsule = data.__dlpack__(stream=pool.stream_number())
            except BufferError as error:
                raise SharingError(f"from_dlpack: this {type(data).__name__} is not shared: {error}") from error
            managed = _Managed.from_address(_pointer_of(capsule, _FRESH))
            owner = _Owner(managed, ctypes.addressof(managed))
            _rename(capsule, _USED)
            shape, dtype = _layout(managed.array, type(data).__name__)
            return runtime.adopt((managed.array.data or 0) + managed.array.offset, owner, shape, dtype, device)
    return None


def from_host(data: Any, dtype: DType | None, device: str | None, runtime: Runtime, what: str) -> Node:  # noqa: ANN401
    """Return a leaf on the host memory of an array of another library, which is kept.

    Args:
        data: A NumPy array, or an object with ``__dlpack__``.
        dtype: What it must have; None is any.
        device: The device, or None for the default one.
        runtime: What the leaf belongs to.
        what: The function that is asked, for errors.

    Raises:
        SharingError: The device does not compute in host memory; or the array has gaps, another order than row-major,
            another byte order or dtype, or begins where no element may; or a function is being traced.
    """
    place = runtime.device_name(device)
    refusal = f"{what}: this {type(data).__name__} cannot be used without a copy, as copy=False asks"
    if runtime.tracing is not None:
        raise SharingError(f"{refusal}: a function is being traced; make the tensor outside and pass it")
    if GROUP in place or not isinstance((target := runtime.device(place)).memory_pool, interface.SupportsHostArrays):
        raise SharingError(f"{refusal}: {place} does not compute in host memory; leave copy out")
    try:
        array = data if isinstance(data, np.ndarray) else np.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError) as error:
        raise SharingError(f"{refusal}: it does not share its values: {error}") from error
    found = None if array.dtype.kind not in "biufc" or not array.dtype.isnative else dtypes.as_dtype(array.dtype)
    if found is None or dtype not in (None, found):
        raise SharingError(f"{refusal}: its elements are {array.dtype}, not {dtype or 'of a dtype that tensors have'}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise SharingError(f"{refusal}: its elements are not one after another in memory, or not aligned")
    return runtime.adopt(array.ctypes.data, array, array.shape, found, target)


def _layout(array: _Array, what: str) -> tuple[Shape, DType]:
    """Return the shape and dtype of an array without gaps, in row-major order."""
    shape = tuple(array.shape[axis] for axis in range(array.rank))
    step = 1
    for axis in reversed(range(array.rank)) if array.strides and 0 not in shape else ():
        if shape[axis] != 1 and array.strides[axis] != step:
            raise SharingError(f"from_dlpack: this {what} of shape {shape} is not contiguous; make a contiguous copy")
        step *= shape[axis]
    return shape, _dtype_of(array, what)


def _dtype_of(array: _Array, what: str) -> DType:
    for dtype in (*dtypes.ALL, *dtypes.COMPLEX):
        if (_code_of(dtype), dtype.bits) == (array.code, array.bits) and array.lanes == 1:
            return dtype
    name = f"{_LETTERS.get(array.code, '?')}{array.bits}x{array.lanes}"
    raise SharingError(f"from_dlpack: there is no dtype for the elements {name} of this {what}")
