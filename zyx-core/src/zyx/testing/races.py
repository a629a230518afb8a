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
from zyx.ir import kernel as k
from zyx.ir.interpreter import Executable
from zyx.ir.interpreter_memory import Shared
from zyx.ir.interpreter_steps import translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.ir.interpreter import Argument
    from zyx.ir.interpreter_steps import Machine
    from zyx.ir.kernel import Kernel
    from zyx.semantics import Array

_NOBODY: Final = -1
_SEVERAL: Final = -2


class RaceError(ZyxError):
    """Two threads reach one element with nothing that says which comes first."""


def run_without_races(kernel: Kernel, buffers: Sequence[Argument]) -> None:
    """Run a verified kernel as `zyx.ir.interpreter.run` does; `buffers` are as there, each of memory of its own.

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

    def _machine(self, arguments: list[Array], first: int, groups: int) -> Machine:
        machine = super()._machine(arguments, first, groups)
        clock = _Clock(np.arange(machine.rows) + first * self._threads, self._threads)
        for number, op in enumerate(self.kernel.ops):
            storage = machine.arrays.get(number)
            if not isinstance(storage, Shared) or not isinstance(op, k.Define):
                continue
            if op.memory is k.Memory.GLOBAL and not op.mutable:
                continue  # nobody writes it
            log = self._logs.get(number)
            if log is None or op.memory is k.Memory.LOCAL:  # which is new for each group
                log = self._logs[number] = _Log(len(storage.array))
            machine.arrays[number] = _Watched(storage, log, clock, f"kernel {self.kernel.name}: array %{number}")
        return machine


def _meet(machine: Machine, active: Array | None) -> None:
    for storage in machine.arrays.values():
        if isinstance(storage, _Watched):
            storage.clock.meet(active)
            return


class _Clock:
    """Who the threads that run now are, and how often each has met its group.

    Attributes:
        threads: Number of each thread among those of all groups, by row.
        groups: Number of the group of each, by row.
        times: How often each has met its group, by row.
        group_threads: Threads of a group.
    """

    def __init__(self, threads: Array, group_threads: int) -> None:
        self.threads = threads
        self.groups = threads // group_threads
        self.times = np.zeros(len(threads), np.int64)
        self.group_threads = group_threads

    def meet(self, active: Array | None) -> None:
        """Note that the threads of a row that is `active`, all if None, meet their groups."""
        if active is None:
            self.times += 1
        else:
            self.times += np.broadcast_to(active, (len(self.times), active.shape[1])).any(axis=1)


class _Log:
    """For each element of an array, who wrote it last, who read it last, and when."""

    def __init__(self, length: int) -> None:
        self.writer = np.full(length, _NOBODY)
        self.written = np.zeros(length, np.int64)
        self.is_atomic = np.zeros(length, np.bool_)
        self.reader = np.full(length, _NOBODY)  # _SEVERAL: more than one thread, of the group of `reading_group`
        self.reading_group = np.full(length, _NOBODY)  # _SEVERAL: of more than one group
        self.read = np.zeros(length, np.int64)
        self._scratch = np.empty(length, np.int64)

    def last(self, positions: Array, numbers: Array) -> Array:
        """Return, for each access, the number of the last access of the same position."""
        self._scratch[positions] = numbers  # NumPy writes in order
        return self._scratch[positions]

    def common(self, positions: Array, numbers: Array) -> Array:
        """Return, for each access, the number of all accesses of the same position, `_SEVERAL` if they differ."""
        differs = self.last(positions, numbers) != numbers
        if differs.any():
            self._scratch[positions[differs]] = _SEVERAL
        return self._scratch[positions]


class _Watched(Shared):
    """An array that notes who reaches it, and raises when two threads race."""

    def __init__(self, storage: Shared, log: _Log, clock: _Clock, name: str) -> None:
        super().__init__(storage.array, storage.length, storage.base)
        self.log = log
        self.clock = clock
        self._name = name

    def load(self, index: Array, lanes: int, mask: Array | None) -> Array:
        self._note_reads(*self._accesses(index, lanes, mask))
        return super().load(index, lanes, mask)

    def store(self, index: Array, value: Array, mask: Array | None) -> None:
        positions, rows = self._accesses(index, value.shape[1], mask, value)
        before = self.array.copy()
        super().store(index, value, mask)
        values = self._values(value, index, mask)
        # Bits are compared: NaNs are values like others here.
        is_new = _bits(values) != _bits(before[positions])
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
        count = len(self.clock.threads)
        shape = np.broadcast_shapes(positions.shape, (count, 1), () if value is None else value.shape)
        positions = np.broadcast_to(positions, shape)
        rows = np.broadcast_to(np.arange(count).reshape(-1, 1), shape)
        if mask is None:
            return positions.ravel(), rows.ravel()
        mask = np.broadcast_to(mask, shape)
        return positions[mask], rows[mask]

    def _values(self, value: Array, index: Array, mask: Array | None) -> Array:
        positions, mask = self._positions(index, value.shape[1], mask)
        shape = np.broadcast_shapes(positions.shape, (len(self.clock.threads), 1), value.shape)
        value = np.broadcast_to(value, shape)
        return value.ravel() if mask is None else value[np.broadcast_to(mask, shape)]

    # ---- what was and what is

    def _note_reads(self, positions: Array, rows: Array) -> None:
        log, clock = self.log, self.clock
        threads, times = clock.threads[rows], clock.times[rows]
        groups = clock.groups[rows]
        writer = log.writer[positions]
        is_other = (writer != _NOBODY) & (writer != threads)
        if is_other.any():
            is_unordered = (writer // clock.group_threads != groups) | (log.written[positions] == times)
            self._check(positions, is_other & is_unordered, "one thread reads what another writes,")
        # Where several accesses are of one element, the last of them is the one that is kept.
        now, last_group = log.last(positions, times), log.last(positions, groups)
        is_fresh = (log.reader[positions] == _NOBODY) | (
            (log.read[positions] < now) & (log.reading_group[positions] == last_group)
        )
        reader, group = log.common(positions, threads), log.common(positions, groups)
        old_reader, old_group = log.reader[positions], log.reading_group[positions]
        log.reader[positions] = np.where(is_fresh | (old_reader == reader), reader, _SEVERAL)
        log.reading_group[positions] = np.where(is_fresh | (old_group == group), group, _SEVERAL)
        log.read[positions] = now

    def _note_writes(self, positions: Array, rows: Array, *, is_atomic: bool = False) -> None:
        log, clock = self.log, self.clock
        threads, times = clock.threads[rows], clock.times[rows]
        groups = clock.groups[rows]
        writer = log.writer[positions]
        is_other = (writer != _NOBODY) & (writer != threads)
        is_unordered = (writer // clock.group_threads != groups) | (log.written[positions] == times)
        both_atomic = log.is_atomic[positions] & is_atomic
        self._check(positions, is_other & is_unordered & ~both_atomic, "two threads write")
        reader = log.reader[positions]
        was_read = (reader != _NOBODY) & (reader != threads)
        is_unordered = (log.reading_group[positions] != groups) | (log.read[positions] == times)
        self._check(positions, was_read & is_unordered, "one thread writes what another reads,")
        log.writer[positions] = threads
        log.written[positions] = times
        log.is_atomic[positions] = is_atomic

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
