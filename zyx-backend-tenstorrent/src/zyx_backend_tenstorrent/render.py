"""Tile programs as TT-Lang: one operation with three kernels a core, which pass blocks on in buffers of local memory.

    read       copies the blocks of what is loaded from memory, in the order in which `compute` waits for them
    compute    the steps, each a value of Python
    write      copies the blocks that `compute` stores to memory

Only what the language's compiler has is written (specification, appendix D): not its simulator's comparisons, where,
clamp, masks, remainders and powers; and in the words of the compiler, where the simulator's are others. Numbers are
blocks: `ttl.block.fill` makes them.

    x if c else y       max(min(x, b), min(y, -b)) of b = (c - 0.5) * infinity

is right unless what is not chosen is NaN, which nothing but `sign` can make a number of. So for each block of results a
tile is stored, a doubt: 1 in its first place if anything to choose from was NaN. Then results do not hold.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import UnsupportedError
from zyx.tiles import data as t
from zyx.tiles.blocks import BLOCKS_OF_A_BUFFER
from zyx.tiles.data import TileOp
from zyx.tiles.places import matrices_before

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.tiles.data import Step, Sweep, TileProgram

_UNARY: Final = {
    TileOp.NEG: "ttl.math.neg", TileOp.ABS: "ttl.math.abs", TileOp.SIGN: "ttl.math.sign", TileOp.RELU: "ttl.math.relu",
    TileOp.FLOOR: "ttl.math.floor", TileOp.TRUNC: "ttl.math.trunc", TileOp.SQRT: "ttl.math.sqrt",
    TileOp.RECIPROCAL: "ttl.math.recip", TileOp.EXP: "ttl.math.exp", TileOp.EXP2: "ttl.math.exp2",
    TileOp.EXPM1: "ttl.math.expm1", TileOp.LOG: "ttl.math.log", TileOp.SIN: "ttl.math.sin", TileOp.COS: "ttl.math.cos",
    TileOp.TANH: "ttl.math.tanh", TileOp.ATAN: "ttl.math.atan",
}  # fmt: skip
_BINARY: Final = {
    TileOp.ADD: "{} + {}", TileOp.SUB: "{} - {}", TileOp.MUL: "{} * {}", TileOp.DIV: "{} / {}",
    TileOp.MAX: "ttl.math.max({}, {})", TileOp.MIN: "ttl.math.min({}, {})",
}  # fmt: skip
_REDUCE: Final = {TileOp.ADD: "ttl.math.reduce_sum", TileOp.MAX: "ttl.math.reduce_max"}
_INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Text:
    """A program in TT-Lang.

    Attributes:
        name: Of the operation.
        source: The text. Its parameters are the operands, then a tensor for each of `likes`, then one for each dtype of
            doubts, with a tile for each block of results.
        likes: What buffers for casts are made like: dtypes, and rows and columns of tiles.
    """

    name: str
    source: str
    likes: tuple[tuple[DType, tuple[int, int]], ...]


def render(program: TileProgram, grid: tuple[int, int]) -> Text:
    """Return the text of a program for rows and columns of cores.

    Raises:
        UnsupportedError: It has a step that the language does not have.
    """
    return _Writer(program, grid).text()


class _Writer:
    def __init__(self, program: TileProgram, grid: tuple[int, int]) -> None:
        self._program = program
        self._grid = grid
        self._lines: list[str] = []
        self._depth = 0
        steps = [step for sweep in program.sweeps for step in sweep.steps]
        self._casts = [step for step in steps if isinstance(step, t.Cast)]
        self._likes = {cast: program.block_of(cast.to) for cast in self._casts}
        self._doubts = {dtype: f"doubt{number}" for number, dtype in enumerate(program.doubted)}

    def text(self) -> Text:
        """Return the text."""
        name = re.sub(r"\W", "_", f"op_{self._program.name}")
        numbers = range(len(self._program.operands))
        parameters = [*(f"x{number}" for number in numbers), *(f"like{cast.to}" for cast in self._casts)]
        parameters += [f"x{doubt}" for doubt in self._doubts.values()]
        rows, columns = self._grid
        self._line(f"@ttl.operation(grid=({columns}, {rows}))")
        self._open(f"def {name}({', '.join(parameters)}):")
        for number in numbers:
            self._buffer(f"b{number}", f"x{number}", self._program.block_of_operand(number))
        for cast in self._casts:
            self._buffer(f"c{cast.to}", f"like{cast.to}", self._likes[cast])
        for doubt in self._doubts.values():
            self._buffer(f"b{doubt}", f"x{doubt}", (1, 1))
        self._kernel("compute", "ttl.compute()", self._compute)
        self._kernel("read", "ttl.datamovement()", self._read)
        self._kernel("write", "ttl.datamovement()", self._write)
        return Text(name, "\n".join(self._lines) + "\n", tuple((cast.dtype, self._likes[cast]) for cast in self._casts))

    # ---- lines

    def _line(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    def _open(self, text: str) -> None:
        self._line(text)
        self._depth += 1

    def _buffer(self, name: str, like: str, block: tuple[int, int]) -> None:
        self._line(f"{name} = ttl.make_dataflow_buffer_like({like}, shape={block}, block_count={BLOCKS_OF_A_BUFFER})")

    # ---- kernels

    def _kernel(self, name: str, decorator: str, write_sweep: Callable[[Sweep], None]) -> None:
        """Write a kernel: its share of the blocks of results, and for each of these the sweeps."""
        self._line(f"@{decorator}")
        depth = self._depth
        self._open(f"def {name}():")
        self._line("column, row = ttl.node(dims=2)")
        rows, columns = self._grid
        outer = self._program.outer
        for axis in outer[:-2]:
            self._open(f"for i{axis} in range({self._program.axes[axis].blocks}):")
        for place, node, nodes in zip((-2, -1), ("row", "column"), (rows, columns), strict=True):
            if len(outer) >= -place:
                axis = outer[place]
                self._open(f"for i{axis} in range({node}, {self._program.axes[axis].blocks}, {nodes}):")
            else:  # one core of these does it all
                self._open(f"for _ in range({node}, 1, {nodes}):")
        inner = self._depth
        if name == "compute":
            for dtype, doubt in self._doubts.items():
                self._line(f"{doubt} = ttl.block.fill(0.0, shape=(1, 1), dtype=ttnn.{dtype.name})")
        for sweep in self._program.sweeps:
            write_sweep(sweep)
            self._depth = inner
        for doubt in self._doubts.values():
            self._end_doubt(name, doubt)
        self._depth = depth

    def _end_doubt(self, kernel: str, doubt: str) -> None:
        """Write how a doubt about a block of results is passed on, and stored."""
        if kernel == "compute":
            self._line(f"with b{doubt}.reserve() as block:")
            self._line(f"{_INDENT}block.store({doubt})")
        elif kernel == "write":
            outer, axes = self._program.outer, self._program.axes
            row = "0"
            for axis in outer[:-1]:
                row = f"({row}) * {axes[axis].blocks} + i{axis}"
            column = f"i{outer[-1]}" if outer else "0"
            self._line(f"with b{doubt}.wait() as block:")
            self._line(f"{_INDENT}copy = ttl.copy(block, x{doubt}[{row}:{row} + 1, {column}:{column} + 1])")
            self._line(f"{_INDENT}copy.wait()")

    def _loop(self, sweep: Sweep, variable: str) -> None:
        if sweep.along is not None:
            self._open(f"for {variable} in range({self._program.axes[sweep.along].blocks}):")

    def _compute(self, sweep: Sweep) -> None:
        for step in sweep.steps:
            if isinstance(step, t.Begin):
                self._line(f"t{step.to} = {self._filled(step.value, step.to)}")
        self._loop(sweep, "_")
        waits = [f"b{step.operand}.wait() as t{step.to}" for step in sweep.steps if isinstance(step, t.Load)]
        waits += [f"b{step.operand}.reserve() as o{step.operand}" for step in sweep.steps if isinstance(step, t.Put)]
        if waits:
            self._open(f"with {', '.join(waits)}:")
        for step in sweep.steps:
            self._step(step)

    def _read(self, sweep: Sweep) -> None:
        self._move(sweep, t.Load)

    def _write(self, sweep: Sweep) -> None:
        self._move(sweep, t.Put)

    def _move(self, sweep: Sweep, kind: type[t.Load | t.Put]) -> None:
        """Copy the blocks that `compute` loads from memory, or those that it puts to memory."""
        steps = [step for step in sweep.steps if isinstance(step, kind)]
        if not steps:
            self._line("pass")
            return
        self._loop(sweep, f"i{sweep.along}")
        taken = "reserve" if kind is t.Load else "wait"
        for step in steps:
            depth = self._depth
            place = f"x{step.operand}[{self._slices(step.operand)}]"
            self._open(f"with b{step.operand}.{taken}() as block:")
            self._line(f"copy = ttl.copy({f'{place}, block' if kind is t.Load else f'block, {place}'})")
            self._line("copy.wait()")
            self._depth = depth

    # ---- steps

    def _step(self, step: Step) -> None:
        match step:
            case t.Load() | t.Begin():
                pass
            case t.Fill(to=to, value=value):
                self._line(f"t{to} = {self._filled(value, to)}")
            case t.Apply1(to=to, op=op, x=x):
                self._line(f"t{to} = {_UNARY[op]}(t{x})")
            case t.Apply2(to=to, op=op, x=x, y=y):
                self._line(f"t{to} = {_BINARY[op].format(f't{x}', f't{y}')}")
            case t.Choose(to=to):
                self._choose(step, to)
            case t.Spread(to=to, x=x, rows=rows, columns=columns):
                dims = _dims(rows=rows, columns=columns)
                self._line(f"t{to} = ttl.block.broadcast(t{x}, dims={dims}, shape={self._program.block_of(to)})")
            case t.Cast(to=to, x=x):
                self._line(f"with c{to}.reserve() as block:")
                self._line(f"{_INDENT}block.store(t{x})")
                self._open(f"with c{to}.wait() as t{to}:")
            case t.Turn(to=to, x=x):
                self._line(f"t{to} = ttl.block.transpose(t{x})")
            case t.Reduce(to=to, op=op, x=x, rows=rows, columns=columns):
                dims = _dims(rows=rows, columns=columns)
                self._line(f"t{to} = {_REDUCE[op]}(t{x}, dims={dims})")
            case t.Multiply(to=to, x=x, y=y):
                self._line(f"t{to} = t{x} @ t{y}")
            case t.Combine(to=to, op=op, x=x):
                self._line(f"t{to} = {_BINARY[op].format(f't{to}', f't{x}')}")
            case t.Put(operand=operand, x=x):
                self._line(f"o{operand}.store(t{x})")
            case _:
                raise UnsupportedError(f"TT-Lang has no {type(step).__name__}")

    def _choose(self, step: t.Choose, to: int) -> None:
        half, infinity = self._filled(0.5, to), self._filled(math.inf, to)
        self._line(f"t{to} = (t{step.condition} - {half}) * {infinity}")
        bounded = f"ttl.math.min(t{step.x}, t{to}), ttl.math.min(t{step.y}, ttl.math.neg(t{to}))"
        self._line(f"t{to} = ttl.math.max({bounded})")
        for value in step.doubted:
            known, one = self._program.values[value], self._filled(1.0, value)
            doubt, looked_at = self._doubts[known.dtype], f"t{value}"
            if dims := _dims(
                rows=known.rows is None, columns=known.columns is None
            ):  # the rest of its tiles is no value
                shape = self._program.block_of(value)
                looked_at = f"ttl.block.broadcast({looked_at}, dims={dims}, shape={shape})"
            is_number = f"ttl.math.sign(ttl.math.abs({looked_at}) + {one})"
            self._line(f"block = ttl.math.reduce_max({one} - {is_number}, dims=[0, 1])")
            self._line(f"{doubt} = ttl.math.max({doubt}, block)")

    def _filled(self, value: float, like: int) -> str:
        dtype = self._program.values[like].dtype.name
        return f"ttl.block.fill({_literal(value)}, shape={self._program.block_of(like)}, dtype=ttnn.{dtype})"

    def _slices(self, number: int) -> str:
        """Return where the block of an operand lies, in tiles."""
        axes = self._program.operands[number].axes
        block = self._program.block_of_operand(number)
        parts: list[str] = []
        for axis, size, before in zip(axes[-2:], block, (matrices_before(self._program, number), []), strict=True):
            terms = [f"i{other} * {step}" for other, step in before]
            terms += [f"i{axis} * {size}"] if axis is not None and self._has_variable(axis) else []
            start = " + ".join(terms)
            parts.append(f"{start}:{start} + {size}" if start else f"0:{size}")
        return ", ".join(parts)

    def _has_variable(self, axis: int) -> bool:
        return axis in self._program.outer or any(sweep.along == axis for sweep in self._program.sweeps)


def _literal(value: float) -> str:
    """Return a number as the compiler takes it: literals alone, of which one that is too great is infinite."""
    if math.isnan(value):
        raise UnsupportedError("TT-Lang has no literal that is NaN")
    return repr(float(value)).replace("inf", "1e999")


def _dims(*, rows: bool, columns: bool) -> list[int]:
    return [dim for dim, is_over in enumerate((rows, columns)) if is_over]
