"""An NCCL that exists on paper: functions in C, as ctypes sees them, that check every call and combine with NumPy.

Members meet in a folder, whose path is the identifier of their group, so they may be of one process or of several. Each
puts what it gives into a file when its stream comes to an exchange; the exchange is done when the files of all are
there. What must not be done is noted in `violations`; a call that does it returns `INVALID_ARGUMENT`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import tempfile
import time
from collections import Counter
from ctypes import POINTER, c_int, c_size_t, c_void_p
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zyx.drivers.nccl import IDENTIFIER_BYTES, Identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fake_driver import FakeSession, FakeStream

UNHANDLED_CUDA_ERROR, SYSTEM_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR = 1, 2, 4, 5, 6

TYPES = [
    np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16,
]  # fmt: skip
OPS: list[Any] = [np.add, np.multiply, np.maximum, np.minimum]

_BUFFERS = (c_void_p, c_void_p, c_size_t, c_int)
_END = (c_void_p, c_void_p)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "GetVersion": (POINTER(c_int),), "GetUniqueId": (POINTER(Identifier),),
    "CommInitRank": (POINTER(c_void_p), c_int, Identifier, c_int), "CommDestroy": (c_void_p,),
    "CommAbort": (c_void_p,), "CommGetAsyncError": (c_void_p, POINTER(c_int)), "GroupStart": (), "GroupEnd": (),
    "AllReduce": (*_BUFFERS, c_int, *_END), "Reduce": (*_BUFFERS, c_int, c_int, *_END),
    "ReduceScatter": (*_BUFFERS, c_int, *_END), "AllGather": (*_BUFFERS, *_END), "Broadcast": (*_BUFFERS, c_int, *_END),
    "Send": (c_void_p, c_size_t, c_int, c_int, *_END), "Recv": (c_void_p, c_size_t, c_int, c_int, *_END),
}  # fmt: skip


class Member:
    """A device of a group.

    Attributes:
        at: How many exchanges it has done.
        sent: How many messages went to each other member, and came from it.
        failure: What it is asked for as the status of what was queued.
    """

    def __init__(self, folder: Path, rank: int, size: int, session: FakeSession) -> None:
        self.folder, self.rank, self.size, self.session = folder, rank, size, session
        self.at = 0
        self.sent: Counter[tuple[str, int]] = Counter()
        self.failure = 0
        self.is_aborted = False
        self.stream: FakeStream | None = None
        self.is_busy = False


class FakeNccl:
    """The library.

    Attributes:
        sessions: The devices that it works on.
        counts: How often each function was called, without the prefix.
        members: Those that are alive, by their handles.
        violations: What was done that must not be done.
        refusals: For names of functions, the statuses that their next calls return; those at None work.
        waits: Whether members wait for all others when they are made.
    """

    def __init__(self, sessions: Sequence[FakeSession], version: int = 22809) -> None:
        self.sessions = sessions
        self.version = version
        self.counts: Counter[str] = Counter()
        self.members: dict[int, Member] = {}
        self.violations: list[str] = []
        self.refusals: dict[str, list[int | None]] = {}
        self.waits = True
        self._together: list[Callable[[], object]] | None = None
        self._depth = 0
        self._next = 0x7000
        for name, types in SIGNATURES.items():
            setattr(self, f"nccl{name}", ctypes.CFUNCTYPE(c_int, *types)(self._guarded(name)))
        self._texts = {status: ctypes.create_string_buffer(b"what status %d is" % status) for status in range(1, 8)}
        self.ncclGetErrorString = ctypes.CFUNCTYPE(c_void_p, c_int)(
            lambda status: ctypes.addressof(self._texts[status])
        )
        self.ncclGetLastError = ctypes.CFUNCTYPE(c_void_p, c_void_p)(lambda handle: None)

    def _guarded(self, name: str) -> Callable[..., int]:
        function = getattr(self, f"_{name}")

        def call(*arguments: Any) -> int:
            self.counts[name] += 1
            try:
                status = self.refusals[name].pop(0) if self.refusals.get(name) else None
                if status is not None:
                    return status
                function(*arguments)
            except Exception as error:  # noqa: BLE001  # nothing may leave a function in C
                self.violations.append(f"{name}: {error!r}")
                return INVALID_ARGUMENT
            return 0

        return call

    # ---- groups

    def _GetVersion(self, place: Any) -> None:
        place[0] = self.version

    def _GetUniqueId(self, place: Any) -> None:
        folder = tempfile.mkdtemp(prefix="nccl-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ctypes.memmove(place, folder.encode().ljust(IDENTIFIER_BYTES, b"\0"), IDENTIFIER_BYTES)

    def _CommInitRank(self, place: Any, size: int, identifier: Identifier, rank: int) -> None:
        (session,) = [session for session in self.sessions if get_ident() in session.threads] or [None]
        assert session is not None, "no device is current"
        assert 0 <= rank < size
        folder = Path(bytes(identifier).rstrip(b"\0").decode())
        (folder / f"member-{rank}").touch()
        while self.waits and not all((folder / f"member-{other}").exists() for other in range(size)):
            time.sleep(1e-3)
        session.runs_when_asked = True
        self._next += 16
        self.members[self._next] = Member(folder, rank, size, session)
        place[0] = self._next

    def _CommDestroy(self, handle: int) -> None:
        assert self.members[handle].session.depth, "no device is current"
        self.members.pop(handle)

    def _CommAbort(self, handle: int) -> None:
        self.members.pop(handle).is_aborted = True

    def _CommGetAsyncError(self, handle: int, place: Any) -> None:
        place[0] = self.members[handle].failure

    def _GroupStart(self) -> None:
        self._depth += 1
        if self._together is None:
            self._together = []

    def _GroupEnd(self) -> None:
        self._depth -= 1
        if not self._depth:
            started, self._together = self._together or [], None
            for start in started:
                start()

    # ---- exchanges

    def _AllReduce(self, source: int, target: int, count: int, type_: int, op: int, *end: int) -> None:
        def combined(parts: list[np.ndarray], member: Member) -> np.ndarray:
            return OPS[op].reduce(np.stack(parts))

        self._exchange(end, source, count, target, count, type_, combined)

    def _Reduce(self, source: int, target: int, count: int, type_: int, op: int, root: int, *end: int) -> None:
        def combined(parts: list[np.ndarray], member: Member) -> np.ndarray | None:
            return OPS[op].reduce(np.stack(parts)) if member.rank == root else None

        self._exchange(end, source, count, target, count, type_, combined)

    def _ReduceScatter(self, source: int, target: int, count: int, type_: int, op: int, *end: int) -> None:
        def combined(parts: list[np.ndarray], member: Member) -> np.ndarray:
            return OPS[op].reduce(np.stack(parts)).reshape(member.size, count)[member.rank]

        self._exchange(end, source, count * self.members[end[0]].size, target, count, type_, combined)

    def _AllGather(self, source: int, target: int, count: int, type_: int, *end: int) -> None:
        def joined(parts: list[np.ndarray], member: Member) -> np.ndarray:
            return np.concatenate(parts)

        self._exchange(end, source, count, target, count * self.members[end[0]].size, type_, joined)

    def _Broadcast(self, source: int, target: int, count: int, type_: int, root: int, *end: int) -> None:
        self._exchange(end, source, count, target, count, type_, lambda parts, member: parts[root])

    def _Send(self, source: int, count: int, type_: int, peer: int, *end: int) -> None:
        member, nbytes = self.members[end[0]], count * np.dtype(TYPES[type_]).itemsize
        member.session.at(source, nbytes)

        def run() -> bool:
            number = member.sent["to", peer]
            member.sent["to", peer] += 1
            _put(member.folder / f"{member.rank}-{peer}-{number}", member.session.at(source, nbytes))
            return True

        self._start(member, end[1], run)

    def _Recv(self, target: int, count: int, type_: int, peer: int, *end: int) -> None:
        member, nbytes = self.members[end[0]], count * np.dtype(TYPES[type_]).itemsize
        memory = member.session.at(target, nbytes)

        def run() -> bool:
            path = member.folder / f"{peer}-{member.rank}-{member.sent['from', peer]}"
            if not member.is_aborted:
                self._help(member, path)
                if not path.exists():
                    return False
                memory[:] = np.frombuffer(path.read_bytes(), np.uint8)
            member.sent["from", peer] += 1
            return True

        self._start(member, end[1], run)

    def _exchange(
        self,
        end: tuple[int, ...],
        source: int,
        given: int,
        target: int,
        filled: int,
        type_: int,
        combine: Callable[[list[np.ndarray], Member], np.ndarray | None],
    ) -> None:
        """Queue what all members do: give so many elements at `source`, and fill so many at `target`."""
        handle, stream_number = end
        member, dtype = self.members[handle], np.dtype(TYPES[type_])
        for address, count in ((source, given), (target, filled)):
            member.session.at(address, count * dtype.itemsize)

        def run() -> bool:
            number = member.at
            if not member.is_aborted:
                paths = [member.folder / f"{rank}-all-{number}" for rank in range(member.size)]
                if not paths[member.rank].exists():
                    _put(paths[member.rank], member.session.at(source, given * dtype.itemsize))
                for path in paths:
                    self._help(member, path)
                if not all(path.exists() for path in paths):
                    return False
                parts = [np.frombuffer(path.read_bytes(), dtype) for path in paths]
                made = combine(parts, member)
                memory = member.session.at(target, filled * dtype.itemsize)
                memory[:] = (
                    0xEE if made is None else np.ascontiguousarray(made.astype(dtype)).view(np.uint8).reshape(-1)
                )
            member.at += 1
            return True

        self._start(member, stream_number, run)

    def _start(self, member: Member, stream_number: int, run: Callable[[], bool]) -> None:
        assert member.session.depth, "the device of the communicator is not current"
        stream = member.session.streams[stream_number]
        if stream.captured is None:
            member.stream = stream

        def guarded() -> bool:
            member.is_busy = True
            try:
                return run()
            finally:
                member.is_busy = False

        if self._together is None:
            stream.put(guarded)  # type: ignore[arg-type]  # what is False is asked again
        else:
            self._together.append(lambda: stream.put(guarded))  # type: ignore[arg-type]

    def _help(self, member: Member, path: Path) -> None:
        """Let other members of this process come as far as the file that this one waits for."""
        for other in list(self.members.values()):
            if other.folder == member.folder and not other.is_busy and other.stream is not None:
                while other.stream.work and not path.exists() and other.stream.step():
                    pass


def _put(path: Path, data: np.ndarray) -> None:
    """Write a file that is there at once or not at all."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(data.tobytes())
    part.rename(path)
