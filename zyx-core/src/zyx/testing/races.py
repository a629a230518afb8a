"""Run a kernel with the interpreter, and see every race between its threads.

The interpreter runs all threads in step, so a kernel that lacks a barrier gives the right values there, and wrong ones,
now and then, on a device. Here each element of global and local memory remembers who wrote and who read it since its
group met last. Two threads race for an element if one of them writes it, the other reads or writes it, and

* they are of one group, and the group has not met at a barrier between the two, or
* they are of different groups, which never meet.

Atomics do not race with each other. Writing what is there already is no race: devices give the same value whichever
comes first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx.errors import ZyxError
from zyx.kernel import data as k
from zyx.kernel.run import Executable
from zyx.kernel.run_memory import Shared, spread
from zyx.kernel.run_steps import translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Kernel
    from zyx.kernel.run import Argument
    from zyx.kernel.run_steps import RunState
    from zyx.semantics import Array

_NOBODY: Final = -1
_SEVERAL: Final = -2
_READS: Final = "one thread reads what another writes,"

#: Accesses that wait to be noted, at most: each takes 16 bytes until then.
_MOST_WAITING: Final = 1 << 21


class RaceError(ZyxError):
    """Two threads reach one element with nothing that says which comes first."""


def run_without_races(kernel: Kernel, buffers: Sequence[Argument]) -> None:
    """Run a verified kernel as `zyx.kernel.run.run` does; `buffers` are as there, each of memory of its own.

    Kernels of one thread a group, which have nobody to meet, run faster and unwatched.

    Raises:
        RaceError: Two threads race; says for which array and element.
        LaunchError: As the interpreter raises it.
    """
    _, threads = kernel.grid
    (Executable if math.prod(threads) == 1 else _Checked)(kernel)(buffers)


class _Checked(Executable):
    """A kernel whose memory watches who reaches it."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._body = translate(kernel, at_barrier=_meet)
        self._logs: dict[k.ValueId, _Log] = {}

    def __call__(self, buffers: Sequence[Argument]) -> None:
        self._logs = {}
        super().__call__(buffers)

    def _machine(self, arguments: list[Array], first: int, groups: int) -> RunState:
        machine = super()._machine(arguments, first, groups)
        clock = _Clock(first * self._threads, machine.rows, self._threads)
        for number, op in enumerate(self.kernel.ops):
            storage = machine.arrays.get(number)
            if not isinstance(storage, Shared) or not isinstance(op, k.Define):
                continue
            if op.memory is k.Memory.GLOBAL and not op.mutable:
                continue  # nobody writes it
            log = self._logs.get(number)
            if log is None or op.memory is k.Memory.LOCAL:  # which is new for each group
                log = self._logs[number] = _Log(len(storage.array), op.memory)
            machine.arrays[number] = _Watched(storage, log, clock, f"kernel {self.kernel.name}: array %{number}")
        return machine


def _meet(machine: RunState, active: Array | None) -> None:
    for storage in machine.arrays.values():
        if isinstance(storage, _Watched):
            storage.clock.meet(active)
            return


class _Clock:
    """Who the threads that run now are, and how often each has met its group.

    Attributes:
        first: Number of the thread of the first row among those of all groups; those of the others follow.
        rows: All rows.
        times: How often each has met its group, by row.
        time: The same for all rows; None if it differs.
        group_threads: Threads of a group.
    """

    def __init__(self, first: int, rows: int, group_threads: int) -> None:
        self.first = first
        self.rows = np.arange(rows)
        self.times = np.zeros(rows, np.int64)
        self.time: int | None = 0
        self.group_threads = group_threads

    def meet(self, active: Array | None) -> None:
        """Note that the threads of a row that is `active`, all if None, meet their groups."""
        if active is None:
            self.times += 1
        else:
            self.times += np.broadcast_to(active, (len(self.times), active.shape[1])).any(axis=1)
        self.time = int(self.times[0]) if (self.times == self.times[0]).all() else None

    def times_of(self, threads: Array) -> Array | int:
        """Return how often each of some threads has met its group; one number if all threads have equally often."""
        return self.times[threads - self.first] if self.time is None else self.time


