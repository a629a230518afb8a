"""Random graphs: every kind of node, every element type, awkward shapes.

A graph grows node by node, each over nodes that are there, so values are shared and read under several maps; some
steps add a pattern that schedules treat as one (softmax, products of matrices, windows). Operations that jump
(comparisons, conversions to integers) are put on exact numbers only (`zyx.testing.tolerance`), so every element of
every output can be checked.

    case = random_case(Seeded(7), GraphOptions())
    expected = case.reference()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph.evaluate import evaluate
from zyx.graph.printer import format_graph
from zyx.graph.walk import topological
from zyx.testing.choices import Drawn
from zyx.testing.graph_steps import Growth
from zyx.testing.tolerance import error_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from zyx.dtype import DType
    from zyx.graph import Node
    from zyx.shape import Shape
    from zyx.testing.choices import Choices
    from zyx.testing.values import Array

    #: Makes a leaf that holds an array, and returns it with the array that it does hold.
    MakeLeaf = Callable[[Array], tuple[Node, Array]]


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """What a random graph may be like.

    Attributes:
        dtypes: Element types to use.
        most_nodes: Steps to take at most.
        most_elements: Size of the largest node.
        most_outputs: Nodes that are asked for at most.
        with_special: Whether leaves may hold infinities, NaN, extreme and zero values.
    """

    dtypes: tuple[DType, ...] = dtypes.ALL
    most_nodes: int = 12
    most_elements: int = 3000
    most_outputs: int = 3
    with_special: bool = True


@dataclass(slots=True)
class Reference:
    """What an output has to be.

    Attributes:
        value: By the oracle.
        bound: How far each element may be off; 0 means that the values are equal.
    """

    value: Array
    bound: Array


@dataclass(slots=True)
class GraphCase:
    """A graph and the data it works on.

    Attributes:
        graph: Made the nodes.
        outputs: What is asked for.
        values: What the leaves hold.
    """

    graph: Graph
    outputs: list[Node]
    values: dict[Node, Array] = field(default_factory=dict)

    def reference(self) -> list[Reference]:
        """Return what each output has to be."""
        known = self.references(topological(self.outputs))
        return [known[node] for node in self.outputs]

    def references(self, order: Sequence[Node]) -> dict[Node, Reference]:
        """Return what each node of `order`, which is topological, has to be."""
        values = dict(zip(order, evaluate(order, self.values.__getitem__), strict=True))
        bounds = error_bounds(order, values)
        return {node: Reference(values[node], bounds[node]) for node in order}

    def __str__(self) -> str:
        return format_graph(self.outputs)


def random_case(
    choices: Choices,
    options: GraphOptions,
    device: str = "test:0",
    graph: Graph | None = None,
    make_leaf: MakeLeaf | None = None,
) -> GraphCase:
    """Return a random graph.

    Args:
        choices: Decide about everything.
        options: What it may be like.
        device: Name of the device of all nodes.
        graph: Makes the nodes; by default a new one.
        make_leaf: Makes leaves; by default they have no storage.
    """
    graph = Graph() if graph is None else graph
    case = GraphCase(graph, [])

    def leaf(array: Array) -> Node:
        if make_leaf is None:
            node: Node = case.graph.leaf(array.shape, dtypes.as_dtype(array.dtype), device)
        else:
            node, array = make_leaf(array)
        case.values[node] = array
        return node

    growth = Growth(
        graph, device, choices, options.dtypes, options.most_elements, leaf, with_special=options.with_special
    )
    for _ in range(choices.integer(1, options.most_nodes)):
        growth.step()
    pool = growth.computed()
    count = min(len(pool), choices.integer(1, options.most_outputs))
    chosen = [pool[-1]] + [pool[choices.integer(0, len(pool) - 1)] for _ in range(count - 1)]
    case.outputs = list(dict.fromkeys(chosen))
    used = set(topological(case.outputs))
    case.values = {node: array for node, array in case.values.items() if node in used}
    return case


@st.composite
def graph_cases(draw: DrawFn, options: GraphOptions | None = None) -> GraphCase:
    """Draw a random graph."""
    return random_case(Drawn(draw), GraphOptions() if options is None else options)


@st.composite
def shapes(draw: DrawFn, most_elements: int = 3000) -> Shape:
    """Draw a shape: zero-size, rank 0, primes, sizes next to powers of two."""
    from zyx.testing.graph_steps import random_shape

    return random_shape(Drawn(draw), most_elements)


def arrays(dtype: DType, shape: Shape, *, special: float = 0.1) -> SearchStrategy[Array]:
    """Draw an array of `dtype` and `shape`, of which a part `special` are special values."""
    from zyx.testing.values import random_array

    def make(seed: int) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        return random_array(dtype, count, np.random.default_rng(seed), special=special).reshape(shape)

    return st.integers(0, 2**32 - 1).map(make)
