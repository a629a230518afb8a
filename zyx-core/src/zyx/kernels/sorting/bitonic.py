"""Sort records in local memory by a bitonic network.

K. E. Batcher, "Sorting networks and their applications", AFIPS 1968.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.powers import next_power
from zyx.kernels.code import Immediate
from zyx.kernels.sorting.network import comparators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel import data as k
    from zyx.kernels.sorting.code import RecordCode, Words

#: A thread has two to the power of this records in registers: the smallest tile.
WINDOW: Final = 3
#: Records that lie side by side in local memory.
_BANKS: Final = 16


def tile_for(size: int) -> int:
    """Return the smallest tile that holds so many records."""
    return max(1 << WINDOW, next_power(size))


@dataclass(frozen=True, slots=True)
class Bitonic:
    """Sorts tiles in local memory, by all threads of a group.

    A stage merges runs of two to the power of its number, of which the second descends, by comparing elements at
    distances that halve. Three distances in a row concern eight records, which a thread takes into registers.

    Attributes:
        code: To write to.
        arrays: The records. Those that threads share lie where `padded` says.
        thread: Number of the thread; None if there is one only, which does what many would.
        tile: Records of a tile.
        together: Records of the group.
        lanes: Of a record: so many tiles are sorted at once.
    """

    code: RecordCode
    arrays: Words
    thread: k.ValueId | None
    tile: int
    together: int
    lanes: int = 1

    def sort(self) -> None:
        """Sort; the group has waited for the records before, and has to before it reads them."""
        code, window = self.code, WINDOW
        stages = self.tile.bit_length() - 1
        self._round(code.at(0), window, list(comparators(1 << window)))
        for stage in range(window, stages):
            full, rest = divmod(stage + 1, window)
            turn = code.loop(full, code.position)
            self._meet()
            low = code.minus(code.at(stage + 1 - window), code.times(turn, Immediate(window)))
            self._round(low, stage + 1, self._halvings(window))
            code.end_loop()
            if rest:
                self._meet()
                self._round(code.at(0), stage + 1, self._halvings(rest))

    def _meet(self) -> None:
        if self.thread is not None:
            self.code.barrier()

    def _halvings(self, bits: int) -> list[tuple[int, int]]:
        """Return what is compared at distances of `bits` low bits in turn, the greatest first."""
        pairs = []
        for bit in reversed(range(bits)):
            pairs += [(i, i | 1 << bit) for i in range(1 << WINDOW) if not i >> bit & 1]
        return pairs

    def _round(self, low: k.ValueId, direction: int, pairs: Sequence[tuple[int, int]]) -> None:
        """Compare `pairs` of the records that differ in the bits from `low` on; order descends by bit `direction`."""
        code = self.code
        thread = code.loop(self.together >> WINDOW, code.position) if self.thread is None else self.thread
        inside = code.minus(code.up(code.at(1), low), Immediate(1))
        above = code.up(code.down(thread, low), code.plus(low, Immediate(WINDOW)))
        first = code.plus(above, code.both(thread, inside))
        places = [self._index(code.plus(first, code.up(code.at(number), low))) for number in range(1 << WINDOW)]
        records = [code.read(self.arrays, place, lanes=self.lanes) for place in places]
        flips: list[k.ValueId] | None = None
        if 1 << direction < self.tile:
            is_down = code.both(code.down(first, Immediate(direction)), Immediate(1))
            flips = [
                code.splat(code.minus(code.const(0, dtype), code.cast(is_down, dtype)), self.lanes)
                for dtype in (code.type_of(word).dtype for word in records[0])
            ]
            records = [self._flipped(record, flips) for record in records]
        for i, j in pairs:
            records[i], records[j] = code.exchange(records[i], records[j])
        for place, record in zip(places, records, strict=True):
            code.write(self.arrays, place, record if flips is None else self._flipped(record, flips))
        if self.thread is None:
            code.end_loop()

    def _index(self, place: k.ValueId) -> k.ValueId:
        """Return where the record at `place` lies."""
        if self.thread is not None:
            return padded(self.code, place, self.together)
        return self.code.times(self.code.both(place, Immediate(self.together - 1)), Immediate(self.lanes))

    def _flipped(self, record: Words, flips: Sequence[k.ValueId]) -> Words:
        """Return a record that comes after others where it came before them."""
        return tuple(self.code.differing(word, flip) for word, flip in zip(record, flips, strict=True))


def padded(code: RecordCode, place: k.ValueId, together: int) -> k.ValueId:
    """Return where in local memory the record at `place` of `together` lies.

    Between every sixteen there is room for one, so that threads a few records apart use different banks.
    """
    place = code.both(place, Immediate(together - 1))  # as it is: this says so
    return code.plus(place, code.down(place, Immediate(_BANKS.bit_length() - 1)))


def padded_length(together: int) -> int:
    """Return how many records there is room for where so many lie padded."""
    return together + together // _BANKS
