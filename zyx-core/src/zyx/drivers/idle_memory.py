"""Memory that was given back to a pool and waits to be used again, since drivers take long to make it."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, Generic, TypeVar

MemoryT = TypeVar("MemoryT")

#: Sizes are rounded up to this many bytes, and from there to one of four sizes a power of two.
_GRAIN: Final = 256


def rounded(nbytes: int) -> int:
    """Return the size of the memory that serves a request: one of four a power of two, and a multiple of 256."""
    step = max(_GRAIN, 1 << max(0, (nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


class IdleMemory(Generic[MemoryT]):
    """Pieces of memory by size; a piece up to a quarter larger serves a request.

    Attributes:
        nbytes: Size of all pieces together.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._pieces: dict[int, list[MemoryT]] = {}
        self._sizes: list[int] = []  # the keys of `_pieces`, sorted

    def put(self, nbytes: int, memory: MemoryT) -> None:
        """Keep a piece."""
        if nbytes not in self._pieces:
            insort(self._sizes, nbytes)
            self._pieces[nbytes] = []
        self._pieces[nbytes].append(memory)
        self.nbytes += nbytes

    def take(self, nbytes: int) -> tuple[int, MemoryT] | None:
        """Return a piece of at least `nbytes`, with its size; None if there is none that is not far too large."""
        place = bisect_left(self._sizes, nbytes)
        if place == len(self._sizes) or self._sizes[place] > nbytes + nbytes // 4:
            return None
        size = self._sizes[place]
        pieces = self._pieces[size]
        memory = pieces.pop()
        if not pieces:
            del self._pieces[size], self._sizes[place]
        self.nbytes -= size
        return size, memory

    def clear(self) -> list[MemoryT]:
        """Forget all pieces, and return them."""
        found = [memory for pieces in self._pieces.values() for memory in pieces]
        self.nbytes = 0
        self._pieces.clear()
        self._sizes.clear()
        return found
