"""What passes share: write a new list of operations while reading an old one.

Positions change when operations are added or left out, so each operation that is kept has its operands renumbered. A
pass that looks at one operation at a time is a `Rule`, run by `rewrite`; others use a `Rewriter` on their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.kernel.build import Builder
from zyx.kernel.data import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.kernel.data import Op, ValueId

#: What stands in the place of an operation without result that was left out.
DROPPED: Final = -1

#: Given an operation whose operands are renumbered already: the value to use in its place, `DROPPED`, or None to keep
#: it.
Rule: TypeAlias = "Callable[[Op], ValueId | None]"


class Rewriter(Builder):
    """The operations written so far, and what the old ones became.

    Attributes:
        renamed: For each old operation read so far, its new position.
    """

    def __init__(self) -> None:
        super().__init__()
        self.renamed: list[ValueId] = []

    def append(self, op: Op) -> ValueId:
        """Write an operation as it is."""
        self.ops.append(op)
        return len(self.ops) - 1

    def keep(self, op: Op) -> ValueId:
        """Write the next old operation, renumbered."""
        new = self.append(renumber(op, self.renamed))
        self.renamed.append(new)
        return new

    def rewrite(self, kernel: Kernel, rule: Rule, before_body: Callable[[], None] | None = None) -> Kernel:
        """Return `kernel` with `rule` applied to each operation in order; the same object if nothing changes.

        A rule that returns a value may have written operations to this rewriter. `before_body` is called between the
        params and arrays and the rest, to write more arrays.
        """
        renamed = self.renamed
        table = RENUMBER
        changed = False
        for op in kernel.ops:
            if before_body is not None and not isinstance(op, k.Define | k.Variable):
                count = len(self.ops)
                before_body()
                before_body = None
                changed = len(self.ops) > count
            function = table.get(type(op))
            new = op if function is None else function(op, renamed)
            replacement = rule(new)
            if replacement is None:
                renamed.append(self.append(new))
            else:
                renamed.append(replacement)
                changed = True
        return Kernel(kernel.name, tuple(self.ops)) if changed else kernel


class BoundedRewriter(Rewriter):
    """A rewriter that knows the ranges of what it has written.

    Attributes:
        bounds: What is known at the end of the operations written so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bounds = Bounds()
        self.ops = self.bounds.ops

    def append(self, op: Op) -> ValueId:
        """Write an operation as it is."""
        self.bounds.add(op)
        return len(self.ops) - 1

    def add(self, op: Op) -> ValueId:
        """Write an operation."""
        return self.append(op)


def renumber(op: Op, renamed: Sequence[ValueId]) -> Op:
    """Return `op` with every operand replaced by what `renamed` has for it; the same object if nothing changes."""
    function = RENUMBER.get(type(op))
    return op if function is None else function(op, renamed)


def _loop(op: k.Loop, renamed: Sequence[ValueId]) -> Op:
    if op.end is None or renamed[op.end] == op.end:
        return op
    return k.Loop(op.size, op.type, renamed[op.end])


def _if(op: k.If, renamed: Sequence[ValueId]) -> Op:
    condition = renamed[op.condition]
    return op if condition == op.condition else k.If(condition)


def _load(op: k.Load, renamed: Sequence[ValueId]) -> Op:
    mask = None if op.mask is None else renamed[op.mask]
    source, index = renamed[op.source], renamed[op.index]
    if source == op.source and index == op.index and mask == op.mask:
        return op
    return k.Load(source, index, op.type, mask)


def _store(op: k.Store, renamed: Sequence[ValueId]) -> Op:
    mask = None if op.mask is None else renamed[op.mask]
    target, index, value = renamed[op.target], renamed[op.index], renamed[op.value]
    if target == op.target and index == op.index and value == op.value and mask == op.mask:
        return op
    return k.Store(target, index, value, mask, op.streaming)


def _atomic(op: k.Atomic, renamed: Sequence[ValueId]) -> Op:
    mask = None if op.mask is None else renamed[op.mask]
    return k.Atomic(op.op, renamed[op.target], renamed[op.index], renamed[op.value], mask)


def _unary(op: k.Unary, renamed: Sequence[ValueId]) -> Op:
    x = renamed[op.x]
    return op if x == op.x else k.Unary(op.op, x, op.type)


def _binary(op: k.Binary, renamed: Sequence[ValueId]) -> Op:
    x, y = renamed[op.x], renamed[op.y]
    return op if x == op.x and y == op.y else k.Binary(op.op, x, y, op.type)


def _where(op: k.Where, renamed: Sequence[ValueId]) -> Op:
    condition, x, y = renamed[op.condition], renamed[op.x], renamed[op.y]
    if condition == op.condition and x == op.x and y == op.y:
        return op
    return k.Where(condition, x, y, op.type)


def _cast(op: k.Cast, renamed: Sequence[ValueId]) -> Op:
    x = renamed[op.x]
    return op if x == op.x else k.Cast(x, op.type)


def _bitcast(op: k.Bitcast, renamed: Sequence[ValueId]) -> Op:
    x = renamed[op.x]
    return op if x == op.x else k.Bitcast(x, op.type)


def _mad(op: k.Mad, renamed: Sequence[ValueId]) -> Op:
    x, y, z = renamed[op.x], renamed[op.y], renamed[op.z]
    return op if x == op.x and y == op.y and z == op.z else k.Mad(x, y, z, op.type)


def _vectorize(op: k.Vectorize, renamed: Sequence[ValueId]) -> Op:
    items = tuple([renamed[item] for item in op.items])
    return op if items == op.items else k.Vectorize(items, op.type)


def _devectorize(op: k.Devectorize, renamed: Sequence[ValueId]) -> Op:
    x = renamed[op.x]
    return op if x == op.x else k.Devectorize(x, op.lane, op.type)


def _shuffle(op: k.Shuffle, renamed: Sequence[ValueId]) -> Op:
    x, y = renamed[op.x], renamed[op.y]
    return op if x == op.x and y == op.y else k.Shuffle(x, y, op.lanes, op.type)


def _swap(op: k.Swap, renamed: Sequence[ValueId]) -> Op:
    x = renamed[op.x]
    return op if x == op.x else k.Swap(x, op.distance, op.type)


def _wmma(op: k.Wmma, renamed: Sequence[ValueId]) -> Op:
    return k.Wmma(op.dims, renamed[op.a], renamed[op.b], renamed[op.c], op.type)


#: Returns an operation with other operands, for the classes that have any.
RENUMBER: Final[dict[type[Op], Callable[[Any, Sequence[ValueId]], Op]]] = {
    k.Loop: _loop,
    k.If: _if,
    k.Load: _load,
    k.Store: _store,
    k.Atomic: _atomic,
    k.Unary: _unary,
    k.Binary: _binary,
    k.Where: _where,
    k.Cast: _cast,
    k.Bitcast: _bitcast,
    k.Mad: _mad,
    k.Vectorize: _vectorize,
    k.Devectorize: _devectorize,
    k.Shuffle: _shuffle,
    k.Swap: _swap,
    k.Wmma: _wmma,
}
