"""Places in ascending lists, found by halving."""

from __future__ import annotations

from zyx import dtype as dtypes
from zyx.tensor.term import Term


def places_in(listed: Term, wanted: Term, *, is_right: bool) -> Term:
    """Return how many of `listed`, ``(.., n)`` and ascending, come before each of `wanted`, ``(.., m)``, int32.

    So do those that are equal to it if it `is_right`. Bit by bit, the greatest first: each takes one comparison.
    """
    graph, axis = listed.graph, len(listed.shape) - 1
    size = listed.shape[axis]
    place = Term(graph, graph.const(0, dtypes.int32, wanted.node.device, wanted.shape))
    for bit in reversed(range(size.bit_length())):
        candidate = place + (1 << bit)
        each = Term(graph, graph.gather(listed.node, (candidate - 1).node, axis))
        before = each <= wanted if is_right else each < wanted
        if listed.dtype.is_float:
            before = before | (wanted.is_nan() if is_right else wanted.is_nan() & ~each.is_nan())
        place = (before & (candidate <= size)).where(candidate, place)
    return place
