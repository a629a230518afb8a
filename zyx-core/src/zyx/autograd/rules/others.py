"""Gradients of the rest: selection, conversion, places, and kernels that users wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from zyx import dtype as dtypes
from zyx.autograd.term import GradientTerm
from zyx.errors import GradientError
from zyx.ops import BinaryOp, FourierKind, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph import Graph, Node
    from zyx.graph.node import Alias, Cast, Complex, Component, Contiguous, Custom, Fourier, ToDevice, Where


@runtime_checkable
class SupportsBackward(Protocol):
    """What a hand-written kernel offers to be differentiable."""

    def backward(self, graph: Graph, node: Custom, upstream: Node) -> Sequence[Node | None]:
        """Return the gradients at the sources of `node`, None for those that have none.

        Args:
            graph: Makes the nodes.
            node: One output of this kernel, number ``node.output``.
            upstream: The gradient at `node`, of its shape and dtype.
        """


def where(graph: Graph, node: Where, upstream: Node) -> tuple[None, Node, Node]:
    """To the chosen one; a select, so that NaN and infinity stay where they are."""
    condition, g = GradientTerm(graph, node.sources[0]), GradientTerm(graph, upstream)
    return None, condition.where(g, 0.0).node, condition.where(g.like(0.0), g).node


def cast(graph: Graph, node: Cast, upstream: Node) -> tuple[Node | None]:
    """Between floats the slope is 1, and between complex numbers."""
    source = node.sources[0]
    return (graph.cast(upstream, source.dtype) if source.dtype.is_inexact and node.dtype.is_inexact else None,)


def complex_of_parts(graph: Graph, node: Complex, upstream: Node) -> tuple[Node, Node]:
    """Of ``re(g * (dx + i dy))``, which is what a gradient `g` says, the parts at dx and dy."""
    return graph.component(upstream, False), graph.unary(UnaryOp.NEG, graph.component(upstream, True))


def component(graph: Graph, node: Component, upstream: Node) -> tuple[Node]:
    """The other way round: ``g`` at the real part, ``-i * g`` at the imaginary one."""
    zero = graph.const(0.0, upstream.dtype, upstream.device, upstream.shape)
    if node.is_imaginary:
        return (graph.complex(zero, graph.unary(UnaryOp.NEG, upstream)),)
    return (graph.complex(upstream, zero),)


def same_values(graph: Graph, node: Contiguous | Alias, upstream: Node) -> tuple[Node]:
    """As it comes."""
    return (upstream,)


def to_device(graph: Graph, node: ToDevice, upstream: Node) -> tuple[Node]:
    """Back to where the source lies."""
    return (graph.to_device(upstream, node.sources[0].device),)


def fourier(graph: Graph, node: Fourier, upstream: Node) -> tuple[Node, None]:
    """By the transpose: the matrix of complex numbers is its own, that of pairs has the inverse transform, unscaled."""
    if node.kind is not FourierKind.COMPLEX:
        return _real_fourier(graph, node, upstream), None
    is_inverse = node.is_inverse if node.dtype.is_complex else not node.is_inverse
    return graph.fourier(upstream, node.sources[1], node.axis, is_inverse=is_inverse, scale=node.scale), None


def _real_fourier(graph: Graph, node: Fourier, upstream: Node) -> Node:
    """By the one in the other direction: half of a transform has all but its first and last element for two."""
    x, table = node.sources
    axis, scale = node.axis, node.scale
    if node.kind is FourierKind.FROM_REAL:
        halved = _inside_times(graph, graph.conjugate(upstream), axis, 0.5)
        return graph.fourier(halved, table, axis, scale=scale, kind=FourierKind.TO_REAL)
    as_pairs = not x.dtype.is_complex
    found = graph.fourier(upstream, table, axis, scale=scale, kind=FourierKind.FROM_REAL, as_pairs=as_pairs)
    return graph.conjugate(_inside_times(graph, found, axis, 2.0))


def _inside_times(graph: Graph, x: Node, axis: int, factor: float) -> Node:
    """Return `x` with all but the first and the last element along an axis times a factor."""
    place = graph.iota(x.shape, axis, dtypes.int32, x.device)
    ends = [graph.const(end, dtypes.int32, x.device, x.shape) for end in (0, x.shape[axis] - 1)]
    is_end = graph.binary(BinaryOp.OR, *(graph.binary(BinaryOp.EQ, place, end) for end in ends))
    factors = graph.const(factor, x.dtype, x.device, x.shape)
    return graph.where(is_end, x, graph.binary(BinaryOp.MUL, x, factors))


def custom(graph: Graph, node: Custom, upstream: Node) -> tuple[Node | None, ...]:
    """Ask the kernel.

    Raises:
        GradientError: It has no `backward`, or gives what does not fit its sources.
    """
    if not isinstance(node.kernel, SupportsBackward):
        raise GradientError(
            f"custom kernel {node.kernel!r} has no gradient; give it a method backward(graph, node, upstream)"
        )
    parts = tuple(node.kernel.backward(graph, node, upstream))
    wanted = [(source.shape, source.dtype) for source in node.sources]
    fits = len(parts) == len(wanted) and all(
        part is None or (part.shape, part.dtype) == like for part, like in zip(parts, wanted, strict=True)
    )
    if not fits:
        raise GradientError(
            f"backward of custom kernel {node.kernel!r} gave {list(parts)}; it must give one gradient or None a "
            f"source, shaped like {list(node.sources)}"
        )
    return parts
