"""A kernel as source text in a language of the C family.

    %4 = load f32 %0[%3]             const float v4 = p0[v3];
    %5 = mad %4, %4, %2       =>     const float v5 = fmaf(v4, v4, v2);
    %6 = store %1[%3], %5            p1[v3] = v5;

Operation ``%4`` is ``v4`` in the text. A value of several lanes is as many variables, ``v4_0``, ``v4_1`` and so on,
which is what processors that run many threads make of vectors anyway; loads and stores of neighbouring elements are
vectors where the dialect has them. Register arrays whose every index is a constant are variables of their own,
``r2_0`` for element 0. Every operation is one statement, so no expression needs the precedence of another.

What differs between languages is data (`zyx.render.dialect`). A language that needs other statements derives from
`CWriter`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Axis, Memory
from zyx.render.c_memory import MemoryWriter
from zyx.render.fences import fenced_barriers

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.render.dialect import Dialect


def render(kernel: Kernel, dialect: Dialect, name: str) -> str:
    """Return the source of `kernel` as a function called `name`.

    Raises:
        UnsupportedError: An operation or dtype that the dialect has no form for.
    """
    return CWriter(kernel, dialect).write(name)


class CWriter(MemoryWriter):
    """The text of one kernel, while it is written."""

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        super().__init__(kernel, dialect)
        self._fenced = fenced_barriers(kernel) if dialect.local_barrier else frozenset()
        self._branches: list[bool] = []  # the branches that are open, and whether threads meet in them

    def write(self, name: str) -> str:
        """Return the source."""
        for i, op in enumerate(self.ops):
            try:
                self.operation(i, op)
            except UnsupportedError as error:
                raise UnsupportedError(f"kernel {self.kernel.name}, operation %{i}: {error}") from error
        return f"{self.dialect.preamble}{self.head(name)}\n" + "\n".join(self.lines) + "\n}\n"

    def head(self, name: str) -> str:
        """Return the declaration of the kernel."""
        params = [
            self.pointer(i, op) if isinstance(op, k.Define) else f"{self.dialect.memory_type(op.type.dtype)} a{i}"
            for i, op in enumerate(self.ops)
            if isinstance(op, k.Variable) or (isinstance(op, k.Define) and op.memory is Memory.GLOBAL)
        ]
        local = self.kernel.grid[1]
        shape = ", ".join(str(size) for size in (*local, 1, 1, 1)[:3])
        return self.dialect.kernel.format(name=name, params=", ".join(params), threads=math.prod(local), shape=shape)

    def pointer(self, i: int, op: k.Define) -> str:
        """Return the declaration of a buffer."""
        return self.dialect.pointer.format(
            const="" if op.mutable else self.dialect.constant,
            element=self.dialect.memory_type(op.dtype),
            name=f"p{i}",
        )

    def operation(self, i: int, op: k.Op) -> None:
        """Write one operation."""
        _WRITERS[type(op)](self, i, op)

    # ---- arguments

    def variable(self, i: int, op: k.Variable) -> None:
        """Name a scalar argument."""
        self.let(f"v{i}", self.type_name(op.type), f"a{i} != 0" if op.type.dtype.is_bool else f"a{i}")
        self.values[i] = (f"v{i}",)

    # ---- values

    def const(self, i: int, op: k.Const) -> None:
        """Name a literal: itself."""
        self.element_name(op.type.dtype)
        self.values[i] = (self.literal(op.value, op.type.dtype),) * op.type.lanes

    def index(self, i: int, op: k.Index) -> None:
        """Define a grid position."""
        if op.size == 1:
            self.values[i] = (self.literal(0, op.type.dtype),)
            return
        positions = self.dialect.group_index if op.axis is Axis.GROUP else self.dialect.local_index
        if op.number >= len(positions):
            raise UnsupportedError(f"{self.dialect.name} has no {op.axis.value} axis {op.number}")
        type_name = self.type_name(op.type)
        self.let(f"v{i}", type_name, self.converted(type_name, positions[op.number]))
        self.values[i] = (f"v{i}",)

    def unary(self, i: int, op: k.Unary) -> None:
        """Define the result of a unary operation."""
        template = self.forms.unary(op.op, op.type.dtype, self.dialect)
        self.elementwise(i, op.type, template, f"{op.op.value} of {op.type}", op.x)

    def binary(self, i: int, op: k.Binary) -> None:
        """Define the result of a binary operation."""
        dtype = self.type_of(op.x).dtype
        template = self.forms.binary(op.op, dtype, self.dialect)
        self.elementwise(i, op.type, template, f"{op.op.value} of {dtype}", op.x, op.y)

    def mad(self, i: int, op: k.Mad) -> None:
        """Define a multiply-add."""
        template = self.forms.multiply_add(op.type.dtype, self.dialect)
        self.elementwise(i, op.type, template, f"mad of {op.type}", op.x, op.y, op.z)

    def where(self, i: int, op: k.Where) -> None:
        """Define a choice."""
        self.elementwise(i, op.type, self.dialect.choice, "where", op.condition, op.x, op.y)

    def cast(self, i: int, op: k.Cast) -> None:
        """Define a conversion."""
        source = self.type_of(op.x).dtype
        template = self.forms.cast(source, op.type.dtype, self.dialect)
        self.elementwise(i, op.type, template, f"conversion of {source} to {op.type.dtype}", op.x)

    def bitcast(self, i: int, op: k.Bitcast) -> None:
        """Define a reading of bits as another dtype."""
        source = self.type_of(op.x).dtype
        template = self.forms.bitcast(source, op.type.dtype, self.dialect)
        self.elementwise(i, op.type, template, f"bits of {source} as {op.type.dtype}", op.x)

    def vectorize(self, i: int, op: k.Vectorize) -> None:
        """Put scalars side by side: nothing to do."""
        self.values[i] = tuple(self.values[item][0] for item in op.items)

    def devectorize(self, i: int, op: k.Devectorize) -> None:
        """Pick a lane: nothing to do."""
        self.values[i] = (self.values[op.x][op.lane],)

    def shuffle(self, i: int, op: k.Shuffle) -> None:
        """Pick lanes: nothing to do."""
        both = self.values[op.x] + self.values[op.y]
        self.values[i] = tuple(both[lane] for lane in op.lanes)

    def swap(self, i: int, op: k.Swap) -> None:
        """Define what another thread has."""
        template = self.dialect.swaps.get(op.type.dtype)
        if template is None:
            raise UnsupportedError(f"{self.dialect.name}: threads do not swap {op.type.dtype}")
        names = self.values[i] = self.names(i, op.type)
        for name, x in zip(names, self.values[op.x], strict=True):
            self.let(name, self.type_name(op.type), template.format(x=x, distance=op.distance))

    def wmma(self, i: int, op: k.Wmma) -> None:
        """Define a matrix product of a warp."""
        dtype = self.type_of(op.a).dtype
        template = self.dialect.wmma.get((op.dims, dtype))
        if template is None:
            raise UnsupportedError(f"{self.dialect.name} has no matrix product {op.dims} of {dtype}")
        names = self.values[i] = self.names(i, op.type)
        self.line(f"{self.element_name(op.type.dtype)} {', '.join(names)};")
        a, b, c = (", ".join(self.values[operand]) for operand in (op.a, op.b, op.c))
        self.line(template.format(d=", ".join(names), a=a, b=b, c=c))

    # ---- control flow

    def loop(self, i: int, op: k.Loop) -> None:
        """Open a loop."""
        type_name, name, dtype = self.type_name(op.type), f"v{i}", op.type.dtype
        self.values[i] = (name,)
        end = "" if op.end is None else self.values[op.end][0]
        if op.size <= dtype.max:
            self.line(self.count(name, dtype, op.size, *filter(None, [end])))
            self.depth += 1
            return
        # The counter would wrap around before it reached the end: count in a wider type.
        wide = dtypes.int32 if dtype.bits < 32 else dtypes.int64
        end = end and self.converted(self.element_name(wide), end)
        self.line(self.count(f"n{i}", wide, op.size, *filter(None, [end])))
        self.depth += 1
        self.let(name, type_name, self.converted(type_name, f"n{i}"))

    def count(self, name: str, dtype: DType, size: int, end: str = "") -> str:
        """Return the head of a loop in which a variable of `dtype` counts from 0 to `size` - 1, below `end` if any."""
        below = f" && {name} < {end}" if end else ""
        return f"for ({self.element_name(dtype)} {name} = 0; {name} < {size}{below}; ++{name}) {{"

    def open_if(self, i: int, op: k.If) -> None:
        """Open a region that runs under a condition."""
        del i
        self.line(f"if ({self.values[op.condition][0]}) {{")
        self.depth += 1
        self._branches.append(False)

    def end(self, i: int, op: k.EndLoop | k.EndIf) -> None:
        """Close a region."""
        del i
        self.depth -= 1
        self.line("}")
        if isinstance(op, k.EndIf) and self._branches.pop() and self.dialect.meets_behind_branches:
            self.line(self.dialect.barrier)

    def barrier(self, i: int, op: k.Barrier) -> None:
        """Let the threads of the group meet."""
        del op
        self._branches = [True] * len(self._branches)
        is_local = bool(self.dialect.local_barrier) and i not in self._fenced
        text = self.dialect.local_barrier if is_local else self.dialect.barrier
        if text:
            self.line(text)


# `Any` since each method takes its own operation.
_WRITERS: Final[dict[type, Callable[[CWriter, int, Any], None]]] = {
    k.Define: lambda writer, i, op: writer.define(i, op),
    k.Variable: lambda writer, i, op: writer.variable(i, op),
    k.Const: lambda writer, i, op: writer.const(i, op),
    k.Index: lambda writer, i, op: writer.index(i, op),
    k.Loop: lambda writer, i, op: writer.loop(i, op),
    k.EndLoop: lambda writer, i, op: writer.end(i, op),
    k.If: lambda writer, i, op: writer.open_if(i, op),
    k.EndIf: lambda writer, i, op: writer.end(i, op),
    k.Barrier: lambda writer, i, op: writer.barrier(i, op),
    k.Load: lambda writer, i, op: writer.load(i, op),
    k.Store: lambda writer, i, op: writer.store(i, op),
    k.Atomic: lambda writer, i, op: writer.atomic(i, op),
    k.Unary: lambda writer, i, op: writer.unary(i, op),
    k.Binary: lambda writer, i, op: writer.binary(i, op),
    k.Where: lambda writer, i, op: writer.where(i, op),
    k.Cast: lambda writer, i, op: writer.cast(i, op),
    k.Bitcast: lambda writer, i, op: writer.bitcast(i, op),
    k.Mad: lambda writer, i, op: writer.mad(i, op),
    k.Vectorize: lambda writer, i, op: writer.vectorize(i, op),
    k.Devectorize: lambda writer, i, op: writer.devectorize(i, op),
    k.Shuffle: lambda writer, i, op: writer.shuffle(i, op),
    k.Swap: lambda writer, i, op: writer.swap(i, op),
    k.Wmma: lambda writer, i, op: writer.wmma(i, op),
}
