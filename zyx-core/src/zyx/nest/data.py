"""The loop nest: what a kernel computes, statement by statement, and the loops each statement sits in.

    nest      := statement*
    statement := Compute | Scan | Store

    softmax over the rows of x[4096, 1000], before any schedule move:

        v0[r0]     = max(r1) of p0[r0*1000 + r1]                            loops r0, r1
        v1[r0]     = sum(r2) of exp2((p0[r0*1000 + r2] - v0[r0]) * 1.44)    loops r0, r2
        p1[r0*1000 + r3] = exp2((p0[r0*1000 + r3] - v0[r0]) * 1.44) / v1[r0]    loops r0, r3

A statement's meaning is that of a definition: for all points of its ranges at once, in the order of the list. How it
is run is data beside it: the order of its loops (`order`, outermost first) and the kind of each range. Statements that
follow each other share their leading loops as far as meaning allows; lowering finds that out, and gives a value that is
needed outside the loops it was defined in an array to live in. So any order of loops, and any kinds, compute the same
values. Moves (`zyx.schedule.moves`) turn one nest into another.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.nest import text
    from zyx.nest.expr import Expr, Param, Range, Value
    from zyx.nest.pool import Pool
    from zyx.ops import ReduceOp
else:
    text = lazy_import("zyx.nest.text", globals())


class Kind(enum.Enum):
    """How the points of a range are run.

    GROUP: by the groups of the grid. LOCAL: by the threads of a group. LOOP: one after the other. UNROLL: written
    out; a reduction keeps an accumulator for each point. REPEAT: written out, one accumulator. VECTOR: the lanes of
    vectors.
    """

    GROUP = "group"
    LOCAL = "local"
    LOOP = "loop"
    UNROLL = "unroll"
    REPEAT = "repeat"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, eq=False)
class MatrixTile:
    """The ranges of a sum of products that a warp multiplies as a tile of two matrices, by `zyx.kernel.data.Wmma`.

    The tile's row is ``8 * half + lane // 4``, its column ``2 * (lane % 4) + pair``, and the place in the sum
    ``depth[1].size * depth[0] + depth[1]``.

    Attributes:
        half: Halves of the rows (2), unrolled.
        lane: The threads of the warp (32), local.
        pair: Neighbouring columns (2), unrolled.
        depth: What is summed up: the threads that share a row or column (4), written out; and what each of them has
            (2, 4 or 8), a vector. A multiplication takes at most 8 bytes of it; what is longer makes several.
        itemsize: Bytes of an element of a factor, 2 or 4.
    """

    half: Range
    lane: Range
    pair: Range
    depth: tuple[Range, Range]
    itemsize: int

    @property
    def ranges(self) -> tuple[Range, ...]:
        """All of them."""
        return (self.half, self.lane, self.pair, *self.depth)

    @property
    def dims(self) -> tuple[int, int, int]:
        """Rows, columns and depth of a multiplication."""
        depth = self.depth[0].size * min(8 // self.itemsize, self.depth[1].size)
        return (8 * self.half.size, 4 * self.pair.size, depth)


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """``value[ranges] = expr``, or its combination by `op` over the ranges `reduced`.

    Attributes:
        value: What is defined; its ranges are those of `order` without `reduced`.
        expr: The right-hand side.
        op: How to combine, None if `reduced` is empty.
        reduced: The ranges combined over.
        order: All ranges, outermost loop first.
        matrix: If warps multiply matrices, how.
    """

    value: Value
    expr: Expr
    op: ReduceOp | None
    reduced: tuple[Range, ...]
    order: tuple[Range, ...]
    matrix: MatrixTile | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """``value[.., i, ..]`` combines ``expr`` for 0 to i along `along`, which runs in order.

    Splitting `along` puts several ranges in its place, most significant first.
    """

    value: Value
    expr: Expr
    op: ReduceOp
    along: tuple[Range, ...]
    order: tuple[Range, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """``param[index] = expr`` for all points of `order` where `mask` holds.

    Attributes:
        param: The buffer.
        index: Position, in elements.
        expr: What is written.
        mask: Points that exist; None means all.
        combine: Combine with what is there instead of replacing it.
        serial: Ranges whose points may hit one position, most significant first: they run in order, on one thread.
        order: All ranges, outermost loop first.
        streaming: Hint that nothing reads the buffer soon.
        atomic: Combine indivisibly: any points may hit one position, in any order and on different threads.
    """

    param: Param
    index: Expr
    expr: Expr
    mask: Expr | None
    order: tuple[Range, ...]
    combine: ReduceOp | None = None
    serial: tuple[Range, ...] = ()
    streaming: bool = False
    atomic: bool = False


Statement: TypeAlias = Compute | Scan | Store


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """Statements in order, and how their ranges are run.

    Attributes:
        params: The buffers, by number.
        statements: What is computed.
        kinds: Kind of each range; one that is not given is a LOOP.
        ranges: All ranges of all statements, in order of appearance.
        kind: Returns how the points of one of them are run.
        peeled: Ranges whose last point is written out apart, so that masks that only it needs vanish from the others.
        swapping: Ranges of threads that combine by swapping values (`zyx.kernel.data.Swap`) where they stand along the
            first axis: in aligned groups of so many threads at most, a power of two.
        pool: Where the expressions come from.
    """

    params: tuple[Param, ...]
    statements: tuple[Statement, ...]
    pool: Pool
    kinds: Mapping[Range, Kind] = field(default_factory=dict)
    peeled: frozenset[Range] = frozenset()
    swapping: Mapping[Range, int] = field(default_factory=dict)
    ranges: tuple[Range, ...] = field(init=False)
    kind: Callable[[Range], Kind] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = dict.fromkeys(itertools.chain.from_iterable([statement.order for statement in self.statements]))
        given = self.kinds
        kinds = {range_: given.get(range_, Kind.LOOP) for range_ in found}
        object.__setattr__(self, "ranges", tuple(found))
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "kind", kinds.__getitem__)  # asked for often: without a call of Python

    @property
    def grid(self) -> tuple[Range, ...]:
        """The ranges of kind GROUP, that along which groups are neighbours last: in the order of the last statement."""
        last = self.statements[-1].order
        groups = [range_ for range_, kind in self.kinds.items() if kind is Kind.GROUP]
        return tuple(sorted(groups, key=lambda range_: last.index(range_) if range_ in last else -1))

    def __str__(self) -> str:
        return text.print_nest(self)


def params_of(nests: Sequence[Nest]) -> list[Param]:
    """Return the params of the kernel of some nests, each once, in launch order: buffers, then numbers as numbered."""
    params = dict.fromkeys(param for nest in nests for param in nest.params)
    return sorted(params, key=lambda param: param.number if param.by_value else -1)
