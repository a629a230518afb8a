"""A longer graph has the values of a shorter one in front, whatever lies behind those of its leaves."""

import numpy as np
import pytest

import zyx
from zyx.errors import ShapeError
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.evaluate import evaluate
from zyx.graph.given import Box
from zyx.graph.walk import topological
from zyx.specialise.follow import Followed, follow
from zyx.specialise.length import Length
from zyx.specialise.longer import NoPrefixError, longer
from zyx.specialise.outline import outline
from zyx.testing.lengths import operand, program

#: The greatest length, and one that all sizes of a program are below at the lengths which are looked at.
BOUND = 32
MOST = 21


def graph_at(function, shape):
    """Return the operand, what is computed of it and all its nodes."""
    array = operand(shape, 5)
    node = function(zyx.Tensor(array)).node
    return array, node, topological([node])


def sizes_of(function, shape_at, first=6, second=9):
    """Return the structure of a function and how its sizes follow its length."""
    (_, node, order), (_, other, its_order) = (graph_at(function, shape_at(length)) for length in (first, second))
    one, two = outline([node], order), outline([other], its_order)
    return (one[0], follow([one[1], two[1]], 1)) if one and two and one[0] == two[0] else (None, None)


def check(function, shape_at, lengths, bound=BOUND):
    """Compare the longer graph with the shorter ones; return at how many lengths it was."""
    structure, sizes = sizes_of(function, shape_at)
    checked = 0
    for length in lengths if sizes else ():
        array, node, order = graph_at(function, shape_at(length))
        found = outline([node], order)
        if found is None or found[0] != structure or Followed(sizes).lengths_of(found[1]) is None:
            continue
        constants = [each for each in order if isinstance(each, n.Const)]
        made = longer([node], order, sizes, bound, constants)
        values = {number: np.array(each.value, each.dtype.numpy) for each, number in made.constants.items()}
        (at,) = Followed(sizes).lengths_of(found[1])
        values |= {number: np.array(size.at(at), np.int32) for size, number in made.lengths.items()}
        arrays = {long: array for long in made.leaves.values()}

        def given(leaf, values=values, arrays=arrays):
            if not isinstance(leaf, Box):
                return values[leaf] if leaf in values else arrays[leaf]
            longer_one = np.zeros(leaf.shape, np.float32)  # as what is not there reads
            longer_one[tuple(map(slice, arrays[leaf.data].shape))] = arrays[leaf.data]
            return longer_one

        with np.errstate(all="ignore"):
            (result,) = evaluate(made.outputs, given)
            (expected,) = evaluate([node], lambda _, array=array: array)
        front = tuple(map(slice, node.shape))
        np.testing.assert_allclose(result[front], expected, rtol=1e-3, atol=1e-5, err_msg=f"{length}")
        checked += 1
    return checked


def test_random_graphs_have_the_values_of_shorter_ones_in_front(interpreter):
    checked = refused = 0
    for seed in range(150):
        shape_at, function = program(seed)
        try:
            checked += check(function, shape_at, (6, 9, 4, 15, MOST))
        except (NoPrefixError, ShapeError):
            refused += 1
    assert checked > 500
    assert refused < 5


@pytest.mark.parametrize(
    ("function", "shape_at"),
    [
        (lambda x: x.sum(), lambda length: (length,)),
        (lambda x: x.max(), lambda length: (length,)),
        (lambda x: (x * x).prod(), lambda length: (length,)),
        (lambda x: (x > 0).all(), lambda length: (length,)),
        (lambda x: x.reshape(-1), lambda length: (length, 4)),
        (lambda x: x.reshape((-1, 2)), lambda length: (length, 4)),
        (lambda x: zyx.pad(x, ((2, 3),), value=7.0).sum(), lambda length: (length,)),
        (lambda x: x[1:] - x[:-1], lambda length: (length,)),
        (lambda x: x.mean() + x.cumsum(0), lambda length: (length,)),
        (lambda x: x @ x.transpose(0, 1), lambda length: (length, 3)),
        (lambda x: x.transpose(0, 1) @ x, lambda length: (length, 3)),
        (lambda x: x.sort(0), lambda length: (length, 2)),
        (lambda x: x.abs().round().argsort(0), lambda length: (length,)),
        (lambda x: x[x.argsort(0)], lambda length: (length,)),
        (lambda x: x.flip(0) - x, lambda length: (length,)),
        (lambda x: x.flip((0, 1)), lambda length: (length, 3)),
        (lambda x: zyx.concat([x, x * 2, x[:1]], 0), lambda length: (length,)),
        (lambda x: zyx.concat([x, x * 2], 1), lambda length: (3, length)),
        (lambda x: x[-2:], lambda length: (length, 2)),
        (lambda x: x[-1], lambda length: (length, 2)),
        (lambda x: x.reshape(-1), lambda length: (3, length)),
        (lambda x: x.reshape((-1, 3)), lambda length: (3, length)),
        (lambda x: x[x.argsort(0) - x.shape[0]], lambda length: (length,)),
        (lambda x: x[(x * 9).astype(zyx.int32) % 7 - 5], lambda length: (length + 5,)),
        (zyx.grad(lambda y: (y[y.argsort(0)] * y).sum()), lambda length: (length,)),
        (zyx.grad(lambda y: zyx.concat([y, y * y], 0).max()), lambda length: (length,)),
        (lambda x: zyx.zeros(5).scatter_add(0, (x * 9).astype(zyx.int32) % 5, x), lambda length: (length,)),
        (lambda x: x.scatter_add(0, (x * 9).astype(zyx.int32) % 5 - 3, x), lambda length: (length + 5,)),
        (lambda x: zyx.zeros((5, 2)).scatter_add(0, (x * 9).astype(zyx.int32) % 5, x), lambda length: (length, 2)),
        (
            lambda x: zyx.zeros((x.shape[0], 5)).scatter_add(1, (x * 9).astype(zyx.int32) % 5, x),
            lambda length: (length, 2),
        ),
        (lambda x: zyx.pad(x, ((BOUND - x.shape[0], 0),), value=2.0), lambda length: (length,)),
        (lambda x: zyx.pad(x, ((0, BOUND - x.shape[0]),), value=2.0), lambda length: (length,)),
    ],
)
def test_what_has_a_rule_is_right_at_every_length(interpreter, function, shape_at):
    # A length at which a shape becomes another one that is there already has a structure of its own.
    assert check(function, shape_at, range(2, MOST + 1)) >= MOST - 2


