"""What looks at one operation at a time, and writes others in its place.

Rules are applied by `applied`, one set of them for itself, or all together by `zyx.passes.simplify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from zyx.kernel import data as k
from zyx.kernel.rewrite import BoundedRewriter
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.kernel.data import Kernel, Op, ValueId


Kind: TypeAlias = "type[Op] | UnaryOp | BinaryOp"


def key_of(op: Op) -> object:
    """Return what rules for an operation are found by: its class, or its op's name, which is hashed in no time."""
    kind = type(op)
    return op.op._value_ if kind is k.Binary or kind is k.Unary else kind  # type: ignore[union-attr]  # it is one of these


def keys_of(kind: Kind) -> list[object]:
    """Return the keys of all operations of a kind."""
    if kind is k.Unary:
        return [op.value for op in UnaryOp]
    if kind is k.Binary:
        return [op.value for op in BinaryOp]
    return [kind.value if isinstance(kind, UnaryOp | BinaryOp) else kind]


class Rules:
    """Says what is written in place of some operations.

    Attributes:
        looks_at: What `write` is given: all operations of a class, or, of unary and binary ones, those of an op.
    """

    looks_at: ClassVar[frozenset[Kind]]

    def concerns(self, ops: Sequence[Op]) -> bool:
        """Whether there may be something to write in another way in a kernel of these operations."""
        return True

    def define(self, b: BoundedRewriter, ops: Sequence[Any]) -> None:
        """Define the arrays that it takes to write some of `ops`: all that it looks at. They precede the body."""

    def rule(self, kind: Kind) -> Callable[[Any, Any], ValueId | None]:
        """Return what is called for operations of a kind: `write`, unless a subclass has several."""
        return self.write

    def write(self, b: Any, op: Any) -> ValueId | None:  # noqa: ANN401  # each takes the classes that it looks at
        """Return the value in place of an operation, `DROPPED`, or None to keep it; what is new is written to `b`."""
        raise NotImplementedError


def applied(kernel: Kernel, rules: Rules) -> Kernel:
    """Return `kernel` with the rules applied to each operation in order; the same object if nothing changes."""
    rewriter = BoundedRewriter()

    looks_at = {key for kind in rules.looks_at for key in keys_of(kind)}

    def write(op: Op) -> ValueId | None:
        return rules.write(rewriter, op) if key_of(op) in looks_at else None

    seen = [op for op in kernel.ops if key_of(op) in looks_at]
    if not seen or not rules.concerns(kernel.ops):
        return kernel
    return rewriter.rewrite(kernel, write, lambda: rules.define(rewriter, seen))
