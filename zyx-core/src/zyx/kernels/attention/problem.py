"""What attention is to compute, and by how many threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from zyx.kernel.wmma import WARP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel import data as k
    from zyx.kernels.code import Code

#: The instruction: rows, columns and points of a sum.
DIMS: Final = (16, 8, 16)
#: Numbers that a thread copies at a time, 16 bytes; those of four threads are a part of a row.
PIECE: Final = 8
PART: Final = 32
#: Keys of a block.
BLOCK_KEYS: Final = 64
#: Warps with results of so many columns at most have two tiles of rows: twice as much is done with what is read.
_TWO_TILES: Final = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is computed.

    Attributes:
        heads: Products in all: sequences times heads.
        queries: Rows of the scores.
        keys: Columns of the scores.
        width: Of queries and keys.
        width_out: Of values and results.
        behind: If a query sees no keys behind its own: what is added to its number to have that of the last one that
            it sees. Blocks of other keys are left out.
        scale: What scores are multiplied by, positive.
        is_guarded: Whether a query that sees no key has 0, not NaN.
        rows: Queries of a group: 64 or 128.
    """

    heads: int
    queries: int
    keys: int
    width: int
    width_out: int
    behind: int | None
    scale: float
    is_guarded: bool
    rows: int = 128

    @property
    def row_tiles(self) -> int:
        """Tiles of rows of a warp."""
        return 2 if max(self.width, self.width_out) <= _TWO_TILES else 1

    @property
    def groups(self) -> int:
        """Groups that have different queries."""
        return self.heads * -(-self.queries // self.rows)

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.rows // (self.row_tiles * DIMS[0]) * WARP

    @property
    def padded(self) -> tuple[int, int]:
        """The two widths as they are in local memory: whole parts."""
        return -(-self.width // PART) * PART, -(-self.width_out // PART) * PART

    @property
    def local_bytes(self) -> int:
        """Local memory of a group."""
        return 2 * BLOCK_KEYS * sum(self.padded)


class Change(Protocol):
    """What becomes of a score before the softmax."""

    @property
    def arrays(self) -> Sequence[tuple[DType, int]]:
        """The dtype and length of each array that it reads."""

    def written(self, code: Code, arrays: Sequence[k.ValueId], score: k.ValueId, places: Places) -> k.ValueId:
        """Write it for several scores, and return the values: vectors of float32."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where scores are.

    Attributes:
        head: Number of the product, a scalar.
        query: Row, int32, a vector; it may lie behind the last one.
        key: Column, int32, a vector; the same.
    """

    head: k.ValueId
    query: k.ValueId
    key: k.ValueId
