"""Keys of plans, on random graphs: equal for equal structures, and for no others."""

import inspect
from collections import defaultdict

import numpy as np
import pytest

import zyx
from zyx.graph import node as n
from zyx.graph.printer import format_graph
from zyx.graph.signature import signature
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, FourierKind, ReduceOp, UnaryOp
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case

#: So small that structures repeat.
OPTIONS = GraphOptions(most_nodes=3, most_elements=4, most_outputs=2)
SEEDS = range(1500)


def case_of(seed):
    return random_case(Seeded(seed), OPTIONS)


def _apart(node: n.Node) -> list[object]:
    """What of a node is apart from the rest of the key: values, and where boxes of computed values begin."""
    match node:
        case n.Const():
            return [*node.attributes]
        case n.Shrink(bounds=pairs) | n.Pad(widths=pairs):
            if 0 in node.shape or 0 in node.sources[0].shape:
                return []
            sizes = zip(pairs, node.shape, node.sources[0].shape, strict=True)
            return [pair[0] for pair, size, other in sizes if size != other]
        case _:
            return []


def test_a_key_names_all_nodes_in_topological_order():
    for seed in SEEDS:
        outputs = case_of(seed).outputs
        key, leaves, order = signature(outputs)
        assert order == topological(outputs), seed
        assert leaves == [node for node in order if isinstance(node, n.Leaf)], seed
        assert len(key.structure) == len(order) + 1, seed
        assert list(key.constants) == [value for node in order for value in _apart(node)], seed


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


# ---- each field of each kind of node, varied by itself

#: What the attributes of each kind of node are, and for each something else that it might be.
ATTRIBUTES = {
    n.Const: {"value": (1.0, 2.0)},
    n.Iota: {"axis": (0, 1)},
    n.Leaf: {"history": None, "history_lost": None, "plans": None},  # say how gradients go on, not what is computed
    n.Reshape: {},
    n.Expand: {},
    n.Permute: {"order": ((0, 1), (1, 0))},
    n.Pad: {"widths": (((1, 0), (0, 0)), ((0, 1), (0, 0))), "value": (0.0, -0.0)},
    n.Shrink: {"bounds": (((0, 2), (0, 2)), ((1, 3), (0, 2)))},
    n.Flip: {"axes": ((0,), (1,))},
    n.Slide: {"axis": (0, 1), "window": (2, 3), "stride": (1, 2), "dilation": (1, 2)},
    n.Unslide: {"axis": (0, 1), "window": (2, 3), "stride": (1, 2), "dilation": (1, 2)},
    n.Unary: {"op": (UnaryOp.NEG, UnaryOp.EXP2)},
    n.Binary: {"op": (BinaryOp.ADD, BinaryOp.MUL)},
    n.Where: {},
    n.Cast: {},
    n.Bitcast: {},
    n.Complex: {},
    n.Component: {"is_imaginary": (False, True)},
    n.Reduce: {"op": (ReduceOp.SUM, ReduceOp.MAX), "axes": ((0,), (1,))},
    n.Scan: {"op": (ReduceOp.SUM, ReduceOp.MAX), "axis": (0, 1)},
    n.Gather: {"axis": (0, 1)},
    n.Scatter: {"op": (ReduceOp.SUM, ReduceOp.MAX), "axis": (0, 1)},
    n.Sort: {"axis": (0, 1), "bits": (8, 32)},
    n.Fourier: {
        "axis": (0, 1),
        "is_inverse": (False, True),
        "scale": (1.0, 0.5),
        "kind": (FourierKind.COMPLEX, FourierKind.FROM_REAL),
    },
    n.RandomBits: {"offset": (0, 1)},
    n.Contiguous: {},
    n.ToDevice: {},
    n.Alias: {"detached": (False, True), "rule": None, "watch": None},  # these say how gradients go on
    n.Custom: {"kernel": ("one", "another"), "output": (0, 1)},
}
SOURCES = {
    n.Const: 0, n.Iota: 0, n.Leaf: 0, n.Binary: 2, n.Complex: 2, n.Where: 3, n.Gather: 2, n.Scatter: 3, n.Fourier: 2,
    n.Custom: 3,
}  # fmt: skip
#: Shape, dtype and device of a node with two operands element by element are those of its operands; of a slice and of
#: what is padded, dtype and device are.
FOLLOWS = {n.Binary}
CLASSES = [kind for name, kind in inspect.getmembers(n, inspect.isclass) if not name.startswith("_")]
KINDS = [kind for kind in CLASSES if issubclass(kind, n.Node) and kind is not n.Node]


def leaf(shape=(2, 2), dtype=zyx.float32, device="one:0", stored=True):
    node = n.Leaf(shape, dtype, device, ())
    node.storage = object() if stored else None
    return node


def key_of(kind, /, shape=(2, 2), dtype=zyx.float32, device="one:0", sources=None, **attributes):
    if sources is None:
        sources = tuple(leaf() for _ in range(SOURCES.get(kind, 1)))
    chosen = {name: values[0] for name, values in ATTRIBUTES[kind].items() if values is not None} | attributes
    return signature([kind(shape, dtype, device, sources, **chosen)])[0]


