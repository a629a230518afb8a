"""Give nodes an axis of examples in front: one graph that computes for many examples what another computes for one.

    %0: f32[3] = leaf                          %0: f32[8, 3] = leaf
    %1: f32[4, 3] = leaf                       %1: f32[4, 3] = leaf
    %2: f32[4, 3] = expand %0           =>     %2: f32[8, 4, 3] = expand %0
    %3: f32[4, 3] = mul %2, %1                 %3: f32[8, 4, 3] = mul %2, expand %1
    %4: f32[4, 1] = sum %3, axes=1             %4: f32[8, 4, 1] = sum %3, axes=2

Nodes that depend on no leaf with such an axis stay as they are. There is one rule for each kind of node, in
`_Batching._with_axis` and `_moved`; what functions are composed of nodes has none of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from zyx.graph import node as n
from zyx.graph.batched_loops import batched_loop
from zyx.graph.host_call import HostCall
from zyx.graph.loop import Loop
from zyx.graph.making import joined
from zyx.graph.rebuild import elementwise_over, rebuild
from zyx.graph.walk import below, with_inputs_of_rules
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx.graph.base import AliasRule
    from zyx.graph.graph import Graph
    from zyx.graph.node import Alias, Custom, Leaf, Node
    from zyx.shape import Shape

Array: TypeAlias = "npt.NDArray[Any]"
#: From an alias of one example to the rule of that of all, given what `batched` is given, with what the inputs of the
#: rule are of all examples, those that differ, and the source.
RuleOfAll: TypeAlias = "Callable[[Alias, Mapping[Node, Node], Mapping[Leaf, Node], Examples], AliasRule]"


class Examples(NamedTuple):
    """Which examples a graph computes.

    Attributes:
        size: How many they are.
        first: The number of the first one, among all.
        total: How many there are in all.
    """

    size: int
    first: int
    total: int

    @classmethod
    def all_of(cls, count: int) -> Examples:
        """Return so many, which are all that there are."""
        return cls(count, 0, count)


def batched(
    graph: Graph,
    outputs: Sequence[Node],
    values: Mapping[Node, Node],
    examples: Examples,
    streams: Mapping[Leaf, Node] | None = None,
    rule_of_all: RuleOfAll | None = None,
) -> list[Node | None]:
    """Return `outputs` of all examples, with one more axis in front; None for those that are the same for all.

    Args:
        graph: Makes the nodes.
        outputs: Of one example.
        values: What leaves, or other nodes, stand for, with the axis in front.
        examples: Which they are.
        streams: What leaves stand for that are states of random generators of which each example has words of its own:
            the state. Of ``total`` examples, number i has of each draw the words from ``i`` times the size of the draw
            on.
        rule_of_all: Makes the rules by which gradients go on. None is for what no gradient is asked for.
    """
    return _Batching(graph, values, examples, streams or {}, rule_of_all).of(outputs)


class _Batching:
    """One graph that is given an axis; see `batched`."""

    def __init__(
        self,
        graph: Graph,
        values: Mapping[Node, Node],
        examples: Examples,
        streams: Mapping[Leaf, Node],
        rule_of_all: RuleOfAll | None,
    ) -> None:
        self._graph = graph
        self._rule_of_all = rule_of_all
        self._values = values
        self._examples = examples
        self._streams = streams
        self._new: dict[Node, Node] = dict(values.items())
        self._lifted: dict[Node, Node] = {}

    def of(self, outputs: Sequence[Node]) -> list[Node | None]:
        """See `batched`."""
        new = self._new
        for node in with_inputs_of_rules(outputs):
            if node in new:
                continue
            if isinstance(node, n.RandomBits) and node.sources[0] in self._streams:
                new[node] = self._drawn(node)
            elif any([source in new for source in below(node)]):
                new[node] = self._with_axis(node)
        return [new.get(node) for node in outputs]

    def _all(self, node: Node) -> Node:
        """Return `node` with the axis, along which it is repeated if it has none."""
        found = self._new.get(node) or self._lifted.get(node)
        if found is None:
            graph, shape = self._graph, node.shape
            found = graph.expand(graph.reshape(node, (1, *shape)), (self._examples.size, *shape))
            self._lifted[node] = found
        return found

    def _with_axis(self, node: Node) -> Node:
        """Return `node` with the axis, made of its sources with it."""
        graph = self._graph
        match node:
            case n.Gather(axis=axis) if node.sources[0] not in self._new:
                return self._gathered(node, axis)
            case n.Fourier() if node.sources[1] not in self._new:
                return graph.fourier(
                    self._new[node.sources[0]], node.sources[1], node.axis + 1, is_inverse=node.is_inverse,
                    scale=node.scale, kind=node.kind,
                )  # fmt: skip
            case n.RandomBits() | n.Fourier():
                return self._one_by_one(node)
            case n.Custom():
                return self._custom(node)
            case n.Alias(detached=False):
                return self._alias(node)
            case _:
                pass
        x, *others = sources = [self._all(source) for source in node.sources]
        match node:
            case n.Reshape() | n.Expand() | n.Permute() | n.Pad() | n.Shrink() | n.Flip() | n.Slide() | n.Unslide():
                return _moved(graph, node, x)
            case n.Unary() | n.Binary() | n.Where() | n.Cast() | n.Bitcast() | n.Complex() | n.Component():
                return elementwise_over(graph, node, sources)
            case n.Reduce(op=reduction, axes=axes):
                return graph.reduce(reduction, x, tuple([axis + 1 for axis in axes]))
            case n.Scan(op=reduction, axis=axis):
                return graph.scan(reduction, x, axis + 1)
            case n.Gather(axis=axis):
                return graph.gather(x, others[0], axis + 1)
            case n.Scatter(axis=axis, op=combining):
                return graph.scatter(x, others[0], others[1], axis + 1, combining)
            case n.Sort(axis=axis, bits=bits):
                return graph.sort(x, axis + 1, bits, node.shape[axis])
            case n.Contiguous():
                return graph.contiguous(x)
            case n.ToDevice():
                return graph.to_device(x, node.device)
            case n.Alias():
                return graph.detach(x)
            case _:
                raise TypeError(f"{node!r} has no rule for an axis of examples")

    def _alias(self, node: Alias) -> Node:
        """Return an alias of all examples, so that gradients at it are its own, and go where they go for one."""
        x, rule = self._all(node.sources[0]), None
        if self._rule_of_all is not None and (node.rule is not None or node.watch is not None):
            inputs = {each: self._new[each] for each in below(node) if each in self._new}
            values = {**self._values, **inputs, node.sources[0]: x}
            rule = self._rule_of_all(node, values, self._streams, self._examples)
        return self._graph.alias(x, rule)

    def _gathered(self, node: Node, axis: int) -> Node:
        """Return reads of what is the same for all examples, by indices that are not: it is not repeated for each.

        The places of all examples are one axis: ``index[example, .., i, ..]`` is read as ``index[.., example * n + i,
        ..]``.
        """
        graph, (data, index) = self._graph, node.sources
        shape, count = index.shape, self._examples.size
        to_axis = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
        to_front = (axis, *range(axis), *range(axis + 1, len(shape) + 1))
        places = graph.permute(self._new[index], to_axis)
        places = graph.reshape(places, (*shape[:axis], count * shape[axis], *shape[axis + 1 :]))
        found = graph.reshape(graph.gather(data, places, axis), (*shape[:axis], count, *shape[axis:]))
        return graph.permute(found, to_front)

    def _drawn(self, node: n.RandomBits) -> Node:
        """Return random words, of each example its own ones."""
        count, first, total = self._examples
        offset = node.offset * total + first * size_of(node.shape)
        state = self._streams[node.sources[0]]  # type: ignore[index]  # the streams have it
        return self._graph.random_bits(state, (count, *node.shape), node.dtype, offset)

    def _custom(self, node: Custom) -> Node:
        """Return an output of a kernel of all examples."""
        match node.kernel:
            case HostCall() as call:
                sources = tuple([self._all(source) for source in node.sources])
                hosted = _called_for_all(call, self._examples.size, [source.shape for source in node.sources])
                return self._graph.custom(hosted, sources, node.output, *hosted.outputs[node.output])
            case Loop() as loop:
                sources = tuple([self._new.get(source, source) for source in node.sources])
                are_batched = tuple([source in self._new for source in node.sources])
                return batched_loop(self._graph, loop, sources, are_batched, self._examples.size, node.output)
            case _:
                return self._one_by_one(node)

    def _one_by_one(self, node: Node) -> Node:
        """Return what is made of each example alone, joined."""
        graph, parts = self._graph, []
        for example in range(self._examples.size):
            sources = []
            for source in node.sources:
                found = self._new.get(source)
                if found is not None:
                    bounds = ((example, example + 1), *[(0, size) for size in source.shape])
                    found = graph.contiguous(graph.reshape(graph.shrink(found, bounds), source.shape))
                sources.append(source if found is None else found)
            parts.append(graph.reshape(rebuild(graph, node, sources), (1, *node.shape)))
        return joined(graph, parts, 0)


def _moved(graph: Graph, node: n.Movement, x: Node) -> Node:
    """Return `x`, which has an axis of examples, moved along the others as `node` moves its source."""
    count = x.shape[0]
    match node:
        case n.Reshape():
            return graph.reshape(x, (count, *node.shape))
        case n.Expand():
            return graph.expand(x, (count, *node.shape))
        case n.Permute(order=order):
            return graph.permute(x, (0, *[axis + 1 for axis in order]))
        case n.Pad(widths=widths, value=value):
            return graph.pad(x, ((0, 0), *widths), value)
        case n.Shrink(bounds=bounds):
            return graph.shrink(x, ((0, count), *bounds))
        case n.Flip(axes=axes):
            return graph.flip(x, tuple([axis + 1 for axis in axes]))
        case n.Slide(axis=axis, window=window, stride=stride, dilation=dilation):
            return graph.slide(x, axis + 1, window + 1, node.shape[axis], stride, dilation)
        case n.Unslide(axis=axis, window=window, stride=stride, dilation=dilation):
            return graph.unslide(x, axis + 1, window + 1, node.shape[axis], stride, dilation)


# ---- calls of the host


@dataclass(frozen=True, slots=True)
class _Each:
    """A function of arrays, called for each example."""

    function: Callable[..., Sequence[Array]]
    inputs: int

    def __call__(self, *given: Any) -> list[Array]:  # noqa: ANN401  # arrays, then parameters
        arrays, parameters = given[: self.inputs], given[self.inputs :]
        found = [self.function(*each, *parameters) for each in zip(*arrays, strict=True)]
        return [np.stack(parts) for parts in zip(*found, strict=True)]


def _called_for_all(call: HostCall, count: int, shapes: Sequence[Shape]) -> HostCall:
    """Return the call for so many examples, all of whose inputs have one more axis in front."""
    function = call.function if call.takes_stacks else _Each(call.function, len(shapes))
    outputs = tuple([((count, *shape), dtype) for shape, dtype in call.outputs])
    gradient = None if call.gradient is None else _gradient_of_all(call, count)
    return replace(call, function=function, outputs=outputs, gradient=gradient)


def _gradient_of_all(call: HostCall, count: int) -> Callable[[Graph, Custom, Node], list[Node | None]]:
    """Return the gradient of a call for all examples: that of a call for one, with an axis in front."""

    def gradient(graph: Graph, node: Custom, upstream: Node) -> list[Node | None]:
        def stand_in(shape: Shape, dtype: DType) -> Leaf:
            return graph.leaf(shape, dtype, node.device)

        one = tuple([stand_in(source.shape[1:], source.dtype) for source in node.sources])
        slope = stand_in(upstream.shape[1:], upstream.dtype)
        output = graph.custom(call, one, node.output, *call.outputs[node.output])
        found = call.backward(graph, output, slope)  # type: ignore[arg-type]  # it is such a node
        wanted = [part for part in found if part is not None]
        values: dict[Node, Node] = dict(zip((*one, slope), (*node.sources, upstream), strict=True))
        examples = Examples.all_of(count)
        parts = iter(whole_of(graph, wanted, batched(graph, wanted, values, examples), examples))
        return [None if part is None else next(parts) for part in found]

    return gradient


def whole_of(graph: Graph, nodes: Sequence[Node], found: Sequence[Node | None], examples: Examples) -> list[Node]:
    """Return what `batched` found of `nodes`, those that are the same for all examples repeated for each."""
    return [
        graph.expand(graph.reshape(node, (1, *node.shape)), (examples.size, *node.shape)) if new is None else new
        for node, new in zip(nodes, found, strict=True)
    ]
