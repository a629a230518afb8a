"""Sum windows where they overlap without writing them down.

The gradient of a convolution with respect to its input, and a transposed convolution, are made of a product for each
place of each window (a sum over channels), put back to where the windows came from, and a sum over the windows::

    windows[p, k] = sum(c) of y[p, c] * w[k, c]             x[i] = sum(k) of unslide(windows)[i, k]

Written as one sum, it reads `y` and `w` where they lie::

    x[i] = sum(k, c) of unslide(y)[i, k, c] * w[k, c]

where the first factor is 0 where no window has a place, as in a convolution with zeros around. With stride s
and dilation 1, only every s-th element of a window meets an element of `x`; so the window is divided into `j` and `r`,
and with it the result, into ``x[q * s + r]``, for which window element ``j * s + r`` meets ``y[q - j]``::

    x[q, r] = sum(j, c) of y[q - j, c] * w[j * s + r, c]

Windows that are no sums, as of the gradient of a pooling, are divided in the same way. Where they do not overlap, j has
one value, and there is nothing left to sum up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.graph.given import Number
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.shape import Shape


def sum_of_windows(
    graph: Graph,
    node: n.Reduce,
    new: Mapping[Node, Node],
    users: Mapping[Node, int],
    prepared: Callable[[n.Reduce], Node],
) -> Node | None:
    """Return `node` as a sum of less, if it is a sum over windows that nobody else needs, else None.

    These are sums themselves, or they are further apart than one place.

    Args:
        graph: To make nodes with.
        node: A reduction.
        new: What stands for the nodes below it in `graph`.
        users: How many nodes and callers need each node.
        prepared: Returns the sum that it is given as it is to be computed.
    """
    chain: list[n.Reshape | n.Permute | n.Unslide] = []
    below = node.sources[0]
    while isinstance(below, n.Reshape | n.Permute | n.Unslide) and below.storage is None and users[below] == 1:
        chain.append(below)
        below = below.sources[0]
    if node.op is not ReduceOp.SUM or not any(isinstance(step, n.Unslide) for step in chain):
        return None
    is_sum = isinstance(below, n.Reduce) and below.storage is None and users[below] == 1
    if not is_sum or not isinstance(below, n.Reduce) or below.op is not ReduceOp.SUM:
        rewriting = _Rewriting(graph, node, below.shape, (), chain[::-1], prepared)
        return rewriting.total(*rewriting.moved((new[below],))) if rewriting.divides else None
    rewriting = _Rewriting(graph, node, below.shape, below.axes, chain[::-1], prepared)
    product = new[below.sources[0]]
    if isinstance(product, n.Binary) and product.op is BinaryOp.MUL and product.storage is None:
        return rewriting.total(graph.binary(BinaryOp.MUL, *rewriting.moved(product.sources)))
    return rewriting.total(*rewriting.moved((product,)))


class _Rewriting:
    """The steps between an inner and an outer sum, to be done before both; or what is not summed up, and one sum.

    What is moved has the axes of the outer sum's source, then those that the inner one sums over, then one of the size
    of its stride for each step that was divided.
    """

    def __init__(
        self,
        graph: Graph,
        outer: n.Reduce,
        shape: Shape,
        axes: tuple[int, ...],
        steps: list[n.Reshape | n.Permute | n.Unslide],
        prepared: Callable[[n.Reduce], Node],
    ) -> None:
        self._graph = graph
        self._outer = outer
        self._shape = shape  # of the inner sum
        self._axes = axes  # that it sums over
        self._steps = steps
        self._prepared = prepared
        self._divided = [number for number in range(len(steps)) if self._can_divide(number)]

    def _can_divide(self, number: int) -> bool:
        step = self._steps[number]
        return (
            isinstance(step, n.Unslide)
            and step.stride > 1
            and step.dilation == 1
            and step.window in self._outer.axes
            and step.axis not in self._outer.axes
            and all(isinstance(later, n.Unslide) for later in self._steps[number:])
            and not any(
                {step.axis, step.window} & {other.axis, other.window}
                for other in self._steps
                if isinstance(other, n.Unslide) and other is not step
            )
        )

    @property
    def divides(self) -> bool:
        """Whether a window is divided."""
        return bool(self._divided)

    def moved(self, factors: Sequence[Node]) -> list[Node]:
        """Return the factors of what the inner sum adds up, after the steps."""
        graph, summed = self._graph, self._axes
        nodes: list[Node] = []
        for factor in factors:
            kept = [axis for axis in range(factor.ndim) if axis not in summed]
            node = graph.permute(factor, (*kept, *summed))
            nodes.append(graph.reshape(node, (*self._shape, *(factor.shape[axis] for axis in summed))))
        for number, step in enumerate(self._steps):
            rest = nodes[0].shape[step.sources[0].ndim :]
            match step:
                case n.Reshape():
                    nodes = [graph.reshape(node, (*step.shape, *rest)) for node in nodes]
                case n.Permute(order=order):
                    behind = range(len(order), len(order) + len(rest))
                    nodes = [graph.permute(node, (*order, *behind)) for node in nodes]
                case n.Unslide() if number in self._divided:
                    nodes = self._divide(nodes, step)
                case n.Unslide(axis=axis, window=window, stride=stride, dilation=dilation):
                    nodes = self._put_back(nodes, axis, window, step.shape[axis], stride, dilation)
        return nodes

    def _divide(self, nodes: Sequence[Node], step: n.Unslide) -> list[Node]:
        """Return `nodes` after a step, with the window divided by its stride, the remainder as the last axis."""
        graph, stride, window = self._graph, step.stride, step.window
        missing = -nodes[0].shape[window] % stride
        divided = []
        for node in self._lengthened(nodes, window, lambda node: _padded(graph, node, window, missing), missing):
            shape = (*node.shape[:window], node.shape[window] // stride, stride, *node.shape[window + 1 :])
            order = (*(i for i in range(len(shape)) if i != window + 1), window + 1)
            divided.append(graph.permute(graph.reshape(node, shape), order))
        return self._put_back(divided, step.axis, window, -(-step.shape[step.axis] // stride), 1, 1)

    def _put_back(
        self, nodes: Sequence[Node], axis: int, window: int, size: int, stride: int, dilation: int
    ) -> list[Node]:
        """Return `nodes` after `Graph.unslide`."""

        def unslide(node: Node) -> Node:
            return self._graph.unslide(node, axis, window, size, stride, dilation)

        return self._lengthened(nodes, axis, unslide, size - nodes[0].shape[axis])

    def _lengthened(self, nodes: Sequence[Node], axis: int, lengthen: Callable[[Node], Node], more: int) -> list[Node]:
        """Return `nodes` with an axis that `lengthen` fills up with 0.

        One that is the same all along the axis stays so, if another is 0 there.
        """
        graph = self._graph
        varying = [_varies(node, axis) for node in nodes]
        result = []
        for node, varies in zip(nodes, varying, strict=True):
            if varies or not any(varying):
                result.append(lengthen(node))
            else:
                bounds = [(0, 1 if i == axis else size) for i, size in enumerate(node.shape)]
                shape = tuple(size + more if i == axis else size for i, size in enumerate(node.shape))
                result.append(graph.expand(graph.shrink(node, bounds), shape))
        return result

    def total(self, product: Node) -> Node:
        """Return the sum over both sums' axes, in the shape of the outer one."""
        graph, outer = self._graph, self._outer
        first = outer.sources[0].ndim
        summed = (*outer.axes, *range(first, first + len(self._axes)))
        node = graph.reduce(ReduceOp.SUM, product, summed)
        node = self._prepared(node) if isinstance(node, n.Reduce) else node
        strides = node.shape[first + len(self._axes) :]
        node = graph.reshape(node, (*node.shape[:first], *strides))
        order: list[int] = []
        sizes: list[int] = []
        behind = {self._axis_of(number): first + i for i, number in enumerate(self._divided)}
        for axis in range(first):
            order += [axis, behind[axis]] if axis in behind else [axis]
            sizes.append(node.shape[axis] * (node.shape[behind[axis]] if axis in behind else 1))
        node = graph.reshape(graph.permute(node, tuple(order)), tuple(sizes))
        return graph.shrink(node, [(0, size) for size in outer.shape])

    def _axis_of(self, number: int) -> int:
        step = self._steps[number]
        assert isinstance(step, n.Unslide)  # only those are divided
        return step.axis


