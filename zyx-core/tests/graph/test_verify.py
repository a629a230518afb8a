"""Each rule of the graph has a node that breaks it alone."""

import pytest

from zyx import dtype as dtypes
from zyx.errors import VerifyError
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.verify import verify
from zyx.ops import BinaryOp, FourierKind, ReduceOp, UnaryOp

F, INT, B = dtypes.float32, dtypes.int32, dtypes.bool_
X = n.Leaf((4, 3), F, "a", ())
INTEGERS = n.Leaf((4, 3), INT, "a", ())
MASK = n.Leaf((4, 3), B, "a", ())
STATE = n.Leaf((4,), dtypes.uint32, "a", ())
TABLE = n.Leaf((32,), F, "a", ())  # of transforms of 4
REAL_TABLE = n.Leaf((42,), F, "a", ())  # of transforms of 8 real numbers
ELSEWHERE = n.Leaf((4, 3), F, "b", ())


def fourier(shape, dtype, sources, axis=1, kind=FourierKind.COMPLEX):
    return n.Fourier(shape, dtype, sources[0].device, sources, axis, False, 1.0, kind)


BROKEN = [
    (1, n.Leaf((4, -1), F, "a", ())), (1, n.Leaf((4.0,), F, "a", ())), (1, n.Unary((4, 3), F, "a", (), UnaryOp.NEG)),
    (1, n.Cast((4, 3), F, "a", (X, X))), (2, n.Unary((4, 3), F, "a", (ELSEWHERE,), UnaryOp.NEG)),
    (2, n.Binary((4, 3), F, "a", (X, ELSEWHERE), BinaryOp.ADD)), (4, n.Const((), dtypes.uint8, "a", (), 300)),
    (4, n.Const((), F, "a", (), 0.1)), (5, n.Iota((4,), F, "a", (), 0)), (5, n.Iota((4,), INT, "a", (), 1)),
    (6, n.Reshape((12,), INT, "a", (X,))), (7, n.Reshape((13,), F, "a", (X,))), (8, n.Expand((4, 6), F, "a", (X,))),
    (8, n.Expand((4, 3, 1), F, "a", (X,))), (9, n.Permute((4, 3), F, "a", (X,), (0, 0))),
    (9, n.Permute((4, 3), F, "a", (X,), (1, 0))), (10, n.Pad((4, 3), F, "a", (X,), ((0, 0),), 0.0)),
    (10, n.Pad((3, 3), F, "a", (X,), ((0, -1), (0, 0)), 0.0)), (10, n.Pad((5, 3), F, "a", (X,), ((0, 0), (0, 0)), 0.0)),
    (10, n.Shrink((4, 4), F, "a", (X,), ((0, 4), (0, 4)))), (10, n.Shrink((4, 3), F, "a", (X,), ((0, 3), (0, 3)))),
    (10, n.Flip((4, 3), F, "a", (X,), (2,))), (11, n.Slide((4, 3), F, "a", (X,), 0, 0, 1, 1)),
    (11, n.Slide((2, 3), F, "a", (X,), 0, 1, 0, 1)), (11, n.Slide((3, 3), F, "a", (X,), 0, 1, 1, 1)),
    (11, n.Slide((2, 2), F, "a", (X,), 0, 1, 1, 1)), (11, n.Unslide((5, 3), F, "a", (X,), 0, 1, 1, 1)),
    (12, n.Unary((4, 3), F, "a", (X,), UnaryOp.NOT)), (12, n.Unary((3, 4), F, "a", (X,), UnaryOp.NEG)),
    (12, n.Binary((4, 3), F, "a", (X, INTEGERS), BinaryOp.ADD)), (12, n.Binary((4, 3), F, "a", (X, X), BinaryOp.LT)),
    (12, n.Binary((4, 3), F, "a", (X, X), BinaryOp.SHL)), (12, n.Where((4, 3), F, "a", (X, X, X))),
    (12, n.Where((4, 3), F, "a", (MASK, X, INTEGERS))), (13, n.Cast((3, 4), INT, "a", (X,))),
    (13, n.Bitcast((4, 3), dtypes.float64, "a", (X,))), (13, n.Bitcast((4, 3), dtypes.uint8, "a", (MASK,))),
    (14, n.Reduce((4, 3), F, "a", (X,), ReduceOp.SUM, (1,))),
    (14, n.Reduce((4, 1), INT, "a", (X,), ReduceOp.SUM, (1,))),
    (14, n.Reduce((4, 1), F, "a", (X,), ReduceOp.XOR, (1,))), (14, n.Reduce((4, 3), F, "a", (X,), ReduceOp.SUM, (2,))),
    (14, n.Scan((4, 3), F, "a", (X,), ReduceOp.SUM, 2)), (15, n.Gather((4, 3), F, "a", (X, X), 0)),
    (15, n.Gather((4,), F, "a", (X, STATE), 0)), (15, n.Gather((4, 3), INT, "a", (X, INTEGERS), 0)),
    (15, n.Gather((4, 2), F, "a", (X, n.Leaf((4, 2), INT, "a", ())), 0)),
    (15, n.Scatter((4, 3), F, "a", (X, INTEGERS, INTEGERS), 0, None)),
    (15, n.Scatter((4, 3), F, "a", (X, INTEGERS, X), 0, ReduceOp.OR)),
    (15, n.Scatter((4, 2), F, "a", (X, INTEGERS, X), 0, None)), (16, n.RandomBits((2,), dtypes.uint32, "a", (X,), 0)),
    (16, n.RandomBits((2,), F, "a", (STATE,), 0)), (17, n.Contiguous((3, 4), F, "a", (X,))),
    (17, n.ToDevice((4, 3), INT, "b", (X,))),
    (17, n.Alias((4, 3), INT, "a", (X,), detached=True)),
    (21, fourier((1, 4, 1, 2), F, (n.Leaf((1, 4, 1, 2), dtypes.float64, "a", ()), TABLE))),
    (21, fourier((1, 17, 1, 2), F, (n.Leaf((1, 17, 1, 2), F, "a", ()), TABLE))),
    (21, fourier((1, 4, 1, 2), F, (n.Leaf((1, 4, 1, 2), F, "a", ()), X))),
    (21, fourier((1, 4, 4, 2), F, (n.Leaf((1, 4, 4, 2), F, "a", ()), TABLE), 2)),
    (21, fourier((4,), dtypes.complex64, (n.Leaf((4,), dtypes.complex64, "a", ()), TABLE))),
    (21, fourier((4,), dtypes.complex128, (n.Leaf((4,), dtypes.complex128, "a", ()), TABLE), 0)),
    (21, fourier((1, 4, 1, 2), F, (n.Leaf((1, 8, 1), F, "a", ()), REAL_TABLE), 1, FourierKind.FROM_REAL)),
    (21, fourier((8,), F, (n.Leaf((8,), F, "a", ()), REAL_TABLE), 0, FourierKind.TO_REAL)),
    (21, fourier((8,), F, (n.Leaf((5,), dtypes.complex64, "a", ()), TABLE), 0, FourierKind.TO_REAL)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "node"), BROKEN, ids=[f"{rule}-{node!r}" for rule, node in BROKEN])
