"""Replace the complex nodes of a graph by pairs of real ones.

Every complex node becomes two real nodes of its shape. Where its values lie or are to lie in memory, they are one real
node with one more axis, of size 2, as NumPy and C have complex numbers; the two are views of that. What treats both
parts alike, such as movement, is made twice; arithmetic is by the formulas of `zyx.pairs.formulas`. A sum of products
becomes sums of real products, which schedules and libraries know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.host_call import HostCall
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, ReduceOp
from zyx.pairs.formulas import BINARY, UNARY
from zyx.pairs.products import product, running_product
from zyx.pairs.real import Real
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph.node import Node
    from zyx.shape import Shape

Parts: TypeAlias = "tuple[Node, Node]"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph without complex numbers.

    Attributes:
        outputs: In place of what is asked for, in its order: complex ones with one more axis, of size 2. None has
            storage.
        leaves: In place of the leaves, in their order, on the same buffers.
    """

    outputs: list[Node]
    leaves: list[Node]


def lower(outputs: Sequence[Node], leaves: Sequence[Node]) -> Lowered:
    """Return the graph that computes `outputs` from `leaves` in real numbers."""
    return _Lowering().lower(outputs, leaves)


class _Lowering:
    """One graph being lowered."""

    def __init__(self) -> None:
        self._graph = Graph()
        self._real: dict[Node, Node] = {}
        self._parts: dict[Node, Parts] = {}
        self._whole: dict[Node, Node] = {}

    def lower(self, outputs: Sequence[Node], leaves: Sequence[Node]) -> Lowered:
        """See `zyx.pairs.lowering.lower`."""
        for node in topological(outputs):
            if node.dtype.is_complex:
                self._lower_complex(node)
            elif node.storage is not None or not node.sources:
                self._real[node] = node
            else:
                self._real[node] = self._real_node(node)
        results: list[Node] = []
        for node in outputs:
            result = self._whole_of(node) if node.dtype.is_complex else self._real[node]
            is_there = result.storage is not None or isinstance(result, n.Leaf) or result in results
            results.append(self._graph.copy(result) if is_there else result)
        return Lowered(results, [self._whole_of(leaf) if leaf.dtype.is_complex else leaf for leaf in leaves])

    def _lower_complex(self, node: Node) -> None:
        graph = self._graph
        if node.storage is not None or isinstance(node, n.Leaf):
            self._parts[node] = self._halves(node, self._leaf_of(node))
        elif isinstance(node, n.Contiguous):
            self._parts[node] = self._halves(node, graph.copy(self._whole_of(node.sources[0])))
        elif isinstance(node, n.ToDevice):
            self._parts[node] = self._halves(node, graph.to_device(self._whole_of(node.sources[0]), node.device))
        elif isinstance(node, n.Fourier):
            self._parts[node] = self._halves(node, self._transformed(node))
        elif isinstance(node, n.Custom):
            self._parts[node] = self._halves(node, self._hosted(node))
        else:
            self._parts[node] = self._computed(node)

    def _transformed(self, node: n.Fourier) -> Node:
        """Return a transform with complex numbers as pairs, along the middle one of three axes."""
        graph, axis = self._graph, node.axis
        x, table = node.sources
        around: Shape = (size_of(x.shape[:axis]), x.shape[axis], size_of(x.shape[axis + 1 :]))
        if x.dtype.is_complex:
            lying = graph.reshape(self._whole_of(x), (*around, 2))
        else:
            lying = graph.reshape(self._real[x], around)
        found = graph.fourier(
            lying, self._real[table], is_inverse=node.is_inverse, scale=node.scale, kind=node.kind, as_pairs=True
        )
        return graph.reshape(found, (*node.shape, 2) if node.dtype.is_complex else node.shape)

    def _hosted(self, node: n.Custom) -> Node:
        """Return an output of a call of the host, which takes and gives pairs."""
        call = node.kernel
        assert isinstance(call, HostCall)  # other kernels have no complex numbers
        are_complex = [dtype.is_complex for dtype in (*(x.dtype for x in node.sources), *(d for _, d in call.outputs))]
        sources = tuple(self._whole_of(x) if x.dtype.is_complex else self._real[x] for x in node.sources)
        outputs = tuple(
            ((*shape, 2), dtype.part) if dtype.is_complex else (shape, dtype) for shape, dtype in call.outputs
        )
        of_pairs = replace(call, outputs=outputs, pairs=tuple(are_complex))
        return self._graph.custom(of_pairs, sources, node.output, *outputs[node.output])

    def _leaf_of(self, node: Node) -> Node:
        return self._graph.leaf((*node.shape, 2), node.dtype.part, node.device, node.storage)

    def _halves(self, node: Node, whole: Node) -> Parts:
        """Return the real and the imaginary parts that lie interleaved in `whole`, which stands for `node`."""
        self._whole[node] = whole
        graph, bounds = self._graph, [(0, size) for size in node.shape]
        first, second = (
            graph.reshape(graph.shrink(whole, [*bounds, (place, place + 1)]), node.shape) for place in range(2)
        )
        return first, second

    def _whole_of(self, node: Node) -> Node:
        """Return the parts of a complex node interleaved, along one more axis."""
        if node not in self._whole:
            if node not in self._parts:  # a leaf that nothing reads
                self._whole[node] = self._leaf_of(node)
                return self._whole[node]
            graph, shape = self._graph, (*node.shape, 2)
            first, second = (graph.expand(graph.reshape(part, (*node.shape, 1)), shape) for part in self._parts[node])
            place = graph.iota(shape, node.ndim, dtypes.int32, node.device)
            is_real = graph.binary(BinaryOp.EQ, place, graph.const(0, dtypes.int32, node.device, shape))
            self._whole[node] = graph.where(is_real, first, second)
        return self._whole[node]

    def _real_node(self, node: Node) -> Node:
        """Return a real node over real sources."""
        match node:
            case n.Component(is_imaginary=is_imaginary):
                return self._parts[node.sources[0]][is_imaginary]
            case n.Custom(kernel=HostCall(outputs=outputs)) if any(
                dtype.is_complex for dtype in (*(x.dtype for x in node.sources), *(dtype for _, dtype in outputs))
            ):  # an output that is not complex is of the same call as one that is
                return self._hosted(node)
            case n.Binary(op=op) if node.sources[0].dtype.is_complex:
                return self._comparison(op, self._parts[node.sources[0]], self._parts[node.sources[1]])
            case n.Fourier() if node.sources[0].dtype.is_complex:
                return self._transformed(node)
            case _:
                return rebuild(self._graph, node, [self._real[source] for source in node.sources])

    def _comparison(self, op: BinaryOp, x: Parts, y: Parts) -> Node:
        """Return where both parts are equal, or where either differs."""
        graph = self._graph
        real, imaginary = (graph.binary(op, a, b) for a, b in zip(x, y, strict=True))
        return graph.binary(BinaryOp.AND if op is BinaryOp.EQ else BinaryOp.OR, real, imaginary)

    def _computed(self, node: Node) -> Parts:
        """Return the parts of a node that is not in memory."""
        match node:
            case n.Complex():
                return self._real[node.sources[0]], self._real[node.sources[1]]
            case n.Unary(op=unary):
                real, imaginary = UNARY[unary](self._reals(node.sources[0]))
                return real.node, imaginary.node
            case n.Binary(op=binary):
                real, imaginary = BINARY[binary](self._reals(node.sources[0]), self._reals(node.sources[1]))
                return real.node, imaginary.node
            case n.Alias():
                return self._parts[node.sources[0]]
            case n.Reduce(op=ReduceOp.PROD, axes=axes):
                return product(self._graph, *self._parts[node.sources[0]], axes)
            case n.Reduce(op=ReduceOp.SUM, axes=axes) if _is_product(node.sources[0]):
                return self._sum_of_products(node.sources[0], axes)
            case n.Scan(op=ReduceOp.PROD, axis=axis):
                return running_product(self._graph, *self._parts[node.sources[0]], axis)
            case _:
                return self._part_of(node, 0), self._part_of(node, 1)

    def _reals(self, node: Node) -> tuple[Real, Real]:
        real, imaginary = self._parts[node]
        return Real(self._graph, real), Real(self._graph, imaginary)

    def _sum_of_products(self, factors: Node, axes: tuple[int, ...]) -> Parts:
        """Return the sum along `axes` of the product of two, as four sums of real products."""
        graph = self._graph
        (a, b), (c, d) = self._parts[factors.sources[0]], self._parts[factors.sources[1]]

        def summed(x: Node, y: Node) -> Real:
            return Real(graph, graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, x, y), axes))

        return (summed(a, c) - summed(b, d)).node, (summed(a, d) + summed(b, c)).node

    def _part_of(self, node: Node, place: int) -> Node:
        """Return one part of what treats both alike, made of that part of its sources."""
        graph = self._graph
        sources = [self._parts[x][place] if x.dtype.is_complex else self._real[x] for x in node.sources]
        match node:
            case n.Cast():
                return graph.cast(sources[0], node.dtype.part)
            case n.Pad(widths=widths, value=value):
                return graph.pad(sources[0], widths, 0 if place else value)
            case _:
                return rebuild(graph, node, sources)


def _is_product(node: Node) -> bool:
    return isinstance(node, n.Binary) and node.op is BinaryOp.MUL and node.storage is None
