"""Memory of the host that transfers go through, where drivers copy from special memory only, or much faster.

The driver copies to and from such memory by itself, while the processor does something else. It is a ring: pieces are
handed out one after the other, and each is free again when the work that used it is done.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

#: Size of a ring, and of the largest piece: while one is copied by the driver, the next ones are filled.
RING_BYTES: Final = 32 << 20
PIECE_BYTES: Final = 4 << 20
#: Pieces begin at multiples of this.
_GRAIN: Final = 64


class Lane(Protocol):
    """What does transfers one after the other, and counts them.

    Attributes:
        done: How many are known to be done.
    """

    @property
    def done(self) -> int: ...

    def finish(self, number: int) -> None:
        """Wait until so many are done."""


class Staging:
    """A ring of such memory, made at first use, for the transfers of one lane.

    Args:
        make: Returns the memory, of so many bytes.
        lane: What copies from it, or to it.
    """

    def __init__(self, make: Callable[[int], NDArray[np.uint8]], lane: Lane) -> None:
        self._make = make
        self._lane = lane
        self._memory: NDArray[np.uint8] | None = None
        self._head = 0
        self._pieces: deque[tuple[int, int, int]] = deque()  # start, end, place in the lane; oldest first

    @property
    def start(self) -> int:
        """Where in the ring the piece begins that was handed out last, until it is sent."""
        return self._head

    def piece(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a piece of 1 to `PIECE_BYTES` bytes, once nothing uses it. `sent` has to follow."""
        if self._memory is None:
            self._memory = self._make(RING_BYTES)
        if self._head + nbytes > RING_BYTES:
            self._free_until(lambda start, end: start < self._head)
            self._head = 0
        first, last = self._head, self._head + nbytes
        # Pieces follow one another around the ring, so none overlaps if the oldest does not: it is the next one ahead.
        self._free_until(lambda start, end: end <= first or last <= start)
        return self._memory[first:last]

    def sent(self, nbytes: int, place: int) -> None:
        """Note that the piece just handed out is used by the work at `place`."""
        # Or there would be many small ones before the ring ends.
        while self._pieces and self._pieces[0][2] <= self._lane.done:
            self._pieces.popleft()
        self._pieces.append((self._head, self._head + nbytes, place))
        self._head += -(-nbytes // _GRAIN) * _GRAIN

    def close(self) -> None:
        """Let go of the memory, which is the driver's."""
        self._pieces.clear()
        self._memory = None

    def _free_until(self, is_enough: Callable[[int, int], bool]) -> None:
        while self._pieces and not is_enough(*self._pieces[0][:2]):
            self._lane.finish(self._pieces.popleft()[2])
