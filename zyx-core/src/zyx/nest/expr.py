"""Scalar expressions over named ranges: what a loop nest computes at one point of its iteration space.

    index   := RangeRef | Affine | Quotient | Remainder | Within | Literal    integers, dtype `INDEX`, with known bounds
    test    := NonNegative | IsZero                                           bool, of an index
    data    := Literal | Number | Read | Ref | Reduction | Apply1 | Apply2 | Select | Convert | Reinterpret

A `Pool` makes them, equal ones once, so `is` compares and a memo can be keyed by the expression. It simplifies while
it makes: index arithmetic is kept as sums of multiples, and quotients, remainders and tests are resolved by the
bounds of what they divide or test. Quotients round down.

An expression that is masked off may hold any index; the masks on `Read` see to it that nothing is read there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.dtype import DType, Kind
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from zyx.dtype import Scalar
    from zyx.nest import expr_text
    from zyx.ops import BinaryOp, ReduceOp, UnaryOp
else:
    expr_text = lazy_import("zyx.nest.expr_text", globals())

#: The dtype of index arithmetic; lowering picks int32 or int64 for it.
INDEX: Final = DType("index", "index", Kind.INT, 64)
UNBOUNDED: Final = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """A loop variable, 0 <= value < `size`.

    Attributes:
        number: Tells the ranges of one pool apart.
        size: Number of points.
        label: Name by which schedules call it; a nest's ranges have different labels.
        bit: What stands for it in `Expr.free`.
    """

    number: int
    size: int
    label: str
    bit: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit", 1 << self.number)

    def __repr__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """What the nest is given at launch: a buffer that it reads or writes, or a number.

    Attributes:
        number: Tells the params of one launch apart.
        dtype: Of the elements.
        length: How many there are.
        mutable: Whether they are written.
        by_value: Whether it is a number: one element that is no buffer's.
        is_front: Whether the launch may give fewer elements, the first one at least: see `Define`.
    """

    number: int
    dtype: DType
    length: int
    mutable: bool
    by_value: bool = False
    is_front: bool = False

    def __repr__(self) -> str:
        return f"p{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What a statement of a nest defines: one scalar of `dtype` for every point of `ranges`."""

    number: int
    dtype: DType
    ranges: tuple[Range, ...]

    def __repr__(self) -> str:
        return f"v{self.number}"


# Not frozen: making these is most of what building a kernel costs.
@dataclass(slots=True, eq=False, repr=False)
class Expr:
    """Any expression.

    Attributes:
        dtype: Type of the value; `INDEX` for index arithmetic.
        free: The ranges it depends on, as a bit set of their numbers.
        low, high: Bounds of an index expression, inclusive; 0 for others.
        serial: Order of creation within the pool.
        children: The expressions directly below, as the pool that made it says.
    """

    dtype: DType
    free: int
    low: int = field(default=0, init=False)
    high: int = field(default=0, init=False)
    serial: int = field(default=-1, init=False)
    children: tuple[Expr, ...] = field(default=(), init=False)

    def __repr__(self) -> str:
        return expr_text.show(self)


@dataclass(slots=True, eq=False, repr=False)
class Literal(Expr):
    """A constant."""

    value: Scalar


@dataclass(slots=True, eq=False, repr=False)
class Number(Expr):
    """A param that is given by value: known at launch, the same everywhere."""

    param: Param


@dataclass(slots=True, eq=False, repr=False)
class RangeRef(Expr):
    """The value of a range."""

    range: Range


@dataclass(slots=True, eq=False, repr=False)
class Opaque(Expr):
    """An index of which only bounds and ranges are known; planning uses it for one that is read from memory."""


@dataclass(slots=True, eq=False, repr=False)
class Affine(Expr):
    """``constant + sum of factor * term``: at least one term, each a different non-affine index, no factor 0."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int


@dataclass(slots=True, eq=False, repr=False)
class Quotient(Expr):
    """``x // divisor``, rounded down; the divisor is positive."""

    x: Expr
    divisor: int


@dataclass(slots=True, eq=False, repr=False)
class Remainder(Expr):
    """``x % divisor``, not negative; the divisor is positive."""

    x: Expr
    divisor: int


@dataclass(slots=True, eq=False, repr=False)
class Within(Expr):
    """`x`, an index read from memory, wherever it lies within the bounds of this expression; anything elsewhere."""

    x: Expr


@dataclass(slots=True, eq=False, repr=False)
class NonNegative(Expr):
    """Whether the index `x` is >= 0."""

    x: Expr


@dataclass(slots=True, eq=False, repr=False)
class IsZero(Expr):
    """Whether the index `x` is 0."""

    x: Expr


@dataclass(slots=True, eq=False, repr=False)
class Read(Expr):
    """Element `index` of a buffer; where `mask` is false nothing is read and the value is 0."""

    param: Param
    index: Expr
    mask: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Ref(Expr):
    """The value that a statement defined for the point `indices` of its ranges.

    `mask`, if any, says where the point exists; elsewhere the value is undefined and must not be used.
    """

    value: Value
    indices: tuple[Expr, ...]
    mask: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Reduction(Expr):
    """`body` combined over all points of `ranges`. Only while a nest is built: statements replace it."""

    op: ReduceOp
    body: Expr
    ranges: tuple[Range, ...]


@dataclass(slots=True, eq=False, repr=False)
class Apply1(Expr):
    """A unary operation."""

    op: UnaryOp
    x: Expr


@dataclass(slots=True, eq=False, repr=False)
class Apply2(Expr):
    """A binary operation on two operands of one dtype."""

    op: BinaryOp
    x: Expr
    y: Expr


@dataclass(slots=True, eq=False, repr=False)
class Select(Expr):
    """`x` where the bool `condition` holds, else `y`."""

    condition: Expr
    x: Expr
    y: Expr


@dataclass(slots=True, eq=False, repr=False)
class Convert(Expr):
    """`x` converted to `dtype`; from and to `INDEX` as from and to int64."""

    x: Expr


@dataclass(slots=True, eq=False, repr=False)
class Reinterpret(Expr):
    """The bits of `x` read as `dtype`."""

    x: Expr


def is_current(index: Expr, range_: Range) -> bool:
    """Whether `index` is the value of `range_` itself; a range of one point is 0."""
    if isinstance(index, RangeRef):
        return index.range is range_
    return range_.size == 1 and isinstance(index, Literal)


Index: TypeAlias = Literal | RangeRef | Affine | Quotient | Remainder | Within | Convert
