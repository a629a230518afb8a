"""Scalar expressions of nests as steps on blocks of tiles.

What languages of tiles lack is composed of what they have. A truth is 1.0 or 0.0:

    x < y           relu(sign(y - x))                       0 where one is NaN, whose sign is 0
    x <= y          (1 - relu(sign(x - y))) * is(x) * is(y)
    x == y          (1 - |sign(x - y)|) * is(x) * is(y)
    is(x)           sign(|x| + 1)                           0 of NaN, and 1 of everything else
    c and d         c * d;    c or d: max(c, d);    not c: 1 - c;    c xor d: |c - d|

What depends on places, such as the test whether an element is of a triangle, is computed from ramps along the ranges.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.nest import expr as e
from zyx.nest.masks import conjunction, tests_of
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp
from zyx.semantics import apply_binary, apply_unary
from zyx.tiles import data as t
from zyx.tiles import functions
from zyx.tiles.data import TileOp
from zyx.tiles.views import boxes_of, strides_of, turned

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.nest.data import Compute
    from zyx.nest.expr import Expr, Range
    from zyx.tiles.views import Frame

_UNARY: Final = {
    UnaryOp.NEG: TileOp.NEG, UnaryOp.ABS: TileOp.ABS, UnaryOp.FLOOR: TileOp.FLOOR, UnaryOp.TRUNC: TileOp.TRUNC,
    UnaryOp.SQRT: TileOp.SQRT, UnaryOp.RECIPROCAL: TileOp.RECIPROCAL, UnaryOp.EXP: TileOp.EXP,
    UnaryOp.EXP2: TileOp.EXP2, UnaryOp.EXPM1: TileOp.EXPM1, UnaryOp.LOG: TileOp.LOG, UnaryOp.SIN: TileOp.SIN,
    UnaryOp.COS: TileOp.COS, UnaryOp.TANH: TileOp.TANH, UnaryOp.ATAN: TileOp.ATAN,
}  # fmt: skip
_COMPOSED: Final = {UnaryOp.LOG2: functions.log2, UnaryOp.LOG1P: functions.log1p, UnaryOp.ERF: functions.erf}
_BINARY: Final = {
    BinaryOp.ADD: TileOp.ADD, BinaryOp.SUB: TileOp.SUB, BinaryOp.MUL: TileOp.MUL, BinaryOp.DIV: TileOp.DIV,
    BinaryOp.MAX: TileOp.MAX, BinaryOp.MIN: TileOp.MIN,
}  # fmt: skip
#: Of truths. The difference of two that differ is 1 or -1.
_TRUTHS: Final = {
    BinaryOp.AND: TileOp.MUL, BinaryOp.MIN: TileOp.MUL, BinaryOp.OR: TileOp.MAX, BinaryOp.MAX: TileOp.MAX,
    BinaryOp.XOR: TileOp.SUB,
}  # fmt: skip
#: float32 has all values of these.
WIDENED: Final = frozenset(
    {dtypes.bool_, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.float16, dtypes.bfloat16}
)
#: Whole numbers up to this one are float32's.
_EXACT: Final = 1 << 24
_FLOATS: Final = frozenset({dtypes.float32, dtypes.float16, dtypes.bfloat16})


class Steps:
    """Writes the steps of a program.

    Args:
        info: The device.
        inlined: The statements whose values are computed where they are needed.
        pads: What has to be beside the elements of all that is loaded.

    Attributes:
        operands: What is read and written, so far.
        values: What is known of each value.
        steps: Those of the sweep that is being written.
        accumulators: The values of reductions.
        pads: What has to be beside the elements of what is loaded along an axis of the program.
    """

    def __init__(self, info: DeviceInfo, inlined: Mapping[e.Value, Compute], pads: t.Pads = t.Pads.ANY) -> None:
        self.operands: list[t.TileAccess] = []
        self.values: list[t.Value] = []
        self.steps: list[t.Step] = []
        self.accumulators: dict[e.Value, int] = {}
        self.pads: dict[int, t.Pads] = {}
        self._pads = pads
        self._info = info
        self._inlined = inlined
        self._memo: dict[tuple[Expr, DType, Frame], int] = {}
        self._loaded: dict[t.TileAccess, int] = {}

    def take(self) -> tuple[t.Step, ...]:
        """Return the steps so far, which a sweep is made of, and begin another one."""
        steps, self.steps, self._memo, self._loaded = self.steps, [], {}, {}
        return tuple(steps)

    def new(self, dtype: DType, rows: int | None, columns: int | None) -> int:
        """Return a new value."""
        self.values.append(t.Value(dtype, rows, columns))
        return len(self.values) - 1

    def load(self, operand: t.TileAccess) -> int:
        """Load the block of an operand, which is the same for equal ones."""
        if isinstance(operand.source, t.LaunchArgument):
            pads = {self.pads[axis] for axis in operand.axes if axis in self.pads}
            operand = replace(operand, pads=pads.pop() if pads else self._pads)
        if operand in self._loaded:
            return self._loaded[operand]
        if operand not in self.operands:
            self.operands.append(operand)
        to = self._loaded[operand] = self.new(operand.view.tile_dtype, *operand.axes[-2:])
        self.steps.append(t.Load(to, self.operands.index(operand)))
        return to

    def apply1(self, op: TileOp, x: int) -> int:
        """Apply a unary operation."""
        known = self.values[x]
        to = self.new(known.dtype, known.rows, known.columns)
        self.steps.append(t.Apply1(to, op, x))
        return to

    def apply2(self, op: TileOp, x: int, y: int) -> int:
        """Apply a binary operation, spreading what has fewer rows or columns."""
        rows, columns = (
            self.values[x].rows if self.values[x].rows is not None else self.values[y].rows,
            self.values[x].columns if self.values[x].columns is not None else self.values[y].columns,
        )
        x, y = self.spread(x, rows, columns), self.spread(y, rows, columns)
        to = self.new(self.values[x].dtype, rows, columns)
        self.steps.append(t.Apply2(to, op, x, y))
        return to

    def spread(self, x: int, rows: int | None, columns: int | None) -> int:
        """Return a value with these rows and columns."""
        known = self.values[x]
        over_rows, over_columns = (
            wanted is not None and have is None for wanted, have in ((rows, known.rows), (columns, known.columns))
        )
        if not over_rows and not over_columns:
            return x
        to = self.new(known.dtype, rows, columns)
        self.steps.append(t.Spread(to, x, over_rows, over_columns))
        return to

    def cast(self, x: int, dtype: DType) -> int:
        """Return a value as another dtype."""
        known = self.values[x]
        if known.dtype is dtype:
            return x
        to = self.new(dtype, known.rows, known.columns)
        self.steps.append(t.Cast(to, x, dtype))
        return to

    def constant(self, value: float, dtype: DType) -> int:
        """Return one tile of a value, or one with it in place (0, 0)."""
        view = t.Matrix(dtype, dtype, 0, (1, 1), (0, 0))
        return self.load(t.TileAccess(t.Constant(value), view, (None, None)))

    def fill(self, value: float, like: int) -> int:
        """Return a value of one number, as an operand beside another value."""
        dtype = self.values[like].dtype
        if dtype is dtypes.float16 or (not math.isnan(value) and dtypes.bfloat16.to_scalar(value) != value):
            return self.constant(value, dtype)
        known = self.values[like]
        to = self.new(dtype, known.rows, known.columns)
        self.steps.append(t.Fill(to, value, dtype))
        return to

    # ---- expressions

    def value_of(self, expr: Expr, frame: Frame, dtype: DType | None = None) -> int:
        """Return the value of an expression in a block of the ranges of a frame, as a dtype of tiles.

        Raises:
            UnsupportedError: It cannot be computed on tiles, or not on this device.
        """
        wanted = dtype or tile_dtype_of(expr.dtype)
        key = (expr, wanted, frame)
        if key not in self._memo:
            self._memo[key] = self._written(expr, frame, wanted)
        return self._memo[key]

    def _written(self, expr: Expr, frame: Frame, wanted: DType) -> int:
        match expr:
            case e.Literal(value=value):
                return self.constant(float(value), wanted)
            case e.Number(param=param):
                view = t.Matrix(param.dtype, wanted, 0, (1, 1), (0, 0))
                return self.load(t.TileAccess(t.LaunchArgument(param), view, (None, None)))
            case e.Read():
                return self._read(expr, frame, wanted)
            case e.Ref():
                return self._reference(expr, frame, wanted)
            case e.Convert(x=x):
                return self._converted(expr, frame, wanted)
            case e.Apply1(op=op, x=x):
                self._check(op, expr.dtype)
                return self.cast(self._unary(op, self.value_of(x, frame)), wanted)
            case e.Apply2():
                return self.cast(self._binary(expr, frame), wanted)
            case e.Select():
                return self.cast(self._selected(expr, frame), wanted)
            case e.NonNegative(x=x):
                return self.cast(self.apply1(TileOp.RELU, self.apply1(TileOp.SIGN, self._index(x, frame, 0.5))), wanted)
            case e.IsZero(x=x):
                apart = self.apply1(TileOp.ABS, self.apply1(TileOp.SIGN, self._index(x, frame)))
                return self.cast(self._not(apart), wanted)
            case _:
                raise UnsupportedError(f"{type(expr).__name__} of {expr.dtype} is not computed on tiles: {expr!r}")

    def _index(self, index: Expr, frame: Frame, more: float = 0.0) -> int:
        """Return an index and a number `more`, as float32: the sum of ramps along its ranges."""
        if max(abs(index.low), abs(index.high)) > _EXACT:
            raise UnsupportedError(f"positions {index!r} go beyond the whole numbers that float32 has")
        strides, start = strides_of(index)
        if not strides:
            return self.constant(start + more, dtypes.float32)
        found: int | None = None
        for range_, stride in strides.items():
            view, axes = frame.vector(range_, dtypes.float32)
            ramp = t.Ramp(start + more if found is None else 0.0, stride)
            loaded = self.load(t.TileAccess(ramp, view, axes))
            found = loaded if found is None else self.apply2(TileOp.ADD, found, loaded)
        assert found is not None  # as there is a range
        return found

    def _read(self, read: e.Read, frame: Frame, wanted: DType) -> int:
        if read.dtype is not wanted and not (wanted is dtypes.float32 and read.dtype in WIDENED):
            raise UnsupportedError(f"{read.param} of {read.dtype} cannot be read as tiles of {wanted}")
        view, axes = frame.view(read.param, read.index, wanted, boxes_of(read.mask) if read.mask is not None else {})
        return self._loaded_as_it_lies(t.LaunchArgument(read.param), view, axes)

    def _loaded_as_it_lies(self, source: t.LaunchArgument, view: t.Matrix, axes: tuple[int | None, ...]) -> int:
        if not self._is_turned(view, axes):
            return self.load(t.TileAccess(source, view, axes))
        x = self.load(t.TileAccess(source, turned(view), (*axes[:-2], axes[-1], axes[-2])))
        to = self.new(view.tile_dtype, *axes[-2:])
        self.steps.append(t.Turn(to, x))
        return to

    def _is_turned(self, view: t.Matrix, axes: tuple[int | None, ...]) -> bool:
        """Whether a matrix is better loaded with its rows as columns: as it lies in the buffer, and others read it."""
        assert self._info.tiles is not None  # or no steps were written for it
        is_square = self._info.tiles.rows == self._info.tiles.columns
        return is_square and None not in axes[-2:] and not view.count and 0 < view.strides[-2] < view.strides[-1]

    def _reference(self, ref: e.Ref, frame: Frame, wanted: DType) -> int:
        if ref.mask is not None or not all(map(e.is_current, ref.indices, ref.value.ranges)):
            raise UnsupportedError(f"{ref.value} is needed at another place than where it is computed")
        if ref.value in self.accumulators:
            return self.cast(self.accumulators[ref.value], wanted)
        if ref.value not in self._inlined:
            raise UnsupportedError(f"{ref.value} is combined along ranges in a way that no sweep of tiles has")
        return self.value_of(self._inlined[ref.value].expr, frame, wanted)

    def _converted(self, expr: e.Convert, frame: Frame, wanted: DType) -> int:
        x = expr.x
        if (index := _index_below(expr)) is not None and expr.dtype in _FLOATS:
            return self.cast(self.cast(self._index(index, frame), expr.dtype), wanted)
        if x.dtype is e.INDEX or (x.dtype not in _FLOATS and x.dtype not in WIDENED):
            raise UnsupportedError(f"a value of {x.dtype} is not computed on tiles")
        if expr.dtype.is_bool:
            value = self.value_of(x, frame)
            return self.cast(value if x.dtype.is_bool else self._not(self._equal(value, self.fill(0.0, value))), wanted)
        if expr.dtype not in _FLOATS:
            raise UnsupportedError(f"a value is converted to {expr.dtype}, which is not computed on tiles")
        if isinstance(x, e.Read) and expr.dtype is dtypes.float32 is wanted:
            return self.value_of(x, frame, wanted)  # staging converts it
        value = self.value_of(x, frame)
        return self.cast(self.cast(value, expr.dtype), wanted)

    def _unary(self, op: UnaryOp, x: int) -> int:
        if op is UnaryOp.NOT:
            return self._not(x)
        if op in _COMPOSED:
            dtype = self.values[x].dtype
            return self.cast(_COMPOSED[op](self, self.cast(x, dtypes.float32)), dtype)
        if op not in _UNARY:
            raise UnsupportedError(f"{op.value} is not computed on tiles")
        return self.apply1(_UNARY[op], x)

    def _binary(self, expr: e.Apply2, frame: Frame) -> int:
        op = expr.op
        if op in COMPARISONS and expr.x.dtype.is_integer:
            return self._compared(
                op, *(self._whole_number(*pair, frame) for pair in ((expr.x, expr.y), (expr.y, expr.x)))
            )
        self._check(op, expr.x.dtype)
        if isinstance(expr.x, e.Literal) and not isinstance(expr.y, e.Literal):
            y = self.value_of(expr.y, frame)
            x = self.fill(float(expr.x.value), y)
        elif isinstance(expr.y, e.Literal):
            x = self.value_of(expr.x, frame)
            y = self.fill(float(expr.y.value), x)
        else:
            x, y = self.value_of(expr.x, frame), self.value_of(expr.y, frame)
        if op in COMPARISONS:
            return self._compared(op, x, y)
        if expr.x.dtype.is_bool and op in _TRUTHS:
            value = self.apply2(_TRUTHS[op], x, y)
            return self.apply1(TileOp.ABS, value) if op is BinaryOp.XOR else value
        if op not in _BINARY:
            raise UnsupportedError(f"{op.value} is not computed on tiles")
        return self.apply2(_BINARY[op], x, y)

    def _whole_number(self, x: Expr, other: Expr, frame: Frame) -> int:
        """Return a whole number that is compared with another one, as float32.

        One that is read is rounded when it is staged. What it is compared with is a number or a place that float32 has,
        and so are those beside it: the result is the same.
        """
        index = _index_below(x) if isinstance(x, e.Convert) else None
        if index is not None:
            return self._index(index, frame)
        if isinstance(x, e.Literal) and abs(x.value) < _EXACT:
            return self.constant(float(x.value), dtypes.float32)
        is_bounded = isinstance(other, e.Literal) or (isinstance(other, e.Convert) and _index_below(other) is not None)
        if isinstance(x, e.Read) and is_bounded:
            view, axes = frame.view(
                x.param, x.index, dtypes.float32, boxes_of(x.mask) if x.mask is not None else {}
            )  # fmt: skip
            return self._loaded_as_it_lies(t.LaunchArgument(x.param), view, axes)
        raise UnsupportedError(f"whole numbers of {x.dtype} are compared that float32 need not have")

    def _compared(self, op: BinaryOp, x: int, y: int) -> int:
        match op:
            case BinaryOp.LT:
                return self.apply1(TileOp.RELU, self.apply1(TileOp.SIGN, self.apply2(TileOp.SUB, y, x)))
            case BinaryOp.LE:
                more = self.apply1(TileOp.RELU, self.apply1(TileOp.SIGN, self.apply2(TileOp.SUB, x, y)))
                return self._where_numbers(self._not(more), x, y)
            case BinaryOp.EQ:
                return self._equal(x, y)
            case _:
                return self._not(self._equal(x, y))

    def _equal(self, x: int, y: int) -> int:
        apart = self.apply1(TileOp.ABS, self.apply1(TileOp.SIGN, self.apply2(TileOp.SUB, x, y)))
        return self._where_numbers(self._not(apart), x, y)

    def _where_numbers(self, truth: int, *values: int) -> int:
        for value in values:
            above = self.apply1(TileOp.ABS, value)
            is_number = self.apply1(TileOp.SIGN, self.apply2(TileOp.ADD, above, self.fill(1.0, above)))
            truth = self.apply2(TileOp.MUL, truth, is_number)
        return truth

    def _not(self, x: int) -> int:
        return self.apply2(TileOp.SUB, self.fill(1.0, x), x)

    def _selected(self, expr: e.Select, frame: Frame) -> int:
        wanted = tile_dtype_of(expr.dtype)
        if isinstance(expr.y, e.Literal) and {*conjunction(expr.condition)} <= {*tests_of(expr.x, expr.y.value)}:
            return self.value_of(expr.x, frame, wanted)  # as what is read under a mask, and 0 elsewhere
        condition = self.cast(self.value_of(expr.condition, frame), wanted)
        for branch, other, holds in ((expr.x, expr.y, False), (expr.y, expr.x, True)):
            if isinstance(branch, e.Literal) and math.isnan(branch.value):
                return self._unless(condition if holds else self._not(condition), self.value_of(other, frame))
        x, y = (
            self.fill(float(each.value), condition) if isinstance(each, e.Literal) else self.value_of(each, frame)
            for each in (expr.x, expr.y)
        )
        if _is_finite(expr.x) and _is_finite(expr.y):
            return self.apply2(
                TileOp.ADD, self.apply2(TileOp.MUL, condition, x), self.apply2(TileOp.MUL, self._not(condition), y)
            )
        of = [self.values[each] for each in (condition, x, y)]
        rows = next((known.rows for known in of if known.rows is not None), None)
        columns = next((known.columns for known in of if known.columns is not None), None)
        condition, x, y = (self.spread(each, rows, columns) for each in (condition, x, y))
        doubted = (
            value for value, branch in ((x, expr.x), (y, expr.y)) if not is_number(branch, self._inlined)
        )  # fmt: skip
        to = self.new(wanted, rows, columns)
        self.steps.append(t.Choose(to, condition, x, y, tuple(dict.fromkeys(doubted))))
        return to

    def _unless(self, condition: int, x: int) -> int:
        """Return a value where a condition is 1, and NaN elsewhere, which is the root of -1."""
        less = self.apply2(TileOp.SUB, condition, self.fill(1.0, condition))
        return self.apply2(TileOp.SUB, x, self.apply1(TileOp.SQRT, less))

    def _check(self, op: UnaryOp | BinaryOp, dtype: DType) -> None:
        capability = self._info.capabilities.get(dtype)
        if capability is None or (op not in capability.unary and op not in capability.binary):
            raise UnsupportedError(f"{self._info.model} does not have {op.value} of {dtype}")


def tile_dtype_of(dtype: DType) -> DType:
    """Return the dtype that tiles have in which values are computed.

    Raises:
        UnsupportedError: They are not.
    """
    if dtype in _FLOATS:
        return dtype
    if dtype.is_bool:
        return dtypes.float32
    raise UnsupportedError(f"values of {dtype} are not computed on tiles")


def is_number(expr: Expr, inlined: Mapping[e.Value, Compute]) -> bool:
    """Whether an expression is never NaN."""
    match expr:
        case e.Literal(value=value):
            return not math.isnan(value)
        case e.Ref(value=value) if value in inlined:
            return is_number(inlined[value].expr, inlined)
        case e.Convert(x=x):
            return not x.dtype.is_float or is_number(x, inlined)
        case e.Apply1(op=UnaryOp.NEG | UnaryOp.ABS, x=x):
            return is_number(x, inlined)
        case e.Apply2(op=BinaryOp.MAX | BinaryOp.MIN, x=x, y=y) | e.Select(x=x, y=y):
            return is_number(x, inlined) and is_number(y, inlined)
        case _:
            return expr.dtype.is_bool


def _index_below(expr: e.Convert) -> Expr | None:
    """Return the index that is converted, perhaps by way of whole numbers that have all of its values."""
    x = expr.x
    while isinstance(x, e.Convert) and x.dtype in (dtypes.int32, dtypes.int64):
        x = x.x
    return x if x.dtype is e.INDEX else None


def _is_finite(expr: Expr) -> bool:
    match expr:
        case e.Literal(value=value):
            return math.isfinite(value) and (value != 0 or math.copysign(1.0, value) > 0)
        case e.Convert(x=x):
            return x.dtype in WIDENED and not x.dtype.is_float
        case _:
            return expr.dtype.is_bool


def value_in_pads(expr: Expr, range_: Range, inlined: Mapping[e.Value, Compute]) -> float | None:
    """Return what an expression is where a padded range ends and reads along it are 0; None if that is not known."""
    match expr:
        case e.Literal(value=value):
            return float(value)
        case e.Read(index=index, mask=None):
            return 0.0 if index.free & range_.bit else None
        case e.Ref(value=value) if value in inlined:
            return value_in_pads(inlined[value].expr, range_, inlined)
        case e.Convert(x=x) if expr.dtype in _FLOATS and x.dtype is not e.INDEX:
            return value_in_pads(x, range_, inlined)
        case e.Apply1(op=op, x=x) if expr.dtype in _FLOATS:
            known = value_in_pads(x, range_, inlined)
            return None if known is None else float(apply_unary(op, _array(known)))
        case e.Apply2(op=op, x=x, y=y) if expr.dtype in _FLOATS:
            left, right = value_in_pads(x, range_, inlined), value_in_pads(y, range_, inlined)
            return None if left is None or right is None else float(apply_binary(op, _array(left), _array(right)))
        case _:
            return None


def _array(value: float) -> npt.NDArray[np.float64]:
    return np.full((), value)
