"""Recognise pairs that are deinterleaved and interleaved again, so that the original is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.ops import BinaryOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from zyx.graph.node import Node


def interleaved(node: n.Where) -> Node | None:
    """Return the node ``(.., 2)`` whose elements `node`, ``(.., 2)`` too, has in their order; None if there is none.

    ``where(coordinate along the last axis == 0, x[.., 0], x[.., 1])`` is ``x``.
    """
    if not node.shape or node.shape[-1] != 2 or not _is_first(node.sources[0]):
        return None
    first, second = (_half_of(part, place) for place, part in enumerate(node.sources[1:]))
    return first if first is not None and first is second and size_of(first.shape) == size_of(node.shape) else None


def _is_first(condition: Node) -> bool:
    """Whether a condition says that the coordinate along the last axis is 0."""
    if not isinstance(condition, n.Binary) or condition.op is not BinaryOp.EQ or condition.storage is not None:
        return False
    place, zero = condition.sources
    last = condition.ndim - 1
    while isinstance(place, n.Expand) and place.storage is None:
        place = place.sources[0]
    return isinstance(place, n.Iota) and place.axis == last and isinstance(zero, n.Const) and zero.value == 0


def _half_of(part: Node, place: int) -> Node | None:
    """Return the node of whose last axis, of size 2, `part` has what is at `place`, repeated along its last axis."""
    if not isinstance(part, n.Expand) or part.storage is not None:
        return None
    (below,) = part.sources
    if below.shape[-1] != 1 or below.shape[:-1] != part.shape[:-1]:
        return None
    while isinstance(below, n.Reshape) and below.storage is None:
        below = below.sources[0]
    if not isinstance(below, n.Shrink) or below.storage is not None:
        return None
    (whole,) = below.sources
    wanted = (*((0, size) for size in whole.shape[:-1]), (place, place + 1))
    return whole if whole.shape[-1] == 2 and below.bounds == wanted else None
