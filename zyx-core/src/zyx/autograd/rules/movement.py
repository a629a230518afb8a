"""Gradients of the movements: each element's gradient goes back to where the element came from.

reshape  <=> reshape      permute <=> inverse permute      slide  <=> unslide
flip     <=> flip         pad      => shrink               shrink  => pad with 0
expand    => sum
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.autograd.accumulate import sum_over

if TYPE_CHECKING:
    from zyx.graph import Graph, Node
    from zyx.graph.node import Expand, Flip, Pad, Permute, Reshape, Shrink, Slide, Unslide


def reshape(graph: Graph, node: Reshape, upstream: Node) -> tuple[Node]:
    """Back to the shape of the source."""
    return (graph.reshape(upstream, node.sources[0].shape),)


def expand(graph: Graph, node: Expand, upstream: Node) -> tuple[Node]:
    """An element that was repeated gets the sum."""
    sizes = zip(node.sources[0].shape, node.shape, strict=True)
    return (sum_over(graph, upstream, tuple(axis for axis, (old, new) in enumerate(sizes) if old != new)),)


def permute(graph: Graph, node: Permute, upstream: Node) -> tuple[Node]:
    """Axes back in place."""
    return (graph.permute(upstream, inverse(node.order)),)


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that undoes `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def pad(graph: Graph, node: Pad, upstream: Node) -> tuple[Node]:
    """What was put around does not count."""
    starts = zip(node.widths, node.sources[0].shape, strict=True)
    return (graph.shrink(upstream, [(before, before + size) for (before, _), size in starts]),)


def shrink(graph: Graph, node: Shrink, upstream: Node) -> tuple[Node]:
    """What was cut off gets 0."""
    cuts = zip(node.bounds, node.sources[0].shape, strict=True)
    return (graph.pad(upstream, [(start, size - stop) for (start, stop), size in cuts]),)


def flip(graph: Graph, node: Flip, upstream: Node) -> tuple[Node]:
    """Reversed once more."""
    return (graph.flip(upstream, node.axes),)


def slide(graph: Graph, node: Slide, upstream: Node) -> tuple[Node]:
    """For a fixed place in the window, each position was read once at most."""
    size = node.sources[0].shape[node.axis]
    return (graph.unslide(upstream, node.axis, node.window, size, node.stride, node.dilation),)


def unslide(graph: Graph, node: Unslide, upstream: Node) -> tuple[Node]:
    """Each element is found where it was put."""
    size = node.sources[0].shape[node.axis]
    return (graph.slide(upstream, node.axis, node.window, size, node.stride, node.dilation),)
