"""Products of many complex numbers, in a depth of log2 of how many there are.

What is multiplied is put in memory after every third halving, so that no kernel has more than eight factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.pairs.formulas import multiply
from zyx.pairs.real import Real

if TYPE_CHECKING:
    from zyx.graph import Graph, Node

#: Halvings in one kernel.
_AT_ONCE: Final = 3


def product(graph: Graph, real: Node, imaginary: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    """Return the product along `axes`, which keep size 1, of at least one element."""
    shape = real.shape
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    result = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    rows = tuple(shape[axis] for axis in kept)
    parts = [graph.permute(part, (*kept, *axes)) for part in (real, imaginary)]
    count = 1
    for axis in axes:
        count *= shape[axis]
    padded = 1 << (count - 1).bit_length()
    widths = [*((0, 0) for _ in rows), (0, padded - count)]
    parts = [
        graph.pad(graph.reshape(part, (*rows, count)), widths, value)
        for part, value in zip(parts, (1.0, 0.0), strict=True)
    ]
    halvings = 0
    while padded > 1:
        padded //= 2
        whole = [(0, size) for size in rows]
        low = [graph.shrink(part, [*whole, (0, padded)]) for part in parts]
        high = [graph.shrink(part, [*whole, (padded, 2 * padded)]) for part in parts]
        parts = _multiplied(graph, low, high)
        halvings += 1
        if not halvings % _AT_ONCE:
            parts = [graph.contiguous(part) for part in parts]
    first, second = (graph.reshape(part, result) for part in parts)
    return first, second


def running_product(graph: Graph, real: Node, imaginary: Node, axis: int) -> tuple[Node, Node]:
    """Return the products of the elements up to each one along `axis`: Hillis and Steele, 1986."""
    parts, size, step = [real, imaginary], real.shape[axis], 1
    while step < size:
        bounds = [(0, size - step if i == axis else length) for i, length in enumerate(real.shape)]
        widths = [(step if i == axis else 0, 0) for i in range(real.ndim)]
        before = [
            graph.pad(graph.shrink(part, bounds), widths, value) for part, value in zip(parts, (1.0, 0.0), strict=True)
        ]
        parts = [graph.contiguous(part) for part in _multiplied(graph, before, parts)]
        step *= 2
    return parts[0], parts[1]


def _multiplied(graph: Graph, x: list[Node], y: list[Node]) -> list[Node]:
    a, b, c, d = (Real(graph, part) for part in (*x, *y))
    return [part.node for part in multiply((a, b), (c, d))]
