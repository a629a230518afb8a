"""NCCL and RCCL: one interface in C, with the same names of functions and the same numbers.

    library         `Nccl`          loaded, with its version
    communicator    `Communicator`  one for each device of a group, made by all of them at the same time
    exchange        `queue`         on a stream of the device; it may be captured, as part of a graph

A backend loads its library, makes the device current around everything here, and makes errors of its own of
`NcclError`. https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
"""

from __future__ import annotations

import contextlib
import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend.collectives import Exchange, ExchangeKind
from zyx.errors import UnsupportedError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.dtype import DType

#: Bytes of the identifier of a group.
IDENTIFIER_BYTES: Final = 128

_TYPES: Final = {
    dtypes.int8: 0, dtypes.uint8: 1, dtypes.int32: 2, dtypes.uint32: 3, dtypes.int64: 4, dtypes.uint64: 5,
    dtypes.float16: 6, dtypes.float32: 7, dtypes.float64: 8, dtypes.bfloat16: 9,
}  # fmt: skip
_BYTES: Final = 1
_OPS: Final = {ReduceOp.SUM: 0, ReduceOp.PROD: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3}
_STATUSES: Final = {
    1: "ncclUnhandledCudaError", 2: "ncclSystemError", 3: "ncclInternalError", 4: "ncclInvalidArgument",
    5: "ncclInvalidUsage", 6: "ncclRemoteError", 7: "ncclInProgress",
}  # fmt: skip
IN_PROGRESS: Final = 7


class Identifier(ctypes.Structure):
    """``ncclUniqueId``, which goes to functions by value."""

    _fields_ = (("internal", c_char * IDENTIFIER_BYTES),)


_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "ncclGetVersion": (POINTER(c_int),),
    "ncclGetUniqueId": (POINTER(Identifier),),
    "ncclCommInitRank": (POINTER(c_void_p), c_int, Identifier, c_int),
    "ncclCommDestroy": (c_void_p,),
    "ncclCommAbort": (c_void_p,),
    "ncclCommGetAsyncError": (c_void_p, POINTER(c_int)),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p),
    "ncclReduceScatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclAllGather": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p),
    "ncclBroadcast": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclSend": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclRecv": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
}


class NcclError(Exception):
    """A function of the library failed. For backends, which make errors of `zyx.errors` of it.

    Attributes:
        status: What it returned.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Nccl:
    """A library.

    Args:
        native: It, loaded by ctypes.
        name: ``NCCL`` or ``RCCL``.

    Raises:
        UnsupportedError: It lacks a function; the text says which.
        NcclError: It does not tell its version.

    Attributes:
        version: Such as ``2.28.9``.
        number: The same as a number: 22809.
    """

    def __init__(self, native: Any, name: str) -> None:  # noqa: ANN401  # a library of ctypes
        self.name: Final = name
        self._native: Final = native
        try:
            for function, arguments in _FUNCTIONS.items():
                found = getattr(native, function)
                found.argtypes, found.restype = arguments, c_int
            for function, arguments in (("ncclGetErrorString", (c_int,)), ("ncclGetLastError", (c_void_p,))):
                found = getattr(native, function)
                found.argtypes, found.restype = arguments, c_char_p
        except AttributeError as error:  # how ctypes says that there is no such function
            raise UnsupportedError(f"{name} is too old: it lacks a function, {error}") from error
        number = c_int()
        self.call("ncclGetVersion", byref(number))
        self.number: Final = number.value
        self.version: Final = f"{self.number // 10000}.{self.number // 100 % 100}.{self.number % 100}"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def call(self, function: str, *arguments: Any, communicator: int | None = None) -> None:  # noqa: ANN401  # of C
        """Call a function.

        Raises:
            NcclError: It failed.
        """
        status = getattr(self._native, function)(*arguments)
        if status:
            raise NcclError(f"{function}: {self.said(status, communicator)}", status)

    def said(self, status: int, communicator: int | None = None) -> str:
        """Return what a status means, with what the library says of the last failure."""
        name = _STATUSES.get(status, f"status {status}")
        text = (self._native.ncclGetErrorString(status) or b"").decode(errors="replace")
        more = (self._native.ncclGetLastError(communicator) or b"").decode(errors="replace").strip()
        return f"{name}, {text}{f' ({more})' if more else ''}"

    def identifier(self) -> bytes:
        """Return the identifier of a new group. From now on this process waits for its members.

        Raises:
            NcclError: The library cannot open a connection.
        """
        made = Identifier()
        self.call("ncclGetUniqueId", byref(made))
        return bytes(made)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Let what is queued inside, on one device or several of this thread, begin at once.

        Raises:
            NcclError: It was refused.
        """
        self.call("ncclGroupStart")
        try:
            yield
        finally:
            self.call("ncclGroupEnd")