class _Log:
    """For each element of an array, who wrote it last, who read it last, and when.

    Writes alone ask who has read, so reads wait until the next write; those of local memory are left out if all threads
    have met in between, since nothing races with them any more.

    Attributes:
        is_local: Whether the array is in local memory, each element of which one group can reach.
        latest: How often a thread that wrote had met its group, at most; `_NOBODY` if none wrote.
        waiting: Reads that are not noted yet: the positions, the threads, and how often all have met their groups.
        waiting_accesses: How many those are.
    """

    def __init__(self, length: int, memory: k.Memory) -> None:
        self.is_local = memory is k.Memory.LOCAL
        self.latest = _NOBODY
        self.waiting: list[tuple[Array, Array, int]] = []
        self.waiting_accesses = 0
        self.writer = np.full(length, _NOBODY)
        self.written = np.zeros(length, np.int64)
        self.is_atomic = np.zeros(length, np.bool_)
        self.reader = np.full(length, _NOBODY)  # _SEVERAL: more than one thread, of the group of `reading_group`
        self.reading_group = np.full(length, _NOBODY)  # _SEVERAL: of more than one group; that of local memory is known
        self.read = np.full(length, -1, np.int64)
        self._scratch = np.empty(length, np.int64)

    def last_and_common(self, positions: Array, numbers: Array) -> tuple[Array, Array]:
        """Return, for each access, the number of the last access of the same position, and that of all of them.

        The latter is `_SEVERAL` if they differ. If those of no position do, both are `numbers` itself.
        """
        self._scratch[positions] = numbers  # NumPy writes in order
        last = self._scratch[positions]
        differs = last != numbers
        if not differs.any():
            return numbers, numbers
        self._scratch[positions[differs]] = _SEVERAL
        return last, self._scratch[positions]


