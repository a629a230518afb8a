"""The meaning of a tile program, in NumPy: block after block, as a device does it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.ops import BinaryOp, UnaryOp
from zyx.semantics import apply_binary, apply_cast, apply_unary
from zyx.tiles import data as t
from zyx.tiles.data import TileOp
from zyx.tiles.places import blocks_of_results, place_of
from zyx.tiles.staging import constant_tiles, elements_in_tiles, from_tiles, has_pads, shape_in_tiles, to_tiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from zyx.tiles.data import TileProgram

    Array = npt.NDArray[Any]

_UNARY: Final = {
    TileOp.NEG: UnaryOp.NEG, TileOp.ABS: UnaryOp.ABS, TileOp.FLOOR: UnaryOp.FLOOR, TileOp.TRUNC: UnaryOp.TRUNC,
    TileOp.SQRT: UnaryOp.SQRT, TileOp.RECIPROCAL: UnaryOp.RECIPROCAL, TileOp.EXP: UnaryOp.EXP,
    TileOp.EXP2: UnaryOp.EXP2, TileOp.EXPM1: UnaryOp.EXPM1, TileOp.LOG: UnaryOp.LOG, TileOp.SIN: UnaryOp.SIN,
    TileOp.COS: UnaryOp.COS, TileOp.TANH: UnaryOp.TANH, TileOp.ATAN: UnaryOp.ATAN,
}  # fmt: skip
_BINARY: Final = {
    TileOp.ADD: BinaryOp.ADD, TileOp.SUB: BinaryOp.SUB, TileOp.MUL: BinaryOp.MUL, TileOp.DIV: BinaryOp.DIV,
    TileOp.MAX: BinaryOp.MAX, TileOp.MIN: BinaryOp.MIN,
}  # fmt: skip


def run_program(program: TileProgram, arguments: Sequence[Array]) -> None:
    """Execute a program on flat arrays, one for each of its params, in order; those that it stores to are changed."""
    arrays = dict(zip(program.params, arguments, strict=True))
    matrices: list[Array] = []
    for operand in program.operands:
        match operand.source:
            case t.Constant() | t.Ramp():
                matrices.append(constant_tiles(operand, program.tile))
            case t.LaunchArgument(param=param):
                if operand.is_written:
                    rows, columns = shape_in_tiles(operand.view, program.tile)
                    shape = rows * program.tile[0], columns * program.tile[1]
                    matrices.append(np.zeros(shape, operand.view.tile_dtype.numpy))
                else:
                    matrices.append(_loaded(arrays[param], operand, program.tile))
    with np.errstate(all="ignore"):
        for place in blocks_of_results(program):
            _Block(program, matrices).run(place)
    for operand, matrix in zip(program.operands, matrices, strict=True):
        if operand.is_written and isinstance(operand.source, t.LaunchArgument):
            from_tiles(matrix, arrays[operand.source.param], operand.view, program.tile)


def _loaded(flat: Array, operand: t.TileAccess, tile: tuple[int, int]) -> Array:
    """Return the tiles of what is read; NaN where a program may find anything, since it must not matter."""
    found = to_tiles(flat, operand.view, tile, operand.pads)
    if operand.pads is t.Pads.ANY and has_pads(operand.view, tile):
        found[~elements_in_tiles(operand.view, tile)] = np.nan
    return found


class _Block:
    """The values of one block of results."""

    def __init__(self, program: TileProgram, matrices: Sequence[Array]) -> None:
        self._program = program
        self._matrices = matrices
        self._values: dict[int, Array] = {}

    def run(self, place: Mapping[int, int]) -> None:
        for sweep in self._program.sweeps:
            for step in sweep.steps:
                if isinstance(step, t.Begin):
                    self._values[step.to] = self._filled(step.to, step.value, step.dtype.numpy)
            blocks = 1 if sweep.along is None else self._program.axes[sweep.along].blocks
            for block, step in itertools.product(range(blocks), sweep.steps):
                here = place if sweep.along is None else {**place, sweep.along: block}
                self._do(step, here)

    def _do(self, step: t.Step, place: Mapping[int, int]) -> None:
        values = self._values
        match step:
            case t.Load(to=to, operand=number):
                values[to] = self._matrices[number][self._slices(number, place)]
            case t.Fill(to=to, value=value, dtype=dtype):
                values[to] = self._filled(to, value, dtype.numpy)
            case t.Apply1(to=to, op=op, x=x):
                values[to] = _apply1(op, values[x])
            case t.Apply2(to=to, op=op, x=x, y=y):
                values[to] = _apply2(op, values[x], values[y])
            case t.Choose(to=to, condition=condition, x=x, y=y):
                values[to] = np.where(values[condition] != 0, values[x], values[y])
            case t.Spread(to=to, x=x, rows=rows, columns=columns):
                block = values[x][:1] if rows else values[x]
                block = block[:, :1] if columns else block
                values[to] = np.broadcast_to(block, self._shape(to))
            case t.Cast(to=to, x=x, dtype=dtype):
                values[to] = apply_cast(values[x], dtype)
            case t.Turn(to=to, x=x):
                values[to] = values[x].T
            case t.Reduce(to=to, op=op, x=x, rows=rows, columns=columns):
                values[to] = self._reduced(step, values[x])
            case t.Multiply(to=to, x=x, y=y):
                values[to] = np.asarray(values[x] @ values[y], values[x].dtype)
            case t.Combine(to=to, op=op, x=x):
                values[to] = _apply2(op, values[to], values[x])
            case t.Put(operand=number, x=x):
                self._matrices[number][self._slices(number, place)] = values[x]
            case t.Begin():
                pass

    def _reduced(self, step: t.Reduce, x: Array) -> Array:
        combine = np.add if step.op is TileOp.ADD else np.maximum
        axes = tuple(axis for axis, is_over in enumerate((step.rows, step.columns)) if is_over)
        found = np.zeros(self._shape(step.to), x.dtype)
        of = combine.reduce(x, axis=axes, keepdims=True)
        found[: of.shape[0], : of.shape[1]] = of
        return found

    def _shape(self, value: int) -> tuple[int, int]:
        rows, columns = self._program.block_of(value)
        return rows * self._program.tile[0], columns * self._program.tile[1]

    def _filled(self, value: int, number: float, dtype: np.dtype[Any]) -> Array:
        return np.full(self._shape(value), number, dtype)

    def _slices(self, number: int, place: Mapping[int, int]) -> tuple[slice, slice]:
        row, column = place_of(self._program, number, place)
        rows, columns = self._program.block_of_operand(number)
        height, width = self._program.tile
        return slice(row * height, (row + rows) * height), slice(column * width, (column + columns) * width)


def _apply1(op: TileOp, x: Array) -> Array:
    if op is TileOp.SIGN:
        return np.where(np.isnan(x), np.zeros_like(x), np.sign(x))
    if op is TileOp.RELU:
        return apply_binary(BinaryOp.MAX, x, np.zeros_like(x))
    return apply_unary(_UNARY[op], x)


def _apply2(op: TileOp, x: Array, y: Array) -> Array:
    return apply_binary(_BINARY[op], x, y)
