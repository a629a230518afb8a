"""Tensors that require gradients, and the history of what was computed from them.

    w.requires_grad = True                  `Wanted`: w, and a place for its gradient
    y = (w * x).sum(); y.item()             y is a leaf now; its `history` is the node that it was
    y.backward()                            goes from there to the node of w

1. `Observers.leaves` knows the nodes that stand for such tensors: each value that one has had, while somebody has it.
2. What is computed from them keeps how, on its leaf: so history lives as long as the results it is of, and no longer.
3. What is not kept has a text there that says why: what was assigned (a cache of keys would keep all that it ever was),
   what a traced function gave, and what was differentiated already.
4. Inside of a trace the placeholders stand for the tensors, and gradients are the trace's (`Tracing.grads`).

Nothing of this is looked at before there is such a tensor.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from zyx.graph.node import Alias, Leaf
from zyx.graph.walk import post_order, reached_from
from zyx.modes import is_grad_enabled

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from zyx.graph.node import Node
    from zyx.runtime.handle import Handle
    from zyx.runtime.observer import Observers

ASSIGNED: Final = (
    "was assigned to a tensor and computed since, and no history is kept of such; compute it anew without assigning, "
    "call backward() before its values are asked for, or assign its detach()"
)
TRACED: Final = (
    "was computed by a function made by zyx.jit, of which no history is kept; call backward() inside that function, or "
    "use zyx.value_and_grad there"
)
SPENT: Final = "was differentiated already, and its history is gone; the first time, call backward(retain_graph=True)"
TAPED: Final = (
    "was differentiated by a tape or zyx.grad and computed since, and its history is gone; call backward() before "
    "that, or take all gradients by the tape"
)


class Wanted:
    """A tensor that a gradient is kept of.

    Attributes:
        reference: To the tensor.
        grad: Its gradient, if there is one.
        is_result: Whether it was computed from others, and keeps its gradient by `retain_grad`.
    """

    __slots__ = ("grad", "is_result", "reference")

    def __init__(self, reference: weakref.ref[Handle], *, is_result: bool = False) -> None:
        self.reference = reference
        self.grad: Handle | None = None
        self.is_result = is_result


def want(handle: Handle, *, at: Node | None = None) -> Wanted:
    """Keep gradients of `handle` from now on; what its node is used for must be of this tensor alone.

    A tensor that was computed from others has its gradient `at` a node, which all of it passes.
    """
    observers, key = handle.runtime.observers, id(handle)
    wanted = observers.wanted
    record = wanted[key] = Wanted(weakref.ref(handle, lambda _: wanted.pop(key, None)), is_result=at is not None)
    observers.changes += 1
    if at is None:
        note(observers, handle._node, record)
    elif weakref.ref(at) not in observers.leaves:
        note(observers, at, record)
    else:  # of another tensor that stands for it
        beside = observers.beside.setdefault(weakref.ref(at, observers.beside.pop), [])
        beside[:] = [each for each in beside if each.reference() is not None]
        beside.append(record)
    return record


def forget(handle: Handle) -> None:
    """Keep no gradients of `handle` any more; what was computed from it by now still leads there, and gives it none."""
    observers = handle.runtime.observers
    observers.changes += 1
    observers.wanted.pop(id(handle), None)
    observers.leaves.pop(weakref.ref(handle._node), None)


def note(observers: Observers, node: Node, record: Wanted) -> None:
    """Note that `node` stands for the tensor of `record`."""
    observers.leaves[weakref.ref(node, observers.leaves.pop)] = record


def wanted_at(observers: Observers, node: Node) -> Wanted | None:
    """Return the tensor that `node` stands for, if gradients are kept of it."""
    return observers.leaves.get(weakref.ref(node))


def has_history(observers: Observers, node: Node) -> bool:
    """Whether `node` was computed from a tensor that gradients are kept of, or is one."""
    if not observers.leaves or not node.dtype.is_inexact:
        return False
    leaves, free = observers.leaves, observers.free
    waiting, met = [node], {node}
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if (kind is Leaf or kind is Alias) and weakref.ref(node) in leaves:
            return True
        if kind is Leaf:
            if node.history is not None:  # type: ignore[attr-defined]  # a leaf has it
                return True
        elif node not in free:
            for source in reached_from(node):
                if source not in met:
                    met.add(source)
                    waiting.append(source)
    return False


def marks_of(observers: Observers, handles: Sequence[Handle]) -> tuple[int, ...]:
    """Return of each handle 1 if gradients are kept of it, 2 if they are of what it was made from; () for none."""
    wanted = observers.wanted
    marks = [1 if id(handle) in wanted else 2 if has_history(observers, handle._node) else 0 for handle in handles]
    return tuple(marks) if any(marks) else ()


def ways_of(
    observers: Observers, nodes: Sequence[Node], arguments: Container[Node]
) -> Iterator[tuple[Node, bool, bool]]:
    """Yield each of the `nodes` of a trace that gradients can reach, with where it was made from.

    That is whether from tensors that gradients are kept of, and whether from `arguments`. Nodes are met once for all.
    """
    inexact = [node for node in nodes if node.dtype.is_inexact]

    def before(node: Node) -> tuple[Node, ...]:
        return () if node in arguments or weakref.ref(node) in observers.leaves else reached_from(node)

    ways: dict[Node, tuple[bool, bool]] = {}
    for node in post_order(inexact, before):
        if node in arguments:
            ways[node] = False, True
        elif weakref.ref(node) in observers.leaves:
            ways[node] = True, False
        else:
            above = [ways[source] for source in reached_from(node)]
            ways[node] = any(is_kept for is_kept, _ in above), any(is_given for _, is_given in above)
    for node in inexact:
        yield node, *ways[node]


def computed(observers: Observers, handle: Handle, node: Node, leaf: Leaf) -> None:
    """Keep the history of `leaf`, if it leads to a tensor that requires gradients."""
    if has_history(observers, node):
        leaf.history = observers.lost.get(weakref.ref(node)) or observers.spent.get(id(handle), (node,))[0]


def assigned(handle: Handle, node: Node) -> Node:
    """Return what `handle` is to stand for when `node` is assigned to it, which others may have."""
    runtime = handle.runtime
    observers = runtime.observers
    record = observers.wanted.get(id(handle))
    if record is not None and not record.is_result:
        if node is not handle._node and type(node) is not Alias:
            node = runtime.graph.alias(node)  # a place of its own: other tensors may have that one
        note(observers, node, record)
    elif has_history(observers, node):
        if not is_grad_enabled():
            return runtime.graph.detach(node)
        observers.lost[weakref.ref(node, observers.lost.pop)] = ASSIGNED
    return node


def spend(handle: Handle, why: str) -> None:
    """Let go of the history of `handle`, now or when it is computed."""
    observers, key = handle.runtime.observers, id(handle)
    spent = observers.spent
    spent[key] = (why, weakref.ref(handle, lambda _: spent.pop(key, None)))
    node = handle._node
    if type(node) is Leaf and node.history is not None and weakref.ref(node) not in observers.leaves:
        node.history = why


class Quiet:
    """Cuts what is made while gradients are off (`zyx.no_grad`) from what it is made from."""

    is_recording = False

    def created(self, handle: Handle) -> None:
        """Let the handle have no history."""
        if is_grad_enabled():
            return
        observers, node = handle.runtime.observers, handle._node
        if has_history(observers, node):
            handle._node = handle.runtime.graph.detach(node)
        elif node.sources:
            observers.free.add(node)

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Do nothing."""

    def assigned(self, handle: Handle, old: Node) -> None:
        """Do nothing."""
