"""Which arrays of a thread are as good as registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.data import Memory

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel, ValueId


def register_arrays(kernel: Kernel) -> set[ValueId]:
    """Return the register arrays whose every index is a constant: each element can be a variable of its own."""
    ops = kernel.ops
    found = {i for i, op in enumerate(ops) if isinstance(op, k.Define) and op.memory is Memory.REGISTER}
    for op in ops:
        array = op.source if isinstance(op, k.Load) else op.target if isinstance(op, k.Store | k.Atomic) else None
        if array in found and not isinstance(ops[op.index], k.Const):  # type: ignore[union-attr]  # has an array, so an index
            found.discard(array)
    return found
