"""Which arrays the loops of a kernel change: what passes that move or merge loads ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Op, ValueId

# Looked up before a match, since most operations are none of these: 0.05 us, where its patterns take 0.5.
_CONCERNED: Final[frozenset[type[Op]]] = frozenset({k.Loop, k.EndLoop, k.If, k.EndIf, k.Store, k.Atomic, k.Barrier})


def shared_arrays(ops: Sequence[Op]) -> frozenset[ValueId]:
    """Return the arrays that other threads may change, as becomes visible at a barrier."""
    return frozenset(
        number
        for number, op in enumerate(ops)
        if type(op) is k.Define and op.mutable and op.memory is not k.Memory.REGISTER
    )


def stored_in_loops(ops: Sequence[Op]) -> dict[int, set[ValueId]]:
    """Return, for the position of each `Loop`, the arrays whose contents change while it runs."""
    stored: dict[int, set[ValueId]] = {}
    open_loops: list[int | None] = []
    shared = shared_arrays(ops)
    for number, op in enumerate(ops):
        if type(op) not in _CONCERNED:
            continue
        match op:
            case k.Loop():
                stored[number] = set()
                open_loops.append(number)
            case k.If():
                open_loops.append(None)
            case k.EndLoop() | k.EndIf():
                open_loops.pop()
            case k.Store(target=target) | k.Atomic(target=target):
                for loop in open_loops:
                    if loop is not None:
                        stored[loop].add(target)
            case k.Barrier():
                for loop in open_loops:
                    if loop is not None:
                        stored[loop] |= shared
            case _:
                pass
    return stored
