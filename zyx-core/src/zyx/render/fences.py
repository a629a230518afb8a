"""Which barriers pass something on in global memory, beside letting the threads of a group meet.

Where they do, writes of each thread must reach the others, for which drivers may empty caches and wait for memory: far
more than it takes to meet. Of most kernels no barrier does: they read params in front of it, and write others behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.data import Memory

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel, ValueId


def fenced_barriers(kernel: Kernel) -> frozenset[ValueId]:
    """Return the barriers with accesses to one global array on both sides, of which one writes.

    Inside a loop, each side is all of the outermost loop, and what comes in front of it, or behind it.
    """
    accesses = _accesses(kernel)
    return frozenset(
        barrier
        for barrier, (start, end) in _barriers(kernel).items()
        if any(_meet(places, start, end) for places in accesses.values())
    )


def _accesses(kernel: Kernel) -> dict[ValueId, list[tuple[int, bool]]]:
    """Return where the global arrays that kernels may write are accessed, and whether they are written there."""
    found: dict[ValueId, list[tuple[int, bool]]] = {}
    for number, op in enumerate(kernel.ops):
        array = op.source if isinstance(op, k.Load) else op.target if isinstance(op, k.Store | k.Atomic) else None
        define = None if array is None else kernel.ops[array]
        if array is not None and isinstance(define, k.Define) and define.memory is Memory.GLOBAL and define.mutable:
            found.setdefault(array, []).append((number, not isinstance(op, k.Load)))
    return found


def _barriers(kernel: Kernel) -> dict[ValueId, tuple[int, int]]:
    """Return the barriers, each with the first and last operation of the outermost loop around it, or itself."""
    found: dict[ValueId, tuple[int, int]] = {}
    open_: list[int] = []
    inside: list[ValueId] = []
    for number, op in enumerate(kernel.ops):
        match op:
            case k.Loop() | k.If():
                open_.append(number)
            case k.EndLoop() | k.EndIf():
                start = open_.pop()
                if isinstance(kernel.ops[start], k.Loop):  # that of an outer loop takes its place, if there is one
                    found.update((barrier, (start, number)) for barrier in inside if barrier > start)
            case k.Barrier():
                inside.append(number)
                found[number] = (number, number)
            case _:
                pass
    return found


def _meet(places: list[tuple[int, bool]], start: int, end: int) -> bool:
    """Whether an access up to `end` and one from `start` on are two sides of a barrier, and one of them writes."""
    before = [writes for place, writes in places if place < end]
    after = [writes for place, writes in places if place > start]
    return bool(before) and bool(after) and (any(before) or any(after))
