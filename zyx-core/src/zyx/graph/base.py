"""What all nodes of the graph have; `zyx.graph.node` has their kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from weakref import ReferenceType

    from zyx.dtype import DType
    from zyx.graph.graph import Graph
    from zyx.graph.node import Binary, Unary
    from zyx.shape import Shape

Sources: TypeAlias = "tuple[Node, ...]"


# Written out, and not frozen: as dataclasses, these classes take a tenth of the time that `import zyx` may take, and a
# frozen node takes 0.4 us to make instead of 0.15, of which a training step makes thousands. The classes that most
# nodes are of do not call the constructor of `Node`, either: that would take as long as all the rest.
class Node:
    """What all nodes have.

    Attributes:
        shape: Sizes of the result.
        dtype: Element type of the result.
        device: Name of the device that holds or computes the result.
        sources: The nodes read, in order.
        depth: Length of the longest path to a node with storage.
        storage: The buffer with the values, once there is one; its type is the runtime's business.
        reader: What has this one as its first source, if a `Unary` or `Binary` does; the business of `zyx.graph.live`.
    """

    __slots__ = ("__weakref__", "depth", "device", "dtype", "reader", "shape", "sources", "storage")

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sources = sources
        self.depth = 0
        self.storage: object | None = None
        self.reader: ReferenceType[Unary | Binary] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.dtype.short}{list(self.shape)} on {self.device}>"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def attributes(self) -> tuple[object, ...]:
        """What distinguishes the node from others of its class with the same sources, shape and dtype."""
        return ()


class AliasRule(Protocol):
    """Where gradients at an `Alias` go.

    Attributes:
        inputs: The nodes that they go to, of float or complex dtypes.
    """

    inputs: Sources

    def pull(self, graph: Graph, node: Node, upstream: Node) -> Sequence[Node | None]:
        """Return the gradients at the inputs of one at `node`, None where there is none."""
