"""The tile program: what a nest becomes for a device that takes whole tiles of matrices.

    program := axes, operands, sweep*
    sweep   := step*          once for each block of results, or for each block along one more axis

    c = relu(a @ b + d) of a[96, 64] and b[64, 128], tiles of 32 x 32, blocks of 3 x 4 tiles, 2 deep:

        axes      0: 96 in 3 tiles, 1: 128 in 4 tiles, 2: 64 in 2 tiles             results along 0 and 1
        sweep along 2      t0 := 0;  t1 = load a(0, 2);  t2 = load b(2, 1);  t3 = t1 @ t2;  t0 += t3
        sweep once         t4 = load d(-, 1);  t5 = spread t4;  t6 = t0 + t5;  t7 = relu t6;  put c(0, 1), t7

Buffers hold row-major bytes, as on every device. A program reads and writes views of them as matrices of tiles; what
turns the one into the other (`zyx.tiles.staging`) is a program of its own. A value of a step is a block of tiles; what
has one row, or one column, of elements has it as the first of a row, or column, of tiles.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx.nest.expr import Param


@dataclass(frozen=True, slots=True)
class Matrix:
    """Elements of a buffer as matrices of tiles: each matrix is padded to whole tiles, and they lie below each other.

    Attributes:
        dtype: Of the elements in the buffer.
        tile_dtype: Of the elements of tiles, to and from which they are converted.
        offset: Position of the first element.
        shape: Sizes: axes of the batch, then rows, then columns.
        strides: How far the elements along each of them are apart.
        count: Elements that there are, in row-major order; 0 means all. Fewer are a vector, folded.
        within: For each axis, from where to where the buffer has elements; the others are 0. Empty means that it has
            all of them. Of what is folded, there is one pair, for the vector.
    """

    dtype: DType
    tile_dtype: DType
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    count: int = 0
    within: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchArgument:
    """A launch argument: a buffer, or a number, which is in place (0, 0) of a tile."""

    param: Param


@dataclass(frozen=True, slots=True)
class Constant:
    """A matrix of one value, and of another in its pads."""

    value: Scalar
    pad: Scalar = 0


@dataclass(frozen=True, slots=True)
class Ramp:
    """The numbers ``start + step * i`` along the one axis of several elements; the last one again in its pads."""

    start: float
    step: int


Source: TypeAlias = LaunchArgument | Constant | Ramp


@dataclass(frozen=True, slots=True)
class Axis:
    """What blocks are counted along.

    Attributes:
        size: Elements.
        tiles: Tiles; the number of matrices, along an axis of the batch.
        block: Tiles of a block, a divisor of `tiles`; 1 along an axis of the batch.
    """

    size: int
    tiles: int
    block: int = 1

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.tiles // self.block


class Pads(enum.Enum):
    """What is beside the elements of a matrix in its tiles.

    ANY: whatever. ZERO: 0. LAST: the last element of the row, or column, or of the vector that is folded; what is
    computed from that, element by element, is then what some element has, too.
    """

    ANY = "any"
    ZERO = "zero"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class TileAccess:
    """What a program reads or writes.

    Attributes:
        source: Where its elements are.
        view: As what.
        axes: The axis of the program of each axis of the view; None where that has one element.
        is_written: Whether it is written, and not read.
        pads: What has to be beside the elements in tiles.
    """

    source: Source
    view: Matrix
    axes: tuple[int | None, ...]
    is_written: bool = False
    pads: Pads = Pads.ANY


class TileOp(enum.Enum):
    """What devices do to blocks, element by element.

    `SIGN` is 1, -1, or 0, of NaN too. There are no comparisons.
    """

    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    RELU = "relu"
    FLOOR = "floor"
    TRUNC = "trunc"
    SQRT = "sqrt"
    RECIPROCAL = "reciprocal"
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    SIN = "sin"
    COS = "cos"
    TANH = "tanh"
    ATAN = "atan"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class Load:
    """``to = the block of an operand at the current place``."""

    to: int
    operand: int


@dataclass(frozen=True, slots=True)
class Fill:
    """``to = one tile of value``, which is exact in bfloat16; of a `dtype`."""

    to: int
    value: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply1:
    """``to = op(x)``."""

    to: int
    op: TileOp
    x: int


@dataclass(frozen=True, slots=True)
class Apply2:
    """``to = op(x, y)`` of blocks of one shape."""

    to: int
    op: TileOp
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Choose:
    """``to = x`` where `condition` is 1, else `y`, of blocks of one shape.

    A device that has no choice takes the greater of `x` and `y`, each of them bounded by minus infinity where it is not
    chosen: a NaN that is not chosen shows. It has to look for that.

    Attributes:
        to: The value.
        condition: Of 0 and 1.
        x, y: What to choose from.
        doubted: Those of them that may be NaN.
    """

    to: int
    condition: int
    x: int
    y: int
    doubted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """``to = x`` with its first row in all rows, or its first column in all columns, or both, of a larger block."""

    to: int
    x: int
    rows: bool
    columns: bool


@dataclass(frozen=True, slots=True)
class Cast:
    """``to = x`` as another dtype, rounded to nearest."""

    to: int
    x: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Turn:
    """``to = x`` with its rows as columns: a block, and each of its tiles. `x` is loaded, and tiles are squares."""

    to: int
    x: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """``to = x`` combined by ADD or MAX: over the rows to its first row, over the columns to its first column."""

    to: int
    op: TileOp
    x: int
    rows: bool
    columns: bool


@dataclass(frozen=True, slots=True)
class Multiply:
    """``to = x @ y``: the product of two blocks as matrices."""

    to: int
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Begin:
    """``to := value`` before the first block of the sweep; what is combined into it is read by later sweeps."""

    to: int
    value: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Combine:
    """``to = op(to, x)``, of one that was begun."""

    to: int
    op: TileOp
    x: int


@dataclass(frozen=True, slots=True)
class Put:
    """Store `x`, of the shape of an operand's block."""

    operand: int
    x: int


