"""What loops of tensors are made of: leaves of a body, and outputs. See `zyx.graph.loop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.dtype import as_dtype
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.graph.loop import Loop
    from zyx.graph.node import Leaf, Node
    from zyx.shape import Shape


def leaf(shape: Shape, dtype: str, device: str) -> Leaf:
    """Return a leaf of a body. Nodes belong to no runtime, so that bodies may be kept."""
    return current().graph.leaf(shape, as_dtype(dtype), device)


def tensor(node: Node) -> Tensor:
    """Return a node of a body as a tensor."""
    return Tensor.of(node, current())


def output(loop: Loop, sources: tuple[Node, ...], number: int, like: Tensor) -> Tensor:
    """Return one output of a loop."""
    return like.like(loop.output(like.runtime.graph, sources, number))
