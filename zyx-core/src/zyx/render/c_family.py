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
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.ir import kernel as k
from zyx.ir.kernel import Axis, Memory, Type
from zyx.ir.registers import register_arrays
from zyx.render import scalar
from zyx.render.divisors import divisors
from zyx.render.fences import fenced_barriers
from zyx.render.literals import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType, Scalar
    from zyx.ir.kernel import Kernel, ValueId
    from zyx.render.dialect import Dialect, Forms

#: The variables or literals that a value consists of, one a lane.
Parts: TypeAlias = "tuple[str, ...]"


def render(kernel: Kernel, dialect: Dialect, name: str) -> str:
    """Return the source of `kernel` as a function called `name`.

    Raises:
        UnsupportedError: An operation or dtype that the dialect has no form for.
    """
    return CWriter(kernel, dialect).write(name)


class CWriter:
    """The text of one kernel, while it is written.

    Attributes:
        lines: Statements so far; `depth` is how far they are indented.
        values: What each operation's result is called; for arrays, the name of the memory.
        variables: Register arrays that are variables, not memory.
    """

    #: Operations on one element as expressions. A language in which these are not those of C has its own.
    forms: ClassVar[Forms] = scalar

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        self.kernel = kernel
        self.ops = kernel.ops
        self.dialect = dialect
        self.lines: list[str] = []
        self.depth = 1
        self.values: list[Parts] = [()] * len(kernel.ops)
        self.variables = register_arrays(kernel)
        self._divisors: list[int] | None = None
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

    # ---- text

    def line(self, text: str) -> None:
        """Append a statement."""
        self.lines.append("    " * self.depth + text)

    def let(self, name: str, type_: str, expression: str) -> None:
        """Append the definition of a variable."""
        self.line(f"const {type_} {name} = {expression};")

    def type_of(self, value: ValueId) -> Type:
        """Return the type of a value."""
        op = self.ops[value]
        assert isinstance(op, k.Value)
        return op.type

    def type_name(self, type_: Type) -> str:
        """Return the type of a variable that holds a part of a value."""
        return self.element_name(type_.dtype)

    def element_name(self, dtype: DType) -> str:
        """Return the type of one element as a value."""
        return self.dialect.type_name(dtype)

    def names(self, i: int, type_: Type) -> Parts:
        """Return the names of the variables that operation `i` defines."""
        return (f"v{i}",) if type_.lanes == 1 else tuple(f"v{i}_{lane}" for lane in range(type_.lanes))

    def array(self, array: ValueId) -> k.Define:
        """Return the definition of an array."""
        op = self.ops[array]
        assert isinstance(op, k.Define)
        return op

    def elementwise(self, i: int, type_: Type, template: str | None, what: str, *operands: ValueId) -> None:
        """Define a value by a template, part by part."""
        if template is None:
            raise UnsupportedError(f"{self.dialect.name} has no native form of {what}")
        names = self.values[i] = self.names(i, type_)
        type_name = self.type_name(type_)
        parts = [self.values[operand] for operand in operands]
        for lane, name in enumerate(names):
            at = [part[lane] if len(part) > 1 else part[0] for part in parts]
            self.let(name, type_name, template.format(**dict(zip("xyz", at, strict=False))))

    # ---- arrays and arguments

    def define(self, i: int, op: k.Define) -> None:
        """Declare an array."""
        if op.memory is Memory.GLOBAL:
            self.values[i] = (f"p{i}",)
            self.element_name(op.dtype)
        elif i in self.variables:
            for number in range(op.length):
                for name in self.slot(i, number):
                    self.declare_variable(name, Type(op.dtype, op.lanes))
        else:
            self.values[i] = (f"m{i}",)
            self.declare(i, op)

    def declare_variable(self, name: str, type_: Type) -> None:
        """Declare a variable that can be written."""
        self.line(f"{self.type_name(type_)} {name};")

    def declare(self, i: int, op: k.Define) -> None:
        """Declare memory of a group or thread."""
        template = self.dialect.local_array if op.memory is Memory.LOCAL else self.dialect.register_array
        element = self.dialect.memory_type(op.dtype)
        self.line(template.format(element=element, name=f"m{i}", length=op.length * op.lanes))

    def slot(self, array: ValueId, number: int) -> Parts:
        """Return the variables that element `number` of a register array is."""
        lanes = self.array(array).lanes
        return (f"r{array}_{number}",) if lanes == 1 else tuple(f"r{array}_{number}_{lane}" for lane in range(lanes))

    def slot_of(self, array: ValueId, index: ValueId) -> Parts:
        """Return the variables that the element at a constant index is."""
        at = self.ops[index]
        assert isinstance(at, k.Const)  # that is what makes them variables
        return self.slot(array, int(at.value))

    def variable(self, i: int, op: k.Variable) -> None:
        """Name a scalar argument."""
        self.let(f"v{i}", self.type_name(op.type), f"a{i} != 0" if op.type.dtype.is_bool else f"a{i}")
        self.values[i] = (f"v{i}",)

    def element(self, array: ValueId, index: ValueId, lane: int = 0) -> str:
        """Return the expression for an element in memory."""
        position, lanes = self.values[index][0], self.array(array).lanes
        if lanes > 1:
            position = f"({position}) * {lanes}"
        return f"{self.values[array][0]}[{position}{f' + {lane}' if lane else ''}]"

    # ---- values

    def literal(self, value: Scalar, dtype: DType) -> str:
        """Return a constant as an expression."""
        return literal(value, dtype, self.dialect)

    def const(self, i: int, op: k.Const) -> None:
        """Name a literal: itself."""
        self.element_name(op.type.dtype)
        self.values[i] = (self.literal(op.value, op.type.dtype),) * op.type.lanes

    def index(self, i: int, op: k.Index) -> None:
        """Define a grid position."""
        if op.size == 1:
            self.values[i] = (literal(0, op.type.dtype, self.dialect),)
            return
        positions = self.dialect.group_index if op.axis is Axis.GROUP else self.dialect.local_index
        if op.number >= len(positions):
            raise UnsupportedError(f"{self.dialect.name} has no {op.axis.value} axis {op.number}")
        self.let(f"v{i}", self.type_name(op.type), f"({self.type_name(op.type)}){positions[op.number]}")
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

    # ---- memory

    def load(self, i: int, op: k.Load) -> None:
        """Define what was read."""
        names = self.values[i] = self.names(i, op.type)
        dtype, type_name = op.type.dtype, self.type_name(op.type)
        masks = self.values[op.mask] if op.mask is not None else ()
        zero = self.literal(dtype.to_scalar(0), dtype)
        in_memory = op.source not in self.variables
        if in_memory and not masks and self.load_together(i, op, names):
            return
        slot = () if in_memory else self.slot_of(op.source, op.index)
        for lane, name in enumerate(names):
            mask = masks[lane] if len(masks) > 1 else masks[0] if masks else None
            read = self.loaded(i, self.read(op.source, op.index, lane, mask) if in_memory else slot[lane])
            self.let(name, type_name, read if mask is None else self.dialect.choice.format(x=mask, y=read, z=zero))

    def loaded(self, i: int, text: str) -> str:
        """Return the expression for what operation `i` loads, of that for an element."""
        del i
        return text

    def read(self, array: ValueId, index: ValueId, lane: int, mask: str | None) -> str:
        """Return the expression for an element in memory; what it is where `mask` fails does not matter."""
        del mask
        return self.element(array, index, lane) + (" != 0" if self.array(array).dtype.is_bool else "")

    def store(self, i: int, op: k.Store) -> None:
        """Write to memory, or to a variable."""
        del i
        values = self.values[op.value]
        masks = self.values[op.mask] if op.mask is not None else ()
        in_memory = op.target not in self.variables
        if in_memory and not masks and self.store_together(op, values):
            return
        slot = () if in_memory else self.slot_of(op.target, op.index)
        for lane, value in enumerate(values):
            text = self.write_element(op.target, op.index, lane, value) if in_memory else f"{slot[lane]} = {value};"
            mask = masks[lane] if len(masks) > 1 else masks[0] if masks else None
            self.line(text if mask is None else self.dialect.conditional.format(condition=mask, statement=text))

    def write_element(self, array: ValueId, index: ValueId, lane: int, value: str) -> str:
        """Return the statement that writes an element in memory."""
        return f"{self.element(array, index, lane)} = {value};"

    def _pieces(self, array: ValueId, index: ValueId, lanes: int) -> int:
        """Return how many lanes one vector access may have; 1 if there is to be none."""
        access, defined = self.dialect.vector, self.array(array)
        if access is None or lanes == 1 or defined.dtype.is_bool or defined.memory is Memory.REGISTER:
            return 1
        width = min(lanes, len(access.components), access.max_bytes // defined.dtype.itemsize)
        if access.needs_alignment:
            if self._divisors is None:
                self._divisors = divisors(self.kernel)
            width = min(width, self._divisors[index])
        return max(1, width)

    def load_together(self, i: int, op: k.Load, names: Parts) -> bool:
        """Read all lanes as vectors, if that can be; return whether it is done."""
        access, width = self.dialect.vector, self._pieces(op.source, op.index, len(names))
        if access is None or width == 1:
            return False
        space = self.array(op.source).memory.value
        element = self.dialect.memory_type(op.type.dtype)
        type_ = access.type.format(element=element, lanes=width)
        for first in range(0, len(names), width):
            pointer = f"&{self.element(op.source, op.index, first)}"
            read = access.load.format(pointer=pointer, type=type_, lanes=width, element=element, space=space)
            self.let(f"w{i}_{first}", type_, read)
            for lane in range(width):
                self.let(names[first + lane], self.type_name(op.type), f"w{i}_{first}{access.components[lane]}")
        return True

    def store_together(self, op: k.Store, values: Sequence[str]) -> bool:
        """Write all lanes as vectors, if that can be; return whether it is done."""
        access, width = self.dialect.vector, self._pieces(op.target, op.index, len(values))
        if access is None or width == 1:
            return False
        names = {"lanes": width, "space": self.array(op.target).memory.value}
        element = self.dialect.memory_type(self.type_of(op.value).dtype)
        type_ = access.type.format(element=element, lanes=width)
        for first in range(0, len(values), width):
            pointer = f"&{self.element(op.target, op.index, first)}"
            items = ", ".join(values[first : first + width])
            value = access.make.format(type=type_, items=items, lanes=width, element=element)
            self.line(access.store.format(pointer=pointer, value=value, type=type_, element=element, **names))
        return True

    def atomic(self, i: int, op: k.Atomic) -> None:
        """Combine into memory."""
        dtype = self.array(op.target).dtype
        if op.mask is not None:
            self.line(f"if ({self.values[op.mask][0]}) {{")
            self.depth += 1
        value = self.values[op.value][0]
        template = self.dialect.atomics.get((op.op, dtype))
        if template is not None:
            self.line(template.format(pointer=f"&{self.element(op.target, op.index)}", value=value))
        else:
            self.exchange(i, op, dtype, value)
        if op.mask is not None:
            self.depth -= 1
            self.line("}")

    def _combined(self, op: k.Atomic, dtype: DType, x: str, y: str) -> str:
        template = scalar.binary(op.op.binary, dtype, self.dialect)
        if template is None:
            raise UnsupportedError(f"{self.dialect.name} has no native form of atomic {op.op.value} of {dtype}")
        return template.format(x=x, y=y)

    def exchange(self, i: int, op: k.Atomic, dtype: DType, value: str) -> None:
        """Combine by compare-and-exchange: again and again, until nobody was faster."""
        bits = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[dtype.bits]
        exchange = self.dialect.exchange.get(dtype.bits)
        there = scalar.bitcast(bits, dtype, self.dialect)
        back = scalar.bitcast(dtype, bits, self.dialect)
        if exchange is None or there is None or back is None:
            raise UnsupportedError(f"{self.dialect.name} has no atomic {op.op.value} of {dtype}")
        word = self.element_name(bits)
        pointer_type = self.dialect.pointer.format(const="", element=word, name="").strip()
        pointer = f"({pointer_type})&{self.element(op.target, op.index)}"
        self.line(f"{word} old{i}, seen{i} = *({pointer});")
        self.line("do {")
        self.line(f"    old{i} = seen{i};")
        self.line(f"    const {self.element_name(dtype)} was{i} = {there.format(x=f'old{i}')};")
        self.line(f"    const {self.element_name(dtype)} now{i} = {self._combined(op, dtype, f'was{i}', value)};")
        new = back.format(x=f"now{i}")
        self.line(f"    seen{i} = {exchange.format(pointer=pointer, old=f'old{i}', new=new)};")
        self.line(f"}} while (seen{i} != old{i});")

    # ---- control flow

    def loop(self, i: int, op: k.Loop) -> None:
        """Open a loop."""
        type_name, name = self.type_name(op.type), f"v{i}"
        self.values[i] = (name,)
        if op.size <= op.type.dtype.max:
            self.line(f"for ({type_name} {name} = 0; {name} < {op.size}; ++{name}) {{")
            self.depth += 1
            return
        # The counter would wrap around before it reached the end: count in a wider type.
        wide = dtypes.int32 if op.type.dtype.bits < 32 else dtypes.int64
        end = literal(op.size, wide, self.dialect)
        self.line(f"for ({self.element_name(wide)} n{i} = 0; n{i} < {end}; ++n{i}) {{")
        self.depth += 1
        self.let(name, type_name, f"({type_name})n{i}")

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
