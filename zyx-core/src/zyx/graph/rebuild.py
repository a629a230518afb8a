"""Make a node again over other sources.

It is for what is computed. Rules of gradients, and who is told of them, do not go along: an alias that is not detached
is its source. Where gradients are asked for later, aliases are made again by those who do so, with a rule
(`zyx.autograd.custom`, `zyx.graph.batching`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.graph.ends import carry_ends
from zyx.graph.given import Packed
from zyx.graph.lines import carry_line
from zyx.graph.making import is_merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph.graph import Graph
    from zyx.graph.node import Node


def rebuild(graph: Graph, node: Node, sources: Sequence[Node]) -> Node:
    """Return `node` over `sources`, which are like its own; itself if they are, and `graph` merges it with none."""
    if all(a is b for a, b in zip(sources, node.sources, strict=True)) and not (graph.merges and is_merged(node)):
        return node
    made = made_over(graph, node, sources)
    carry_line(node, made)
    carry_ends(node, made)
    return made


def made_over(graph: Graph, node: Node, sources: Sequence[Node]) -> Node:
    """Return what a node makes of `sources`; its line and its ends do not go along."""
    match node:
        case n.Reshape() | n.Expand() | n.Permute() | n.Pad() | n.Shrink() | n.Flip() | n.Slide() | n.Unslide():
            return _moved(graph, node, sources[0])
        case n.Unary() | n.Binary() | n.Where() | n.Cast() | n.Bitcast() | n.Complex() | n.Component():
            return elementwise_over(graph, node, sources)
        case n.Reduce(op=op, axes=axes):
            return graph.reduce(op, sources[0], axes)
        case n.Scan(op=op, axis=axis):
            return graph.scan(op, sources[0], axis)
        case n.Gather(axis=axis):
            return graph.gather(sources[0], sources[1], axis)
        case n.Scatter(axis=axis, op=combining):
            return graph.scatter(sources[0], sources[1], sources[2], axis, combining)
        case n.Sort(axis=axis, bits=bits):
            return graph.sort(sources[0], axis, bits, node.shape[axis])
        case n.Fourier(axis=axis, is_inverse=is_inverse, scale=scale, kind=kind):
            x, table = sources
            return graph.fourier(
                x, table, axis, is_inverse=is_inverse, scale=scale, kind=kind, as_pairs=not node.dtype.is_complex
            )
        case n.RandomBits(offset=offset):
            return graph.random_bits(sources[0], node.shape, node.dtype, offset)
        case Packed(strides=strides, ends=ends):
            return Packed(sources[0], strides, ends)
        case n.Contiguous():
            return graph.contiguous(sources[0])
        case n.ToDevice():
            return graph.to_device(sources[0], node.device)
        case n.Alias(detached=detached):
            return graph.detach(sources[0]) if detached else sources[0]
        case n.Custom(kernel=kernel, output=output):
            return graph.custom(kernel, tuple(sources), output, node.shape, node.dtype)
        case _:
            raise TypeError(f"{node!r} has no sources to replace")


def _moved(graph: Graph, node: n.Movement, x: Node) -> Node:
    """Return `x` moved as `node` moves its source."""
    match node:
        case n.Reshape():
            return graph.reshape(x, node.shape)
        case n.Expand():
            return graph.expand(x, node.shape)
        case n.Permute(order=order):
            return graph.permute(x, order)
        case n.Pad(widths=widths, value=value):
            return graph.pad(x, widths, value)
        case n.Shrink(bounds=bounds):
            return graph.shrink(x, bounds)
        case n.Flip(axes=axes):
            return graph.flip(x, axes)
        case n.Slide(axis=axis, window=window, stride=stride, dilation=dilation):
            return graph.slide(x, axis, window, node.shape[axis], stride, dilation)
        case n.Unslide(axis=axis, window=window, stride=stride, dilation=dilation):
            return graph.unslide(x, axis, window, node.shape[axis], stride, dilation)


def elementwise_over(graph: Graph, node: n.Elementwise | n.Complex | n.Component, sources: Sequence[Node]) -> Node:
    """Return what a node makes element by element of `sources`, which may have any one shape."""
    match node:
        case n.Unary(op=unary):
            return graph.unary(unary, sources[0])
        case n.Binary(op=binary):
            return graph.binary(binary, sources[0], sources[1])
        case n.Where():
            return graph.where(sources[0], sources[1], sources[2])
        case n.Cast():
            return graph.cast(sources[0], node.dtype)
        case n.Bitcast():
            return graph.bitcast(sources[0], node.dtype)
        case n.Complex():
            return graph.complex(sources[0], sources[1])
        case n.Component(is_imaginary=is_imaginary):
            return graph.component(sources[0], is_imaginary)


def merged(graph: Graph, outputs: Sequence[Node], order: Sequence[Node]) -> Sequence[Node]:
    """Return `outputs`, whose nodes are in `order`, with moves of moved nodes as one, as `graph` has them.

    It is the same sequence if there are none. What would be a node with storage stays as it is.
    """
    if not any([is_merged(node) for node in order]):
        return outputs
    new: dict[Node, Node] = {}
    for node in order:
        made = node
        if node.storage is None and node.sources:
            made = rebuild(graph, node, [new[source] for source in node.sources])
        if made is node:
            graph.adopt(node)
        new[node] = made
    return [node if new[node].storage is not None else new[node] for node in outputs]
