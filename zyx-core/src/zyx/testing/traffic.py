"""Count what the warps of a kernel move, as graphics processors do: the interpreter runs it, every access is noted.

    traffic = run_counted(kernel, buffers)
    assert traffic.waste(kernel) < 1.2              # hardly more sectors than there are

Memory moves by sectors, and those that one access of a warp touches are moved once for it. Local memory has banks, of
which each gives a warp one word at a time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx.kernel import data as k
from zyx.kernel.run import Executable
from zyx.kernel.run_memory import Shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Kernel
    from zyx.kernel.run import Argument
    from zyx.kernel.run_steps import RunState
    from zyx.semantics import Array

SECTOR_BYTES: Final = 32
LINE_BYTES: Final = 128
WARP: Final = 32
BANKS: Final = 32
_WORD_BYTES: Final = 4


class Traffic:
    """What a kernel moved; accesses at which all its threads name one place are not counted.

    Attributes:
        sectors: Sectors of memory that its accesses touch, warp by warp, of each param.
        lines: The same, of lines of the first cache.
        conflicts: How many times more than once its warps had to turn to local memory for an access, in all.
    """

    def __init__(self) -> None:
        self.sectors: Counter[int] = Counter()
        self.lines: Counter[int] = Counter()
        self.conflicts = 0

    def waste(self, kernel: Kernel) -> float:
        """Return how many sectors were moved for each that the params have."""
        params = [param for param in kernel.params if isinstance(param, k.Define)]
        return sum(self.sectors.values()) / sum(-(-p.length * p.dtype.itemsize // SECTOR_BYTES) for p in params)


def run_counted(kernel: Kernel, buffers: Sequence[Argument]) -> Traffic:
    """Run a kernel on `buffers`, and return what it moved."""
    counted = _Counted(kernel)
    counted(buffers)
    return counted.traffic


class _Counted(Executable):
    """A kernel whose accesses are noted."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.traffic = Traffic()

    def _machine(self, arguments: list[Array], first: int, groups: int) -> RunState:
        machine = super()._machine(arguments, first, groups)
        for number, array in machine.arrays.items():
            if isinstance(array, Shared):
                machine.arrays[number] = _Noted(array, self, number)
        return machine

    def note(self, number: int, positions: Array, mask: Array | None, itemsize: int) -> None:
        """Note an access to an array, of every thread in order."""
        rows = np.arange(len(positions)).reshape(-1, 1)
        warps = rows // self._threads * -(-self._threads // WARP) + rows % self._threads // WARP
        chosen = np.ones(positions.shape, np.bool_) if mask is None else np.broadcast_to(mask, positions.shape)
        warps = np.broadcast_to(warps, positions.shape)[chosen]
        nbytes = positions[chosen] * itemsize
        is_local = self.kernel.ops[number] not in self.kernel.params
        unit = nbytes // (_WORD_BYTES if is_local else SECTOR_BYTES)
        units = 1 + int(unit.max(initial=0))
        touched = np.unique(warps * units + unit)  # pairs as numbers, which are sorted much faster
        if not is_local:
            self.traffic.sectors[number] += len(touched)
            lines = touched // units * units + touched % units // (LINE_BYTES // SECTOR_BYTES)
            self.traffic.lines[number] += len(np.unique(lines))
            return
        turns = Counter(zip((touched // units).tolist(), (touched % units % BANKS).tolist(), strict=True))
        most: dict[int, int] = {}
        for (warp, _), count in turns.items():
            most[warp] = max(most.get(warp, 0), count)
        self.traffic.conflicts += sum(most.values()) - len(most)


class _Noted(Shared):
    """Memory whose accesses are noted."""

    def __init__(self, array: Shared, counted: _Counted, number: int) -> None:
        super().__init__(array.array, array.length, array.base)
        self._counted = counted
        self._number = number

    def _positions(self, index: Array, lanes: int, mask: Array | None) -> tuple[Array, Array | None]:
        positions, mask = super()._positions(index, lanes, mask)
        if len(positions) > 1:
            self._counted.note(self._number, positions, mask, self.array.itemsize)
        return positions, mask


__all__ = ["Traffic", "run_counted"]
