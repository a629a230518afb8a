"""Sizes in a graph that is written down: ints, and polynomials in the lengths that a call gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from zyx.specialise.length import Length

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.graph.node import Node

#: A size, and those of a shape. Two are equal if they are at all lengths.
Dim: TypeAlias = int | Length
Dims: TypeAlias = tuple[Dim, ...]


def plain(size: Any) -> Dim:  # noqa: ANN401  # an int, a length, or what stands for one (`zyx.jit.sizes`)
    """Return a size of a node."""
    if type(size) is int:
        return size
    length = size if isinstance(size, Length) else getattr(size, "size", None)
    if not isinstance(length, Length):
        return int(size)  # of a class of its own
    return length if length.varies else length.terms.get((), 0)


def dims_of(node: Node) -> Dims:
    """Return the shape of a node."""
    return tuple([plain(size) for size in node.shape])


def product(sizes: Iterable[Dim]) -> Dim:
    """Return the product of sizes."""
    found: Dim = 1
    for size in sizes:
        found = times(found, size)
    return found


def times(x: Dim, y: Dim) -> Dim:
    """Return the product of two sizes."""
    return x * y if isinstance(x, int) and isinstance(y, int) else plain(_length(x) * _length(y))


def plus(x: Dim, y: Dim) -> Dim:
    """Return the sum of two sizes."""
    return x + y if isinstance(x, int) and isinstance(y, int) else plain(_length(x) + _length(y))


def minus(x: Dim, y: Dim) -> Dim:
    """Return the difference of two sizes."""
    return plus(x, times(-1, y))


def _length(size: Dim) -> Length:
    return size if isinstance(size, Length) else Length(0, size)
