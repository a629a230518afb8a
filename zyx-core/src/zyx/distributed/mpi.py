"""MPI, by mpi4py: https://mpi4py.readthedocs.io, https://www.mpi-forum.org/docs.

Operations are started, and then asked for until they are done: a blocking call of MPI takes a whole processor while it
waits, cannot be interrupted, and waits for ever for a process that has stopped. Before each operation every process
tells every other one which it is about to do, by a message of fixed length. Processes that do not agree find out
there, rather than by wrong numbers or by waiting, and it is known which ones have not come.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx.distributed.ends import ends
from zyx.distributed.engine import Engine
from zyx.distributed.waiting import mismatch, place, wait_until
from zyx.errors import CollectiveError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"

#: Bytes of the message that says which operation is next; longer descriptions are cut.
_DESCRIPTION_BYTES: Final = 160
#: How long a process that ends by an error lets the others say where they wait for it, in seconds; see `_GRACE_S` of
#: `zyx.cli.ranked`. The launcher passes on its traceback meanwhile: what lies in pipes when all are ended is lost.
_GRACE_S: Final = 0.5
_OPS: Final = {ReduceOp.SUM: "SUM", ReduceOp.PROD: "PROD", ReduceOp.MAX: "MAX", ReduceOp.MIN: "MIN"}


class MPIEngine(Engine):
    """All processes that a launcher has started; making it connects them.

    Raises:
        CollectiveError: Python packages for MPI are there, but no MPI library.
    """

    name = "MPI"

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # no library of MPI, or none that it was made for
            raise CollectiveError(
                f"mpi4py finds no MPI library: {error}; install one beside it: pip install mpich"
            ) from error
        # Messages of our own, apart from those of whoever else uses MPI in the process.
        self._take(MPI, MPI.COMM_WORLD.Dup(), range(MPI.COMM_WORLD.Get_size()))

    def _take(self, mpi: Any, data: Any, names: Sequence[int]) -> None:  # noqa: ANN401  # of mpi4py
        """Begin with a communicator; `names` are the numbers of its processes among all, by which errors call them."""
        self._mpi, self._data = mpi, data
        self._descriptions = data.Dup()  # apart from data
        self._names = tuple(names)
        self._parts: dict[tuple[int, ...], MPIEngine] = {}
        self.rank, self.size = self._data.Get_rank(), self._data.Get_size()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._failure = ""
        self._abandoned: list[Any] = []  # requests that MPI may still write for, with their buffers
        atexit.register(self._at_exit)

    # ---- operations

    def agree(self, call: str) -> None:
        self._agree(call, range(self.size))

    def _agree(self, call: str, ranks: Sequence[int]) -> None:
        """Return when the processes of these ranks have come to `call`."""
        text = of_fixed_length(call)
        own = np.frombuffer(text, np.uint8)
        others = [rank for rank in ranks if rank != self.rank]
        told = np.empty((len(others), _DESCRIPTION_BYTES), np.uint8)

        def start() -> list[Any]:
            receiving = [self._descriptions.Irecv(row, rank) for row, rank in zip(told, others, strict=True)]
            return [*receiving, *(self._descriptions.Isend(own, rank) for rank in others)]

        self._wait(call, start, [*others, *others])
        calls = {self.rank: call} | {
            rank: row.tobytes().rstrip().decode(errors="replace") for rank, row in zip(others, told, strict=True)
        }
        if any(row.tobytes() != text for row in told):
            raise mismatch(calls, self._names, self.rank)

    def all_reduce(self, op: ReduceOp, array: Array) -> Array:
        result = np.empty_like(array)
        self._collective("all_reduce", lambda: self._data.Iallreduce(array, result, self._op(op)))
        return result

    def reduce(self, op: ReduceOp, array: Array, root: int) -> Array:
        result = np.zeros_like(array)
        target = result if self.rank == root else None
        self._collective("reduce", lambda: self._data.Ireduce(array, target, self._op(op), root))
        return result

    def reduce_scatter(self, op: ReduceOp, array: Array) -> Array:
        result = np.empty(array.shape[1:], array.dtype)
        self._collective("reduce_scatter", lambda: self._data.Ireduce_scatter_block(array, result, self._op(op)))
        return result

    def all_gather(self, array: Array) -> Array:
        result = np.empty((self.size, *array.shape), array.dtype)
        self._collective("all_gather", lambda: self._data.Iallgather(_bytes(array), _bytes(result)))
        return result

    def broadcast(self, root: int, array: Array) -> Array:
        result = np.array(array, order="C")
        self._collective("broadcast", lambda: self._data.Ibcast(_bytes(result), root))
        return result

    def all_to_all(self, array: Array) -> Array:
        result = np.empty_like(array)
        self._collective("all_to_all", lambda: self._data.Ialltoall(_bytes(array), _bytes(result)))
        return result

    def send(self, array: Array, to: int) -> None:
        self._wait(f"send to rank {to}", lambda: [self._data.Isend(_bytes(array), to)], [to])

    def receive(self, like: Array, source: int) -> Array:
        # One byte more than fits would be an error that ends all processes; so the message is looked at first.
        message, status = None, self._mpi.Status()
        what = f"receive from rank {source}"

        def look() -> bool:
            nonlocal message
            message = self._data.Improbe(source, status=status)
            return message is not None

        self._poll(what, look, lambda: [self._names[source]])
        assert message is not None
        found = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        self._wait(what, lambda: [message.Irecv(found)], [source])
        if found.nbytes != like.nbytes:
            raise CollectiveError(
                f"{what}: {like.nbytes} bytes are expected, of {like.dtype} {list(like.shape)}, and {found.nbytes} "
                "came; both sides must name the same shape and dtype"
            )
        return found.view(like.dtype).reshape(like.shape)

    def split(self, ranks: Sequence[int]) -> Engine:
        chosen = tuple(ranks)
        if chosen not in self._parts:
            # Making a communicator blocks for ever if one does not come; so they meet before, with a limit.
            self._agree(f"split {list(chosen)}", chosen)
            made = MPIEngine.__new__(MPIEngine)
            data = self._data.Create_group(self._data.Get_group().Incl(chosen))
            made._take(self._mpi, data, [self._names[rank] for rank in chosen])
            self._parts[chosen] = made
        return self._parts[chosen]

    def end(self, status: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._mpi.COMM_WORLD.Abort(status)

    # ---- waiting

    def _op(self, op: ReduceOp) -> Any:  # noqa: ANN401  # of mpi4py
        return getattr(self._mpi, _OPS[op])

    def _collective(self, what: str, start: Callable[[], Any]) -> None:
        self._wait(what, lambda: [start()], None)

    def _wait(self, what: str, start: Callable[[], list[Any]], partners: Sequence[int] | None) -> None:
        """Start requests and return when all are done.

        Args:
            what: They are for, for people.
            start: Starts them.
            partners: The other end of each request; None if each is with all processes.
        """
        requests: list[Any] = []

        def is_done() -> bool:
            if not requests:
                requests.extend(start())
            return bool(self._mpi.Request.Testall(requests))

        def missing() -> list[int]:
            if partners is None:
                return []
            return sorted({self._names[rank] for rank, each in zip(partners, requests, strict=True) if not each.Test()})

        try:
            self._poll(what, is_done, missing)
        except BaseException:
            self._abandoned += requests
            raise

    def _poll(self, what: str, is_done: Callable[[], bool], missing: Callable[[], list[int]]) -> None:
        """Ask until it is done.

        Raises:
            CollectiveTimeoutError: It takes longer than the limit.
            CollectiveError: MPI says that something is wrong, or has said so before.
        """
        with self._lock:
            if os.getpid() != self._process:
                raise CollectiveError(
                    f"{what}: this process is a child of rank {self._names[self.rank]}, made by a fork, and is not in "
                    "the group"
                )
            if self._failure:
                raise CollectiveError(f"{what}: the group cannot be used any more, since {self._failure}")
            try:
                who = f"{what}: {self._who()}"
                wait_until(is_done, who, missing, self._doubts(who, missing))
            except CollectiveError as error:
                self._failure = str(error)
                raise
            except self._mpi.Exception as error:
                self._failure = f"{what} on {self._who()}: {error}"
                raise CollectiveError(self._failure) from error
            except BaseException as error:
                self._failure = f"{what} on {self._who()} was interrupted by {type(error).__name__}"
                raise

    def _doubts(self, who: str, missing: Callable[[], list[int]]) -> Callable[[], None]:
        """Return what raises `CollectiveError` once it is known that another process has ended, and does not come."""
        seen: set[int] = set()

        def doubt() -> None:
            failed, finished = ends()
            for rank in finished.intersection(missing()):
                if rank in seen:  # and what it has sent before is not the answer
                    how = "has come to the end of its program"
                    raise CollectiveError(f"{who} waits for rank {rank}, which {how}; it waits{place()}")
                seen.add(rank)
            for rank, how in failed.items():
                if rank in self._names and rank != self._names[self.rank]:
                    raise CollectiveError(f"{who} waits for rank {rank}, which {how}; it waits{place()}")

        return doubt

    def _who(self) -> str:
        name = f"rank {self._names[self.rank]} of {self.size}"
        is_part = self.size < self._mpi.COMM_WORLD.Get_size()
        return f"{name} (ranks {', '.join(map(str, self._names))})" if is_part else name

    def _at_exit(self) -> None:
        """End the other processes, if this one ends by an error: MPI would wait for them, and they for it."""
        if os.getpid() == self._process and (self._failure or hasattr(sys, "last_value")):
            sys.stderr.flush()
            time.sleep(_GRACE_S)
            self.end(1)


def of_fixed_length(call: str) -> bytes:
    """Return a description in so many bytes; of a longer one the beginning, and a digest of all of it."""
    text = call.encode()
    if len(text) > _DESCRIPTION_BYTES:
        digest = hashlib.blake2b(text, digest_size=8).hexdigest()
        text = text[: _DESCRIPTION_BYTES - len(digest) - 4] + f"... {digest}".encode()
    return text.ljust(_DESCRIPTION_BYTES)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
