"""A transform as schedules have it: complex numbers are pairs, along the middle one of three axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.graph.fourier import length_of
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.graph import node as n
    from zyx.graph.node import Node
    from zyx.shape import Shape


@dataclass(frozen=True, slots=True)
class Problem:
    """What is transformed.

    Attributes:
        x: Pairs ``(outer, size, inner, 2)``; of a transform from real numbers these, ``(outer, 2 * size, inner)``; of
            one to real numbers half of it, ``(outer, size + 1, inner, 2)``.
        table: Begins with that of `size`; of real ones, it is that of twice as many.
        outer: See above.
        size: Of the transforms of complex numbers; see above.
        inner: See above.
        is_inverse: Whether roots are the conjugates of the table's.
        scale: What results are multiplied by.
        kind: What is taken, and given.
    """

    x: Node
    table: Node
    outer: int
    size: int
    inner: int
    is_inverse: bool
    scale: float
    kind: FourierKind

    @staticmethod
    def of(node: n.Fourier) -> Problem:
        """Return the problem of a node of pairs."""
        x, table = node.sources
        size = length_of(node) // (1 if node.kind is FourierKind.COMPLEX else 2)
        is_inverse = node.is_inverse
        return Problem(x, table, x.shape[0], size, x.shape[2], is_inverse, node.scale, node.kind)

    @property
    def dtype(self) -> DType:
        """float32 or float64."""
        return self.table.dtype

    @property
    def shape(self) -> Shape:
        """That of the results."""
        match self.kind:
            case FourierKind.COMPLEX:
                return (self.outer, self.size, self.inner, 2)
            case FourierKind.FROM_REAL:
                return (self.outer, self.size + 1, self.inner, 2)
            case FourierKind.TO_REAL:
                return (self.outer, 2 * self.size, self.inner)