def test_a_broken_rule_is_named_with_the_node_and_its_sources(rule, node):
    with pytest.raises(VerifyError, match=f"^rule {rule}: ") as caught:
        verify([node])
    assert "\n> %" in str(caught.value)


def test_what_is_behind_stored_nodes_is_checked_too():
    broken = n.Reshape((13,), F, "a", (X,))
    broken.storage = object()
    with pytest.raises(VerifyError, match="rule 7: 12 elements become 13"):
        verify([n.Unary((13,), F, "a", (broken,), UnaryOp.NEG)])


def test_circles_are_found():
    first = n.Unary((4, 3), F, "a", (X,), UnaryOp.NEG)
    second = n.Unary((4, 3), F, "a", (first,), UnaryOp.NEG)
    first.sources = (second,)
    with pytest.raises(VerifyError, match=r"rule 3: .* depends on itself"):
        verify([second])


def test_what_the_graph_makes_is_sound():
    g = Graph()
    x = g.leaf((4, 3), F, "a", object())
    y = g.reduce(ReduceOp.SUM, g.binary(BinaryOp.MUL, x, x), (0, 1))
    z = g.where(g.binary(BinaryOp.LT, x, g.expand(y, (4, 3))), x, g.const(float("nan"), F, "a", (4, 3)))
    verify([z, g.to_device(g.slide(x, 0, 1, 2), "b"), g.pad(g.flip(x, (0,)), [(1, 1), (0, 0)], 1.0)])


def test_deep_graphs_are_checked_without_recursion():
    g = Graph()
    node = g.leaf((2,), F, "a", object())
    for _ in range(10_000):
        node = g.unary(UnaryOp.NEG, node)
    verify([node])
