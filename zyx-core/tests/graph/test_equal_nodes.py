"""Equal nodes are one node, for as long as it lives, and nothing is kept alive for that."""

import weakref

import pytest

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph.graph import _LEAST_FORGOTTEN
from zyx.graph.live import LiveGraph
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

F32 = dtypes.float32
X = Graph().leaf((4, 3), F32, "a", object())
Y = Graph().leaf((4, 3), F32, "a", object())
COLUMN = Graph().leaf((4, 1), F32, "a", object())
MASK = Graph().leaf((4, 3), dtypes.bool_, "a", object())
INDEX = Graph().leaf((4, 2), dtypes.int32, "a", object())
UPDATES = Graph().leaf((4, 2), F32, "a", object())
STATE = Graph().leaf((4,), dtypes.uint32, "a", object())
SEVEN = Graph().leaf((7, 3), F32, "a", object())
WINDOWS = Graph().leaf((3, 3), F32, "a", object())

BUILDERS = {
    "const": lambda g: g.const(0.5, F32, "a", (2,)),
    "nan": lambda g: g.const(float("nan"), F32, "a", (2,)),
    "iota": lambda g: g.iota((2, 3), 1, dtypes.int64, "a"),
    "reshape": lambda g: g.reshape(X, (12,)),
    "expand": lambda g: g.expand(COLUMN, (4, 3)),
    "permute": lambda g: g.permute(X, (1, 0)),
    "pad": lambda g: g.pad(X, [(1, 0), (0, 2)], -1.0),
    "shrink": lambda g: g.shrink(X, [(1, 3), (0, 3)]),
    "flip": lambda g: g.flip(X, (0,)),
    "slide": lambda g: g.slide(SEVEN, 0, 1, 3, 2),
    "unslide": lambda g: g.unslide(WINDOWS, 0, 1, 7, 2),
    "unary": lambda g: g.unary(UnaryOp.EXP, X),
    "binary": lambda g: g.binary(BinaryOp.ADD, X, Y),
    "comparison": lambda g: g.binary(BinaryOp.LT, X, Y),
    "where": lambda g: g.where(MASK, X, Y),
    "cast": lambda g: g.cast(X, dtypes.float16),
    "bitcast": lambda g: g.bitcast(X, dtypes.int32),
    "reduce": lambda g: g.reduce(ReduceOp.SUM, X, (0,)),
    "scan": lambda g: g.scan(ReduceOp.SUM, X, 0),
    "gather": lambda g: g.gather(X, INDEX, 1),
    "scatter": lambda g: g.scatter(X, INDEX, UPDATES, 1),
    "random": lambda g: g.random_bits(STATE, (8,), dtypes.uint32),
    "contiguous": lambda g: g.contiguous(g.unary(UnaryOp.EXP, X)),
    "to_device": lambda g: g.to_device(X, "b"),
    "detach": lambda g: g.detach(X),
    "custom": lambda g: g.custom("a kernel", (X,), 0, (4, 3), F32),
}


@pytest.mark.parametrize("kind", [Graph, LiveGraph])
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_building_twice_gives_one_node_and_another_graph_can_take_it_over(build, kind):
    graph, other = kind(), kind()
    first = build(graph)
    assert build(graph) is first
    for source in first.sources:
        other.adopt(source)
    other.adopt(first)
    assert build(other) is first
    assert first not in [make(graph) for make in BUILDERS.values() if make is not build]


@pytest.mark.parametrize("kind", [Graph, LiveGraph])
def test_what_differs_in_one_thing_is_another_node(kind):
    graph = kind()
    nodes = [
        graph.binary(BinaryOp.SUB, X, Y), graph.binary(BinaryOp.SUB, Y, X), graph.binary(BinaryOp.ADD, X, Y),
        graph.binary(BinaryOp.SUB, X, X), graph.unary(UnaryOp.NEG, X), graph.unary(UnaryOp.NEG, Y),
        graph.unary(UnaryOp.ABS, X), graph.cast(X, dtypes.float16), graph.cast(X, dtypes.float64),
        graph.const(0.0, F32, "a"), graph.const(-0.0, F32, "a"), graph.const(0, dtypes.int32, "a"),
        graph.const(False, dtypes.bool_, "a"), graph.const(0.0, F32, "b"), graph.const(0.0, F32, "a", (1,)),
        graph.reduce(ReduceOp.SUM, X, (0,)), graph.reduce(ReduceOp.SUM, X, (1,)), graph.reduce(ReduceOp.MAX, X, (0,)),
    ]  # fmt: skip
    assert len(set(nodes)) == len(nodes)


