"""Transform by ordinary nodes: each pass is a sum of products, which any device has kernels for.

The passes are those of `zyx.graph.fourier` from behind, each with its factors in front of the sum. With S the product
of the radices behind, a pass makes of x[t, k, q], ``(S, r, m)``, the array of [k', t, q], ``(r, S, m)``,

    sum over k of exp(-2 pi i k k' / r) * exp(-2 pi i k t / (S r)) * x[t, k, q]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.graph.fourier import offsets, parts, passes
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.kernels.fourier.problem import Problem
    from zyx.shape import Shape


def composed(graph: Graph, problem: Problem) -> Node:
    """Return ordinary nodes with the values of a transform of complex numbers."""
    x, outer, size, inner = problem.x, problem.outer, problem.size, problem.inner
    writer = Composed(graph, problem.table, is_inverse=problem.is_inverse)
    starts = offsets(size)
    if len(parts(size)) == 1:
        result = writer.part(x, size, starts[0])
    else:
        rows, columns = parts(size)
        first = writer.part(graph.reshape(x, (outer, rows, columns * inner, 2)), rows, starts[0])
        first = graph.reshape(first, (outer, rows, columns, inner, 2))
        first = writer.rotated(first, writer.factors(starts[2], rows, columns), (1, rows, columns, 1, 1))
        second = writer.part(graph.reshape(first, (outer * rows, columns, inner, 2)), columns, starts[1])
        second = graph.permute(graph.reshape(second, (outer, rows, columns, inner, 2)), (0, 2, 1, 3, 4))
        result = graph.reshape(second, problem.shape)
    return scaled(graph, result, problem.scale)


def scaled(graph: Graph, x: Node, scale: float) -> Node:
    """Return `x` times a number."""
    return x if scale == 1.0 else graph.binary(BinaryOp.MUL, x, graph.const(scale, x.dtype, x.device, x.shape))


class Composed:
    """Makes the nodes of passes.

    Args:
        graph: To make nodes with.
        table: Of the length, see `zyx.graph.fourier`.
        is_inverse: Whether roots of unity are the conjugates of what the table has.
    """

    def __init__(self, graph: Graph, table: Node, *, is_inverse: bool) -> None:
        self._graph = graph
        self._table = table
        self._is_inverse = is_inverse

    def factors(self, start: int, rows: int, columns: int) -> tuple[Node, Node]:
        """Return cosines and sines, ``(rows, columns)``, that lie in the table from `start` on."""
        graph = self._graph
        lying = graph.reshape(graph.shrink(self._table, [(start, start + 2 * rows * columns)]), (rows, 2, columns))
        cosine, sine = (
            graph.reshape(graph.shrink(lying, [(0, rows), (part, part + 1), (0, columns)]), (rows, columns))
            for part in (0, 1)
        )
        return cosine, graph.unary(UnaryOp.NEG, sine) if self._is_inverse else sine

    def part(self, x: Node, size: int, start: int) -> Node:
        """Return the transform of ``(outer, size, inner, 2)`` along axis 1, with the table of the part at `start`."""
        graph = self._graph
        outer, _, inner, _ = x.shape
        done = 1
        for each in reversed(passes(size)):
            radix, rest = each.radix, size // (done * each.radix)
            x = graph.reshape(x, (outer, done, radix, rest * inner, 2))
            if done > 1:
                x = self.rotated(x, self._turned(start + each.factors, radix, done), (1, done, radix, 1, 1))
            x = self._summed(x, self.factors(start + each.roots, radix, radix))
            done *= radix
        return graph.reshape(x, (outer, size, inner, 2))

    def _turned(self, start: int, radix: int, done: int) -> tuple[Node, Node]:
        cosine, sine = self.factors(start, radix, done)
        return self._graph.permute(cosine, (1, 0)), self._graph.permute(sine, (1, 0))

    def rotated(self, x: Node, factors: tuple[Node, Node], shape: Shape) -> Node:
        """Return the pairs `x` times complex factors, which have `shape` beside it."""
        cosine, sine = (self._like(factor, shape, x.shape) for factor in factors)
        last = x.ndim - 1
        is_real = self._places(x.shape, last, 0)
        sine = self._graph.where(is_real, self._graph.unary(UnaryOp.NEG, sine), sine)
        straight = self._graph.binary(BinaryOp.MUL, x, cosine)
        crossed = self._graph.binary(BinaryOp.MUL, self._graph.flip(x, (last,)), sine)
        return self._graph.binary(BinaryOp.ADD, straight, crossed)

    # ---- real numbers, see `zyx.graph.fourier`; the table's part of them starts at `start`

    def paired(self, x: Node) -> Node:
        """Return ``(outer, n, inner)`` as pairs ``(outer, n / 2, inner, 2)``, whose parts are neighbours."""
        outer, size, inner = x.shape
        if inner == 1:  # they lie side by side, where kernels read them
            return self._graph.reshape(x, (outer, size // 2, 1, 2))
        return self._graph.permute(self._graph.reshape(x, (outer, size // 2, 2, inner)), (0, 1, 3, 2))

    def unpaired(self, x: Node) -> Node:
        """Return what `paired` makes pairs of."""
        outer, half, inner, _ = x.shape
        return self._graph.reshape(x if inner == 1 else self._graph.permute(x, (0, 1, 3, 2)), (outer, 2 * half, inner))

    def apart(self, z: Node, start: int) -> Node:
        """Return half of the transform of real numbers, of the transform of `paired` ones: one element more."""
        graph = self._graph
        outer, half, inner, _ = z.shape
        around = graph.pad(z, [(0, 0), (0, 1), (0, 0), (0, 0)])  # the first one is behind the last one, too
        first = graph.shrink(z, [(0, outer), (0, 1), (0, inner), (0, 2)])
        around = graph.binary(BinaryOp.ADD, around, graph.pad(first, [(0, 0), (half, 0), (0, 0), (0, 0)]))
        cosine, sine = self._halves(start, half + 1)
        factors = sine, graph.unary(UnaryOp.NEG, cosine)
        return scaled(graph, self._combined(around, graph.flip(around, (1,)), factors), 0.5)

    def together(self, x: Node, start: int) -> Node:
        """Return what has the transform, unscaled and inverse, of `paired` real numbers, of half of theirs."""
        graph = self._graph
        outer, size, inner, _ = x.shape
        is_end = graph.binary(BinaryOp.OR, *(self._places(x.shape, 1, end) for end in (0, size - 1)))
        is_left_out = graph.binary(BinaryOp.AND, is_end, self._places(x.shape, 3, 1))
        x = graph.where(is_left_out, graph.const(0.0, x.dtype, x.device, x.shape), x)
        bounds = [(0, outer), (0, size - 1), (0, inner), (0, 2)]
        cosine, sine = (graph.shrink(root, [(0, size - 1)]) for root in self._halves(start, size))
        return self._combined(graph.shrink(x, bounds), graph.shrink(graph.flip(x, (1,)), bounds), (sine, cosine))

    def _halves(self, start: int, count: int) -> tuple[Node, Node]:
        cosine, sine = (
            self._graph.shrink(self._table, [(at, at + count)]) for at in (start, start + count)
        )  # fmt: skip
        return cosine, sine

    def _combined(self, x: Node, mirrored: Node, factors: tuple[Node, Node]) -> Node:
        """Return ``x + y* + f (x - y*)``, of which `factors` has the parts of f."""
        graph = self._graph
        is_real = self._places(x.shape, 3, 0)
        other = graph.where(is_real, mirrored, graph.unary(UnaryOp.NEG, mirrored))
        turned = self.rotated(graph.binary(BinaryOp.SUB, x, other), factors, (1, x.shape[1], 1, 1))
        return graph.binary(BinaryOp.ADD, graph.binary(BinaryOp.ADD, x, other), turned)

    def _summed(self, x: Node, roots: tuple[Node, Node]) -> Node:
        """Return the small transforms of ``(outer, S, r, m, 2)`` along axis 2, as ``(outer, r, S, m, 2)``."""
        graph = self._graph
        outer, done, radix, rest, _ = x.shape
        full = (outer, radix, done, rest, 2, radix, 2)  # [o, k', t, q, part', k, part]
        turned = graph.permute(x, (0, 1, 3, 2, 4))
        values = self._like(turned, (outer, 1, done, rest, 1, radix, 2), full)
        cosine, sine = (self._like(root, (1, radix, 1, 1, 1, radix, 1), full) for root in roots)
        is_first, is_real = self._places(full, 4, 0), self._places(full, 6, 0)
        is_same = graph.binary(BinaryOp.EQ, is_first, is_real)
        crossed = graph.where(is_first, graph.unary(UnaryOp.NEG, sine), sine)
        matrix = graph.where(is_same, cosine, crossed)
        total = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, values, matrix), (5, 6))
        return graph.reshape(total, (outer, radix, done, rest, 2))

    def _like(self, x: Node, shape: Sequence[int], full: Shape) -> Node:
        assert size_of(x.shape) == size_of(tuple(shape)), f"{x.shape} is not {shape}"
        return self._graph.expand(self._graph.reshape(x, tuple(shape)), full)

    def _places(self, shape: Shape, axis: int, place: int) -> Node:
        """Return where the coordinate along `axis` is `place`."""
        device = self._table.device
        found = self._graph.iota(shape, axis, dtypes.int32, device)
        return self._graph.binary(BinaryOp.EQ, found, self._graph.const(place, dtypes.int32, device, shape))
