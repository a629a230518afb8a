"""Keys of plans, on random graphs: equal for equal structures, and for no others."""

from collections import defaultdict

from zyx.graph import node as n
from zyx.graph.printer import format_graph
from zyx.graph.walk import topological
from zyx.runtime.signature import signature
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case

#: So small that structures repeat.
OPTIONS = GraphOptions(most_nodes=3, most_elements=4, most_outputs=2)
SEEDS = range(1500)


def case_of(seed):
    return random_case(Seeded(seed), OPTIONS)


def test_a_key_names_all_nodes_in_topological_order():
    for seed in SEEDS:
        outputs = case_of(seed).outputs
        key, leaves, order = signature(outputs)
        assert order == topological(outputs), seed
        assert leaves == [node for node in order if isinstance(node, n.Leaf)], seed
        assert len(key) == len(order) + 1, seed


def test_keys_are_equal_where_the_printed_graphs_are():
    """A printed graph has all that a key is to have, in words."""
    texts = defaultdict(set)
    keys = defaultdict(set)
    for seed in SEEDS:
        outputs = case_of(seed).outputs
        key, text = signature(outputs)[0], format_graph(outputs)
        texts[key].add(text)
        keys[text].add(key)
    assert all(len(found) == 1 for found in texts.values())
    assert all(len(found) == 1 for found in keys.values())
    assert 100 < len(keys) < len(SEEDS)
    assert max(text.count("\n") for text in keys) > 3


def test_values_in_memory_end_a_key_as_leaves_do():
    for seed in SEEDS:
        outputs = case_of(seed).outputs
        computed = [node for node in topological(outputs) if node.sources and node not in outputs][:1]
        for node in computed:
            node.storage = object()
        _, leaves, order = signature(outputs)
        assert order == topological(outputs), seed
        assert leaves == [node for node in order if isinstance(node, n.Leaf) or node in computed], seed
