"""The graph that tensors are built in.

It differs from others in how it finds equal nodes: most nodes are the first source of one operation only, which they
remember themselves (`Node.reader`, weakly), so that the table is asked for the others alone. To make a key and an entry
takes as long as to make a node.

    z = x + y        x.reader is z
    z = x + y        found there
    w = x * y        the table has z and w now, and x says that it does
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import ref

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.graph.graph import Graph
from zyx.graph.making import key_of, new_binary, new_unary
from zyx.ops import UnaryOp

if TYPE_CHECKING:
    from zyx.ops import BinaryOp

#: Stands for several nodes, which are in the table. It equals none, and lives on.
_SEVERAL: Final = n.Unary((), dtypes.float32, "", (), UnaryOp.NEG)
_SEVERAL.op = None  # type: ignore[assignment]  # no operation
_ref_several: Final[ref[n.Unary | n.Binary]] = ref(_SEVERAL)


class LiveGraph(Graph):
    """See the module. The operators of tensors make nodes as `binary` does, without a call."""

    merges = False

    def unary(self, op: UnaryOp, x: n.Node) -> n.Node:
        reader = x.reader
        found = None if reader is None else reader()
        if found is None:
            node = new_unary(op, x)
            x.reader = ref(node)
            return node
        if found.op is op:
            return found
        self._note_several(x, found)
        return Graph.unary(self, op, x)

    def binary(self, op: BinaryOp, x: n.Node, y: n.Node) -> n.Node:
        reader = x.reader
        found = None if reader is None else reader()
        if found is None:
            node = new_binary(op, x, y)
            x.reader = ref(node)
            return node
        if found.op is op and found.sources[1] is y:
            return found
        self._note_several(x, found)
        return Graph.binary(self, op, x, y)

    def adopt(self, node: n.Node) -> None:
        if type(node) is n.Unary or type(node) is n.Binary:
            x = node.sources[0]
            self._note_several(x, None if x.reader is None else x.reader())
        Graph.adopt(self, node)

    def _note_several(self, x: n.Node, reader: n.Unary | n.Binary | None) -> None:
        """Have the table asked for what reads `x`; so far that was `reader`."""
        if reader is not _SEVERAL:
            x.reader = _ref_several
            if reader is not None:
                self._keep(key_of(reader), reader)
