"""What looks at one operation at a time, and writes others in its place.

Rules are applied by `applied`, one set of them for itself, or all together by `zyx.passes.simplify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zyx.ir.rewriter import BoundedRewriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.ir.kernel import Kernel, Op, ValueId


class Rules:
    """Says what is written in place of some operations.

    Attributes:
        looks_at: The classes of these operations; no others are given to `write`.
    """

    looks_at: ClassVar[frozenset[type[Op]]]

    def define(self, b: BoundedRewriter, ops: Sequence[Op]) -> None:
        """Define the arrays that it takes to write some of `ops` in another way: arrays come before the body."""

    def write(self, b: Any, op: Any) -> ValueId | None:  # noqa: ANN401  # each takes the classes that it looks at
        """Return the value in place of an operation, `DROPPED`, or None to keep it; what is new is written to `b`."""
        raise NotImplementedError


def applied(kernel: Kernel, rules: Rules) -> Kernel:
    """Return `kernel` with the rules applied to each operation in order; the same object if nothing changes."""
    rewriter = BoundedRewriter()

    def write(op: Op) -> ValueId | None:
        return rules.write(rewriter, op) if type(op) in rules.looks_at else None

    return rewriter.rewrite(kernel, write, lambda: rules.define(rewriter, kernel.ops))
