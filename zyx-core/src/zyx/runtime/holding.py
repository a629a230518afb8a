"""What tensors hold of each pool over time, the most of it, and what held it then.

A piece of memory is of the kernel that wrote to it last. What held the most is written down when the first piece of it
is given back, not at every piece that is added.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.backend import MemoryPool, PoolBuffer

#: What holds memory that no kernel has written to: arrays that came from elsewhere.
COPIED: Final = "copied there"
#: What holds memory that was there before anybody looked.
BEFORE: Final = "from before"


class Held(NamedTuple):
    """Memory of one origin: the kernel that wrote it or `COPIED` or `BEFORE`, the number of buffers, their bytes."""

    what: str
    buffers: int
    bytes: int


class Peak(NamedTuple):
    """The most that tensors held of a pool.

    Attributes:
        pool: Its name.
        bytes: All together.
        seconds: When that was, from the beginning.
        held: What held it, the largest first.
    """

    pool: str
    bytes: int
    seconds: float
    held: tuple[Held, ...]


class Sample(NamedTuple):
    """What tensors hold of a pool from a time on."""

    at: float
    pool: str
    bytes: int


class Life(NamedTuple):
    """A piece of memory from when it was taken, or written by another kernel, until it was given back, or written."""

    pool: str
    what: str
    bytes: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class _Piece:
    nbytes: int
    what: str
    since: float = 0.0


@dataclass(slots=True)
class _Pool:
    """One pool.

    Attributes:
        before: Bytes that were there before.
        live: Bytes now.
        pieces: By the identity of the pool's buffer.
        peak: The most bytes so far.
        at: When that was.
        held: What held them; None as long as it still does.
    """

    before: int = 0
    live: int = 0
    pieces: dict[int, _Piece] = field(default_factory=dict)
    peak: int = 0
    at: float = 0.0
    held: list[_Piece] | None = None

    def snapshot(self) -> list[_Piece]:
        """Return what there is now."""
        old = [_Piece(self.before, BEFORE)] if self.before else []
        return [*old, *self.pieces.values()]


class Holding:
    """Takes notes of memory.

    Args:
        most_samples: Samples that are kept; those that come after them are counted in `left_out`.

    Attributes:
        samples: In the order of time.
        lives: Of pieces that are over; the others are in `all_lives`.
        left_out: Samples that were too many.
    """

    def __init__(self, most_samples: int) -> None:
        self.samples: list[Sample] = []
        self.lives: list[Life] = []
        self.left_out = 0
        self._most_samples = most_samples
        self._pools: dict[str, _Pool] = {}

    def begin(self, live: Mapping[MemoryPool, int], at: float) -> None:
        """Note what there is before anything else."""
        for pool, nbytes in live.items():
            self._pools[pool.name] = _Pool(before=nbytes, live=nbytes, peak=nbytes, at=at)
            self._sample(at, pool.name, nbytes)

    def held(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int, at: float) -> None:
        """Note a piece more."""
        known = self._pools.setdefault(pool.name, _Pool())
        known.pieces[id(raw)] = _Piece(raw.nbytes, COPIED, at)
        known.live = live_bytes
        if live_bytes > known.peak:
            known.peak, known.at, known.held = live_bytes, at, None
        self._sample(at, pool.name, live_bytes)

    def freed(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int, at: float) -> None:
        """Note a piece less."""
        known = self._pools.setdefault(pool.name, _Pool())
        if known.held is None and known.live == known.peak:
            known.held = known.snapshot()
        piece = known.pieces.pop(id(raw), None)
        if piece is None:
            known.before -= raw.nbytes
        else:
            self._over(pool.name, piece, at)
        known.live = live_bytes
        self._sample(at, pool.name, live_bytes)

    def written(self, pool: MemoryPool, raw: object, what: str, at: float) -> None:
        """Note who wrote to a piece."""
        known = self._pools.get(pool.name)
        piece = None if known is None else known.pieces.get(id(raw))
        if known is not None and piece is not None and piece.what != what:
            if known.held is None and known.live == known.peak and piece.what != COPIED:
                known.held = known.snapshot()  # it is another's from now on
            if piece.what == COPIED:  # as it is called until a kernel has written to it
                at = piece.since
            else:
                self._over(pool.name, piece, at)
            known.pieces[id(raw)] = _Piece(piece.nbytes, what, at)

    def peaks(self, began: float) -> list[Peak]:
        """Return the most of each pool that ever had something."""
        found = []
        for name, pool in self._pools.items():
            pieces = pool.snapshot() if pool.held is None else pool.held
            counts, sizes = Counter(piece.what for piece in pieces), Counter[str]()
            for piece in pieces:
                sizes[piece.what] += piece.nbytes
            held = tuple(Held(what, counts[what], nbytes) for what, nbytes in sizes.most_common())
            if pool.peak:
                found.append(Peak(name, pool.peak, max(0.0, pool.at - began), held))
        return sorted(found, key=lambda peak: -peak.bytes)

    def all_lives(self, until: float) -> list[Life]:
        """Return the lives of all pieces, those first that began first; what is still there lives until `until`."""
        found = list(self.lives)
        for name, pool in self._pools.items():
            found += [Life(name, piece.what, piece.nbytes, piece.since, until) for piece in pool.pieces.values()]
        return sorted(found, key=lambda life: life.start)

    def _over(self, pool: str, piece: _Piece, at: float) -> None:
        if len(self.lives) < self._most_samples:
            self.lives.append(Life(pool, piece.what, piece.nbytes, piece.since, at))

    def _sample(self, at: float, pool: str, nbytes: int) -> None:
        if len(self.samples) < self._most_samples:
            self.samples.append(Sample(at, pool, nbytes))
        else:
            self.left_out += 1
