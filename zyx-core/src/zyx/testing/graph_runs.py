"""Run graphs on a device, and compare them with the oracle.

    runner = GraphRunner(runtime, "c:0")
    runner.run([seed], options)             a random graph, or several at once
    runner.check(case_of(...))              a graph of one's own

Every graph is computed several times over other values, so that its plan is made, taken from the cache, and captured
where the device can; some with other constants, too, so that kernels are given them. Its outputs are asked for
together, or one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import as_dtype
from zyx.graph import Graph, Node
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.ops import BinaryOp
from zyx.runtime.handle import Handle
from zyx.testing.choices import Seeded
from zyx.testing.compare import assert_within
from zyx.testing.graphs import GraphCase, random_case
from zyx.testing.shrink import shrink, transplant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType, Scalar
    from zyx.runtime.runtime import Runtime
    from zyx.testing.graphs import GraphOptions
    from zyx.testing.values import Array

#: How often each graph is computed: the second time by the same plan, captured if the device can.
TURNS = 2


class GraphRunner:
    """Runs graphs on a device.

    Attributes:
        runtime: What computes them.
        device: Full name of the device.
        graphs: How many different random ones were run.
        outputs: How many outputs were compared.
    """

    def __init__(self, runtime: Runtime, device: str) -> None:
        self.runtime = runtime
        self.device = runtime.device_name(device)
        self.graphs = 0
        self.outputs = 0

    def run(self, seeds: Sequence[int], options: GraphOptions) -> None:
        """Run the random graphs of some seeds, all of them together.

        Raises:
            AssertionError: An output is not what it has to be; notes have the seeds, the graph and its smallest part
                that fails. The same holds for errors of other classes.
        """
        self.graphs += len(seeds)
        case = self.random(seeds, options)
        one_by_one = len(seeds) == 1 and seeds[0] % 4 == 0
        has_other_constants = len(seeds) == 1 and seeds[0] % 4 < 2
        try:
            self.check(case, one_by_one=one_by_one, has_other_constants=has_other_constants)
        except Exception as error:
            error.add_note(f"seeds {list(seeds)} on {self.device}, {options}:\n{case}")
            kind = type(error)
            smallest = shrink(case, lambda part: self._fails(part, kind))
            error.add_note(f"its smallest part that fails:\n{smallest}")
            raise

    def random(self, seeds: Sequence[int], options: GraphOptions) -> GraphCase:
        """Return the random graphs of some seeds, as one; its nodes belong to no runtime."""
        graph = Graph()
        cases = [random_case(Seeded(seed), options, self.device, graph) for seed in seeds]
        values = {node: array for case in cases for node, array in case.values.items()}
        return GraphCase(graph, list(dict.fromkeys(node for case in cases for node in case.outputs)), values)

    def check(self, case: GraphCase, *, one_by_one: bool = False, has_other_constants: bool = False) -> None:
        """Compute the outputs of a graph, together or one by one, and compare them with the oracle.

        Afterwards perhaps those of graphs that differ in nothing but their constants.
        """
        for turn in range(TURNS):
            self._check_once(case if turn == 0 else _over_other_values(case, turn), one_by_one=one_by_one)
        if has_other_constants and any(isinstance(node, n.Const) for node in topological(case.outputs)):
            for turn in range(TURNS):
                self._check_once(with_other_constants(case, turn + 1), one_by_one=one_by_one)

    def results(self, case: GraphCase) -> list[Array]:
        """Compute the outputs of a graph once, and return them."""
        handles = self.handles(case)
        self.runtime.realize(handles)
        return [self.runtime.download(handle) for handle in handles]

    def handles(self, case: GraphCase) -> list[Handle]:
        """Return handles of the outputs of a graph, not computed yet, over leaves with its values."""
        nodes = self.upload(case)
        return [Handle.of(node, self.runtime) for node in nodes]

    def upload(self, case: GraphCase) -> list[Node]:
        """Return the outputs of a graph as nodes of the runtime, over leaves with its values."""
        return transplant(
            case.outputs, self.runtime.graph, lambda node: self.runtime.upload(case.values[node], self.device)
        )

    def _check_once(self, case: GraphCase, *, one_by_one: bool) -> None:
        references = case.reference()
        handles = self.handles(case)
        for some in [[handle] for handle in handles] if one_by_one else [handles]:
            self.runtime.realize(some)
        for handle, reference, node in zip(handles, references, case.outputs, strict=True):
            self.outputs += 1
            assert_within(self.runtime.download(handle), reference, f"output {node!r}")

    def _fails(self, part: GraphCase, kind: type[Exception]) -> bool:
        """Whether a part of a graph raises an error of a class: any other is another story."""
        try:
            self.check(part, has_other_constants=True)
        except Exception as error:  # noqa: BLE001  # whatever it raises is what is looked for
            return isinstance(error, kind)
        return False


def _over_other_values(case: GraphCase, turn: int) -> GraphCase:
    """Return the same graph with the elements of each leaf moved on by `turn` places."""
    values = {node: np.roll(array.ravel(), turn).reshape(array.shape) for node, array in case.values.items()}
    return GraphCase(case.graph, case.outputs, values)


def with_other_constants(case: GraphCase, turn: int) -> GraphCase:
    """Return the same graph with other constants, and slices of leaves that begin elsewhere, where they may.

    What values are shifted by stays.
    """
    order = topological(case.outputs)
    shifts = {
        node.sources[1] for node in order if isinstance(node, n.Binary) and node.op in (BinaryOp.SHL, BinaryOp.SHR)
    }
    graph = Graph()
    leaves: dict[Node, Node] = {}
    given: dict[Node, Node] = {}

    def make_leaf(node: Node) -> Node:
        if node not in leaves:
            leaves[node] = graph.leaf(node.shape, node.dtype, node.device)
        return leaves[node]

    for node in order:
        if isinstance(node, n.Const) and node not in shifts:
            other = _other_constant(node.value, node.dtype, turn)
            given[node] = graph.const(other, node.dtype, node.device, node.shape)
        elif isinstance(node, n.Shrink) and isinstance(node.sources[0], n.Leaf):
            bounds = []
            for (low, high), size in zip(node.bounds, node.sources[0].shape, strict=True):
                start = (low + turn) % (size - high + low + 1)
                bounds.append((start, start + high - low))
            given[node] = graph.shrink(make_leaf(node.sources[0]), bounds)
    outputs = transplant(case.outputs, graph, make_leaf, given)
    values = {leaf: case.values[node] for node, leaf in leaves.items()}
    return GraphCase(graph, list(dict.fromkeys(outputs)), values)


def _other_constant(value: Scalar, dtype: DType, turn: int) -> Scalar:
    """Return something like `value`, which stays below what masks and small types hold."""
    if dtype.is_float:
        return dtype.to_scalar(float(value) + turn / 4)
    if dtype.is_bool:
        return bool(value) != bool(turn % 2)
    return int(value) + turn if not dtype.is_unsigned and 0 < value < 64 else value


def case_of(device: str, arrays: Sequence[Array], make: Callable[..., Node | Sequence[Node]]) -> GraphCase:
    """Return the graph whose outputs are ``make(graph, leaf, leaf, ...)``, with a leaf for each array."""
    graph = Graph()
    leaves: list[Node] = [graph.leaf(array.shape, as_dtype(array.dtype), device) for array in arrays]
    made = make(graph, *leaves)
    outputs = [made] if isinstance(made, Node) else made
    return GraphCase(graph, list(dict.fromkeys(outputs)), dict(zip(leaves, arrays, strict=True)))
