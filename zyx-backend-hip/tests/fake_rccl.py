"""An RCCL that exists on paper, for two devices of the fake libraries in one process: sums of float32, at once.

It waits for the streams that it is given, and adds up when a group of calls ends. What else there is returns
`UNSUPPORTED`.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from ctypes import POINTER, c_int, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.drivers import nccl

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_hip import Fake

UNSUPPORTED, REMOTE_ERROR = 3, 6


class FakeRccl:
    """The library.

    Attributes:
        counts: How often each function was called.
        members: The ranks of those that are alive, by their handles.
        refusals: For names of functions, the status that all their calls return.
        failure: What the status of exchanges is.
    """

    def __init__(self, fake: Fake) -> None:
        self.counts: Counter[str] = Counter()
        self.members: dict[int, int] = {}
        self.refusals: dict[str, int] = {}
        self.failure = 0
        self._hip = fake.native
        self._queued: list[tuple[int, int, int, int]] = []
        self._next = 0x9000
        for name, types in nccl._FUNCTIONS.items():
            found = getattr(self, f"_{name.removeprefix('nccl')}", lambda *_: UNSUPPORTED)
            setattr(self, name, ctypes.CFUNCTYPE(c_int, *types)(self._counted(name, found)))
        self.ncclGetErrorString = ctypes.CFUNCTYPE(c_void_p, c_int)(lambda status: None)
        self.ncclGetLastError = ctypes.CFUNCTYPE(c_void_p, c_void_p)(lambda handle: None)

    def _counted(self, name: str, function: Callable[..., int | None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.counts[name] += 1
            return self.refusals.get(name) or function(*arguments) or 0

        return call

    def _GetVersion(self, place: Any) -> None:
        place[0] = 22703

    def _GetUniqueId(self, place: Any) -> None:
        ctypes.memmove(place, bytes(range(nccl.IDENTIFIER_BYTES)), nccl.IDENTIFIER_BYTES)

    def _CommInitRank(self, place: Any, size: int, identifier: nccl.Identifier, rank: int) -> int:
        self._next += 16
        self.members[self._next] = rank
        place[0] = self._next
        return 0 if bytes(identifier) == bytes(range(nccl.IDENTIFIER_BYTES)) else UNSUPPORTED

    def _CommDestroy(self, handle: int) -> None:
        del self.members[handle]

    def _CommAbort(self, handle: int) -> None:
        del self.members[handle]

    def _CommGetAsyncError(self, handle: int, place: Any) -> None:
        place[0] = self.failure

    def _GroupStart(self) -> None:
        assert not self._queued

    def _GroupEnd(self) -> None:
        for *_, stream in self._queued:
            self._hip.hipStreamSynchronize(c_void_p(stream))
        arrays = [(_floats(source, count), _floats(target, count)) for source, target, count, _ in self._queued]
        total = np.sum([source for source, _ in arrays], 0)
        for _, target in arrays:
            target[:] = total
        self._queued.clear()

    def _AllReduce(self, source: int, target: int, count: int, type_: int, op: int, handle: int, stream: int) -> int:
        if (type_, op) != (7, 0) or handle not in self.members:
            return UNSUPPORTED
        self._queued.append((source, target, count, stream))
        return 0


def _floats(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array(ctypes.cast(address, POINTER(ctypes.c_float)), (count,))
