"""Loops over the places of an axis, for many examples at once: `zyx.graph.loop` with an axis of examples.

A sequence of all examples lies in memory so that a step has a block of each:

    of one example              of all                              what a step has
    (length, ..)                (length, examples, ..)              (block, examples, ..)
    (n, length, ..)             (examples * n, length, ..)          (examples * n, block, ..)

The body is rewritten as any graph; what it reads is brought from there to ``(examples, ..)``, what it writes back.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.graph.graph import Graph
from zyx.graph.loop import Body, Lie, Loop, Product
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.graph import batching
    from zyx.graph.node import Leaf, Node
else:
    batching = lazy_import("zyx.graph.batching", globals())


def batched_loop(
    graph: Graph, loop: Loop, sources: tuple[Node, ...], are_batched: tuple[bool, ...], count: int, output: int
) -> Node:
    """Return one output of a loop for `count` examples, with their axis in front.

    Args:
        graph: Makes the nodes.
        loop: For one example.
        sources: Its sources; of those that differ between examples, all, along an axis in front.
        are_batched: Which these are.
        count: How many examples there are.
        output: Which output.
    """
    body = loop.body
    carries = len(body.carries)
    given = list(sources)
    for place, source in enumerate(sources[:carries]):
        if not are_batched[place]:
            given[place] = graph.expand(graph.reshape(source, (1, *source.shape)), (count, *source.shape))
    for place, lie in enumerate(body.slice_lies, carries):
        if are_batched[place]:
            given[place] = _in_memory(graph, sources[place], lie)
    of_all = replace(loop, body=_batched_body(body, are_batched[carries:], count))
    found = of_all.output(graph, tuple(given), output)
    if output < carries:
        return found
    return _out_of_memory(graph, found, body.row_lies[output - carries], count)


def _in_memory(graph: Graph, x: Node, lie: Lie) -> Node:
    """Return a sequence ``(examples, ..)`` as it lies in memory."""
    if lie == Lie(0):
        return _exchanged(graph, x)
    if lie.axis:  # (examples, n, length, ..)
        return _merged(graph, x, 0)
    return _merged(graph, _exchanged(graph, x), 1)  # (examples, length, n, ..)


def _out_of_memory(graph: Graph, x: Node, lie: Lie, count: int) -> Node:
    """Return a sequence as it lies in memory as ``(examples, ..)``."""
    if lie == Lie(0):
        return _exchanged(graph, x)
    if lie.axis:
        return _divided(graph, x, 0, count)
    return _exchanged(graph, _divided(graph, x, 1, count))


def _of_step(graph: Graph, block: Node, lie: Lie, count: int) -> Node:
    """Return a block of a sequence, as a step has it, as ``(examples, ..)``."""
    if lie == Lie(0):
        return _exchanged(graph, block)
    if lie.is_turned == bool(lie.axis):  # the examples are along the second axis
        return _exchanged(graph, _divided(graph, block, 1, count))
    return _divided(graph, block, 0, count)


def _to_step(graph: Graph, x: Node, lie: Lie) -> Node:
    """Return a block ``(examples, ..)`` as a step has it; the inverse of `_of_step`."""
    if lie == Lie(0):
        return _exchanged(graph, x)
    if lie.is_turned == bool(lie.axis):
        return _merged(graph, _exchanged(graph, x), 1)
    return _merged(graph, x, 0)


def _exchanged(graph: Graph, x: Node) -> Node:
    return graph.permute(x, (1, 0, *range(2, x.ndim)))


def _merged(graph: Graph, x: Node, axis: int) -> Node:
    """Return `x` with `axis` and the next one made one."""
    shape = x.shape
    return graph.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _divided(graph: Graph, x: Node, axis: int, count: int) -> Node:
    """Return `x` with `axis` made two, of which the first has `count` places."""
    shape = x.shape
    return graph.reshape(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


@functools.lru_cache(maxsize=256)
def _batched_body(body: Body, are_batched: tuple[bool, ...], count: int) -> Body:
    """Return the body of all examples; bodies are never equal, so that one for each is kept.

    Args:
        body: Of one example.
        are_batched: Of the slices, then of the constants, which differ between examples. All carries do.
        count: How many examples there are.
    """
    graph = Graph()
    values: dict[Node, Node] = {}
    carries = tuple([_leaf(graph, leaf, (count, *leaf.shape)) for leaf in body.carries])
    values.update(zip(body.carries, carries, strict=True))
    slices, constants = list(body.slices), list(body.constants)
    for place, (leaf, lie) in enumerate(zip(body.slices, body.slice_lies, strict=True)):
        if are_batched[place]:
            like = _to_step(graph, graph.leaf((count, *leaf.shape), leaf.dtype, leaf.device), lie)
            slices[place] = _leaf(graph, leaf, like.shape)
            values[leaf] = _of_step(graph, slices[place], lie, count)
    for place, leaf in enumerate(body.constants):
        if are_batched[len(slices) + place]:
            constants[place] = _leaf(graph, leaf, (count, *leaf.shape))
            values[leaf] = constants[place]
    saved, results = list(body.saved), [product.result for product in body.products]
    nodes = [*body.new, *body.rows, *saved, *results]
    examples = batching.Examples.all_of(count)
    found = batching.batched(graph, nodes, values, examples)
    of = dict(zip(nodes, batching.whole_of(graph, nodes, found, examples), strict=True))
    new_leaves = dict(zip(body.slices, slices, strict=True))
    return Body(
        carries,
        tuple(slices),
        tuple(constants),
        tuple([of[node] for node in body.new]),
        tuple([_to_step(graph, of[row], lie) for row, lie in zip(body.rows, body.row_lies, strict=True)]),
        body.slice_lies,
        body.row_lies,
        _products(body, of, are_batched[len(slices) :]),
        tuple([of[node] for node in saved]),
        frozenset([new_leaves[leaf] for leaf in body.masked]),
    )


def _leaf(graph: Graph, like: Leaf, shape: tuple[int, ...]) -> Leaf:
    return graph.leaf(shape, like.dtype, like.device)


def _products(body: Body, of: Mapping[Node, Node], are_batched: tuple[bool, ...]) -> tuple[Product, ...]:
    """Return the products that are products of all examples, too: with what is the same for these."""
    return tuple(
        [
            Product(of[product.result], of[product.left], product.weight, product.bias)
            for product in body.products
            if not are_batched[product.weight] and (product.bias is None or not are_batched[product.bias])
        ]
    )
