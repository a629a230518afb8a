"""Replace `Mad` by a product and a sum, for devices without it: each is rounded.

%3 = mad %0, %1, %2 : f32     =>    %3 = mul %0, %1 : f32
%4 = add %3, %2 : f32
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.ops import BinaryOp
from zyx.passes.rules import Rules, applied

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import Kernel, ValueId


def split_multiply_add(kernel: Kernel) -> Kernel:
    """Return `kernel` without `Mad`."""
    return applied(kernel, SplitMultiplyAdds())


class SplitMultiplyAdds(Rules):
    """Writes `Mad` as a product and a sum."""

    looks_at = frozenset({k.Mad})

    def write(self, b: Builder, op: k.Mad) -> ValueId | None:
        """Return the sum."""
        return b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, op.x, op.y), op.z)
