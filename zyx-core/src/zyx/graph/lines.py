"""Which line of a program each node is from, as far as anybody notes it; see ``ZYX_DEBUG=lines``.

Lines are beside the nodes, in a table that keeps none of them alive, and make no nodes different: of equal ones that
live at the same time the first counts. The nodes that take a node's place in a plan are from its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.graph.base import Node

#: Lines that are listed; the rest is counted.
_MOST_SHOWN: Final = 6
_LINE_OF: Final[WeakKeyDictionary[Node, str]] = WeakKeyDictionary()


def note_line(node: Node, line: str) -> None:
    """Note the line of a node, and of all that it is computed from and of which none is known."""
    above = [node]
    while above:
        node = above.pop()
        if node.sources and node.storage is None and node not in _LINE_OF:
            _LINE_OF[node] = line
            above += node.sources


def carry_line(node: Node, made: Node) -> None:
    """Note that `made` takes the place of `node`."""
    if _LINE_OF and made is not node and (line := _LINE_OF.get(node)) is not None:
        note_line(made, line)


def in_lines(lines: Sequence[str]) -> str:
    """Return words for the lines that something is from, to follow a text; nothing if there are none."""
    shown = ", ".join(lines[:_MOST_SHOWN])
    more = f" and {len(lines) - _MOST_SHOWN} more" if len(lines) > _MOST_SHOWN else ""
    return f", computed for {shown}{more}" if lines else ""


def lines_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the lines of nodes, each once."""
    if not _LINE_OF:
        return ()
    return tuple(dict.fromkeys(line for node in nodes if (line := _LINE_OF.get(node)) is not None))
