"""Elements of register arrays that need no memory.

Register arrays whose every access has a constant index need no memory: each element is a value of its own, a *slot*.
Where control flow joins (the head of a loop, the end of an If), a slot written inside gets a new name, so `written`
lists, for each `Loop` and `If`, the slots written in its region.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx.ir.kernel import Const, EndIf, EndLoop, If, Loop, Store
from zyx.ir.registers import register_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from zyx.ir.kernel import Kernel, ValueId

#: An element of a register array: the array, and the index.
Slot: TypeAlias = "tuple[ValueId, int]"


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of one kernel.

    Attributes:
        arrays: Register arrays that need no memory.
        written: For each `Loop` and `If`, the slots that its region writes, in order.
    """

    arrays: AbstractSet[ValueId]
    written: Mapping[ValueId, tuple[Slot, ...]]


def find_slots(kernel: Kernel) -> Slots:
    """Return the slots of `kernel`."""
    arrays = register_arrays(kernel)
    written: dict[ValueId, tuple[Slot, ...]] = {}
    regions: list[tuple[ValueId, dict[Slot, None]]] = []
    for i, op in enumerate(kernel.ops):
        if isinstance(op, (Loop, If)):
            regions.append((i, {}))
        elif isinstance(op, (EndLoop, EndIf)):
            start, slots = regions.pop()
            written[start] = tuple(slots)
            if regions:
                regions[-1][1].update(slots)
        elif regions and isinstance(op, Store) and op.target in arrays:
            index = kernel.ops[op.index]
            assert isinstance(index, Const)
            regions[-1][1][op.target, int(index.value)] = None
    return Slots(arrays, written)
