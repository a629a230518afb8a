"""The text of one kernel while it is written: what the writers of operations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.render.llvm.types import ELEMENT, MEMORY, MEMORY_ELEMENT, VALUE

if TYPE_CHECKING:
    from zyx.arithmetic.intervals import Range
    from zyx.kernel.data import Kernel, Type, ValueId
    from zyx.render.llvm.slots import Slot, Slots
    from zyx.render.llvm.templates import Templates


class OpenRegion:
    """An open `Loop` or `If`.

    Attributes:
        start: The operation that opened it.
        block: Label of the block before it.
        line: Number of the line where its phis go.
        before: The slots that are written in it, with their values before it.
    """

    __slots__ = ("before", "block", "line", "start")

    def __init__(self, start: ValueId, block: str, line: int, before: dict[Slot, str]) -> None:
        self.start = start
        self.block = block
        self.line = line
        self.before = before


class Writer:
    """The text of one kernel. A backend derives from it, to keep more.

    Attributes:
        names: How each operation's result is spelled as an operand; for arrays, the pointer.
        lines: The body so far.
        found: The slots that there are.
        slots: The value that each slot has now.
        block: Label of the block being written, for phis.
        open: Regions that have not ended yet, outermost first.
    """

    def __init__(self, kernel: Kernel, found: Slots, templates: Templates) -> None:
        self.templates = templates
        self.ops = kernel.ops
        self.found = found
        self.names = [""] * len(kernel.ops)
        self.lines: list[str] = []
        self.slots: dict[Slot, str] = {}
        self.block = "entry"
        self.open: list[OpenRegion] = []
        self._bounds: Bounds | None = None

    def type_of(self, value: ValueId) -> Type:
        """Return the type of a value."""
        type_: Type = self.ops[value].type  # type: ignore[union-attr]  # what is asked for is a value, so it has one
        return type_

    def range_of(self, value: ValueId) -> Range:
        """Return where an integer lies."""
        if self._bounds is None:
            self._bounds = Bounds(self.ops)
        return self._bounds.range_of(value)

    def typed(self, value: ValueId) -> str:
        """Return an operand with its type."""
        return f"{VALUE[self.type_of(value)]} {self.names[value]}"

    def array(self, array: ValueId) -> k.Define:
        """Return the definition of an array."""
        op = self.ops[array]
        assert isinstance(op, k.Define)
        return op

    def address(self, i: int, array: ValueId, index: ValueId, *, may_be_outside: bool = False) -> str:
        """Return the pointer to an element; `may_be_outside` if a mask decides whether it exists."""
        at = self.ops[index]
        if isinstance(at, k.Const) and at.value == 0:
            return self.names[array]
        return self.element(i, array, index, self.names[index], "" if may_be_outside else " inbounds")

    def element(self, i: int, array: ValueId, index: ValueId, position: str, inbounds: str) -> str:
        """Return the pointer to element `position`, a value of the type of `index`."""
        dtype, defined = self.type_of(index).dtype, self.array(array)
        spelled = ELEMENT[dtype]
        if dtype.is_unsigned and dtype.bits < 64:  # getelementptr takes indices for signed
            self.lines.append(f"  %i{i} = zext {spelled} {position} to i64")
            spelled, position = "i64", f"%i{i}"
        type_ = MEMORY_ELEMENT[defined.dtype] if defined.lanes == 1 else MEMORY[k.Type(defined.dtype, defined.lanes)]
        self.lines.append(f"  %a{i} = getelementptr{inbounds} {type_}, ptr {self.names[array]}, {spelled} {position}")
        return f"%a{i}"

    def slot(self, array: ValueId, index: ValueId) -> Slot:
        """Return the slot at a constant index."""
        at = self.ops[index]
        assert isinstance(at, k.Const)  # that is what makes it a slot
        return array, int(at.value)

    def slot_value(self, slot: Slot) -> str:
        """Return the value that a slot has now."""
        return self.slots.get(slot, "undef")

    def slot_type(self, slot: Slot) -> str:
        """Return the type of a slot's value."""
        array = self.array(slot[0])
        return VALUE[k.Type(array.dtype, array.lanes)]

    def begin_where(self, i: int, condition: str) -> None:
        """Begin a block that runs where a scalar condition holds."""
        self.lines.append(f"  br i1 {condition}, label %t{i}, label %e{i}\nt{i}:")
        self.block = f"t{i}"

    def end_where(self, i: int) -> None:
        """End it."""
        self.lines.append(f"  br label %e{i}\ne{i}:")
        self.block = f"e{i}"
