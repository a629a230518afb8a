"""Nestings of lists, tuples and dicts: mapped, taken apart and put together."""

from collections import OrderedDict, defaultdict, namedtuple

import pytest

import zyx
from zyx import tree
from zyx.errors import ArgumentError

Pair = namedtuple("Pair", "first second")  # as users have them
TREES = [
    3, [], (), {}, None, [1, 2], (1,), {"a": 1, 2: 3}, Pair(1, [2, 3]), OrderedDict(b=1, a=(2,)),
    {"x": [None, (1, {"y": 2})], "z": "text"}, [[], {}, None, ()],
]  # fmt: skip


@pytest.mark.parametrize("given", TREES, ids=repr)
def test_what_is_taken_apart_is_put_together_again(given):
    leaves, structure = tree.flatten(given)
    again = tree.unflatten(structure, leaves)
    assert again == given
    assert type(again) is type(given)
    assert leaves == tree.leaves(given)
    assert structure == tree.structure(given)
    assert structure.size == len(leaves)


def test_leaves_come_in_order():
    assert tree.leaves({"b": [1, (2, None)], "a": Pair(3, {"c": 4})}) == [1, 2, 3, 4]


def test_structures_are_equal_where_nesting_classes_and_keys_are():
    different = [tree.structure(given) for given in TREES]
    for i, one in enumerate(different):
        for j, other in enumerate(different):
            assert (one == other) is (i == j), (one, other)
    assert tree.structure([1, {"a": 2}]) == tree.structure(["x", {"a": zyx.ones(2)}])
    assert len({*different, tree.structure([7, 8])}) == len(different)
    assert repr(tree.structure([1, {"a": 2}])) == "Structure([*, {'a': *}])"


def test_several_trees_are_mapped_together():
    added = tree.map(
        lambda x, y, z: x + y + sum(z), {"a": 1, "b": [2]}, {"b": [20], "a": 10}, {"a": [100], "b": [(200, 300)]}
    )
    assert added == {"a": 111, "b": [522]}


def test_what_it_makes_may_be_trees_and_none():
    assert tree.map(lambda x: (x, None), [1, 2]) == [(1, None), (2, None)]


def test_weights_move_along_gradients():
    weights = {"w": zyx.ones(2), "layers": [zyx.zeros(2), None]}
    moved = tree.map(lambda w, g: w - g, weights, tree.map(lambda w: w * 0 + 0.5, weights))
    assert moved["w"].tolist() == [0.5, 0.5]
    assert moved["layers"][0].tolist() == [-0.5, -0.5]
    assert moved["layers"][1] is None


def test_what_could_be_looked_into_may_be_a_leaf():
    given = {"shape": (2, 3), "sizes": [(1, 2), (3, 4)]}

    def is_tuple(x):
        return isinstance(x, tuple)

    assert tree.leaves(given, is_leaf=is_tuple) == [(2, 3), (1, 2), (3, 4)]
    assert tree.map(sum, given, is_leaf=is_tuple) == {"shape": 5, "sizes": [3, 7]}
    leaves, structure = tree.flatten(given, is_tuple)
    assert tree.unflatten(structure, leaves) == given


def test_classes_derived_from_dicts_and_tuples_stay():
    given = defaultdict(list, a=1)
    made = tree.map(lambda x: x + 1, given)
    assert type(made) is defaultdict
    assert made == {"a": 2}
    assert made["other"] == []
    assert type(tree.map(str, Pair(1, 2))) is Pair


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ([1, 2], [1], "tree 1 has a list of 1 where the first one has a list of 2"),
        ({"x": {"a": 1}}, {"x": {"b": 1}}, "has a dict of 'b' where the first one has a dict of 'a', at ['x']"),
        ([(1, 2)], [{0: 1, 1: 2}], "has a dict of 0, 1 where the first one has a tuple of 2, at [0]"),
        ([[1]], [3], "has a leaf of type int where the first one has a list of 1, at [0]"),
        ([None], [3], "has a leaf of type int where the first one has None, at [0]"),
        ([[]], [None], "has None where the first one has a list of 0, at [0]"),
    ],
)
def test_trees_that_differ_are_refused_with_their_place(first, second, text):
    with pytest.raises(ArgumentError) as found:
        tree.map(lambda x, y: x, first, second)
    assert text in str(found.value)


def test_leaves_that_do_not_fit_a_structure_are_refused():
    structure = tree.structure([1, 2])
    with pytest.raises(ArgumentError, match="has 2 leaves, and 3 are given"):
        tree.unflatten(structure, [1, 2, 3])
    with pytest.raises(ArgumentError, match="not of type list; it comes first, the leaves second"):
        tree.unflatten([1, 2], structure)