def _padded(graph: Graph, node: Node, axis: int, more: int) -> Node:
    return graph.pad(node, [(0, more if i == axis else 0) for i in range(node.ndim)])


def _varies(node: Node, axis: int) -> bool:
    """Whether `node` may have different values along `axis`."""
    axes = {axis}
    while axes:
        match node:
            case n.Const() | Number():
                return False
            case _ if node.storage is not None:
                return True
            case n.Expand():
                axes = {a for a in axes if node.sources[0].shape[a] == node.shape[a]}
            case n.Permute(order=order):
                axes = {order[a] for a in axes}
            case n.Reshape():
                axes = _axes_of(node.shape, node.sources[0].shape, axes)
            case n.Pad(widths=widths) if not any(any(widths[a]) for a in axes):
                pass
            case n.Unslide(axis=place, window=window) if not axes & {place, window}:
                pass
            case n.Shrink() | n.Flip():
                pass
            case _:
                return True
        node = node.sources[0]
        axes = {a for a in axes if node.shape[a] > 1}
    return False


def _axes_of(shape: Shape, source: Shape, axes: set[int]) -> set[int]:
    """Return the axes of `source` that those of `shape`, its elements in another shape, are made of."""
    found: set[int] = set()
    i = j = 0
    while i < len(shape) or j < len(source):
        start, first = i, j
        a = b = 1
        while (i < len(shape) or j < len(source)) and (a != b or (i, j) == (start, first)):
            if i < len(shape) and (a <= b or j == len(source)):
                a *= shape[i]
                i += 1
            else:
                b *= source[j]
                j += 1
        if axes & set(range(start, i)):
            found |= set(range(first, j))
    return found
