"""Kernels that users write, as nodes of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zyx.errors import DTypeError, GradientError, ShapeError
from zyx.kernel.data import Define
from zyx.kernel.verify import verify
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend.library import Problem
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.kernel.data import Kernel
    from zyx.shape import Shape


@dataclass(frozen=True)
class CustomKernel:
    """A kernel of the linear IR with what it stores. Its params are the outputs, then the inputs, row-major.

    Attributes:
        kernel: The kernel, verified.
        outputs: Shape and dtype of each output.
        gradient: From the graph, the node and the gradient at it to the gradients at the inputs; None if it has none.
        problem: What it computes, if a library may do so in its place: given the inputs, then the output.
    """

    kernel: Kernel
    outputs: tuple[tuple[Shape, DType], ...]
    gradient: Callable[[Graph, Node, Node], Sequence[Node | None]] | None = field(default=None, compare=False)
    problem: Problem | None = None

    def __post_init__(self) -> None:
        verify(self.kernel)
        params = self.kernel.params
        if len(params) < len(self.outputs):
            raise ShapeError(f"kernel {self.kernel.name} has {len(params)} params for {len(self.outputs)} outputs")
        for number, ((shape, dtype), param) in enumerate(zip(self.outputs, params, strict=False)):
            if not isinstance(param, Define) or param.dtype is not dtype or param.length != size_of(shape):
                raise ShapeError(f"kernel {self.kernel.name}: param {number} is {param}, not {dtype}{list(shape)}")

    def backward(self, graph: Graph, node: Node, upstream: Node) -> Sequence[Node | None]:
        """Return the gradients at the inputs.

        Raises:
            GradientError: The kernel was given no gradient.
        """
        if self.gradient is None:
            raise GradientError(
                f"kernel {self.kernel.name} was made without a gradient, and lies between the target and a source; "
                "give CustomKernel one, or detach its inputs"
            )
        return self.gradient(graph, node, upstream)

    def apply(self, graph: Graph, inputs: tuple[Node, ...]) -> list[Node]:
        """Return the nodes of the outputs.

        Raises:
            DTypeError: An input is complex.
            ShapeError: The inputs do not match the kernel's params.
        """
        if any([node.dtype.is_complex for node in inputs]):
            raise DTypeError(f"custom kernel {self!r}: kernels have no complex numbers; see zyx.view_as_real")
        params = self.kernel.params[len(self.outputs) :]
        if len(params) != len(inputs):
            raise ShapeError(f"kernel {self.kernel.name} takes {len(params)} inputs, not {len(inputs)}")
        for number, (param, node) in enumerate(zip(params, inputs, strict=True)):
            if not isinstance(param, Define) or param.dtype is not node.dtype or param.length != size_of(node.shape):
                raise ShapeError(f"kernel {self.kernel.name}: input {number} is {node!r}; its param is {param}")
        return [graph.custom(self, inputs, number, shape, dtype) for number, (shape, dtype) in enumerate(self.outputs)]
