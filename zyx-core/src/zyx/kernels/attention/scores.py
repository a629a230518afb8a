"""What becomes of scores before a softmax: an expression of nodes, computed element by element within a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.kernels.code import Immediate
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.dtype import DType
    from zyx.graph.node import Node
    from zyx.kernel import data as k
    from zyx.kernels.attention.problem import Places
    from zyx.kernels.code import Code

#: Expressions of more nodes are not computed within the kernel.
_MOST_NODES: Final = 64


@dataclass(frozen=True, slots=True)
class Scores:
    """The expression.

    Attributes:
        root: Its value, float32 ``(..., queries, keys)``.
        product: The product of queries and keys, of the same shape; it may be rounded.
        read: Nodes whose values it reads from memory: of as many axes, some of which may have size 1.
        inputs: The same in the new graph.
    """

    root: Node
    product: Node
    read: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)

    @staticmethod
    def of(
        root: Node, new: Mapping[Node, Node], is_product: Callable[[Node], bool], users: Mapping[Node, int]
    ) -> Scores | None:
        """Return the expression, if it has one product in it and can be computed element by element."""
        products: dict[Node, None] = {}
        read: dict[Node, None] = {}
        seen = {root}
        stack = [root]
        while stack:
            node = stack.pop()
            if is_product(node):
                products[node] = None
                continue
            if node.storage is not None or not isinstance(node, _ELEMENTWISE):
                if node.shape[-2:] == root.shape[-2:] and node.ndim == root.ndim and users[node] > 1:
                    return None  # as large as the scores, and needed elsewhere: it is there, or will be
                read[node] = None
                continue
            for source in node.sources:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        if len(products) != 1 or len(seen) > _MOST_NODES or root.dtype is not dtypes.float32:
            return None
        if any(node.ndim != root.ndim for node in read):
            return None
        (product,) = products
        return Scores(root, product, list(read), [new[node] for node in read])

    @property
    def arrays(self) -> Sequence[tuple[DType, int]]:
        """The dtype and length of each array that is read."""
        return [(node.dtype, size_of(node.shape)) for node in self.inputs]

    def written(self, code: Code, arrays: Sequence[k.ValueId], score: k.ValueId, places: Places) -> k.ValueId:
        """Write the expression for several scores, and return its values."""
        return _Writer(self, code, arrays, score, places).value(self.root)


_ELEMENTWISE: Final = (n.Unary, n.Binary, n.Where, n.Cast, n.Alias, n.Expand, n.Const, n.Iota)


class _Writer:
    def __init__(
        self, scores: Scores, code: Code, arrays: Sequence[k.ValueId], score: k.ValueId, places: Places
    ) -> None:
        self._code = code
        self._places = places
        self._lanes = code.type_of(score).lanes
        self._arrays = dict(zip(scores.read, arrays, strict=True))
        self._shape = scores.root.shape
        product = scores.product
        self._values: dict[Node, k.ValueId] = {product: code.cast(score, product.dtype)}

    def value(self, node: Node) -> k.ValueId:
        """Return the values of a node."""
        found = self._values.get(node)
        if found is None:
            found = self._values[node] = self._written(node)
        return found

    def _written(self, node: Node) -> k.ValueId:
        code, lanes = self._code, self._lanes
        if node in self._arrays:
            return self._read(node)
        match node:
            case n.Const(value=value):
                return code.const(value, node.dtype, lanes)
            case n.Iota(axis=axis) if node.shape[axis] > 1:
                return code.cast(self._coordinate(axis), node.dtype)
            case n.Iota():
                return code.const(0, node.dtype, lanes)
            case n.Unary(op=op):
                return code.unary(op, self.value(node.sources[0]))
            case n.Binary(op=op2):
                return code.binary(op2, *(self.value(source) for source in node.sources))
            case n.Where():
                return code.where(*(self.value(source) for source in node.sources))
            case n.Cast():
                return code.cast(self.value(node.sources[0]), node.dtype)
            case _:  # repeated, or the same
                return self.value(node.sources[0])

    def _coordinate(self, axis: int) -> k.ValueId:
        """Return the coordinate along an axis, int32."""
        code, places, batch = self._code, self._places, self._shape[:-2]
        if axis >= len(batch):
            return places.query if axis == len(batch) else places.key
        return code.splat(code.cast(self._batch_coordinate(axis), dtypes.int32), self._lanes)

    def _batch_coordinate(self, axis: int) -> k.ValueId:
        code, batch = self._code, self._shape[:-2]
        behind = size_of(batch[axis + 1 :])
        return code.rest(code.over(self._places.head, Immediate(behind)), Immediate(batch[axis]))

    def _read(self, node: Node) -> k.ValueId:
        """Return elements of an array; those behind the last query or key are read from these."""
        code, shape = self._code, node.shape
        start, step = code.at(0), 1
        steps: list[int] = []
        for size in reversed(shape):
            steps.insert(0, step)
            step *= size
        for axis in range(len(shape) - 2):
            if shape[axis] > 1:
                start = code.plus(start, code.times(self._batch_coordinate(axis), Immediate(steps[axis])))
        lanes: list[k.ValueId] = []
        known: dict[tuple[int, ...], k.ValueId] = {}
        for lane in range(self._lanes):
            which = (lane // 2 if shape[-2] > 1 else 0, lane % 2 if shape[-1] > 1 else 0)
            if which not in known:
                index = start
                for axis, vector in ((-2, self._places.query), (-1, self._places.key)):
                    if shape[axis] > 1:
                        place = code.cast(code.devectorize(vector, lane), code.position)
                        place = code.least(place, Immediate(shape[axis] - 1))
                        index = code.plus(index, code.times(place, Immediate(steps[axis])))
                known[which] = code.load(self._arrays[node], index)
            lanes.append(known[which])
        return code.vectorize(tuple(lanes))
