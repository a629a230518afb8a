"""Elements of register arrays that need no memory.

Register arrays whose every access has a constant index need no memory: each element is a value of its own, a *slot*.
Where control flow joins (the head of a loop, the end of an If), a slot written inside gets a new name, so `joined`
lists these slots for each `Loop` and `If`: of those written in its region the ones that are read before they are
written again. So the accumulators of a sum have no names in the loops around it, in which each sum starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.kernel import data as k
from zyx.kernel.registers import register_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from zyx.kernel.data import Kernel, Op, ValueId

#: An element of a register array: the array, and the index.
Slot: TypeAlias = "tuple[ValueId, int]"

#: An operation that concerns slots: the position of the `Loop` or `If` that it is or ends, the operation, and the slot
#: that it reads or writes.
_Step: TypeAlias = "tuple[ValueId, Op, Slot | None]"

# Looked up first, since most operations are none of these.
_CONCERNED: Final[frozenset[type[Op]]] = frozenset({k.Loop, k.EndLoop, k.If, k.EndIf, k.Load, k.Store})


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of one kernel.

    Attributes:
        arrays: Register arrays that need no memory.
        joined: For each `Loop` and `If`, the slots that its region writes, in order, without those whose value at the
            head of the loop, or behind the If, nobody reads.
    """

    arrays: AbstractSet[ValueId]
    joined: Mapping[ValueId, tuple[Slot, ...]]


def find_slots(kernel: Kernel) -> Slots:
    """Return the slots of `kernel`."""
    arrays = register_arrays(kernel)
    steps: list[_Step] = []
    written: dict[ValueId, dict[Slot, None]] = {}
    regions: list[ValueId] = []
    for i, op in enumerate(kernel.ops):
        kind = type(op)
        if kind not in _CONCERNED:
            continue
        if kind is k.Loop or kind is k.If:
            steps.append((i, op, None))
            regions.append(i)
            written[i] = {}
        elif kind is k.EndLoop or kind is k.EndIf:
            start = regions.pop()
            steps.append((start, op, None))
            if regions:
                written[regions[-1]].update(written[start])
        elif isinstance(op, k.Load | k.Store):
            array = op.source if isinstance(op, k.Load) else op.target
            if array in arrays:
                index = kernel.ops[op.index]
                assert isinstance(index, k.Const)
                slot = array, int(index.value)
                steps.append((i, op, slot))
                if regions and isinstance(op, k.Store):
                    written[regions[-1]][slot] = None
    needed = _needed(kernel, steps)
    return Slots(arrays, {start: tuple(s for s in slots if s in needed[start]) for start, slots in written.items()})


def _needed(kernel: Kernel, steps: list[_Step]) -> dict[ValueId, set[Slot]]:
    """Return, for each `Loop`, the slots whose values at its head are read; for each `If`, those read behind it.

    For a loop with an end, which may not run, those of both.
    """
    found: dict[ValueId, set[Slot]] = {}
    behind: dict[ValueId, set[Slot]] = {}
    is_changed = True
    while is_changed:  # a turn of a loop reads what the one before wrote: once more for each loop around another
        is_changed = False
        live: set[Slot] = set()
        for start, op, slot in reversed(steps):
            if slot is not None:
                if isinstance(op, k.Store) and op.mask is None:
                    live.discard(slot)
                else:
                    live.add(slot)
                continue
            opener = kernel.ops[start]
            is_loop = isinstance(opener, k.Loop) and opener.size > 0
            if op is opener:
                if not is_loop:  # it may not run
                    live |= found[start]
                else:
                    if isinstance(opener, k.Loop) and opener.end is not None:
                        live |= behind[start]
                    if found.get(start) != live:
                        found[start] = set(live)
                        is_changed = True
            elif is_loop:
                behind[start] = set(live)
                live |= found.get(start, set())
            else:
                found[start] = set(live)
    return found