def test_the_table_has_every_kind_of_node_and_every_attribute():
    assert ATTRIBUTES.keys() == set(KINDS)
    for kind in KINDS:
        slots = {name for base in kind.__mro__[:-1] if base not in n.Node.__mro__ for name in base.__slots__}
        assert set(ATTRIBUTES[kind]) == slots, kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_key_tells_apart_whatever_a_kernel_depends_on(kind):
    same = key_of(kind)
    assert key_of(kind) == same
    others = [key_of(kind, **{name: values[1]}) for name, values in ATTRIBUTES[kind].items() if values is not None]
    if kind not in FOLLOWS:
        others.append(key_of(kind, shape=(4, 1)))
    if kind not in FOLLOWS | {n.Shrink, n.Pad}:
        others += [key_of(kind, dtype=zyx.int32), key_of(kind, device="two:0")]
    for number in range(SOURCES.get(kind, 1)):
        for stored in (True, False):
            plain = leaf(stored=stored)
            for other in (
                leaf(shape=(4, 1), stored=stored),
                leaf(dtype=zyx.int32, stored=stored),
                leaf(device="two:0", stored=stored),
            ):
                sources = [leaf() for _ in range(SOURCES.get(kind, 1))]
                sources[number] = plain
                if (
                    kind is not n.Shrink or stored
                ):  # where a slice begins is said otherwise if it is of what is computed
                    assert key_of(kind, sources=tuple(sources)) == same
                sources[number] = other
                others.append(key_of(kind, sources=tuple(sources)))
        x = leaf()
        if SOURCES.get(kind, 1) > 1:
            others.append(key_of(kind, sources=(x,) * SOURCES[kind]))  # one leaf is not as many
    assert same not in others
    assert len(set(others)) >= len(others) / 2  # a leaf that is stored has the key of one that is not


@pytest.mark.parametrize("stored", [True, False])
def test_where_a_slice_begins_and_where_padding_puts_its_source_are_apart(stored):
    bounds = ((0, 1), (0, 2)), ((1, 2), (0, 2))
    widths = ((0, 1), (2, 3)), ((1, 0), (2, 3))
    data = leaf(stored=stored)
    slices = [n.Shrink((1, 2), zyx.float32, "one:0", (data,), each) for each in bounds]
    padded = [n.Pad((3, 7), zyx.float32, "one:0", (data,), each, 0.0) for each in widths]
    for nodes in (slices, padded):
        first, second = (signature([node])[0] for node in nodes)
        assert first != second
        assert first.structure == second.structure


def test_a_key_says_which_operand_is_which_and_what_is_asked_for():
    x, y = leaf(), leaf()
    first = n.Binary((2, 2), zyx.float32, "one:0", (x, y), BinaryOp.SUB)
    second = n.Binary((2, 2), zyx.float32, "one:0", (first, x), BinaryOp.SUB)
    third = n.Binary((2, 2), zyx.float32, "one:0", (x, first), BinaryOp.SUB)
    keys = [signature(outputs)[0] for outputs in ([second], [third], [first, second], [second, first], [first])]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x + x, id="an operation on a value and itself"),
        pytest.param(lambda x: -x, id="an operation on a value"),
        pytest.param(lambda x: x * 3.0, id="an operation on a value and a number"),
        pytest.param(lambda x: (x + x) * x, id="operations, the first on two values"),
        pytest.param(lambda x: -abs(x), id="operations, the first on one value"),
    ],
)
def test_a_program_of_one_device_runs_there_and_not_where_its_twin_ran(lab, function):
    devices = [lab.device(f"lab:{number}") for number in (0, 1)]
    values = np.array([1.0, 2.0], np.float32)
    tensors = [zyx.Tensor(values, device=device.name) for device in devices]
    launched = []
    for x, device in zip(tensors, devices, strict=True):
        before = [len(other.launched) for other in devices]
        y = function(x).realize()
        launched.append([len(other.launched) - count for other, count in zip(devices, before, strict=True)])
        assert (y.device, y.tolist()) == (device.name, function(values).tolist())
    assert launched == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "kind", [n.Binary, n.Where, n.Gather, n.Scatter, n.Custom, n.Shrink, n.Cast], ids=lambda kind: kind.__name__
)
def test_a_key_says_of_each_operand_which_it_is(kind):
    leaves = [leaf() for _ in range(4)]
    first = n.Where((2, 2), zyx.float32, "one:0", tuple(leaves[:3]))  # so that all are counted before
    attributes = {name: values[0] for name, values in ATTRIBUTES[kind].items()}
    keys = []
    for number in range(SOURCES.get(kind, 1)):
        for other in leaves[1:]:
            sources = [leaves[0]] * SOURCES.get(kind, 1)
            sources[number] = other
            node = kind((2, 2), zyx.float32, "one:0", tuple(sources), **attributes)
            keys.append(signature([first, leaves[3], node])[0])
    assert len(set(keys)) == len(keys)


def test_kinds_of_nodes_without_attributes_are_told_apart():
    kinds = [kind for kind in KINDS if not ATTRIBUTES[kind] and SOURCES.get(kind, 1) == 1]
    assert len(kinds) > 3
    assert len({key_of(kind) for kind in kinds}) == len(kinds)


def test_a_key_says_which_operand_is_a_number():
    number, x = n.Const((2, 2), zyx.float32, "one:0", (), 1.0), leaf()
    pairs = (number, x), (x, number)
    assert len({signature([n.Binary((2, 2), zyx.float32, "one:0", pair, BinaryOp.SUB)])[0] for pair in pairs}) == 2