class _Watched(Shared):
    """An array that notes who reaches it, and raises when two threads race."""

    def __init__(self, storage: Shared, log: _Log, clock: _Clock, name: str) -> None:
        super().__init__(storage.array, storage.length, storage.base)
        self.log = log
        self.clock = clock
        self._name = name
        self._asked: tuple[Array, int, Array | None, tuple[Array, Array | None]] | None = None

    def _positions(self, index: Array, lanes: int, mask: Array | None) -> tuple[Array, Array | None]:
        """Return what the class below does: once for all who ask about one access."""
        asked = self._asked
        if asked is None or asked[0] is not index or asked[1] != lanes or asked[2] is not mask:
            asked = self._asked = index, lanes, mask, super()._positions(index, lanes, mask)
        return asked[3]

    def load(self, index: Array, lanes: int, mask: Array | None) -> Array:
        self._note_reads(*self._accesses(index, lanes, mask))
        return super().load(index, lanes, mask)

    def store(self, index: Array, value: Array, mask: Array | None) -> None:
        positions, rows = self._accesses(index, value.shape[1], mask, value)
        before = self.array[positions]
        super().store(index, value, mask)
        values = self._values(value, index, mask)
        # Bits are compared: NaNs are values like others here.
        is_new = _bits(values) != _bits(before)
        clashes = _bits(values) != _bits(self.array[positions])
        if clashes.any():
            self._fail(positions[clashes][0], "two threads write different values to")
        self._note_writes(positions[is_new], rows[is_new])

    def combine(self, function: np.ufunc, index: Array, value: Array, mask: Array | None, rows: int) -> None:
        positions, threads = self._accesses(np.broadcast_to(index, (rows, 1)), 1, mask)
        self._note_writes(positions, threads, is_atomic=True)
        super().combine(function, index, value, mask, rows)

    # ---- who and where

    def _accesses(
        self, index: Array, lanes: int, mask: Array | None, value: Array | None = None
    ) -> tuple[Array, Array]:
        """Return the positions reached, and the row of the thread that reaches each."""
        positions, mask = self._positions(index, lanes, mask)
        count = len(self.clock.rows)
        width = positions.shape[1] if value is None else max(positions.shape[1], value.shape[1])
        if mask is not None:
            width = max(width, mask.shape[1])
        shape = count, width
        positions = spread(positions, shape)
        rows = self.clock.rows if width == 1 else self.clock.rows.repeat(width)
        if mask is None:
            return positions.ravel(), rows
        mask = spread(mask, shape)
        return positions[mask], rows[mask.ravel()]

    def _values(self, value: Array, index: Array, mask: Array | None) -> Array:
        positions, mask = self._positions(index, value.shape[1], mask)
        width = max(positions.shape[1], value.shape[1], 1 if mask is None else mask.shape[1])
        shape = len(self.clock.rows), width
        value = spread(value, shape)
        return value.ravel() if mask is None else value[spread(mask, shape)]

    # ---- what was and what is

    def _note_reads(self, positions: Array, rows: Array) -> None:
        log, clock = self.log, self.clock
        threads = rows + clock.first
        times = clock.times_of(threads)
        has_met = log.is_local and clock.time is not None and log.latest < clock.time
        if log.latest != _NOBODY and not has_met:
            writer = log.writer[positions]
            is_other = (writer != _NOBODY) & (writer != threads)
            if is_other.any():
                self._check(positions, is_other & self._unordered(positions, threads, times), _READS)
        if clock.time is None or log.waiting_accesses + len(positions) > _MOST_WAITING:
            self._note_waiting()
            self._note_readers(positions, threads, times)
        else:
            log.waiting.append((positions, threads, clock.time))
            log.waiting_accesses += len(positions)

    def _note_waiting(self) -> None:
        """Note the reads that wait, but for those that no write can race with any more."""
        log, time = self.log, self.clock.time
        waiting, log.waiting, log.waiting_accesses = log.waiting, [], 0
        for positions, threads, then in waiting:
            if not log.is_local or time is None or then == time:
                self._note_readers(positions, threads, then)

    def _note_readers(self, positions: Array, threads: Array, times: Array | int) -> None:
        log, clock = self.log, self.clock
        # Where several accesses are of one element, the last of them is the one that is kept.
        last, reader = log.last_and_common(positions, threads)
        is_alone = last is threads
        now = times if is_alone or isinstance(times, int) else clock.times_of(last)
        old_reader, is_later = log.reader[positions], log.read[positions] < now
        if log.is_local:
            is_fresh = is_later
        else:
            group = last_group = threads // clock.group_threads
            if not is_alone:
                last_group, group = log.last_and_common(positions, group)
            old_group = log.reading_group[positions]
            is_fresh = (old_reader == _NOBODY) | (is_later & (old_group == last_group))
            log.reading_group[positions] = np.where(is_fresh | (old_group == group), group, _SEVERAL)
        log.reader[positions] = np.where(is_fresh | (old_reader == reader), reader, _SEVERAL)
        log.read[positions] = now

    def _note_writes(self, positions: Array, rows: Array, *, is_atomic: bool = False) -> None:
        log, clock = self.log, self.clock
        self._note_waiting()
        threads = rows + clock.first
        times = clock.times_of(threads)
        writer = log.writer[positions]
        is_other = (writer != _NOBODY) & (writer != threads)
        both_atomic = log.is_atomic[positions] & is_atomic
        is_unordered = self._unordered(positions, threads, times)
        self._check(positions, is_other & is_unordered & ~both_atomic, "two threads write")
        reader = log.reader[positions]
        was_read = (reader != _NOBODY) & (reader != threads)
        is_unordered = log.read[positions] == times
        if not log.is_local:
            is_unordered |= log.reading_group[positions] != threads // clock.group_threads
        self._check(positions, was_read & is_unordered, "one thread writes what another reads,")
        log.writer[positions] = threads
        log.written[positions] = times
        log.latest = max(log.latest, int(clock.times.max()))
        log.is_atomic[positions] = is_atomic

    def _unordered(self, positions: Array, threads: Array, times: Array | int) -> Array:
        """Return whether nothing comes between each access and the last write: no barrier that both threads met at."""
        log, group_threads = self.log, self.clock.group_threads
        is_unordered: Array = log.written[positions] == times
        if not log.is_local:
            is_unordered |= log.writer[positions] // group_threads != threads // group_threads
        return is_unordered

    def _check(self, positions: Array, races: Array, what: str) -> None:
        if races.any():
            self._fail(int(positions[races][0]), what)

    def _fail(self, position: int, what: str) -> None:
        raise RaceError(
            f"{self._name}: {what} element {position % self.length} of {self.length}, with no barrier between"
        )


def _bits(array: Array) -> Array:
    """Return the bytes of each value, as integers where there are such of that size."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
