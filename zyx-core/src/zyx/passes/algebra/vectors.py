"""Identities of making vectors and taking them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k

if TYPE_CHECKING:
    from zyx.kernel.data import ValueId
    from zyx.passes.algebra.simplifier import Simplifier


def simplify_vectorize(s: Simplifier, op: k.Vectorize) -> ValueId | None:
    """Return the vector that was taken apart into just these items, or None."""
    first = s.ops[op.items[0]]
    if not isinstance(first, k.Devectorize) or s.type_of(first.x).lanes != op.type.lanes:
        return None
    for lane, item in enumerate(op.items):
        other = s.ops[item]
        if not isinstance(other, k.Devectorize) or other.x != first.x or other.lane != lane:
            return None
    return first.x


def simplify_devectorize(s: Simplifier, op: k.Devectorize) -> ValueId | None:
    """Return the scalar that a lane was made of, or None."""
    inner = s.ops[op.x]
    match inner:
        case k.Vectorize(items=items):
            return items[op.lane]
        case k.Const(value=value):
            return s.add(k.Const(value, op.type))
        case k.Shuffle(x=x, y=y, lanes=lanes):
            picked, count = lanes[op.lane], s.type_of(x).lanes
            return s.devectorize(*((x, picked) if picked < count else (y, picked - count)))
        case _:
            return op.x if s.type_of(op.x).lanes == 1 else None


def simplify_shuffle(s: Simplifier, op: k.Shuffle) -> ValueId | None:
    """Return the operand whose lanes are picked in order, or None."""
    count = s.type_of(op.x).lanes
    if op.lanes == tuple(range(count)):
        return op.x
    return op.y if op.lanes == tuple(range(count, 2 * count)) else None
