"""What the identities are written with: a writer that simplifies each operation before it appends it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.rewrite import RENUMBER, BoundedRewriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.kernel.data import Op, ValueId
    from zyx.ops import BinaryOp, UnaryOp
    from zyx.passes.eliminate_common_subexpressions import AtHand

#: The classes whose rules are found by their op.
NAMED: Final[frozenset[type[Op]]] = frozenset({k.Unary, k.Binary})
_WITHOUT_VALUE: Final[frozenset[type[Op]]] = frozenset({k.Loop, k.EndLoop, k.If, k.EndIf, k.Store, k.Atomic, k.Barrier})


#: By the key of an operation (`zyx.passes.rules.key_of`), what may return a value in its place, in order.
Table: TypeAlias = "Mapping[object, Sequence[Callable[[Simplifier, Any], ValueId | None]]]"


class Simplifier(BoundedRewriter):
    """A rewriter whose operations go through rules; what these find in their place is not written.

    Args:
        table: The rules.
        at_hand: Values that are not written a second time; None if each is written.
    """

    def __init__(self, table: Table, at_hand: AtHand | None = None) -> None:
        super().__init__()
        self._table = table
        self._at_hand = at_hand
        self._read: int | None = None  # the number of the operation that is read, until it is written

    def run(self, kernel: Kernel, define: Callable[[], None] | None = None) -> Kernel:
        """Return `kernel` by the rules; the same object if nothing changes. `define` adds arrays before the body."""
        renamed, ops, table = self.renamed, self.ops, RENUMBER
        for number, op in enumerate(kernel.ops):
            if define is not None and not isinstance(op, k.Define | k.Variable):
                before = len(ops)
                define()
                define = None
                if self._at_hand is not None:
                    self._at_hand.scratch = range(before, len(ops))
            function = table.get(type(op))
            self._read = number
            renamed.append(self.add(op if function is None else function(op, renamed)))
        same = len(ops) == len(kernel.ops) and all(map(operator.is_, ops, kernel.ops))
        return kernel if same else Kernel(kernel.name, tuple(ops))

    def add(self, op: Op) -> ValueId:
        """Return the value of an operation, which is written if nothing equals it."""
        at_hand = self._at_hand
        key = None if at_hand is None else at_hand.key(op)
        if at_hand is not None and key is not None:
            found = at_hand.get(key)
            if found is not None:
                return found
        read, self._read = self._read, None
        kind = type(op)
        for rule in self._table.get(op.op._value_ if kind in NAMED else kind, ()):  # type: ignore[union-attr]  # `key_of`
            found = rule(self, op)
            if found is not None:
                break
        else:
            self._read = read
            found = self.append(op)
        if at_hand is not None and key is not None:
            at_hand.put(key, found)
        return found

    def append(self, op: Op) -> ValueId:
        """Write an operation as it is."""
        number = len(self.ops)
        self.bounds.add(op)
        if type(op) in _WITHOUT_VALUE:
            read, self._read = self._read, None
            if self._at_hand is not None:
                self._at_hand.note_effect(op, self.type_of, read)
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
