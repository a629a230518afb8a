"""Random graphs have of everything, are the same for the same seed, and become small when they fail."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import AllocationError
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.shape import size_of
from zyx.testing.choices import Seeded
from zyx.testing.compare import assert_same_bits, assert_within, ulps_apart
from zyx.testing.faults import Faults
from zyx.testing.graph_runs import GraphRunner, case_of
from zyx.testing.graphs import GraphOptions, Reference, random_case
from zyx.testing.opening import open_runtime
from zyx.testing.shrink import shrink

#: Nodes that random graphs do not have: they belong to devices, to users, to complex numbers, which are pairs of reals
#: before anything else is done, and to transforms, of few lengths.
ABSENT = {n.ToDevice, n.Custom, n.Complex, n.Component, n.Fourier}


def test_random_graphs_have_every_kind_of_node_dtype_and_shape():
    kinds, found, ranks, sizes = Counter(), Counter(), Counter(), Counter()
    for seed in range(400):
        for node in topological(random_case(Seeded(seed), GraphOptions()).outputs):
            kinds[type(node)] += 1
            found[node.dtype] += 1
            ranks[node.ndim] += 1
            sizes[size_of(node.shape)] += 1
    public = [kind for name, kind in vars(n).items() if isinstance(kind, type) and not name.startswith("_")]
    everything = {kind for kind in public if issubclass(kind, n.Node)} - {n.Node}
    assert everything - kinds.keys() == ABSENT
    assert set(found) == set(dtypes.ALL)
    assert {0, 1, 2, 3, 4} <= ranks.keys()
    assert {0, 1, 7, 13, 97} <= sizes.keys()


def test_a_seed_is_a_graph():
    first, again, other = (str(random_case(Seeded(seed), GraphOptions())) for seed in (5, 5, 6))
    assert first == again != other


def test_only_the_dtypes_asked_for_are_used_for_values():
    wanted = (dtypes.float32, dtypes.int32)
    for seed in range(100):
        case = random_case(Seeded(seed), GraphOptions(dtypes=wanted))
        # Comparisons are bool, and positions may be of any integer type.
        used = {node.dtype for node in topological(case.outputs) if node.dtype.is_float}
        assert used <= {dtypes.float32}


def test_a_failure_is_made_small():
    def make(graph, x, y):
        total = graph.expand(graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, x, y), (0,)), x.shape)
        root = graph.unary(UnaryOp.SQRT, graph.unary(UnaryOp.ABS, graph.binary(BinaryOp.ADD, total, y)))
        return [graph.unary(UnaryOp.NEG, graph.flip(root, (0,))), graph.flip(y, (0,))]

    case = case_of("test:0", [np.ones((4, 5), np.float32), np.full((4, 5), 2.0, np.float32)], make)
    asked = []

    def has_root(part):
        asked.append(part)
        return any(isinstance(node, n.Unary) and node.op is UnaryOp.SQRT for node in topological(part.outputs))

    smallest = shrink(case, has_root)
    (output,) = smallest.outputs
    assert isinstance(output, n.Unary) and output.op is UnaryOp.SQRT
    (source,) = output.sources
    assert isinstance(source, n.Leaf)
    np.testing.assert_array_equal(smallest.values[source], np.full((4, 5), 10.0, np.float32))
    assert len(asked) < 20


def test_a_failure_of_outputs_together_keeps_them_together():
    case = case_of(
        "test:0",
        [np.ones(3, np.float32)],
        lambda g, x: [g.unary(op, x) for op in (UnaryOp.NEG, UnaryOp.EXP, UnaryOp.ABS)],
    )
    smallest = shrink(case, lambda part: sum(type(node) is n.Unary for node in topological(part.outputs)) >= 2)
    assert len(smallest.outputs) == 2


def test_shrinking_stops_when_it_has_asked_enough():
    case = random_case(Seeded(3), GraphOptions())
    asked = []
    shrink(case, lambda part: bool(asked.append(part)), most=3)
    assert len(asked) <= 3


# ---- comparing


def test_values_within_their_bounds_pass_and_others_fail():
    wanted = Reference(np.array([1.0, 2.0, np.inf, np.nan], np.float32), np.array([0.0, 0.5, 0.0, 0.0]))
    assert_within(np.array([1.0, 2.4, np.inf, np.nan], np.float32), wanted)
    for wrong in ([1.1, 2, np.inf, np.nan], [1, 2.6, np.inf, np.nan], [1, 2, 3e38, np.nan], [1, 2, np.inf, 0.0]):
        with pytest.raises(AssertionError, match=r"wrong at 1 of 4 elements, first at \["):
            assert_within(np.array(wrong, np.float32), wanted)


def test_dtypes_and_shapes_are_compared():
    with pytest.raises(AssertionError, match="dtype"):
        assert_within(np.zeros(3, np.float32), np.zeros(3, np.float64))
    with pytest.raises(AssertionError, match="shape"):
        assert_within(np.zeros(3, np.float32), np.zeros((1, 3), np.float32))


def test_signs_of_zeros_are_bits_and_no_values():
    minus, plus = np.array([-0.0, 1.0], np.float32), np.array([0.0, 1.0], np.float32)
    assert_within(minus, plus)
    with pytest.raises(AssertionError, match="-0"):
        assert_same_bits(minus, plus)


def test_distances_are_counted_in_units_in_the_last_place():
    one = np.array([1.0, 1.0, np.nan, np.inf, 0.0], np.float32)
    near = np.array([1.0 + 2**-23, 1.0 - 2**-24, np.nan, np.inf, 2**-149], np.float32)
    np.testing.assert_array_equal(ulps_apart(near, one), [1.0, 0.5, 0.0, 0.0, 1.0])
    assert np.isinf(ulps_apart(np.array([np.nan], np.float32), np.array([1.0], np.float32)))[0]


# ---- faults


def test_calls_are_counted_and_fail_when_asked_to():
    runtime = open_runtime("interpreter")
    device = runtime.device(None)
    runner = GraphRunner(runtime, "interpreter")
    case = case_of(runner.device, [np.ones(4, np.float32)], lambda graph, x: graph.unary(UnaryOp.EXP, x))
    with Faults(device) as faults:
        with faults.failing("allocate", 2, times=2), pytest.raises(AllocationError, match="no room for 16 bytes"):
            runner.results(case)
        runner.results(case)
    # The buffer that could be had before the failure is taken again; the other one is asked for once more as memory
    # is given back, and a last time after all of that.
    assert faults.calls == {"allocate": 4, "host_to_pool": 2, "compile": 1, "launch": 1, "pool_to_host": 1}
    assert "launch" not in vars(device)
    runtime.close()


def test_the_oracle_of_a_graph_belongs_to_no_runtime():
    graph = Graph()
    x = graph.leaf((2,), dtypes.int32, "test:0")
    case = case_of("test:0", [np.array([1, 2], np.int32)], lambda g, x: g.flip(x, (0,)))
    assert x.storage is None
    np.testing.assert_array_equal(case.reference()[0].value, [2, 1])
    assert all(node.storage is None for node in topological(case.outputs))
