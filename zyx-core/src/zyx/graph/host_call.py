"""What the host computes with a library of its own, as a node of the graph: decompositions of matrices by LAPACK.

    %0: f32[8, 3, 3] = leaf on cuda:0
    %1: f32[8, 3, 3] = custom %0, kernel=host cholesky (LAPACK), output=0

It is a `Custom` node whose kernel is a `HostCall`, and as lazy as any other: where a plan comes to it, the inputs are
copied to the host, the function is called, and its results are copied to the device, which goes on with them. A call
that a device can do as well (`OnDevice`) is a launch there, among others, and nothing is copied.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from zyx.errors import GradientError, LinAlgError, ShapeError
from zyx.graph.node import Custom
from zyx.graph.walk import topological

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx.graph.graph import Graph
    from zyx.graph.node import Node
    from zyx.shape import Shape

Array: TypeAlias = "npt.NDArray[Any]"


class OnDevice(Protocol):
    """How a device does what a call does. Two that are equal do the same."""

    def program(self, device: Any) -> Any:  # noqa: ANN401  # a device and a program of backends, which graphs do not know
        """Return the program that does it, whose arguments are the outputs, then the inputs; None if there is none.

        It is not released by whoever asks for it.
        """

    def announce(self) -> None:
        """Note that the program is to be launched. Called for each launch, in the order of the plan.

        Raises:
            ZyxError: It must not be, and is not.
        """


@dataclass(frozen=True, slots=True, repr=False)
class HostCall:
    """A function of the host, with what it gives. Two that are equal compute the same.

    Attributes:
        name: What it does, for people.
        library: What does it, for people.
        function: From arrays of the shapes and dtypes of the inputs, then the parameters, to the outputs. It must
            not change the arrays, and is pure, unless it reads and gives a state as well: see
            `zyx.distributed.order`.
        outputs: Shape and dtype of each output.
        parameters: What the function is given behind the arrays.
        pairs: Whether each input, then each output, is complex numbers as pairs along one more axis, of size 2, in the
            graph, and complex in the function; as `outputs` they are pairs. None at all unless `zyx.pairs` made them.
        gradient: From the graph, the node of one output and the gradient at that to the gradients at the inputs; None
            if it has none.
        takes_stacks: Whether the function also takes inputs with one more axis in front, and gives outputs with it.
        on_device: How a device does it, if one can.
        around: Of a function that waits for others: makes what is entered for as long as it runs, and lets go of the
            locks that these may need. None if it only computes.
    """

    name: str
    library: str
    function: Callable[..., Sequence[Array]]
    outputs: tuple[tuple[Shape, DType], ...]
    parameters: tuple[Hashable, ...] = ()
    pairs: tuple[bool, ...] = ()
    gradient: Callable[[Graph, Custom, Node], Sequence[Node | None]] | None = field(default=None, compare=False)
    takes_stacks: bool = False
    on_device: OnDevice | None = None
    around: Callable[[], AbstractContextManager[None]] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"{'host ' if self.on_device is None else ''}{self.name} ({self.library})"

    def apply(self, graph: Graph, inputs: Sequence[Node]) -> list[Node]:
        """Return the nodes of the outputs.

        Raises:
            DeviceError: The inputs, of which there is at least one, lie on different devices.
        """
        sources = tuple(inputs)
        graph.calls_host = True
        return [graph.custom(self, sources, number, *output) for number, output in enumerate(self.outputs)]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs.

        Raises:
            LinAlgError: The function found no result.
            ShapeError: It gave other shapes than it says.
        """
        if self.pairs:
            inputs = [
                _from_pairs(array) if is_pairs else array
                for array, is_pairs in zip(inputs, self.pairs[: len(inputs)], strict=True)
            ]
        try:
            with np.errstate(all="ignore"), nullcontext() if self.around is None else self.around():
                found = [np.asarray(array) for array in self.function(*inputs, *self.parameters)]
        except np.linalg.LinAlgError as error:
            shapes = " and ".join(str(list(array.shape)) for array in inputs)
            raise LinAlgError(f"{self.name} of {shapes}: {error}") from error
        if self.pairs:
            found = [
                _to_pairs(array) if is_pairs else array
                for array, is_pairs in zip(found, self.pairs[len(inputs) :], strict=True)
            ]
        if [array.shape for array in found] != [shape for shape, _ in self.outputs]:
            given = [array.shape for array in found]
            raise ShapeError(f"{self!r} gave arrays of shapes {given}, not {[shape for shape, _ in self.outputs]}")
        return found

    def backward(self, graph: Graph, node: Custom, upstream: Node) -> Sequence[Node | None]:
        """Return the gradients at the inputs.

        Raises:
            GradientError: It has none.
        """
        if self.gradient is None:
            raise GradientError(f"{self.name} has no gradient, and lies between the target and a source; detach it")
        return self.gradient(graph, node, upstream)


def _from_pairs(array: Array) -> Array:
    """Return complex numbers whose parts lie along the last axis."""
    complex_type = np.complex128 if array.dtype == np.float64 else np.complex64
    return np.asarray(array, order="C").view(complex_type)[..., 0]


def _to_pairs(array: Array) -> Array:
    """Return the parts of complex numbers along one more axis."""
    return np.asarray(array, order="C")[..., None].view(array.real.dtype)


def is_waiting(node: Node) -> bool:
    """Whether `node` is computed by a function that waits for others."""
    return isinstance(node, Custom) and isinstance(node.kernel, HostCall) and node.kernel.around is not None


def outputs_beside(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return what the host gives while it computes `nodes` and somebody may read: all outputs of its calls.

    Each would take another call if it were not stored now. What nobody has a handle of dies with the graph.
    """
    wanted = set(nodes)
    found: dict[Node, None] = {}
    for node in topological(nodes):
        if isinstance(node, Custom) and node.storage is None and isinstance(node.kernel, HostCall):
            for output in graph.living_outputs(node, node.kernel.outputs):
                if output.storage is None and output not in wanted and 0 not in output.shape:
                    found[output] = None
    return list(found)
