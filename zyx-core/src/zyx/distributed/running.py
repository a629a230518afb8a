"""Run a function once for each of several devices, in threads of this process that compute together.

    import zyx.distributed as dist

    def train(samples):
        group = dist.init()                               # of this thread: rank 0 of 2, or rank 1
        x = zyx.Tensor(samples[group.rank :: group.size])  # on the device of this thread
        ...

    results = dist.run(train, ["cuda:0", "cuda:1"], samples)

What a process has for itself, each of these threads has: the group, the default device, the order of operations, the
default random generator, and traces of functions under `zyx.jit`.
"""

from __future__ import annotations

import contextvars
import threading
import traceback
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from zyx.distributed.group import Group, in_group
from zyx.distributed.threads import Meeting, ThreadEngine
from zyx.errors import CollectiveError, InvalidArgumentError, TraceError
from zyx.modes import Rank, as_rank
from zyx.runtime.runtime import current
from zyx.tensor.generator import take_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run"]

P = ParamSpec("P")
R = TypeVar("R")

#: How long the others have to end after one has failed, in seconds: to come to an operation, or out of a kernel.
_PATIENCE_S: Final = 10.0


def run(function: Callable[P, R], devices: Sequence[str], *args: P.args, **kwargs: P.kwargs) -> list[R]:
    """Call a function once for each device, in threads of this process; return what the calls give.

    In the function, `init` gives the group of these threads, with the rank of the one that calls it, and its device is
    the default one. Each thread begins with the modes, and with a copy of the default random generator, that there are
    here. Threads that the function starts itself are of no group.

    Args:
        function: What each thread calls.
        devices: Their names, one for each rank; one may be there several times.
        args: What all calls are given by position: the same objects.
        kwargs: Likewise, by name.

    Returns:
        The results in the order of ranks.

    Raises:
        InvalidArgumentError: There is no device in `devices`.
        NoDeviceError: There is no such device.
        TraceError: A function is being traced here.
        Exception: What the first call that failed has raised, with a note of its rank. The others raise
            `CollectiveError` in the operation where they wait for it, or in the next one; a call that comes to none
            goes on in its thread, which the note says.

    >>> def total():
    ...     group = zyx.distributed.init()
    ...     return zyx.distributed.all_reduce(zyx.Tensor([group.rank + 1.0])).item()
    >>> zyx.distributed.run(total, [zyx.default_device()] * 2)
    [3.0, 3.0]
    """
    runtime = current()
    names = [runtime.device_name(device) for device in devices]
    if not names:
        raise InvalidArgumentError("run: devices is empty; there is at least one")
    if runtime.tracing is not None:
        raise TraceError("run: threads cannot be part of a traced function; call zyx.jit in what they call")
    ranks = _Ranks(names)
    ranks.start(function, args, kwargs)
    try:
        ranks.join()
    except BaseException as error:  # an interrupt; the threads are of no use to anybody now
        ranks.meeting.wake(f"run() was interrupted by {type(error).__name__}")
        ranks.join(_PATIENCE_S)
        raise
    if ranks.failed:
        ranks.raise_first()
    return [ranks.results[rank] for rank in range(len(names))]


class _Ranks:
    """The threads.

    Args:
        devices: One for each.

    Attributes:
        meeting: Where they meet.
        results: What calls have given, by rank.
        failed: What they have raised, by rank, the first one first.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = devices
        self._ends: dict[int, str] = {}
        self.meeting = Meeting(range(len(devices)), self._ends)
        self.results: dict[int, Any] = {}
        self.failed: dict[int, BaseException] = {}
        self._over = threading.Condition()
        self._threads: list[threading.Thread] = []

    def start(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Let each call the function."""
        for rank, device in enumerate(self._devices):
            context = contextvars.copy_context()
            thread = threading.Thread(
                target=context.run,
                args=(self._call, rank, device, function, args, kwargs),
                name=f"rank {rank} on {device}",
                daemon=True,  # one that never ends must not keep the process
            )
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def _call(
        self, rank: int, device: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        size = len(self._devices)
        group = Group(rank, size, ThreadEngine(self.meeting, rank) if size > 1 else None)
        end, failure = "has come to the end of its function", ""
        try:
            with as_rank(Rank()), in_group(group), current().default(device):
                take_generator()
                found = function(*args, **kwargs)
            with self._over:
                self.results[rank] = found
        except BaseException as error:  # noqa: BLE001  # raised by `run`
            error.add_note(f"on rank {rank} of {size}, {device}")
            end = f"ended by {_text(error)}"
            failure = f"rank {rank} {end}"
            with self._over:
                self.failed[rank] = error
        finally:
            self._ends[rank] = end
            self.meeting.wake(failure)
            with self._over:
                self._over.notify_all()

    def join(self, patience_s: float | None = None) -> None:
        """Return when all threads have ended; after one has failed, or with a limit, at the latest after a while."""

        def are_over() -> bool:
            return len(self._ends) == len(self._devices)

        with self._over:
            if patience_s is None:
                while not (are_over() or self.failed):
                    self._over.wait(1.0)  # with a limit, so that Ctrl-C comes through
            self._over.wait_for(are_over, _PATIENCE_S if patience_s is None else patience_s)
        if are_over():
            for thread in self._threads:
                thread.join()

    def raise_first(self) -> None:
        """Raise what the first rank that failed has raised; of those that followed from it there is a note."""
        first = next(iter(self.failed))
        error = self.failed[first]
        for rank, other in self.failed.items():
            if rank != first:
                error.add_note(f"then rank {rank}: {_text(other)}")
        if left := [rank for rank in range(len(self._devices)) if rank not in self._ends]:
            error.add_note(
                f"rank {', '.join(map(str, left))} came to no operation in {_PATIENCE_S:g} s, and goes on in a thread"
            )
        raise error


def _text(error: BaseException) -> str:
    """Return an error in one line, with the line of the program that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and not isinstance(error, CollectiveError) else ""
    return f"{type(error).__name__}: {error}{where}"
