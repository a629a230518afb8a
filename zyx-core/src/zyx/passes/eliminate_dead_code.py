"""Drop what nothing depends on: values, arrays other than params, stores that nobody reads, regions without effect.

    %2 = load %0[%1] : f32                    %2 = load %0[%1] : f32
    %3 = exp %2 : f32                         store %0[%1] = %2
    if %4                               =>
        %6 = add %2, %2 : f32
    endif
    store %0[%1] = %2

Branches whose condition is constant become their body, or nothing. Params stay, since a launch passes them; so do grid
positions, since they say how often the kernel runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.rewrite import DROPPED, renumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Op, ValueId

# Operations that are more than their values: looked up before a match, whose patterns take longer than all else.
_EFFECTS: Final[frozenset[type[Op]]] = frozenset(
    {
        k.Define, k.Variable, k.Index, k.Loop, k.EndLoop, k.If, k.EndIf, k.Store, k.Atomic, k.Barrier,
    }
)  # fmt: skip


def eliminate_dead_code(kernel: Kernel) -> Kernel:
    """Return `kernel` without what has no effect on its params."""
    live = _find_live(kernel.ops)
    if all(live):
        return kernel
    kept: list[Op] = []
    renamed: list[ValueId] = []
    for number, op in enumerate(kernel.ops):
        renamed.append(len(kept) if live[number] else DROPPED)
        if live[number]:
            kept.append(renumber(op, renamed))
    return Kernel(kernel.name, tuple(kept))


def _find_live(ops: Sequence[Op]) -> list[bool]:
    """Return which operations have an effect, or are needed by one that has."""
    live = [False] * len(ops)
    writers: dict[ValueId, list[int]] = {}  # of arrays that nobody outside sees
    pending: list[int] = []
    region_of: list[int] = []  # the innermost region that is kept if something in it is; -1 for none
    ends: dict[int, int] = {}
    open_regions: list[tuple[int, int, bool]] = []
    region, is_reached = -1, True
    for number, op in enumerate(ops):
        kind = type(op)
        if kind not in _EFFECTS:
            region_of.append(region)
            continue
        if kind is k.EndLoop or kind is k.EndIf:
            opener, region, is_reached = open_regions.pop()
            ends[opener] = number
        region_of.append(region)
        match op:
            case k.Loop():
                open_regions.append((number, region, is_reached))
                region = number
            case k.If(condition=condition):
                open_regions.append((number, region, is_reached))
                known = ops[condition]
                if not isinstance(known, k.Const):
                    region = number
                is_reached = is_reached and not (isinstance(known, k.Const) and not known.value)
            case k.Store(target=target) | k.Atomic(target=target) if is_reached:
                array = ops[target]
                if isinstance(array, k.Define) and array.memory is k.Memory.GLOBAL:
                    pending.append(number)
                else:
                    writers.setdefault(target, []).append(number)
            case k.Define(memory=k.Memory.GLOBAL) | k.Variable() | k.Index():
                pending.append(number)
            case k.Barrier() if is_reached:
                pending.append(number)
            case _:
                pass
    while pending:
        number = pending.pop()
        if live[number]:
            continue
        live[number] = True
        op = ops[number]
        pending.extend(k.OPERANDS[type(op)](op))
        if region_of[number] >= 0:
            pending.append(region_of[number])
        if number in ends:
            live[ends[number]] = True
        if isinstance(op, k.Load):
            pending.extend(writers.pop(op.source, ()))
    return live
