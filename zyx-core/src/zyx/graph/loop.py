"""A loop over the places of an axis, as a node of the graph: its body is there once, however often it is run.

    carries     what a step takes from the one before: arrays, which begin as the first sources
    slices      what a step reads of sequences: a block of places along an axis, which have the next sources
    constants   the other sources, which all steps read
    rows        what a step writes to such a block of outputs

    out[i] = h = tanh(given[i] + h @ w)         carry h, slice given[i], constant w, row h

It is a `Custom` node whose kernel is a `Loop`. A plan has the launches of the body once for each step: kernels are
given where a step begins, so that one serves all steps, of sequences of all lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx.graph.graph import Graph
    from zyx.graph.node import Custom, Leaf, Node
    from zyx.shape import Shape

Array: TypeAlias = "npt.NDArray[Any]"


class Lie(NamedTuple):
    """How the places of a sequence lie in memory, of which a step has a block.

    Attributes:
        axis: The axis along which they lie there, 0 or 1.
        is_turned: Whether a step has the first two axes the other way round.
    """

    axis: int
    is_turned: bool = False

    def whole(self, block: Shape, length: int) -> Shape:
        """Return the shape in memory of a sequence of so many places, from that of a block of them."""
        first, second = (block[1], block[0]) if self.is_turned else block[:2] if self.axis else (block[0], 0)
        rest = block[2:] if self.axis or self.is_turned else block[1:]
        if self.axis:
            return (first, length, *rest)
        return (length, second, *rest) if self.is_turned else (length, *rest)

    def block(self, sequence: Array, places: slice) -> Array:
        """Return a view of a block of a sequence, as a step has it."""
        found = sequence[(slice(None),) * self.axis + (places,)]
        return found.swapaxes(0, 1) if self.is_turned else found


class Product(NamedTuple):
    """A product with constants in a body, ``result = left @ weight.T + bias``, which only the result depends on by it.

    Attributes:
        result: Its node.
        left: The node of the matrix on the left, ``(..., n_in)``: a carry.
        weight: Which of the constants it is multiplied with, ``(n_out, n_in)``.
        bias: Which of them is added, ``(n_out,)``; None if none is.
    """

    result: Node
    left: Node
    weight: int
    bias: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What a step does: nodes over leaves without values. Two bodies are never equal.

    Attributes:
        carries: The leaves of carries.
        slices: Those of slices, each with the places of a block along its axis.
        constants: Those of constants.
        new: What each carry becomes.
        rows: What is written of each step.
        slice_lies: How the sequence of each slice lies in memory.
        row_lies: Likewise of each row.
        products: Products whose constants have their gradients from all steps together.
        saved: What its last rows have of each step: nodes that a gradient may need.
        masked: Slices that have 0 at places that belong to another step as well: what adds something up counts them
            once.
    """

    carries: tuple[Leaf, ...]
    slices: tuple[Leaf, ...]
    constants: tuple[Leaf, ...]
    new: tuple[Node, ...]
    rows: tuple[Node, ...]
    slice_lies: tuple[Lie, ...]
    row_lies: tuple[Lie, ...]
    products: tuple[Product, ...] = ()
    saved: tuple[Node, ...] = ()
    masked: frozenset[Leaf] = frozenset()


class LoopStep(NamedTuple):
    """The first place of a step's block, and how many of its places belong to another step as well."""

    first: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A body, and the steps that it is run for. Two that are equal compute the same.

    Attributes:
        body: The body.
        length: How many places there are.
        block: How many of them a step has; not more than there are.
        is_backward: Whether the last step is the first one that is run.
        gradient: From the graph, the node of one output and the gradient at that to the gradients at the sources.
    """

    body: Body
    length: int
    block: int
    is_backward: bool
    gradient: Callable[[Graph, Custom, Node], Sequence[Node | None]] = field(compare=False)

    def __repr__(self) -> str:
        return f"loop of {self.length} by {self.block}"

    @property
    def steps(self) -> Iterator[LoopStep]:
        """The steps in order. Where places are left over, the first one has the last block, the rest of it skipped."""
        rest = self.length % self.block
        if rest:
            yield LoopStep(self.length - self.block, self.block - rest)
        firsts = range(0, self.length - rest, self.block)
        for first in reversed(firsts) if self.is_backward else firsts:
            yield LoopStep(first, 0)

    @property
    def outputs(self) -> tuple[tuple[Shape, DType], ...]:
        """Shape and dtype of what the carries become, then of the rows of all steps together."""
        rows = [
            (lie.whole(row.shape, self.length), row.dtype)
            for row, lie in zip(self.body.rows, self.body.row_lies, strict=True)
        ]
        return (*((leaf.shape, leaf.dtype) for leaf in self.body.carries), *rows)

    def output(self, graph: Graph, sources: tuple[Node, ...], number: int) -> Node:
        """Return the node of one output.

        Raises:
            DeviceError: The sources lie on different devices.
        """
        return graph.custom(self, sources, number, *self.outputs[number])

    def backward(self, graph: Graph, node: Custom, upstream: Node) -> Sequence[Node | None]:
        """Return the gradients at the sources."""
        return self.gradient(graph, node, upstream)

    def run(
        self,
        sources: Sequence[Array],
        evaluate: Callable[[Sequence[Node], Callable[[Node], Array]], Sequence[Array]],
    ) -> list[Array]:
        """Return the outputs; `evaluate` gives values of nodes, by those of leaves."""
        body = self.body
        first, second = len(body.carries), len(body.carries) + len(body.slices)
        state = list(sources[:first])
        values: dict[Node, Array] = dict(zip(body.constants, sources[second:], strict=True))
        results = [np.zeros(shape, dtype.numpy) for shape, dtype in self.outputs[first:]]
        for number, step in enumerate(self.steps):
            places = slice(step.first, step.first + self.block)
            values |= zip(body.carries, state, strict=True)
            for leaf, lie, sequence in zip(body.slices, body.slice_lies, sources[first:second], strict=True):
                values[leaf] = lie.block(sequence, places)
                if leaf in body.masked:
                    values[leaf] = values[leaf].copy()
                    values[leaf][: step.skipped] = 0
            found = evaluate((*body.new, *body.rows), values.__getitem__)
            state = list(found[:first])
            for place, (row, lie) in enumerate(zip(found[first:], body.row_lies, strict=True)):
                if not number:
                    results[place] = results[place].astype(row.dtype)  # float64 where all floats are
                lie.block(results[place], places)[...] = row
        return [*state, *results]
