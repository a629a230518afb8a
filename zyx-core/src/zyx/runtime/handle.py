"""What tensors are to everything below them: a mutable reference to a node.

`Tensor` derives from `Handle` and adds the operations. Autograd, jit and the runtime know handles only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from zyx.graph.node import Node
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import Tracing


class Handle:
    """A reference to the node that a tensor stands for now.

    The node changes when the tensor is assigned to, and when it was computed: then it becomes a leaf, and the way it
    was computed is forgotten unless a tape keeps it.

    Attributes:
        runtime: What it belongs to.
        tracing: The trace of a function in which it was made; None for all others.
    """

    __slots__ = ("__weakref__", "_node", "runtime", "tracing")

    def __init__(self, node: Node, runtime: Runtime) -> None:
        self._node = node
        self.runtime = runtime
        self.tracing: Tracing | None = runtime.tracing if runtime.traces else None
        runtime.created(self)

    @classmethod
    def of(cls, node: Node, runtime: Runtime) -> Self:
        """Return a new handle of `node`."""
        handle = cls.__new__(cls)
        handle._node = node
        handle.runtime = runtime
        handle.tracing = runtime.tracing if runtime.traces else None
        runtime.created(handle)
        return handle

    @property
    def node(self) -> Node:
        """The node, for building on it."""
        return self.runtime.current_node(self)
