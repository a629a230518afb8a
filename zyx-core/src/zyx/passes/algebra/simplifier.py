"""What the identities are written with: a writer that simplifies each operation before it appends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.ir import kernel as k
from zyx.ir.rewriter import BoundedRewriter
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType, Scalar
    from zyx.ir.affine import Form
    from zyx.ir.kernel import Op, ValueId
    from zyx.ops import UnaryOp


class Simplifier(BoundedRewriter):
    """A rewriter whose operations go through a rule; what the rule finds in their place is not written.

    Attributes:
        rule: Returns the value that equals an operation, or None.
    """

    def __init__(self, rule: Callable[[Simplifier, Op], ValueId | None]) -> None:
        super().__init__()
        self.rule = rule
        self._open: list[int] = [-1]
        self._region_of: list[int] = []

    def add(self, op: Op) -> ValueId:
        """Return the value of an operation, which is written if nothing equals it."""
        found = self.rule(self, op)
        return self.append(op) if found is None else found

    def append(self, op: Op) -> ValueId:
        """Write an operation as it is."""
        number = super().append(op)
        if isinstance(op, k.EndLoop | k.EndIf):
            self._open.pop()
        self._region_of.append(self._open[-1])
        if isinstance(op, k.Loop | k.If):
            self._open.append(number)
        return number

    def constant(self, value: ValueId) -> Scalar | None:
        """Return what a value is in all lanes, if it is a literal."""
        op = self.ops[value]
        return op.value if type(op) is k.Const else None

    def as_unary(self, value: ValueId, kind: UnaryOp) -> ValueId | None:
        """Return the operand of a value that is `kind` of something."""
        op = self.ops[value]
        return op.x if type(op) is k.Unary and op.op is kind else None

    def as_binary(self, value: ValueId, kind: BinaryOp) -> tuple[ValueId, ValueId] | None:
        """Return the operands of a value that is `kind` of two others."""
        op = self.ops[value]
        return (op.x, op.y) if type(op) is k.Binary and op.op is kind else None

    def integer(self, value: ValueId) -> int | None:
        """Return what a value is in all lanes, if it is a literal of an integer type or bool."""
        op = self.ops[value]
        return int(op.value) if type(op) is k.Const else None

    def with_integer(self, value: ValueId, kind: BinaryOp) -> tuple[ValueId, int] | None:
        """Return the operands of a value that is `kind` of something and an integer literal."""
        operands = self.as_binary(value, kind)
        constant = None if operands is None else self.integer(operands[1])
        return None if operands is None or constant is None else (operands[0], constant)

    def write_form(self, form: Form, dtype: DType) -> ValueId | None:
        """Return a scalar of `dtype` congruent to `form`, or None if that takes values that are not at hand."""
        values: list[tuple[ValueId, int]] = []
        for atom, factor in form.terms:
            value = self.bounds.value_of(atom)
            if value is None or self._region_of[value] not in self._open:
                return None
            values.append((value, factor))
        total: ValueId | None = None
        for value, factor in values:
            term = self.cast(value, dtype)
            if factor != 1:
                term = self.binary(BinaryOp.MUL, term, self.const(dtype.wrap(factor), dtype))
            total = term if total is None else self.binary(BinaryOp.ADD, total, term)
        constant = self.const(dtype.wrap(form.constant), dtype)
        if total is None:
            return constant
        return total if form.constant == 0 else self.binary(BinaryOp.ADD, total, constant)