def test_an_index_that_cannot_hold_all_places_is_refused(interpreter):
    def function(x):
        return zyx.take_along_axis(x, (x > 0).astype(zyx.uint8), 0)

    with pytest.raises(NoPrefixError, match="an index of uint8"):
        check(function, lambda length: (length,), (6,))


def test_random_words_are_those_of_their_places_where_the_outermost_axis_varies():
    state = np.array([1, 2, 3, 4], np.uint32)

    def words(shape):
        graph = Graph()
        leaf = graph.leaf((4,), zyx.uint32, "test:0", state)
        return [leaf, graph.random_bits(leaf, shape, zyx.uint32, 5)]

    order, sizes = words((6, 3)), [Length(0, 4), Length(1, 0), Length(0, 3)]
    made = longer([order[1]], order, sizes, BOUND)
    (result,) = evaluate(made.outputs, lambda _: state)
    np.testing.assert_array_equal(result[:6], evaluate([order[1]], lambda _: state)[0])
    order = words((3, 6))
    with pytest.raises(NoPrefixError, match="depends on all"):
        longer([order[1]], order, [Length(0, 4), Length(0, 3), Length(1, 0)], BOUND)


def test_reductions_by_an_axis_that_does_not_vary_are_over_all_of_it(interpreter):
    _, node, order = graph_at(lambda x: x.sum(1), (6, 4))
    _, sizes = sizes_of(lambda x: x.sum(1), lambda length: (length, 4))
    made = longer([node], order, sizes, BOUND)
    assert not any(isinstance(each, n.Where) for each in topological(made.outputs))


def test_a_copy_of_a_leaf_is_no_other_name_for_it(interpreter):
    graph = Graph()
    leaf, varying = (graph.leaf((3,), zyx.float32, "test:0", object()) for _ in range(2))
    copy = graph.copy(leaf)
    made = longer([copy], [varying, leaf, copy], [Length(1, 0), Length(0, 3), Length(0, 3)], BOUND)
    assert made.outputs[0] is not made.leaves[leaf]
    assert made.outputs[0].sources == (made.leaves[leaf],)


class TestSizes:
    def test_one_length_gives_all_that_follow_it(self):
        found = follow([(8, 20, 160, 21, 3), (8, 31, 248, 32, 3)], 1)
        assert found == (Length(0, 8), Length(1, 0), Length(8, 0), Length(1, 1), Length(0, 3))
        assert Followed(found).lengths_of((8, 5, 40, 6, 3)) == (5,)
        assert Followed(found).lengths_of((8, 5, 40, 7, 3)) is None

    def test_lengths_that_vary_apart_are_not_one(self):
        assert follow([(4, 6), (6, 9)], 1) is None
        assert follow([(4, 6), (4, 6)], 1) is None
        assert follow([(4, 16), (6, 36)], 1) == (Length(1, 0), Length(10, -24))  # of n * n, which others tell

    def test_what_has_no_elements_has_no_outline(self):
        graph = Graph()
        empty = graph.const(1.0, zyx.float32, "test:0", (0, 3))
        assert outline([empty], [empty]) is None

    def test_structures_differ_in_all_but_sizes_and_constants(self):
        graph = Graph()

        def kind(node):
            return outline([node], topological([node]))[0]

        def leaf(*shape, dtype=zyx.float32):
            node = graph.leaf(shape, dtype, "test:0", object())
            return graph.pad(node, [(0, 1)] * len(shape), 0)

        assert kind(leaf(3)) == kind(leaf(4))
        assert kind(leaf(3)) != kind(leaf(3, 3))
        assert kind(leaf(3)) != kind(leaf(3, dtype=zyx.int32))
        assert kind(graph.permute(leaf(3, 4, 5), (1, 0, 2))) != kind(graph.permute(leaf(3, 4, 5), (2, 1, 0)))
        x = leaf(3)
        assert kind(graph.flip(x, (0,))) != kind(x)
