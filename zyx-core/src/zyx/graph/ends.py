"""Up to where the values of a node are of use, in a graph that is made for greatest lengths.

Ends are beside the nodes, in a table that keeps none of them alive, and make no nodes different. Whoever stores a node
may leave out what is behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from zyx.graph.base import Node
    from zyx.graph.given import Number

#: Numbers of places along each axis, of those in front; None along axes of which all are of use.
Ends: TypeAlias = "tuple[Number | None, ...]"

_ENDS_OF: Final[WeakKeyDictionary[Node, Ends]] = WeakKeyDictionary()


def note_ends(node: Node, ends: Ends) -> None:
    """Note up to where a node is of use; where it is used up to several ends, all of it is.

    One that is of use as a whole is noted, too: it may be what another node becomes that is not.
    """
    if (known := _ENDS_OF.get(node)) is not None:
        ends = tuple(end if end is other else None for end, other in zip(ends, known, strict=True))
    _ENDS_OF[node] = ends


def carry_ends(node: Node, made: Node) -> None:
    """Note that `made` takes the place of `node`, if it has the same shape."""
    if _ENDS_OF and made is not node and made.shape == node.shape and made.sources and node in _ENDS_OF:
        note_ends(made, _ENDS_OF[node])


def ends_of(node: Node) -> Ends:
    """Return up to where a node is of use; nothing if that is not known."""
    return _ENDS_OF.get(node, ()) if _ENDS_OF else ()