Step: TypeAlias = (
    Load | Fill | Apply1 | Apply2 | Choose | Spread | Cast | Turn | Reduce | Multiply | Begin | Combine | Put
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Steps for each block along an axis of the program, in order; or once, if `along` is None."""

    along: int | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of the value of a step: its dtype, and the axes along which it has rows and columns of elements."""

    dtype: DType
    rows: int | None
    columns: int | None


@dataclass(frozen=True, slots=True, eq=False)
class TileProgram:
    """A program; see the module.

    Attributes:
        name: For people.
        tile: Rows and columns of a tile.
        axes: What blocks are counted along.
        outer: Those that results are counted along, outermost first.
        operands: What is read and written.
        sweeps: What is done for each block of results, in order.
        values: What is known of each value.
        params: The launch arguments, in order.
    """

    name: str
    tile: tuple[int, int]
    axes: tuple[Axis, ...]
    outer: tuple[int, ...]
    operands: tuple[TileAccess, ...]
    sweeps: tuple[Sweep, ...]
    values: tuple[Value, ...]
    params: tuple[Param, ...]

    @property
    def doubted(self) -> tuple[DType, ...]:
        """The dtypes of values that must not be NaN where they are not chosen."""
        steps = [step for sweep in self.sweeps for step in sweep.steps]
        found = [self.values[value].dtype for step in steps if isinstance(step, Choose) for value in step.doubted]
        return tuple(dict.fromkeys(found))

    def block_of(self, value: int) -> tuple[int, int]:
        """Return how many rows and columns of tiles a value has."""
        known = self.values[value]
        rows, columns = (1 if axis is None else self.axes[axis].block for axis in (known.rows, known.columns))
        return rows, columns

    def block_of_operand(self, number: int) -> tuple[int, int]:
        """Return how many rows and columns of tiles a block of an operand has."""
        rows, columns = (1 if axis is None else self.axes[axis].block for axis in self.operands[number].axes[-2:])
        return rows, columns
