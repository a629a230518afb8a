"""Arrays of kernels as text in a language of the C family: declarations, loads, stores and atomics."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type
from zyx.render import scalar
from zyx.render.c_text import TextWriter
from zyx.render.divisors import divisors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx.render.c_text import Parts


class MemoryWriter(TextWriter):
    """Writes what has to do with arrays. Register arrays that are `variables` are variables, others are memory."""

    @cached_property
    def multiples(self) -> Sequence[int]:
        """What each operation's result is known to be a multiple of."""
        return divisors(self.kernel)

    # ---- arrays

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
        self.line(self.dialect.variable.format(type=self.type_name(type_), name=name))

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

    def element(self, array: ValueId, index: ValueId, lane: int = 0) -> str:
        """Return the expression for an element in memory."""
        return f"{self.values[array][0]}[{self.position(array, index, lane)}]"

    def position(self, array: ValueId, index: ValueId, lane: int) -> str:
        """Return where an element, or a lane of it, lies in its array."""
        position, lanes = self.values[index][0], self.array(array).lanes
        if lanes > 1:
            position = f"({position}) * {lanes}"
        return f"{position}{f' + {lane}' if lane else ''}"

    # ---- access

    def load(self, i: int, op: k.Load) -> None:
        """Define what was read."""
        names = self.values[i] = self.names(i, op.type)
        dtype, type_name = op.type.dtype, self.type_name(op.type)
        masks = self.values[op.mask] if op.mask is not None else ()
        zero = self.literal(dtype.to_scalar(0), dtype)
        in_memory = op.source not in self.variables
        if in_memory and self.can_read_unmasked(op) and self.load_together(i, op, names, masks[:1]):
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
        if in_memory and len(set(masks)) < 2 and self.store_together(op, values, masks[:1]):
            return
        slot = () if in_memory else self.slot_of(op.target, op.index)
        for lane, value in enumerate(values):
            text = self.write_element(op.target, op.index, lane, value) if in_memory else f"{slot[lane]} = {value};"
            mask = masks[lane] if len(masks) > 1 else masks[0] if masks else None
            self.line(text if mask is None else self.dialect.conditional.format(condition=mask, statement=text))

    def write_element(self, array: ValueId, index: ValueId, lane: int, value: str) -> str:
        """Return the statement that writes an element in memory."""
        return f"{self.element(array, index, lane)} = {value};"

    def pieces(self, array: ValueId, index: ValueId, lanes: int) -> int:
        """Return how many lanes one vector access may have; 1 if there is to be none."""
        access, defined = self.dialect.vector, self.array(array)
        if access is None or lanes == 1 or defined.dtype.is_bool or defined.memory is Memory.REGISTER:
            return 1
        width = min(lanes, len(access.components), access.max_bytes // defined.dtype.itemsize)
        if access.needs_alignment:
            width = min(width, self.multiples[index])
        return math.gcd(max(1, width), lanes)  # pieces are whole: of six lanes there are three pairs, not four and two

    def place(self, array: ValueId, index: ValueId, lane: int) -> dict[str, str]:
        """Return what templates of accesses to an element have."""
        name, position = self.values[array][0], self.position(array, index, lane)
        return {"pointer": f"&{name}[{position}]", "array": name, "position": position}

    def can_read_unmasked(self, op: k.Load) -> bool:
        """Whether there is something to read also where the mask fails, for all lanes at once.

        That is where the position is that of the first element then, as `zyx.lowering.emit` makes it.
        """
        if op.mask is None:
            return True
        array, index = self.array(op.source), self.ops[op.index]
        masks = self.values[op.mask]
        return (
            len(set(masks)) == 1
            and isinstance(index, k.Where)
            and self.values[index.condition] == masks[:1]
            and isinstance(zero := self.ops[index.y], k.Const)
            and zero.value == 0
            and not array.mutable
            and op.type.lanes <= array.length
        )

    def load_together(self, i: int, op: k.Load, names: Parts, masks: Parts) -> bool:
        """Read all lanes as vectors, if that can be; return whether it is done. A mask is that of all lanes."""
        access, width = self.dialect.vector, self.pieces(op.source, op.index, len(names))
        if access is None or width == 1:
            return False
        space = self.array(op.source).memory.value
        element = self.dialect.memory_type(op.type.dtype)
        type_ = access.type.format(element=element, lanes=width)
        for first in range(0, len(names), width):
            place = self.place(op.source, op.index, first)
            read = access.load.format(**place, type=type_, lanes=width, element=element, space=space)
            self.let(f"w{i}_{first}", type_, read)
            zero = self.literal(op.type.dtype.to_scalar(0), op.type.dtype)
            for lane in range(width):
                item = f"w{i}_{first}{access.components[lane]}"
                item = self.dialect.choice.format(x=masks[0], y=item, z=zero) if masks else item
                self.let(names[first + lane], self.type_name(op.type), item)
        return True

    def store_together(self, op: k.Store, values: Sequence[str], masks: Parts) -> bool:
        """Write all lanes as vectors, if that can be; return whether it is done. A mask is that of all lanes."""
        access, width = self.dialect.vector, self.pieces(op.target, op.index, len(values))
        if access is None or width == 1:
            return False
        names = {"lanes": width, "space": self.array(op.target).memory.value}
        element = self.dialect.memory_type(self.type_of(op.value).dtype)
        type_ = access.type.format(element=element, lanes=width)
        for first in range(0, len(values), width):
            place = self.place(op.target, op.index, first)
            items = ", ".join(values[first : first + width])
            value = access.make.format(type=type_, items=items, lanes=width, element=element)
            text = access.store.format(**place, value=value, type=type_, element=element, **names)
            self.line(self.dialect.conditional.format(condition=masks[0], statement=text) if masks else text)
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
        """Combine by compare-and-exchange: again and again, until nobody was faster.

        What is there is guessed to be 0, which sums begin with: reading it would race with those who change it.
        """
        bits = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[dtype.bits]
        exchange = self.dialect.exchange.get(dtype.bits)
        there = scalar.bitcast(bits, dtype, self.dialect)
        back = scalar.bitcast(dtype, bits, self.dialect)
        if exchange is None or there is None or back is None:
            raise UnsupportedError(f"{self.dialect.name} has no atomic {op.op.value} of {dtype}")
        word = self.element_name(bits)
        pointer_type = self.dialect.pointer.format(const="", element=word, name="").strip()
        pointer = f"({pointer_type})&{self.element(op.target, op.index)}"
        self.line(f"{word} old{i}, seen{i} = 0;")
        self.line("do {")
        self.line(f"    old{i} = seen{i};")
        self.line(f"    const {self.element_name(dtype)} was{i} = {there.format(x=f'old{i}')};")
        self.line(f"    const {self.element_name(dtype)} now{i} = {self._combined(op, dtype, f'was{i}', value)};")
        new = back.format(x=f"now{i}")
        self.line(f"    seen{i} = {exchange.format(pointer=pointer, old=f'old{i}', new=new)};")
        self.line(f"}} while (seen{i} != old{i});")
