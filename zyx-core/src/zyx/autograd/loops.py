"""The gradient of a loop: a loop from the last step to the first.

    h = tanh(given[i] + h @ w.T)                        forward, h is carried
    d = dh * (1 - h * h);  dgiven[i] = d;  dh = d @ w   backward, dh is carried
    dw += d[block].T @ h[block]                         over blocks of steps, where the body names the product

What the way back needs of each step besides sequences is written by the way there: carries as the step found them, and
results of products. Constants of other products have their gradients added up on the way.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx import dtype as dtypes
from zyx.autograd.gradient import pulled_back
from zyx.errors import GradientError
from zyx.graph import Graph
from zyx.graph.loop import Body, Lie, Loop, Product
from zyx.graph.node import Unary
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.ops import TRANSCENDENTAL, BinaryOp, ReduceOp
from zyx.shape import cached_by_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.graph.node import Custom, Leaf, Node

#: Most places that are one step of a loop which has no other reason to take them one by one.
MOST_TOGETHER: Final = 16


def block_of(length: int) -> int:
    """Return how many places of so many are to be a step: few different numbers, for few kernels."""
    return min(MOST_TOGETHER, 1 << (length.bit_length() - 1))


def with_saved(body: Body, is_single: bool) -> Body:
    """Return a body that also writes what the way back may need, if a step has one place; see `Body.saved`.

    That is the carries it found, results of products, and of what takes long to compute for an element.
    """
    if not is_single:
        return body
    costly = [
        node for node in topological((*body.new, *body.rows)) if isinstance(node, Unary) and node.op in TRANSCENDENTAL
    ]
    graph = Graph()
    saved = (*body.carries, *(product.result for product in body.products), *costly)
    rows = [graph.reshape(node, (1, *node.shape)) for node in saved]
    return replace(body, rows=(*body.rows, *rows), row_lies=(*body.row_lies, *(Lie(0) for _ in saved)), saved=saved)


@dataclass(frozen=True, slots=True, eq=False)
class _Adjoint:
    """The way back of a body, from one of its outputs.

    Attributes:
        body: What a step of it does.
        carried: For each carry of `body`, the number of the source whose gradient it becomes.
        slices: For each slice but the first `upstream` ones, the number of the source that it is of, or of the row.
        of_slice: For the number of a slice, which row is the gradient at it.
        of_product: For the number of a product, which row is the gradient at its result.
        upstreams: How many of the first slices are the gradient at a row.
    """

    body: Body
    carried: tuple[int, ...]
    slices: tuple[tuple[bool, int], ...]
    of_slice: Mapping[int, int]
    of_product: Mapping[int, int]
    upstreams: int


def backward(graph: Graph, node: Custom, upstream: Node) -> list[Node | None]:
    """Return the gradients at the sources of one output of a loop; see `zyx.graph.loop.Loop.gradient`."""
    loop = node.kernel
    assert isinstance(loop, Loop)
    body, sources = loop.body, node.sources
    way = _way_back(body, node.output, loop.block)
    carries, slices = len(body.carries), len(body.slices)
    inits: list[Node] = []
    for source in way.carried:
        if source == node.output < carries:
            inits.append(upstream)
        else:
            like = sources[source]
            inits.append(graph.const(0, like.dtype, like.device, like.shape))
    sequences = [upstream] * way.upstreams
    for is_source, number in way.slices:
        sequences.append(sources[number] if is_source else loop.output(graph, sources, number))
    back = Loop(way.body, loop.length, loop.block, not loop.is_backward, backward)
    given = (*inits, *sequences, *sources[carries + slices :])
    found: list[Node | None] = [None] * len(sources)
    if not given:
        return found
    for number, source in enumerate(way.carried):
        found[source] = back.output(graph, given, number)
    first = len(way.carried)
    for slice_, row in way.of_slice.items():
        found[carries + slice_] = back.output(graph, given, first + row)
    for which, row in way.of_product.items():
        product = body.products[which]
        left = loop.output(graph, sources, _first_saved(body) + body.saved.index(product.left))
        slope = back.output(graph, given, first + row)
        _of_product(graph, product, slope, left, sources, carries + slices, found)
    return found


def _first_saved(body: Body) -> int:
    """Return the number of the output that has the first of what is saved."""
    return len(body.carries) + len(body.rows) - len(body.saved)


def _of_product(
    graph: Graph,
    product: Product,
    slope: Node,
    left: Node,
    sources: Sequence[Node],
    first: int,
    found: list[Node | None],
) -> None:
    """Note the gradients at the constants of a product, from those at its results and from what was on the left."""
    length, places = slope.shape[0], block_of(slope.shape[0])
    has_bias = product.bias is not None
    body = _product_body(slope.shape[1:], left.shape[1:], slope.dtype.name, slope.device, places, has_bias)
    inits = [graph.const(0, leaf.dtype, leaf.device, leaf.shape) for leaf in body.carries]
    loop = Loop(body, length, places, False, backward)
    given = (*inits, slope, left)
    for number, which in enumerate((product.weight, product.bias) if has_bias else (product.weight,)):
        assert which is not None
        part = loop.output(graph, given, number)
        old = found[first + which]
        found[first + which] = part if old is None else graph.binary(BinaryOp.ADD, old, part)


@cached_by_shape
def _product_body(
    slope: tuple[int, ...], left: tuple[int, ...], dtype: str, device: str, places: int, has_bias: bool
) -> Body:
    """Return the body that adds up ``slope.T @ left`` over blocks of places, and `slope` if there is a bias."""
    graph = Graph()
    kind = dtypes.as_dtype(dtype)
    d, x = (graph.leaf((places, *shape), kind, device) for shape in (slope, left))
    weight, bias = graph.leaf((slope[-1], left[-1]), kind, device), graph.leaf((slope[-1],), kind, device)
    count = 1
    for size in (places, *slope[:-1]):
        count *= size
    a, b = graph.reshape(d, (count, slope[-1])), graph.reshape(x, (count, left[-1]))
    whole = (count, slope[-1], left[-1])
    terms = graph.binary(
        BinaryOp.MUL,
        graph.expand(graph.reshape(a, (count, slope[-1], 1)), whole),
        graph.expand(graph.reshape(b, (count, 1, left[-1])), whole),
    )
    added = graph.reshape(graph.reduce(ReduceOp.SUM, terms, (0,)), whole[1:])
    new = [graph.binary(BinaryOp.ADD, weight, added)]
    if has_bias:
        summed = graph.reshape(graph.reduce(ReduceOp.SUM, a, (0,)), (slope[-1],))
        new.append(graph.binary(BinaryOp.ADD, bias, summed))
    carries = (weight, bias) if has_bias else (weight,)
    return with_saved(
        Body(carries, (d, x), (), tuple(new), (), (Lie(0), Lie(0)), (), masked=frozenset({d})), places == 1
    )


@functools.lru_cache(maxsize=256)
def _way_back(body: Body, output: int, block: int) -> _Adjoint:
    """Return the way back from one output.

    Raises:
        GradientError: Steps of several places depend on what the ones before them computed.
    """
    graph = Graph()
    is_single = block == 1
    carries = len(body.carries)
    steps = _slopes(graph, body, output, is_single=is_single)
    stand_ins, leaves = _stand_ins(graph, body)
    new, starts, carried = _carried(graph, body, steps)
    rows: list[Node] = []
    row_lies: list[Lie] = []
    of_slice: dict[int, int] = {}
    of_product: dict[int, int] = {}
    for place, part in steps.slices.items():
        if part is not None:
            of_slice[place] = _row(rows, row_lies, part, body.slice_lies[place])
    for place, part in steps.products.items():
        if part is not None:
            of_product[place] = _row(rows, row_lies, graph.reshape(part, (1, *part.shape)), Lie(0))
    outputs = _replaced(graph, [*new, *rows], stand_ins)
    reached = set(topological(outputs))
    if not is_single and not reached.isdisjoint(body.carries):
        raise GradientError("steps of several places that depend on those before them have no gradient")
    used = [leaf for leaf in leaves if leaf in reached]
    slopes = [leaf for leaf in steps.upstream if leaf in reached]
    lies = [body.row_lies[output - carries] for _ in slopes]
    for read in used:
        is_source, number = leaves[read]
        lies.append(body.slice_lies[number - carries] if is_source else Lie(0))
    back = Body(
        tuple(starts),
        (*slopes, *used),  # type: ignore[arg-type]  # leaves all
        body.constants,
        tuple(outputs[: len(new)]),
        tuple(outputs[len(new) :]),
        tuple(lies),
        tuple(row_lies),
        masked=body.masked.intersection(reached)
        | ({slopes[-1]} if slopes and not is_single and steps.constants else set()),
    )
    return _Adjoint(
        with_saved(back, is_single),
        tuple(carried),
        tuple(leaves[leaf] for leaf in used),
        of_slice,
        of_product,
        len(slopes),
    )


class _Slopes(NamedTuple):
    """The gradients in a step of the way back; None where nothing depends on it.

    Attributes:
        states: For each carry that has a gradient, the leaf of the gradient at what it becomes.
        upstream: The leaves of the gradient at the row; the last one has 0 where another step counts it as well.
        carries, slices, products, constants: By their numbers, the gradients at these.
    """

    states: dict[int, Leaf]
    upstream: list[Leaf]
    carries: dict[int, Node | None]
    slices: dict[int, Node | None]
    products: dict[int, Node | None]
    constants: dict[int, Node | None]


def _slopes(graph: Graph, body: Body, output: int, *, is_single: bool) -> _Slopes:
    """Return the gradients in a step, of what its outputs have and what the step after it in the loop gives."""
    carries = [place for place, leaf in enumerate(body.carries) if leaf.dtype.is_inexact]
    states: dict[int, Leaf] = {}
    for place in carries:
        leaf = body.carries[place]
        states[place] = graph.leaf(leaf.shape, leaf.dtype, leaf.device)
    targets: list[tuple[Node, Node]] = [(body.new[place], leaf) for place, leaf in states.items()]
    masked = targets
    upstream: list[Leaf] = []
    if output >= len(body.carries):
        row = body.rows[output - len(body.carries)]
        upstream = [graph.leaf(row.shape, row.dtype, row.device) for _ in range(1 if is_single else 2)]
        masked = [*targets, (row, upstream[-1])]
        targets = [*targets, (row, upstream[0])]
    products = body.products if is_single else ()
    hidden = {constant for product in products for constant in (product.weight, product.bias)}
    constants = [place for place, leaf in enumerate(body.constants) if leaf.dtype.is_inexact and place not in hidden]
    slices = [place for place, leaf in enumerate(body.slices) if leaf.dtype.is_inexact]
    wanted = [
        *(body.carries[place] for place in carries),
        *(body.slices[place] for place in slices),
        *(product.result for product in products),
        *(body.constants[place] for place in constants),
    ]
    found = pulled_back(graph, targets, wanted)
    first = len(found) - len(constants)
    if not is_single:
        found[first:] = pulled_back(graph, masked, wanted)[first:]
    parts = iter(found)
    kinds = (carries, slices, range(len(products)), constants)
    return _Slopes(states, upstream, *[{place: next(parts) for place in places} for places in kinds])


def _stand_ins(graph: Graph, body: Body) -> tuple[dict[Node, Node], dict[Node, tuple[bool, int]]]:
    """Return what stands for what the way there has written; and for leaves which source or row they are slices of."""
    stand_ins: dict[Node, Node] = {}
    leaves: dict[Node, tuple[bool, int]] = {}
    for number, old in enumerate(body.saved, _first_saved(body)):
        leaf = graph.leaf((1, *old.shape), old.dtype, old.device)
        stand_ins[old] = graph.reshape(leaf, old.shape)
        leaves[leaf] = (False, number)
    for place, slice_ in enumerate(body.slices):
        leaves[slice_] = (True, len(body.carries) + place)
    return stand_ins, leaves


def _carried(graph: Graph, body: Body, slopes: _Slopes) -> tuple[list[Node], list[Leaf], list[int]]:
    """Return what the carries of the way back become, their leaves, and which sources they are the gradients at."""
    new: list[Node] = []
    starts: list[Leaf] = []
    carried: list[int] = []
    for place, part in slopes.carries.items():
        like = body.carries[place]
        new.append(graph.const(0, like.dtype, like.device, like.shape) if part is None else part)
        starts.append(slopes.states[place])
        carried.append(place)
    first = len(body.carries) + len(body.slices)
    for place, part in slopes.constants.items():
        if part is not None:
            like = body.constants[place]
            total = graph.leaf(like.shape, like.dtype, like.device)
            new.append(graph.binary(BinaryOp.ADD, total, part))
            starts.append(total)
            carried.append(first + place)
    return new, starts, carried


def _row(rows: list[Node], lies: list[Lie], row: Node, lie: Lie) -> int:
    """Return which of the rows `row` is; it is added if it is none."""
    for number, known in enumerate(zip(rows, lies, strict=True)):
        if known == (row, lie):
            return number
    rows.append(row)
    lies.append(lie)
    return len(rows) - 1


def _replaced(graph: Graph, nodes: Sequence[Node], stand_ins: Mapping[Node, Node]) -> list[Node]:
    """Return `nodes` over others in place of some."""
    new: dict[Node, Node] = dict(stand_ins)
    for node in topological(nodes):
        if node not in new:
            new[node] = rebuild(graph, node, [new[source] for source in node.sources]) if node.sources else node
    return [new[node] for node in nodes]