READERS = {
    "x - y": lambda g, x: g.binary(BinaryOp.SUB, x, Y),
    "x - x": lambda g, x: g.binary(BinaryOp.SUB, x, x),
    "x + y": lambda g, x: g.binary(BinaryOp.ADD, x, Y),
    "-x": lambda g, x: g.unary(UnaryOp.NEG, x),
}


@pytest.mark.parametrize("second", READERS.values(), ids=READERS)
@pytest.mark.parametrize("first", READERS.values(), ids=READERS)
def test_each_of_several_readers_is_found_whichever_dies(first, second):
    graph, x = LiveGraph(), Graph().leaf((4, 3), F32, "a", object())
    gone = weakref.ref(first(graph, x))
    assert gone() is None
    node, other = first(graph, x), second(graph, x)
    assert (node is other) == (first is second)
    assert (first(graph, x), second(graph, x)) == (node, other)
    del node
    assert second(graph, x) is other
    everything = [build(graph, x) for build in READERS.values()]
    assert other in everything
    assert [build(graph, x) for build in READERS.values()] == everything
    assert len(set(everything)) == len(everything)
    del everything, other
    assert [reference for reference in graph._nodes.values() if reference() is not None] == []


@pytest.mark.parametrize("adopted", READERS.values(), ids=READERS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_reader_is_taken_over_beside_others(adopted, is_first):
    graph, x = LiveGraph(), Graph().leaf((4, 3), F32, "a", object())
    others = [] if is_first else [build for build in READERS.values() if build is not adopted][:1]
    kept = [build(graph, x) for build in others]
    node = adopted(Graph(), x)
    graph.adopt(node)
    assert adopted(graph, x) is node
    assert [build(graph, x) for build in others] == kept


def test_readers_of_live_graphs_are_not_those_of_others():
    """A plan is made in a graph of its own, and must not find a node whose values lie in memory."""
    x = Graph().leaf((4, 3), F32, "a", object())
    node = LiveGraph().binary(BinaryOp.ADD, x, Y)
    node.storage = object()
    assert Graph().binary(BinaryOp.ADD, x, Y) is not node
    assert LiveGraph().binary(BinaryOp.ADD, x, Y) is node


def test_aliases_and_copies_equal_nothing():
    graph = Graph()
    assert graph.alias(X) is not graph.alias(X)
    assert graph.copy(X) is not graph.copy(X)


@pytest.mark.parametrize("apply", [lambda g, x: g.unary(UnaryOp.NEG, x), lambda g, x: g.reduce(ReduceOp.SUM, x, (0,))])
def test_what_died_is_never_taken_for_what_lies_at_its_place_now(apply):
    graph = Graph()
    places = set()
    for _ in range(3 * _LEAST_FORGOTTEN):
        x = graph.leaf((4, 3), F32, "a", object())
        places.add(id(x))
        y = apply(graph, x)
        assert y.sources == (x,)
        assert apply(graph, x) is y
        gone = weakref.ref(x)
        del x, y
        assert gone() is None  # no key keeps it
    assert len(places) < _LEAST_FORGOTTEN  # or this tests nothing
    assert len(graph._nodes) <= _LEAST_FORGOTTEN + 1


def test_the_dead_are_forgotten_and_the_living_are_not():
    graph = Graph()
    kept = [graph.const(value, dtypes.int32, "a") for value in range(5 * _LEAST_FORGOTTEN)]
    for value in range(20 * _LEAST_FORGOTTEN):
        graph.const(value, dtypes.int64, "a")
    assert len(graph._nodes) <= 3 * len(kept) + _LEAST_FORGOTTEN
    assert [graph.const(value, dtypes.int32, "a") for value in range(len(kept))] == kept
    graph._forget_dead()
    assert len(graph._nodes) == len(kept)
    del kept
    graph._forget_dead()
    assert graph._nodes == {}


def test_what_was_longer_for_a_while_is_what_it_was():
    graph = Graph()
    half, whole = (graph.leaf((3,), dtype, "a", object()) for dtype in (dtypes.float16, dtypes.int16))
    assert graph.cast(graph.cast(half, dtypes.float32), dtypes.float16) is half
    assert graph.cast(graph.cast(whole, dtypes.int64), dtypes.int16) is whole
    for node, between in (half, dtypes.bfloat16), (half, dtypes.int32), (whole, dtypes.uint32), (whole, dtypes.float32):
        back = graph.cast(graph.cast(node, between), node.dtype)
        assert back.sources[0].dtype is between