class Communicator:
    """One device of a group. Making it waits for all others; the device must be current.

    Args:
        library: The library.
        size: How many devices the group has.
        identifier: Of the group.
        rank: The number of this one.

    Raises:
        NcclError: They cannot reach each other.
    """

    def __init__(self, library: Nccl, size: int, identifier: bytes, rank: int) -> None:
        handle = c_void_p()
        library.call("ncclCommInitRank", byref(handle), size, Identifier.from_buffer_copy(identifier), rank)
        self.library: Final = library
        self.size: Final = size
        self.rank: Final = rank
        self.handle = handle.value

    def queue(self, exchange: Exchange, source: int, target: int, stream: int) -> None:
        """Queue an exchange on a stream.

        Args:
            exchange: What is done; see `check_exchange`.
            source: Address of what is given; 0 if there is none.
            target: Address of what is filled, likewise.
            stream: The driver's number of a stream of the device.

        Raises:
            NcclError: It was refused.
        """
        if exchange.kind is ExchangeKind.ALL_TO_ALL:  # as old as send and receive, unlike the function for it
            nbytes = exchange.length * exchange.dtype.itemsize
            with self.library.together():
                for rank in range(self.size):
                    at = rank * nbytes
                    self._call("ncclSend", source + at, nbytes, _BYTES, rank, self.handle, stream)
                    self._call("ncclRecv", target + at, nbytes, _BYTES, rank, self.handle, stream)
            return
        length, kind = _as_known(exchange)
        end = (self.handle, stream)
        match exchange.kind:
            case ExchangeKind.ALL_REDUCE:
                self._call("ncclAllReduce", source, target, length, kind, _op(exchange), *end)
            case ExchangeKind.REDUCE:
                self._call("ncclReduce", source, target, length, kind, _op(exchange), exchange.peer, *end)
            case ExchangeKind.REDUCE_SCATTER:
                self._call("ncclReduceScatter", source, target, length, kind, _op(exchange), *end)
            case ExchangeKind.ALL_GATHER:
                self._call("ncclAllGather", source, target, length, kind, *end)
            case ExchangeKind.BROADCAST:
                self._call("ncclBroadcast", source, target, length, kind, exchange.peer, *end)
            case ExchangeKind.SEND:
                self._call("ncclSend", source, length, kind, exchange.peer, *end)
            case ExchangeKind.RECEIVE:
                self._call("ncclRecv", target, length, kind, exchange.peer, *end)

    def failure(self) -> str:
        """Return what the library says of exchanges that were queued; "" if nothing is wrong."""
        status = c_int()
        self._call("ncclCommGetAsyncError", self.handle, byref(status))
        return "" if status.value in (0, IN_PROGRESS) else self.library.said(status.value, self.handle)

    def abort(self) -> None:
        """Let all exchanges end, done or not, and free it."""
        self._end("ncclCommAbort")

    def destroy(self) -> None:
        """Free it; no exchange is running, and no graph has one."""
        self._end("ncclCommDestroy")

    def _end(self, function: str) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self.library.call(function, handle)

    def _call(self, function: str, *arguments: Any) -> None:  # noqa: ANN401  # of C
        self.library.call(function, *arguments, communicator=self.handle)


def identifier_of(library: Nccl, *, is_first: bool) -> bytes:
    """Return what `zyx.hookspecs.zyx_collectives_identifier` does: an identifier, or what says that it can be used.

    Raises:
        UnsupportedError: The library makes none.
    """
    if not is_first:
        return str(library).encode()
    try:
        return library.identifier()
    except NcclError as error:
        raise UnsupportedError(f"{library} makes no group: {error}") from error


def check_identifier(identifier: bytes, library: str) -> None:
    """Raise `UnsupportedError` unless the first member of a group has the library, too."""
    if len(identifier) != IDENTIFIER_BYTES:
        raise UnsupportedError(f"the first member has no {library}, but something with {len(identifier)} bytes")


def check_exchange(exchange: Exchange, library: str) -> None:
    """Check that the libraries have an exchange.

    Raises:
        UnsupportedError: They reduce no elements of that dtype, or not by that operation.
    """
    if exchange.op is not None and (exchange.dtype not in _TYPES or exchange.op not in _OPS):
        raise UnsupportedError(f"{library} has no {exchange}")


def _as_known(exchange: Exchange) -> tuple[int, int]:
    """Return the number of elements and their type; what is only moved is bytes where the type is not known."""
    dtype: DType = exchange.dtype
    known = _TYPES.get(dtype)
    return (exchange.length * dtype.itemsize, _BYTES) if known is None else (exchange.length, known)


def _op(exchange: Exchange) -> int:
    assert exchange.op is not None  # an exchange that reduces has one
    return _OPS[exchange.op]
