"""Loops of tensors: `scan` makes one of a function of a step, by leaves of a body and outputs of `zyx.graph.loop`."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from zyx.autograd.loops import backward, with_saved
from zyx.dtype import as_dtype
from zyx.errors import TraceError
from zyx.functions.joining import stack
from zyx.fusion.movement import MOVEMENT
from zyx.graph import node as n
from zyx.graph.graph import Graph
from zyx.graph.loop import Body, Lie, Loop
from zyx.graph.rebuild import rebuild
from zyx.graph.signature import signature
from zyx.graph.walk import topological
from zyx.runtime.runtime import current
from zyx.shape import VaryingSize
from zyx.tensor.generator import default_generator
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from zyx.graph.node import Leaf, Node
    from zyx.shape import Shape

    Step = Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[Sequence[Tensor], Sequence[Tensor]]]

#: Bodies by what they compute. Loops whose bodies are equal but not the same would have plans of their own.
_BODIES: Final[OrderedDict[Hashable, Body]] = OrderedDict()
_MOST_BODIES: Final = 256
#: Steps up to this number are nodes each where sizes of what is carried vary.
_MOST_APART: Final = 32


def leaf(shape: Shape, dtype: str, device: str) -> Leaf:
    """Return a leaf of a body. Nodes belong to no runtime, so that bodies may be kept."""
    return current().graph.leaf(shape, as_dtype(dtype), device)


def tensor(node: Node) -> Tensor:
    """Return a node of a body as a tensor."""
    return Tensor.of(node, current())


def output(loop: Loop, sources: tuple[Node, ...], number: int, like: Tensor) -> Tensor:
    """Return one output of a loop."""
    return like.like(loop.output(like.runtime.graph, sources, number))


def scan(
    step: Step, carries: Sequence[Tensor], sequences: Sequence[Tensor], *, is_backward: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """Return what carries become after all places of sequences, and rows of all places along a new first axis.

        new, rows = step(carries, [sequence[place] for sequence in sequences])      for each place

    `step` is called once, with tensors that have no values yet. What else it reads is the same in all steps, and what
    it computes of that alone is computed once.

    Args:
        step: From what is carried and the slices to what is carried on, of equal shapes and dtypes, and the rows.
        carries: What the first step gets.
        sequences: ``(length, ...)``, on the device of `carries`, of at least one place.
        is_backward: Whether the last place is the first step. Rows lie at the place of their step.

    Raises:
        TraceError: The step reads values, changes the shape or dtype of what is carried, draws from the default
            generator, holds a loop or what the host computes, or has arrays without elements.
    """
    length = sequences[0].shape[0]
    if length == 1 or (length <= _MOST_APART and _vary(carries) and not isinstance(length, VaryingSize)):
        return _apart(step, carries, sequences, reversed(range(length)) if is_backward else range(length))
    sources = [part.node for part in (*carries, *sequences)]
    given = [leaf(node.shape, node.dtype.name, node.device) for node in sources[: len(carries)]]
    slices = [leaf((1, *node.shape[1:]), node.dtype.name, node.device) for node in sources[len(carries) :]]
    random = default_generator().state
    drawn = random.node
    new, rows = step([tensor(part) for part in given], [tensor(part)[0] for part in slices])
    if random.node is not drawn:
        raise TraceError("a step of a loop draws random numbers, which would be the same in all steps")
    if [(part.shape, part.dtype) for part in new] != [(part.shape, part.dtype) for part in carries]:
        raise TraceError("a step of a loop carries on arrays of other shapes or dtypes than it was given")
    outputs = [*(part.node for part in new), *(row.node for row in rows)]
    outputs, constants = _with_leaves(outputs, {*given, *slices})
    _check(outputs, sources)
    body = _body(given, slices, [own for _, own in constants], outputs)
    loop = Loop(body, length, 1, is_backward, backward)
    whole = (*sources, *(outside for outside, _ in constants))
    found = [output(loop, whole, number, sequences[0]) for number in range(len(outputs))]
    return found[: len(given)], found[len(given) :]


def _vary(carries: Sequence[Tensor]) -> bool:
    """Whether what is carried has a size that varies: a trace for many lengths has no loops of such."""
    return any(isinstance(size, VaryingSize) for part in carries for size in part.shape)


def _apart(
    step: Step, carries: Sequence[Tensor], sequences: Sequence[Tensor], places: Iterable[int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return what `scan` does, of nodes for each step."""
    found = {}
    for place in places:
        carries, found[place] = step(carries, [sequence[place] for sequence in sequences])
    return list(carries), [stack(list(rows)) for rows in zip(*(found[place] for place in sorted(found)), strict=True)]


def _with_leaves(outputs: Sequence[Node], own: set[Leaf]) -> tuple[list[Node], list[tuple[Node, Leaf]]]:
    """Return a body's outputs over leaves in place of what does not depend on its `own`, and these with what they are.

    Movement stays in the body, as do constants: kernels compute them where they read.
    """
    order = topological(outputs)
    inner: set[Node] = set(own)
    for node in order:
        if node.storage is None and not inner.isdisjoint(node.sources):
            inner.add(node)
    graph = Graph()
    new: dict[Node, Node] = {part: part for part in own}
    constants: list[tuple[Node, Leaf]] = []

    def outside(node: Node) -> Node:
        above: list[Node] = []
        while node not in new and node.storage is None and isinstance(node, MOVEMENT):
            above.append(node)
            node = node.sources[0]
        if node not in new:
            if node.storage is None and isinstance(node, n.Const | n.Iota):
                new[node] = node
            else:
                new[node] = graph.leaf(node.shape, node.dtype, node.device)
                constants.append((node, new[node]))  # type: ignore[arg-type]  # a leaf, as the line above says
        for moved in reversed(above):
            new[moved] = rebuild(graph, moved, [new[moved.sources[0]]])
        return new[above[0]] if above else new[node]

    for node in order:
        if node in inner and node not in new:
            new[node] = rebuild(graph, node, [new[x] if x in inner else outside(x) for x in node.sources])
    return [new[node] if node in inner else outside(node) for node in outputs], constants


def _check(outputs: Sequence[Node], sources: Sequence[Node]) -> None:
    """Refuse what has no place in a loop.

    Raises:
        TraceError: As `scan` says.
    """
    for node in topological(outputs):
        if isinstance(node, n.Custom | n.ToDevice):
            raise TraceError(f"{node!r} has no place in a step of a loop")
        if 0 in node.shape:
            raise TraceError(f"{node!r} of a step of a loop has no elements")
    if any(0 in node.shape for node in sources):
        raise TraceError("a loop over arrays without elements has no steps")


def _body(carries: list[Leaf], slices: list[Leaf], constants: list[Leaf], outputs: list[Node]) -> Body:
    """Return a body that computes this: one that was made before, if it computes the same."""
    graph = Graph()
    leaves = [*carries, *slices, *constants]
    # All leaves are counted, also those that nothing reads.
    key = (len(carries), len(slices), signature([*leaves, *outputs])[0])
    body = _BODIES.pop(key, None)
    if body is None:
        rows = tuple(graph.reshape(row, (1, *row.shape)) for row in outputs[len(carries) :])
        new = tuple(outputs[: len(carries)])
        lies = tuple(Lie(0) for _ in slices), tuple(Lie(0) for _ in rows)
        body = with_saved(Body(tuple(carries), tuple(slices), tuple(constants), new, rows, *lies), True)
    _BODIES[key] = body
    if len(_BODIES) > _MOST_BODIES:
        _BODIES.popitem(last=False)
    return body
