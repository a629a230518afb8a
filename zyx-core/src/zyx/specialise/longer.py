"""A graph of one length that has the values of all shorter ones: in front, with anything behind.

    sum(x[n] * 2)       over x[32], of which the first n elements are given:    sum(where(i < n, x * 2, 0))

Each node of the longer graph has the values of the shorter one's at all positions which that has. This holds by a rule
for each kind of node, given that it holds for the sources:

* what goes element by element, repeats or reorders axes: as it is. So do running combinations, for what is in front
  depends on what is in front, and windows;
* reductions along an axis that varies: over the elements that are there, the others being the identity;
* `Reshape`: where an axis that varies stays as it is, or is outermost of what it is merged with or split into;
* `Shrink`: from a start that does not vary;
* `Pad`: by a width in front that does not vary, what is behind being the value of the padding;
* `Reshape`, `Shrink` and `Pad` otherwise, and `Flip`: by gathering from positions that follow from the lengths;
* `Unslide`: of what is there, the rest being 0; `Sort`: the rest being last;
* `Gather`, `Scatter`: by an index which counts from the end of what is there, and is outside behind it;
* `RandomBits`: where the outermost axis varies.

For all other kinds it holds only where nothing varies.

Leaves and results lie in memory as those of the shorter graph do, without the gaps that the longer shape has: leaves
are read at places that follow from the lengths, nowhere else, and results are stored so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.ends import Ends, note_ends
from zyx.graph.given import Box, Front, Number, Packed
from zyx.graph.rebuild import rebuild
from zyx.ops import BinaryOp
from zyx.specialise.length import Length
from zyx.specialise.outline import Dims, by_node

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.shape import Shape

#: Kinds that have the values of a shorter one in front whatever varies.
_PLAIN: Final = (
    n.Unary, n.Binary, n.Where, n.Cast, n.Bitcast, n.Alias, n.Permute, n.Expand, n.Scan, n.Slide,
)  # fmt: skip


class NoPrefixError(Exception):
    """There is no such graph; the text says why."""


@dataclass(frozen=True, slots=True)
class Longer:
    """A graph for a greatest length.

    Attributes:
        outputs: What is asked for.
        leaves: What is in place of its leaves, those that are computed with; `Front` where they vary.
        lengths: The lengths that it is given, with the numbers in the graph that are their values.
        constants: The numbers in place of constants, by the constant.
    """

    outputs: list[Node]
    leaves: dict[Node, Node]
    lengths: dict[Length, Number]
    constants: dict[Node, Number]


def longer(
    outputs: Sequence[Node],
    order: Sequence[Node],
    sizes: Sequence[Length],
    bound: int | Sequence[int],
    varying: Collection[Node] = (),
) -> Longer:
    """Return the graph of length `bound` which has the values of all shorter ones.

    Args:
        outputs: What is asked for, of a graph of some length.
        order: All its nodes, sources first.
        sizes: Its sizes, as `zyx.specialise.outline` counts them.
        bound: The greatest length, or those of several.
        varying: Constants that numbers are to take the place of.

    Raises:
        NoPrefixError: A node has no rule for what varies.
        ShapeError: There is no graph of that length.
    """
    return _Longer((bound,) if isinstance(bound, int) else tuple(bound), varying).build(outputs, order, sizes)


class _Longer:
    def __init__(self, bound: tuple[int, ...], varying: Collection[Node]) -> None:
        self._graph = Graph()
        self._bound = bound
        self._varying = varying
        self._new: dict[Node, Node] = {}
        self._dims: dict[Node, Dims] = {}
        self._made = Longer([], {}, {}, {})

    def build(self, outputs: Sequence[Node], order: Sequence[Node], sizes: Sequence[Length]) -> Longer:
        for node, dims, pairs in by_node(sizes, order):
            if node.dtype.is_complex:  # strides and ends are those of parts, which are computed with
                raise NoPrefixError(f"{node!r} is of complex numbers")
            if any(size.shrinks for size in dims):
                raise NoPrefixError(f"{node!r} shrinks where others grow")
            self._dims[node] = dims
            if node.storage is not None or type(node) is n.Leaf:
                self._new[node] = self._leaf(node, dims)
                continue
            self._new[node] = self._node(node, dims, pairs)
            if self._new[node].shape != self._at(dims):
                raise NoPrefixError(f"{node!r} does not follow the length")
            if self._new[node].sources:
                note_ends(self._new[node], self._ends(dims, node.device))
        self._made.outputs.extend(self._output(node) for node in outputs)
        return self._made

    def _at(self, dims: Sequence[Length]) -> Shape:
        return tuple(size.at(*self._bound) for size in dims)

    def _leaf(self, node: Node, dims: Dims) -> Node:
        graph, shape = self._graph, self._at(dims)
        if not any(size.varies for size in dims):
            new = self._made.leaves[node] = graph.leaf(shape, node.dtype, node.device)
            return new
        front = Front((math.prod(shape),), node.dtype, node.device, ())
        self._made.leaves[node] = front
        strides, ends = self._lie(dims, node.device)
        return Box(shape, node.dtype, node.device, front, None, strides, ends=ends)

    def _output(self, node: Node) -> Node:
        dims, new = self._dims[node], self._new[node]
        if not any(size.varies for size in dims):
            return new
        if isinstance(new, n.Contiguous):  # it is in a buffer of its own
            (new,) = new.sources
        return Packed(new, *self._lie(dims, node.device))

    def _lie(self, dims: Dims, device: str) -> tuple[tuple[Number, ...], Ends]:
        """Return the numbers of how far apart places along the first axes are, and of how many there are along each."""
        strides, stride = [], Length(0, 1)
        for size in reversed(dims[1:]):
            stride *= size
            strides.append(stride)
        return tuple(self._size(stride, device) for stride in reversed(strides) if stride.varies), self._ends(
            dims, device
        )

    def _ends(self, dims: Dims, device: str) -> Ends:
        """Return the numbers of how many places there are along each axis that varies."""
        return tuple(self._size(size, device) if size.varies else None for size in dims)

    def _size(self, size: Length, device: str) -> Number:
        """Return the number of what is a size, or a product of sizes: none of them shrinks where others grow."""
        number = self._number(size, device)
        number.most = size.at(*self._bound)
        return number

    def _node(self, node: Node, dims: Dims, pairs: tuple[tuple[Length, Length], ...]) -> Node:
        graph, shape = self._graph, self._at(dims)
        sources = [self._new[source] for source in node.sources]
        match node:
            case n.Const():
                if node not in self._varying:
                    return graph.const(node.value, node.dtype, node.device, shape)
                number = self._made.constants[node] = Number((), node.dtype, node.device, ())
                return self._everywhere(number, shape)
            case n.Iota(axis=axis):
                return graph.iota(shape, axis, node.dtype, node.device)
            case Number():
                return node
            case n.Leaf() | n.ToDevice():
                raise NoPrefixError(f"{node!r} is no node of one device with values")
            case n.Reshape():
                old = self._dims[node.sources[0]]
                return graph.reshape(sources[0], shape) if _keeps_front(old, dims) else self._reshape(node, old, dims)
            case n.Expand():
                return graph.expand(sources[0], shape)
            case n.Slide(axis=axis, window=window, stride=stride, dilation=dilation):
                if dims[window].varies:
                    raise NoPrefixError(f"{node!r} has windows that vary")
                return graph.slide(sources[0], axis, window, shape[axis], stride, dilation)
            case n.Unslide(axis=axis, window=window, stride=stride, dilation=dilation):
                if dims[window].varies:
                    raise NoPrefixError(f"{node!r} has windows that vary")
                source = self._there(node.sources[0], (axis,), 0)
                return graph.unslide(source, axis, window, shape[axis], stride, dilation)
            case n.Contiguous():
                return graph.copy(sources[0])  # in a buffer of its own, of a leaf too
            case n.Shrink():
                return self._shrink(node, pairs)
            case n.Pad():
                return self._pad(node, pairs)
            case n.Reduce(op=op, axes=axes):
                return graph.reduce(op, self._there(node.sources[0], axes, ops.identity(op, node.dtype)), axes)
            case n.Flip(axes=axes):
                return self._flip(node, axes)
            case n.Sort(axis=axis, bits=bits):
                # What is not there is greatest: of equals, which stay in order, it is the last.
                return graph.sort(self._there(node.sources[0], (axis,), (1 << bits) - 1), axis, bits, shape[axis])
            case n.Gather(axis=axis):
                return graph.gather(sources[0], self._index(node, axis), axis)
            case n.Scatter(axis=axis, op=op4):
                return graph.scatter(sources[0], self._index(node, axis), sources[2], axis, op4)
            case n.RandomBits(offset=offset) if not any(size.varies for size in dims[1:]):
                return graph.random_bits(sources[0], shape, node.dtype, offset)
            case _:
                if not isinstance(node, _PLAIN) and (
                    any(size.varies for size in dims)
                    or any(size.varies for source in node.sources for size in self._dims[source])
                ):
                    raise NoPrefixError(f"{node!r} depends on all of what varies")
                return rebuild(graph, node, sources)

    def _pair(self, pair: tuple[Length, Length]) -> tuple[int, int]:
        return pair[0].at(*self._bound), pair[1].at(*self._bound)

    def _pad(self, node: n.Pad, widths: tuple[tuple[Length, Length], ...]) -> Node:
        """Return the padding; behind a source that is shorter than its bucket, the fill is selected by its length."""
        source = node.sources[0]
        kept = [(0, 0) if pair[0].varies else self._pair(pair) for pair in widths]
        padded = self._graph.pad(self._new[source], kept, node.value)
        for axis, (before, _) in enumerate(widths):
            if before.varies:
                padded = self._moved(padded, axis, self._dims[node][axis], before, is_behind=True)
        fill = self._graph.const(node.value, node.dtype, node.device, padded.shape)
        for axis, (size, (before, after)) in enumerate(zip(self._dims[source], widths, strict=True)):
            if (size.varies or before.varies) and after != Length(0, 0):
                end = size + before
                padded = self._graph.where(self._below(padded, axis, end), padded, fill)
            if before.varies:
                padded = self._graph.where(self._below(padded, axis, before), fill, padded)
        return padded

    def _shrink(self, node: n.Shrink, bounds: tuple[tuple[Length, Length], ...]) -> Node:
        source = self._new[node.sources[0]]
        kept = [
            (0, size) if pair[0].varies else self._pair(pair) for pair, size in zip(bounds, source.shape, strict=True)
        ]
        result = self._graph.shrink(source, kept)
        for axis, (start, _) in enumerate(bounds):
            if start.varies:
                result = self._moved(result, axis, self._dims[node][axis], start)
        return result

    def _flip(self, node: n.Flip, axes: Sequence[int]) -> Node:
        dims = self._dims[node]
        result = self._graph.flip(self._new[node.sources[0]], tuple(axis for axis in axes if not dims[axis].varies))
        for axis in axes:
            if dims[axis].varies:
                last = dims[axis] + Length(0, -1)
                result = self._moved(result, axis, dims[axis], last, is_back=True)
        return result

    def _moved(
        self, node: Node, axis: int, size: Length, start: Length, *, is_back: bool = False, is_behind: bool = False
    ) -> Node:
        """Return elements of `node` along an axis from one on, or back from it; any where it has none.

        If it `is_behind`, the first element comes to lie at `start`.
        """
        shape = (*node.shape[:axis], size.at(*self._bound), *node.shape[axis + 1 :])
        first, step = self._length(start, shape, node.device), self._graph.iota(shape, axis, dtypes.int32, node.device)
        left, right = (step, first) if is_behind else (first, step)
        index = self._graph.binary(BinaryOp.SUB if is_back or is_behind else BinaryOp.ADD, left, right)
        return self._graph.gather(node, index, axis)

    def _reshape(self, node: n.Reshape, old: Dims, new: Dims) -> Node:
        """Return the elements in another shape, where these do not stay in front: each from its place at the length."""
        graph, device = self._graph, node.device
        shape, source = self._at(new), self._new[node.sources[0]]
        total = (math.prod(shape),)
        place = graph.iota(total, 0, dtypes.int32, device)
        apart = self._apart(place, self._given(self._fixed(shape), total, device))
        place = self._together(apart, self._given(new, total, device))
        apart = self._apart(place, self._given(old, total, device))
        index = self._together(apart, self._given(self._fixed(source.shape), total, device))
        return graph.reshape(graph.gather(graph.reshape(source, (math.prod(source.shape),)), index, 0), shape)

    @staticmethod
    def _fixed(shape: Shape) -> Dims:
        return tuple(Length(0, size) for size in shape)

    def _given(self, sizes: Dims, shape: Shape, device: str) -> list[Node]:
        """Return the values of sizes, each over a shape."""
        return [self._length(size, shape, device) for size in sizes]

    def _apart(self, place: Node, sizes: Sequence[Node]) -> list[Node]:
        """Return the coordinates of a place among so many: the outermost is what is left."""
        found = []
        for size in reversed(sizes[1:]):
            found.append(self._graph.binary(BinaryOp.MOD, place, size))
            place = self._graph.binary(BinaryOp.DIV, place, size)
        return [place, *reversed(found)]

    def _together(self, coordinates: Sequence[Node], sizes: Sequence[Node]) -> Node:
        """Return the place of coordinates among so many."""
        graph, place = self._graph, coordinates[0]
        for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
            place = graph.binary(BinaryOp.ADD, graph.binary(BinaryOp.MUL, place, size), coordinate)
        return place

    def _index(self, node: n.Gather | n.Scatter, axis: int) -> Node:
        """Return the index of what it reads or writes along an axis.

        Of a length that varies, it counts from its end where it is negative, and is outside behind it. What there is
        no index for is written nowhere.
        """
        graph, index = self._graph, self._new[node.sources[1]]
        size, its_size = self._dims[node.sources[0]][axis], self._dims[node.sources[1]][axis]
        is_written = isinstance(node, n.Scatter) and bool(its_size.varies)
        if not size.varies and not is_written:
            return index
        if index.dtype not in (dtypes.int32, dtypes.int64):
            raise NoPrefixError(f"{node!r} has an index of {index.dtype}")
        outside = graph.const(size.at(*self._bound), index.dtype, node.device, index.shape)
        if size.varies:
            length = graph.cast(self._length(size, index.shape, node.device), index.dtype)
            zero = graph.const(0, index.dtype, node.device, index.shape)
            is_negative = graph.binary(BinaryOp.LT, index, zero)
            index = graph.where(is_negative, graph.binary(BinaryOp.ADD, index, length), index)
            index = graph.where(graph.binary(BinaryOp.LT, index, zero), outside, index)
            index = graph.where(graph.binary(BinaryOp.LT, index, length), index, outside)
        if is_written:
            index = graph.where(self._below(index, axis, its_size), index, outside)
        return index

    def _there(self, node: Node, axes: Sequence[int], fill: Scalar) -> Node:
        """Return the longer `node`, with `fill` where the shorter one has no element along `axes`."""
        new = self._new[node]
        for axis in axes:
            size = self._dims[node][axis]
            if size.varies:
                filled = self._graph.const(fill, node.dtype, node.device, new.shape)
                new = self._graph.where(self._below(new, axis, size), new, filled)
        return new

    def _below(self, node: Node, axis: int, end: Length) -> Node:
        """Return where the position along an axis of `node` is below a length."""
        position = self._graph.iota(node.shape, axis, dtypes.int32, node.device)
        return self._graph.binary(BinaryOp.LT, position, self._length(end, node.shape, node.device))

    def _length(self, length: Length, shape: Shape, device: str) -> Node:
        """Return the value of a length, over a shape."""
        if not length.varies:
            return self._graph.const(length.at(*self._bound), dtypes.int32, device, shape)
        return self._everywhere(self._number(length, device), shape)

    def _number(self, length: Length, device: str) -> Number:
        """Return the scalar node with the value of a dynamic length, at least 0."""
        number = self._made.lengths.get(length)
        if number is None:
            most = None if length.shrinks else length.at(*self._bound)
            number = self._made.lengths[length] = Number((), dtypes.int32, device, (), most=most)
        return number

    def _everywhere(self, number: Number, shape: Shape) -> Node:
        return self._graph.expand(self._graph.reshape(number, (1,) * len(shape)), shape)


def _keeps_front(old: Dims, new: Dims) -> bool:
    """Whether what is in front of one shape is in front of another one.

    Runs of axes with the same number of elements at all lengths are looked at by themselves. In each, the axes that
    vary must be one on either side, outermost there; or the run is one axis, which stays.
    """
    left, right = _plain(old), _plain(new)
    while left or right:
        group = _first_run(left, right)
        if group is None:
            return False
        i, j = group
        if any(size.varies for size in (*left[1:i], *right[1:j])):
            return False
        left, right = left[i:], right[j:]
    return True


def _plain(dims: Dims) -> list[Length]:
    """Return the axes that may have more than one element."""
    return [size for size in dims if size != Length(0, 1)]


def _first_run(left: Sequence[Length], right: Sequence[Length]) -> tuple[int, int] | None:
    """Return how many axes on either side have, for the first time, as many elements as each other at all lengths."""
    products = _products(left)
    for j, product in enumerate(_products(right), 1):
        if product in products:
            return products.index(product) + 1, j
    return None


def _products(dims: Sequence[Length]) -> list[Length]:
    """Return the elements of the first axis, of the first two, and so on."""
    found: list[Length] = []
    product = Length(0, 1)
    for size in dims:
        product = product * size
        found.append(product)
    return found
