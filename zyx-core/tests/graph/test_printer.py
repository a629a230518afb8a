"""The text of a graph."""

import numpy as np

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph.printer import format_graph, format_node
from zyx.ops import BinaryOp, ReduceOp, UnaryOp


def test_a_graph_is_one_line_a_node_sources_first():
    g = Graph()
    x = g.leaf((4, 3), dtypes.float32, "c:0", object())
    top = g.expand(g.reduce(ReduceOp.MAX, x, (1,)), (4, 3))
    y = g.binary(BinaryOp.SUB, x, top)
    assert format_graph([y, top]) == (
        "%0: f32[4, 3] = leaf on c:0\n"
        "%1: f32[4, 1] = reduce %0, op=max, axes=(1,)\n"
        "%2: f32[4, 3] = expand %1\n"
        "%3: f32[4, 3] = sub %0, %2\n"
        "return %3, %2"
    )


def test_every_kind_has_its_attributes():
    g = Graph()
    x = g.leaf((4, 3), dtypes.float32, "a")
    index = g.leaf((4, 2), dtypes.int32, "a", np.zeros((4, 2), np.int32))
    updates = g.leaf((4, 2), dtypes.float32, "a", object(), history_lost=True)
    state = g.leaf((4,), dtypes.uint32, "a", object())
    names = {x: "%x", index: "%i", updates: "%u", state: "%s"}
    lines = {
        x: "%x: f32[4, 3] = leaf bound=later on a",
        updates: "%u: f32[4, 2] = leaf history=lost on a",
        g.const(0.5, dtypes.float16, "a", (2,)): "%?: f16[2] = const value=0.5 on a",
        g.iota((2, 3), 1, dtypes.int64, "a"): "%?: i64[2, 3] = iota axis=1 on a",
        g.reshape(x, (12,)): "%?: f32[12] = reshape %x",
        g.permute(x, (1, 0)): "%?: f32[3, 4] = permute %x, order=(1, 0)",
        g.pad(x, [(1, 0), (0, 2)], -1.0): "%?: f32[5, 5] = pad %x, widths=((1, 0), (0, 2)), value=-1.0",
        g.shrink(x, [(1, 3), (0, 3)]): "%?: f32[2, 3] = shrink %x, bounds=((1, 3), (0, 3))",
        g.flip(x, (0,)): "%?: f32[4, 3] = flip %x, axes=(0,)",
        g.slide(x, 0, 1, 2, 1, 1): "%?: f32[2, 3] = slide %x, axis=0, window=1, stride=1, dilation=1",
        g.unslide(x, 0, 1, 9, 2, 1): "%?: f32[9, 3] = unslide %x, axis=0, window=1, stride=2, dilation=1",
        g.unary(UnaryOp.EXP, x): "%?: f32[4, 3] = exp %x",
        g.cast(x, dtypes.int8): "%?: i8[4, 3] = cast %x",
        g.bitcast(x, dtypes.uint32): "%?: u32[4, 3] = bitcast %x",
        g.scan(ReduceOp.SUM, x, 1): "%?: f32[4, 3] = scan %x, op=sum, axis=1",
        g.gather(x, index, 1): "%?: f32[4, 2] = gather %x, %i, axis=1",
        g.scatter(x, index, updates, 1): "%?: f32[4, 3] = scatter %x, %i, %u, axis=1, op=replace",
        g.scatter(x, index, updates, 1, ReduceOp.SUM): "%?: f32[4, 3] = scatter %x, %i, %u, axis=1, op=sum",
        g.random_bits(state, (5,), dtypes.uint64, 3): "%?: u64[5] = random_bits %s, offset=3",
        g.contiguous(g.flip(x, (0,))): "%?: f32[4, 3] = contiguous %?",
        g.to_device(x, "b"): "%?: f32[4, 3] = to_device %x on b",
        g.detach(x): "%?: f32[4, 3] = detach %x",
        g.alias(x): "%?: f32[4, 3] = alias %x",
        g.custom("mine", (x,), 1, (2,), dtypes.float32): "%?: f32[2] = custom %x, kernel=mine, output=1",
    }
    for node, text in lines.items():
        assert format_node(node, names) == text


def test_stored_nodes_hide_what_they_were_computed_from():
    g = Graph()
    x = g.leaf((2,), dtypes.float32, "a", object())
    y = g.unary(UnaryOp.NEG, x)
    y.storage = object()
    assert format_graph([g.unary(UnaryOp.ABS, y)]) == "%0: f32[2] = neg stored\n%1: f32[2] = abs %0\nreturn %1"


def test_equal_graphs_have_equal_text():
    def build():
        g = Graph()
        x = g.leaf((2,), dtypes.float32, "a", object())
        return format_graph([g.binary(BinaryOp.MUL, g.unary(UnaryOp.EXP, x), x)])

    assert build() == build()
