"""Nodes with an axis of examples in front have of each example what the nodes without it have."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.batching import Examples, batched, whole_of
from zyx.graph.evaluate import evaluate
from zyx.graph.verify import verify
from zyx.graph.walk import topological
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphCase, GraphOptions, random_case

COUNT = 3
SEEDS = 300
#: Kinds that random graphs do not have, with where they are tested.
ELSEWHERE = {
    n.Const: "has no sources", n.Iota: "has no sources", n.ToDevice: "below",
    n.Custom: "zyx-core/tests/functions/test_vmap_nodes.py",
    n.Fourier: "zyx-core/tests/functions/test_vmap_nodes.py",
    n.Complex: "zyx-core/tests/functions/test_vmap_nodes.py",
    n.Component: "zyx-core/tests/functions/test_vmap_nodes.py",
}  # fmt: skip


def examples_of(case, random):
    """Return the values of some leaves for each of several examples, along an axis in front."""
    chosen = [leaf for leaf in case.values if random.random() < 0.6]
    return {
        leaf: np.stack([random.permuted(case.values[leaf].ravel()).reshape(leaf.shape) for _ in range(COUNT)])
        for leaf in chosen
    }


def check(case, random):
    """Compare; return the kinds of nodes that were given the axis."""
    of_all = examples_of(case, random)
    leaves = {leaf: case.graph.leaf(array.shape, leaf.dtype, leaf.device) for leaf, array in of_all.items()}
    values = case.values | {leaves[leaf]: array for leaf, array in of_all.items()}
    examples = Examples.all_of(COUNT)
    made = batched(case.graph, case.outputs, leaves, examples)
    whole = whole_of(case.graph, case.outputs, made, examples)
    verify(whole)
    found = evaluate(whole, values.__getitem__)
    for example in range(COUNT):
        own = {leaf: of_all[leaf][example] if leaf in of_all else array for leaf, array in case.values.items()}
        for reference, array in zip(GraphCase(case.graph, case.outputs, own).reference(), found, strict=True):
            with np.errstate(invalid="ignore"):
                is_near = np.abs(array[example].astype(np.float64) - reference.value) <= 2 * reference.bound
            assert (is_near | (array[example] == reference.value) | (array[example] != array[example])).all()
            assert ((array[example] != array[example]) == (reference.value != reference.value)).all()
    reached: dict[n.Node, bool] = {}
    for node in topological(case.outputs):
        reached[node] = node in of_all or any(reached[source] for source in node.sources)
    return {type(node) for node, depends in reached.items() if depends}


def test_random_graphs_of_many_examples_and_every_kind_of_node_among_them():
    kinds: set[type[n.Node]] = set()
    for seed in range(SEEDS):
        case = random_case(Seeded(seed), GraphOptions(most_elements=200, with_special=False))
        try:
            kinds |= check(case, np.random.default_rng(seed))
        except Exception as error:
            error.add_note(f"seed {seed}:\n{case}")
            raise
    classes = {kind for name, kind in vars(n).items() if isinstance(kind, type) and not name.startswith("_")}
    every = {kind for kind in classes if issubclass(kind, n.Node)} - {n.Node}
    assert every - kinds == ELSEWHERE.keys()


@pytest.mark.parametrize(("offset", "shape"), [(0, (4,)), (6, (2, 3)), (5, ())])
def test_of_a_stream_each_example_has_words_of_its_own(offset, shape):
    graph = Graph()
    state, stand_in = (graph.leaf((4,), dtypes.uint32, "test:0") for _ in range(2))
    values = {state: np.array([1, 2, 3, 4], np.uint32)}
    words = graph.random_bits(stand_in, shape, dtypes.uint32, offset)
    (all_at_once,) = batched(graph, [words], {}, Examples.all_of(5), {stand_in: state})
    parts = [
        batched(graph, [words], {}, Examples(count, first, 5), {stand_in: state})[0]
        for first, count in ((0, 2), (2, 3))
    ]
    whole, *chunks = evaluate([all_at_once, *parts], values.__getitem__)
    assert whole.shape == (5, *shape)
    np.testing.assert_array_equal(whole, np.concatenate(chunks))
    in_a_row = evaluate([graph.random_bits(state, (whole.size,), dtypes.uint32, 5 * offset)], values.__getitem__)[0]
    np.testing.assert_array_equal(whole.ravel(), in_a_row)


def test_reads_of_what_all_examples_share_copy_nothing():
    graph = Graph()
    table = graph.leaf((50, 4), dtypes.float32, "test:0")
    index, of_all = (graph.leaf(shape, dtypes.int32, "test:0") for shape in ((3, 4), (8, 3, 4)))
    (found,) = batched(graph, [graph.gather(table, index, 0)], {index: of_all}, Examples.all_of(8))
    (gather,) = [node for node in topological([found]) if isinstance(node, n.Gather)]
    assert gather.sources[0] is table
    assert gather.shape == (24, 4)


def test_examples_go_to_another_device_together():
    graph = Graph()
    x, of_all = (graph.leaf(shape, dtypes.float32, "test:0") for shape in ((3,), (5, 3)))
    (found,) = batched(graph, [graph.to_device(x, "test:1")], {x: of_all}, Examples.all_of(5))
    assert found is graph.to_device(of_all, "test:1")


def test_what_depends_on_no_example_stays_as_it_is():
    graph = Graph()
    x, y, of_all = (graph.leaf(shape, dtypes.float32, "test:0") for shape in ((3,), (3,), (5, 3)))
    same, other = graph.contiguous(y), graph.contiguous(x)
    found = batched(graph, [same, other], {x: of_all}, Examples.all_of(5))
    assert found[0] is None
    assert found[1] is graph.contiguous(of_all)
