"""Tell in whose buffer values lie, and whether it may be written over: whether a tensor is the only one that has it.

CPython counts references; the counts of a tensor that is alone are taken once, from one that surely is, by the same
lines of code, so that it does not matter what references the interpreter itself holds while it runs them.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from zyx.graph import node as n
from zyx.runtime.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zyx.graph.node import Node
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime


#: What has its values in the buffer of its source, if that has one; and what has them there already, or has none.
SAME_LAYOUT: Final = frozenset({n.Reshape, n.Alias})
RARELY_COMPUTED: Final = SAME_LAYOUT | {n.Leaf}
#: Values that need no memory: kernels have them, whatever lies in a buffer.
KNOWN: Final = frozenset({n.Const, n.Iota})
#: What a tensor is of which parts were written to: it may be stored over what it was before.
WRITTEN_TO: Final = frozenset({n.Scatter, n.Reshape})


def shared_of(handles: Sequence[Handle], places: Iterable[int]) -> list[int]:
    """Return those of `places` whose buffers cannot be donated: they are foreign, or shared with others.

    Values are of a handle alone where nothing else refers to its node, and nothing but that node to its storage. They
    are not where it is known how the node was computed, which may be kept, with the values.
    """
    shared: list[int] = []
    for place in places:
        handle = handles[place]
        if (sys.getrefcount(handle._node), sys.getrefcount(handle._node.storage)) != _ALONE or (
            type(handle._node) is not n.Leaf or not is_ours(handle._node.storage)
        ):
            shared.append(place)
    return shared


class CopyOnWrite:
    """Keeps old values that a run is to store over, if others come to have them while it waits.

    Args:
        runtime: Of the run.
        buffers: Of the run. A copy takes the place of what others have.
        written: The places of what is stored over, each with the tensor that was the only one to have it.

    Attributes:
        copied: The places of copies.
    """

    def __init__(self, runtime: Runtime, buffers: list[Any], written: Sequence[tuple[int, Handle]]) -> None:
        self._runtime = runtime
        self._buffers = buffers
        self._written = [(place, handle, handle._node) for place, handle in written]
        self._alone = self._counts()
        self.copied: set[int] = set()

    @contextmanager
    def while_waiting(self) -> Iterator[None]:
        """See who comes to have the values in a ``with`` block, in which the runtime's lock is free."""
        yield
        for (place, handle, node), was, now in zip(self._written, self._alone, self._counts(), strict=True):
            is_taken = handle._node is not node or now[0] > was[0] or now[1] > was[1]
            if is_taken and place not in self.copied and node.storage is self._buffers[place]:
                self._buffers[place] = self._runtime.buffer_of(self._runtime.copy(node))
                self.copied.add(place)

    def _counts(self) -> list[tuple[int, int]]:
        return [(sys.getrefcount(node), sys.getrefcount(node.storage)) for _, _, node in self._written]


def is_read(handle: Handle) -> bool:
    """Whether a node reads that of `handle`; it may take as long as a look at all objects that there are."""
    if sys.getrefcount(handle._node) == _ALONE[0]:
        return False
    if handle._node.reader is not None and handle._node.reader() is not None:
        return True
    import gc

    return any(type(each) is tuple for each in gc.get_referrers(handle._node))


def _counts(handle: Handle) -> tuple[int, int]:
    return sys.getrefcount(handle._node), sys.getrefcount(handle._node.storage)


class _Alone:
    """Stands for a handle or a node that holds the only reference to what is below it."""

    _node: object
    storage: object
    sources: tuple[object, ...]


def _alone() -> _Alone:
    handle = _Alone()
    handle._node = _Alone()
    handle._node.storage = _Alone()
    return handle


def is_ours(storage: object) -> bool:
    """Whether `storage` is a buffer in memory that no other library has."""
    return isinstance(storage, Buffer) and (storage.raw is None or not storage.raw.is_foreign)


def source_with_same_layout(node: Node) -> Node | None:
    """Return a node with storage whose buffer holds the values of `node` as they are, if there is one."""
    while node.storage is None:
        if type(node) not in SAME_LAYOUT:
            return None
        node = node.sources[0]
    return node


def written_over(node: Node) -> Node | None:
    """Return the leaf that the scatters of `node` may update in place; None if there is none.

        q = p with y at 3;  r = q with z at 5       r over p, where only q refers to p, and only r to q

    All nodes are in one list besides, in which those with storage are twice, or in two of them, as
    `zyx.graph.signature` returns them.
    """
    while isinstance(node, n.Reshape | n.Scatter) and node.storage is None:
        held = _IN_TWO_LISTS if node.sources[0].storage is not None else _IN_A_LIST
        if sys.getrefcount(node.sources[0]) != held:
            return None
        node = node.sources[0]
    if type(node) is not n.Leaf or sys.getrefcount(node.storage) != _ALONE[1]:
        return None
    return node


def _counts_in_lists() -> tuple[int, int]:
    """Return the counts of what is a source of one node, and in a list, or two."""
    node = _Alone()
    node.sources = (_alone(),)
    order = [node.sources[0]]
    in_a_list = sys.getrefcount(node.sources[0])
    leaves = [*order]
    return in_a_list, sys.getrefcount(node.sources[0]) + 0 * len(leaves)


_ALONE: Final = _counts(_alone())  # type: ignore[arg-type]  # it has the attributes that are looked at
_IN_A_LIST, _IN_TWO_LISTS = _counts_in_lists()
