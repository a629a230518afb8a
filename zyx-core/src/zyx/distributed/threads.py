"""Ranks that are threads of one process, each with a device of its own: arrays are handed over in host memory.

    rank 0                      the meeting                 rank 1
    puts its array in place 5   5: {0: a, 1: b}             puts its array in place 5
    takes both when both lie there                          likewise

Every operation has a place, and every rank counts its operations, so that nobody waits for a place to be free. Whoever
takes the arrays combines them by itself, in the order of ranks: all get the same bits.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx.distributed.engine import Engine
from zyx.distributed.waiting import mismatch, place, wait_until
from zyx.errors import CollectiveError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"

_COMBINE: Final = {ReduceOp.SUM: np.add, ReduceOp.PROD: np.multiply, ReduceOp.MAX: np.maximum, ReduceOp.MIN: np.minimum}
#: How long a thread sleeps at most before it looks whether it has waited too long, in seconds: others wake it.
_LOOK_S: Final = 0.1


class Meeting:
    """Where ranks meet.

    Args:
        names: The number of each rank among all, by which errors call it.
        ends: What has become of ranks, by these numbers, in words; whoever notes an end there calls `wake`.

    After a failure the group cannot be used any more: nobody knows who was in an operation, and who was not.

    Attributes:
        size: How many ranks there are.
    """

    def __init__(self, names: Sequence[int], ends: dict[int, str]) -> None:
        self.names = tuple(names)
        self.size = len(names)
        self.ends = ends
        self.changed = threading.Condition()
        self.places: defaultdict[int, dict[int, Any]] = defaultdict(dict)
        self.taken: defaultdict[int, int] = defaultdict(int)
        self.messages: defaultdict[tuple[int, int], deque[Array]] = defaultdict(deque)
        self.parts: dict[tuple[int, ...], Meeting] = {}
        self.failure = ""

    def wake(self, failure: str = "") -> None:
        """Let all who wait look again, here and in the meetings of parts; with a failure, they all raise it."""
        with self.changed:
            self.failure = self.failure or failure
            self.changed.notify_all()
            parts = [*self.parts.values()]
        for part in parts:
            part.wake(failure)


class ThreadEngine(Engine):
    """One thread of several in this process.

    Args:
        meeting: Where it meets the others.
        rank: Its number.
    """

    name = "threads"

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting = meeting
        self.rank, self.size = rank, meeting.size
        self._count = 0
        self._parts: dict[tuple[int, ...], ThreadEngine] = {}

    # ---- operations

    def agree(self, call: str) -> None:
        calls = self._exchange(call, call)
        if any(other != call for other in calls):
            raise mismatch(dict(enumerate(calls)), self._meeting.names, self.rank)

    def all_reduce(self, op: ReduceOp, array: Array) -> Array:
        return _combined(op, self._exchange("all_reduce", array))

    def reduce(self, op: ReduceOp, array: Array, root: int) -> Array:
        arrays = self._exchange("reduce", array)
        return _combined(op, arrays) if self.rank == root else np.zeros_like(array)

    def reduce_scatter(self, op: ReduceOp, array: Array) -> Array:
        return _combined(op, [each[self.rank] for each in self._exchange("reduce_scatter", array)])

    def all_gather(self, array: Array) -> Array:
        return np.stack(self._exchange("all_gather", array))

    def broadcast(self, root: int, array: Array) -> Array:
        return np.array(self._exchange("broadcast", array)[root], order="C")

    def all_to_all(self, array: Array) -> Array:
        return np.stack([each[self.rank] for each in self._exchange("all_to_all", array)])

    def send(self, array: Array, to: int) -> None:
        self._check(f"send to rank {self._meeting.names[to]}")
        with self._meeting.changed:
            self._meeting.messages[self.rank, to].append(np.array(array))
            self._meeting.changed.notify_all()

    def receive(self, like: Array, source: int) -> Array:
        what = f"receive from rank {self._meeting.names[source]}"
        messages = self._meeting.messages[source, self.rank]
        self._wait(what, lambda: bool(messages), lambda: [source])
        found = messages.popleft()
        if found.nbytes != like.nbytes:
            raise CollectiveError(
                f"{what}: {like.nbytes} bytes are expected, of {like.dtype} {list(like.shape)}, and {found.nbytes} "
                "came; both sides must name the same shape and dtype"
            )
        return found.reshape(-1).view(np.uint8).view(like.dtype).reshape(like.shape)

    def split(self, ranks: Sequence[int]) -> ThreadEngine:
        """Return the engine of some of these ranks, in the order in which they are named: each of them calls this."""
        chosen, meeting = tuple(ranks), self._meeting
        found = self._parts.get(chosen)
        if found is not None:
            return found
        with meeting.changed:
            part = meeting.parts.get(chosen)
            if part is None:
                part = meeting.parts[chosen] = Meeting([meeting.names[rank] for rank in chosen], meeting.ends)
        made = self._parts[chosen] = ThreadEngine(part, chosen.index(self.rank))
        return made

    def end(self, status: int) -> None:
        """End all ranks at their next operation."""
        self._meeting.wake(f"rank {self._meeting.names[self.rank]} has ended all, with status {status}")

    # ---- waiting

    def _exchange(self, what: str, value: Any) -> list[Any]:  # noqa: ANN401  # a description or an array
        """Return the values of all ranks at this operation."""
        meeting, number = self._meeting, self._count
        self._count += 1
        with meeting.changed:
            values = meeting.places[number]
            values[self.rank] = value
            if len(values) == self.size:
                meeting.changed.notify_all()
        self._wait(
            what,
            lambda: len(values) == self.size,
            lambda: [rank for rank in range(self.size) if rank not in values],
        )
        with meeting.changed:
            meeting.taken[number] += 1
            if meeting.taken[number] == self.size:
                del meeting.places[number], meeting.taken[number]
        return [values[rank] for rank in range(self.size)]

    def _check(self, what: str) -> None:
        if self._meeting.failure:
            raise CollectiveError(f"{what}: the group cannot be used any more, since {self._meeting.failure}")

    def _wait(self, what: str, is_done: Callable[[], bool], missing: Callable[[], list[int]]) -> None:
        """Return when it is done, which others say.

        Raises:
            CollectiveTimeoutError: It takes longer than the limit.
            CollectiveError: A rank that it takes has ended, or something went wrong here before.
        """
        meeting = self._meeting
        who = f"{what}: rank {meeting.names[self.rank]} of {self.size}"

        def doubt() -> None:
            for rank in missing():
                name = meeting.names[rank]
                if name in meeting.ends:
                    raise CollectiveError(f"{who} waits for rank {name}, which {meeting.ends[name]}; it waits{place()}")
            self._check(what)

        def look() -> bool:
            if is_done():
                return True
            doubt()  # as soon as it is woken
            return False

        def late() -> list[int]:
            return [meeting.names[rank] for rank in missing()]

        try:
            with meeting.changed:
                wait_until(look, who, late, sleep=lambda _: meeting.changed.wait(_LOOK_S))
        except BaseException as error:
            meeting.wake(
                str(error) if isinstance(error, CollectiveError) else f"{who} was interrupted by {type(error).__name__}"
            )
            raise


def _combined(op: ReduceOp, arrays: Sequence[Array]) -> Array:
    """Return the combination of arrays in their order, as an array of its own."""
    result = np.array(arrays[0], order="C")
    for array in arrays[1:]:
        _COMBINE[op](result, array, out=result)
    return result
