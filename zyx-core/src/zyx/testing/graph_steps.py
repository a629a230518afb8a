"""The steps by which random graphs grow; a part of `zyx.testing.graphs`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp, binary_ops, identity, reduce_ops, unary_ops
from zyx.shape import size_of
from zyx.testing.tolerance import Exactness, exactness
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType, Scalar
    from zyx.graph import Graph, Node
    from zyx.shape import Shape
    from zyx.testing.choices import Choices
    from zyx.testing.values import Array

_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 65, 97)
#: Integer types for positions: of every width, and unsigned ones.
_INDEX_TYPES: Final = (
    dtypes.int64,
    dtypes.int32,
    dtypes.uint32,
    dtypes.int16,
    dtypes.int8,
    dtypes.uint64,
    dtypes.uint8,
)
_ROUNDING: Final = (UnaryOp.FLOOR, UnaryOp.TRUNC)


def random_shape(choices: Choices, most_elements: int) -> Shape:
    """Return a shape of rank 0 to 4; now and then one without elements."""
    shape: list[int] = []
    for _ in range(choices.pick((2, 1, 3, 2, 0, 4))):
        fitting = [size for size in _SIZES if size * math.prod(shape) <= most_elements]
        shape.append(choices.pick(fitting))
    if shape and choices.chance(3):
        shape[choices.integer(0, len(shape) - 1)] = 0
    return tuple(shape)


class Growth:
    """A graph while it grows.

    Args:
        graph: Makes the nodes.
        device: Their device.
        choices: Decide about everything.
        used: Element types to use.
        most_elements: Size of the largest node.
        make_leaf: Makes leaves.
        with_special: Whether leaves may hold infinities, NaN, extreme and zero values.
    """

    def __init__(
        self,
        graph: Graph,
        device: str,
        choices: Choices,
        used: tuple[DType, ...],
        most_elements: int,
        make_leaf: Callable[[Array], Node],
        *,
        with_special: bool,
    ) -> None:
        self.graph = graph
        self.device = device
        self.choices = choices
        self.dtypes = used
        self.most_elements = most_elements
        self.pool: list[Node] = []
        self._make_leaf = make_leaf
        self._with_special = with_special
        self._exactness: dict[Node, Exactness] = {}
        self._leaf(random_shape(choices, most_elements), choices.pick(used))

    def computed(self) -> list[Node]:
        """Return the nodes that are no leaves; one is made if there is none."""
        while not any(not isinstance(node, n.Leaf) for node in self.pool):
            node = self.pool[-1]
            self._add(
                self.graph.where(self.graph.const(True, dtypes.bool_, self.device, node.shape), node, self._like(node))
            )
        return [node for node in self.pool if not isinstance(node, n.Leaf)]

    def step(self) -> None:
        """Add a node or a few."""
        steps = (
            self._binary, self._unary, self._movement, self._reduce, self._normalise, self._broadcast, self._cast,
            self._compare, self._where, self._movement, self._scan, self._gather, self._scatter, self._matmul,
            self._windows, self._bitcast, self._source, self._boundary, self._binary, self._sort,
        )  # fmt: skip
        self.choices.pick(steps)()

    # ---- choosing

    def _add(self, node: Node) -> Node:
        """Take in `node`, and whatever it is made of that is not known yet."""
        stack = [node]
        while stack:
            current = stack[-1]
            missing = [source for source in current.sources if source not in self._exactness]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if current not in self._exactness:
                self._exactness[current] = exactness(current, self._exactness)
        if node not in self.pool:
            self.pool.append(node)
        return node

    def _any(self, *, exact: bool = False, least_rank: int = 0) -> Node:
        """Return a node, rather a late one; with `exact`, one whose values are."""
        found = [
            node
            for node in self.pool
            if node.ndim >= least_rank and (not exact or self._exactness[node] is not Exactness.ROUGH)
        ]
        if not found or self.choices.chance(5):
            shape = random_shape(self.choices, self.most_elements)
            while len(shape) < least_rank:
                shape = (*shape, self.choices.pick((2, 3, 5)) if size_of(shape) * 5 <= self.most_elements else 1)
            return self._leaf(shape, self.choices.pick(self.dtypes))
        late = found[-4:]
        return self.choices.pick(late) if self.choices.chance(70) else self.choices.pick(found)

    def _leaf(self, shape: Shape, dtype: DType) -> Node:
        random = np.random.default_rng(self.choices.integer(0, 2**32 - 1))
        special = 0.1 if self._with_special and self.choices.chance(25) else 0.0
        return self._add(self._make_leaf(random_array(dtype, size_of(shape), random, special=special).reshape(shape)))

    def _like(self, x: Node, *, exact: bool = False) -> Node:
        """Return a node of the shape and dtype of `x`: one there is, one converted or repeated, a leaf, a constant."""
        graph, choices = self.graph, self.choices
        same = [node for node in self.pool if node.shape == x.shape and self._is_fit(node, exact=exact)]
        twins = [node for node in same if node.dtype is x.dtype]
        convertible = [node for node in same if self._can_cast(node, x.dtype)]
        rows = [node for node in self.pool if self._fits_rows(node, x) and self._is_fit(node, exact=exact)]
        for options, percent in ((twins, 50), (rows, 50), (convertible, 50)):
            if options and choices.chance(percent):
                found = choices.pick(options)
                return graph.expand(graph.cast(found, x.dtype), x.shape)
        if choices.chance(30):
            return graph.const(self._scalar(x.dtype), x.dtype, self.device, x.shape)
        thin = tuple(1 if choices.chance(30) else size for size in x.shape)
        return graph.expand(self._leaf(thin, x.dtype), x.shape)

    def _is_fit(self, node: Node, *, exact: bool) -> bool:
        return not exact or self._exactness[node] is not Exactness.ROUGH

    def _fits_rows(self, node: Node, x: Node) -> bool:
        """Whether `node` has the rank of `x` and can be repeated to its shape."""
        return (
            node.ndim == x.ndim
            and node.shape != x.shape
            and all(a in (1, b) for a, b in zip(node.shape, x.shape, strict=True))
            and self._can_cast(node, x.dtype)
        )

    def _can_cast(self, node: Node, dtype: DType) -> bool:
        return dtype.is_float or not node.dtype.is_float or self._exactness[node] is not Exactness.ROUGH

    def _scalar(self, dtype: DType) -> Scalar:
        if dtype.is_float:
            return self.choices.pick((1.0, 0.0, 2.0, -1.0, 0.5, -0.0, 3.25, -1.5))
        if dtype.is_bool:
            return self.choices.chance(50)
        return int(dtype.to_scalar(self.choices.pick((1, 0, 2, 3, -1, 7, 100, -128))))

    # ---- element by element

    def _unary(self) -> None:
        x = self._any()
        is_rough = self._exactness[x] is Exactness.ROUGH
        ops = [op for op in UnaryOp if op in unary_ops(x.dtype) and not (is_rough and op in _ROUNDING)]
        self._add(self.graph.unary(self.choices.pick(ops), x))

    def _binary(self) -> None:
        x = self._any()
        ops = [op for op in BinaryOp if op in binary_ops(x.dtype) and op not in COMPARISONS]
        if self._exactness[x] is Exactness.ROUGH:
            ops.remove(BinaryOp.MOD)
        op = self.choices.pick(ops)
        if op is BinaryOp.POW and x.dtype.is_float and self.choices.chance(70):
            op = BinaryOp.MUL
        y = self._like(x, exact=op is BinaryOp.MOD)
        if self.choices.chance(30) and op is not BinaryOp.MOD:
            x, y = y, x
        self._add(self.graph.binary(op, x, y))

    def _compare(self) -> None:
        x = self._any(exact=True)
        op = self.choices.pick([op for op in BinaryOp if op in COMPARISONS])
        self._add(self.graph.binary(op, x, self._like(x, exact=True)))

    def _where(self) -> None:
        x = self._any()
        graph = self.graph
        conditions = [node for node in self.pool if node.dtype.is_bool and node.shape == x.shape]
        if conditions and self.choices.chance(60):
            condition = self.choices.pick(conditions)
        elif x.ndim and self.choices.chance(50):
            axis = self.choices.integer(0, x.ndim - 1)
            place = graph.iota(x.shape, axis, dtypes.int32, self.device)
            limit = graph.const(self.choices.integer(0, x.shape[axis]), dtypes.int32, self.device, x.shape)
            condition = graph.binary(BinaryOp.LT, place, limit)
        else:
            condition = self._like(graph.const(True, dtypes.bool_, self.device, x.shape))
        self._add(graph.where(condition, x, self._like(x)))

    def _cast(self) -> None:
        x = self._any()
        target = self.choices.pick(self.dtypes)
        if self._can_cast(x, target):
            self._add(self.graph.cast(x, target))

    def _bitcast(self) -> None:
        x = self._any()
        targets = [t for t in self.dtypes if t.bits == x.dtype.bits and not t.is_bool and not x.dtype.is_bool]
        if targets and self._exactness[x] is Exactness.BITS:
            self._add(self.graph.bitcast(x, self.choices.pick(targets)))

    # ---- movement

    def _movement(self) -> None:
        """Move elements, often several times over: maps of indices are composed."""
        moves = (
            self._permute, self._reshape, self._flip, self._shrink, self._pad, self._expand, self._slide, self._unslide,
            self._reshape, self._permute, self._flip,
        )  # fmt: skip
        for _ in range(self.choices.pick((1, 1, 2, 4))):
            self.choices.pick(moves)()

    def _permute(self) -> None:
        x = self._any(least_rank=1)
        remaining, order = list(range(x.ndim)), []
        while remaining:
            order.append(remaining.pop(self.choices.integer(0, len(remaining) - 1)))
        self._add(self.graph.permute(x, tuple(order)))

    def _reshape(self) -> None:
        x = self._any()
        self._add(self.graph.reshape(x, self._another_shape(x.shape)))

    def _another_shape(self, shape: Shape) -> Shape:
        """Return another shape of as many elements: axes merged, split, of size 1 put in."""
        sizes = list(shape)
        if 0 in sizes:
            return tuple(reversed(sizes))
        for _ in range(self.choices.integer(1, 3)):
            what = self.choices.pick(("merge", "split", "one", "flat"))
            at = self.choices.integer(0, max(len(sizes) - 1, 0))
            if what == "flat":
                sizes = [math.prod(sizes)]
            elif what == "one" and len(sizes) < 5:
                sizes.insert(at, 1)
            elif what == "merge" and at + 1 < len(sizes):
                sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            elif what == "split" and sizes and len(sizes) < 5:
                divisors = [d for d in range(2, sizes[at]) if sizes[at] % d == 0]
                if divisors:
                    divisor = self.choices.pick(divisors)
                    sizes[at : at + 1] = [divisor, sizes[at] // divisor]
        return tuple(sizes)

    def _shrink(self) -> None:
        x = self._any(least_rank=1)
        bounds = []
        for size in x.shape:
            start = self.choices.integer(0, max(0, min(size - 1, 5)))
            bounds.append((start, self.choices.integer(min(size, start + 1), size)))
        self._add(self.graph.shrink(x, bounds))

    def _pad(self) -> None:
        x = self._any(least_rank=1)
        widths = [(self.choices.pick((0, 1, 2, 0, 5)), self.choices.pick((0, 1, 0, 3))) for _ in x.shape]
        if size_of(tuple(size + sum(width) for size, width in zip(x.shape, widths, strict=True))) <= self.most_elements:
            values = (0, self._scalar(x.dtype), *(identity(op, x.dtype) for op in sorted(reduce_ops(x.dtype), key=str)))
            self._add(self.graph.pad(x, widths, self.choices.pick(values)))

    def _flip(self) -> None:
        x = self._any(least_rank=1)
        self._add(self.graph.flip(x, tuple(axis for axis in range(x.ndim) if self.choices.chance(60))))

    def _expand(self) -> None:
        x = self._any()
        axis = self.choices.integer(0, x.ndim)
        thin = self.graph.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
        count = self.choices.pick((2, 3, 5, 8, 17))
        if thin.ndim <= 5 and size_of(x.shape) * count <= self.most_elements:
            self._add(self.graph.expand(thin, (*x.shape[:axis], count, *x.shape[axis:])))

    def _slide(self) -> None:
        """Take windows of an axis of repeated rows, or of a matrix, whose diagonals they then run along."""
        x = self._any(least_rank=1)
        graph, choices = self.graph, self.choices
        axis = choices.integer(0, x.ndim - 1)
        if x.ndim > 1 and choices.chance(40):
            window = (axis + 1) % x.ndim
        else:
            width = choices.integer(1, 4)
            if size_of(x.shape) * width > self.most_elements:
                return
            window = x.ndim
            x = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, width))
        stride, dilation = choices.integer(1, 3), choices.integer(1, 3)
        room = x.shape[axis] - 1 - (x.shape[window] - 1) * dilation
        if room >= 0:
            size = choices.integer(1, room // stride + 1)
            self._add(graph.slide(x, axis, window, size, stride, dilation))

    def _unslide(self) -> None:
        x = self._any(least_rank=2)
        axis = self.choices.integer(0, x.ndim - 1)
        window = (axis + self.choices.integer(1, x.ndim - 1)) % x.ndim
        stride, dilation = self.choices.integer(1, 3), self.choices.integer(1, 3)
        if 0 in x.shape:
            return
        reach = (x.shape[axis] - 1) * stride + (x.shape[window] - 1) * dilation
        size = reach + 1 + self.choices.integer(0, 3)
        if size_of(x.shape) // x.shape[axis] * size <= self.most_elements:
            self._add(self.graph.unslide(x, axis, window, size, stride, dilation))

    # ---- combining

    def _axes(self, x: Node) -> tuple[int, ...]:
        if self.choices.chance(50):
            return (self.choices.integer(0, x.ndim - 1),)
        return tuple(axis for axis in range(x.ndim) if self.choices.chance(60)) or (x.ndim - 1,)

    def _reduced(self, x: Node, axes: tuple[int, ...]) -> Node:
        ops = sorted(reduce_ops(x.dtype), key=lambda op: list(ReduceOp).index(op))
        return self.graph.reduce(self.choices.pick(ops), x, axes)

    def _reduce(self) -> None:
        x = self._any(least_rank=1)
        self._add(self._reduced(x, self._axes(x)))

    def _normalise(self) -> None:
        """Reduce rows and combine the result with every element of the row, as softmax and layer norm do."""
        x = self._any(least_rank=1)
        rows = self.graph.expand(self._reduced(x, self._axes(x)), x.shape)
        self._add(rows)
        self._elementwise_with(x, rows)

    def _broadcast(self) -> None:
        """Combine with a row that is repeated."""
        x = self._any(least_rank=1)
        thin = tuple(1 if self.choices.chance(50) else size for size in x.shape)
        self._elementwise_with(x, self.graph.expand(self._leaf(thin, x.dtype), x.shape))

    def _elementwise_with(self, x: Node, y: Node) -> None:
        ops = [op for op in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MAX, BinaryOp.XOR)]
        self._add(self.graph.binary(self.choices.pick([op for op in ops if op in binary_ops(x.dtype)]), x, y))

    def _scan(self) -> None:
        x = self._any(least_rank=1)
        ops = sorted(reduce_ops(x.dtype), key=lambda op: list(ReduceOp).index(op))
        self._add(self.graph.scan(self.choices.pick(ops), x, self.choices.integer(0, x.ndim - 1)))

    def _matmul(self) -> None:
        """Multiply matrices, of rows that are there if possible; sometimes with more around it."""
        x = self._any(least_rank=2)
        graph = self.graph
        rows, depth = x.shape[-2:]
        columns = self.choices.pick((1, 3, 4, 8, 17))
        batch = x.shape[:-2]
        if size_of(x.shape) * columns > 4 * self.most_elements or x.dtype.is_bool:
            return
        y = self._leaf((*(1 for _ in batch), columns, depth), x.dtype)
        if self.choices.chance(50):
            swapped = (*range(len(batch)), len(batch) + 1, len(batch))
            y = graph.permute(self._leaf((*(1 for _ in batch), depth, columns), x.dtype), swapped)
        wide = (*batch, rows, columns, depth)
        left = graph.expand(graph.reshape(x, (*batch, rows, 1, depth)), wide)
        right = graph.expand(graph.reshape(y, (*(1 for _ in batch), 1, columns, depth)), wide)
        total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, left, right), (len(wide) - 1,))
        self._add(graph.reshape(total, (*batch, rows, columns)))

    def _windows(self) -> None:
        """Reduce windows, as pooling and convolutions do."""
        x = self._any(least_rank=1)
        axis, width = self.choices.integer(0, x.ndim - 1), self.choices.integer(2, 4)
        stride = self.choices.integer(1, 2)
        room = x.shape[axis] - width
        if room < 0 or size_of(x.shape) * width > 4 * self.most_elements:
            return
        graph = self.graph
        wide = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, width))
        windows = graph.slide(wide, axis, x.ndim, room // stride + 1, stride)
        if x.dtype.is_float and self.choices.chance(50):
            factors = self._leaf((*(1 for _ in x.shape), width), x.dtype)
            windows = graph.binary(BinaryOp.MUL, windows, graph.expand(factors, windows.shape))
        total = self._reduced(windows, (x.ndim,))
        self._add(graph.reshape(total, total.shape[:-1]))

    # ---- indexing

    def _index(self, shape: Shape, size: int) -> Node:
        """Return positions along an axis of `size`: some from the end, some outside."""
        usable = [t for t in _INDEX_TYPES if t in self.dtypes and t.max > size]
        dtype = self.choices.pick(usable) if usable else dtypes.int64
        random = np.random.default_rng(self.choices.integer(0, 2**32 - 1))
        low = 0 if dtype.is_unsigned else -size
        high = max(size, low + 1)
        if self.choices.chance(30):
            low, high = low - (0 if dtype.is_unsigned else 2), high + 2
        array = random.integers(low, high, size_of(shape)).astype(dtype.numpy).reshape(shape)
        return self._add(self._make_leaf(array))

    def _gather(self) -> None:
        x = self._any(least_rank=1)
        axis = self.choices.integer(0, x.ndim - 1)
        shape = (*x.shape[:axis], self.choices.pick((1, 3, 8, x.shape[axis])), *x.shape[axis + 1 :])
        if size_of(shape) <= self.most_elements:
            self._add(self.graph.gather(x, self._index(shape, x.shape[axis]), axis))

    def _scatter(self) -> None:
        x = self._any(least_rank=1)
        axis = self.choices.integer(0, x.ndim - 1)
        shape = (*x.shape[:axis], self.choices.pick((1, 3, 8, x.shape[axis])), *x.shape[axis + 1 :])
        if size_of(shape) > self.most_elements or 0 in shape:
            return
        updates = self._like(self.graph.const(0, x.dtype, self.device, shape))
        ops: list[ReduceOp | None] = [None, *sorted(reduce_ops(x.dtype), key=lambda op: list(ReduceOp).index(op))]
        index = self._index(shape, x.shape[axis])
        self._add(self.graph.scatter(x, index, updates, axis, self.choices.pick(ops)))

    def _sort(self) -> None:
        """Put rows in the order of keys, many of which are equal; or their first few."""
        x = self._any(least_rank=1)
        axis = self.choices.integer(0, x.ndim - 1)
        if 0 in x.shape:
            return
        bits = self.choices.pick((3, 12, 32))
        mask = self.graph.const((1 << bits) - 1, dtypes.uint32, self.device, x.shape)
        keys = self.graph.binary(BinaryOp.AND, self._leaf(x.shape, dtypes.uint32), mask)
        count = min(x.shape[axis], self.choices.pick((1, 3, x.shape[axis])))
        self._add(self.graph.gather(x, self.graph.sort(keys, axis, bits, count), axis))

    # ---- the rest

    def _source(self) -> None:
        graph, choices = self.graph, self.choices
        shape = random_shape(choices, self.most_elements)
        what = choices.pick(("iota", "const", "random"))
        integers = [t for t in self.dtypes if t.is_integer]
        words = [t for t in self.dtypes if t in (dtypes.uint32, dtypes.uint64)]
        if what == "iota" and shape and integers:
            self._add(graph.iota(shape, choices.integer(0, len(shape) - 1), choices.pick(integers), self.device))
        elif what == "random" and dtypes.uint32 in words:
            state = np.random.default_rng(choices.integer(0, 2**32 - 1)).integers(0, 1 << 32, 4, np.uint32)
            if choices.chance(30):
                state[2] = (1 << 32) - 5  # the low word of the counter overflows soon
            offset = choices.pick((0, 1, 7, 1 << 20))
            self._add(graph.random_bits(self._add(self._make_leaf(state)), shape, choices.pick(words), offset))
        else:
            dtype = choices.pick(self.dtypes)
            self._add(graph.const(self._scalar(dtype), dtype, self.device, shape))

    def _boundary(self) -> None:
        """Ask for a buffer, or cut gradients off: neither changes values."""
        x = self._any()
        self._add(self.graph.contiguous(x) if self.choices.chance(60) else self.graph.alias(x))
