from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zyx.ops import BinaryOp, ReduceOp, UnaryOp

SMOOTH = [UnaryOp.NEG, UnaryOp.EXP2, UnaryOp.EXPM1, UnaryOp.SIN, UnaryOp.COS, UnaryOp.TANH, UnaryOp.ATAN, UnaryOp.ERF]
SHAPE = (2, 3)


def _tamed(graph, x):
    """Keep values near 1, so that differences stay exact enough."""
    return graph.unary(UnaryOp.TANH, x)


@st.composite
def steps(draw):
    """Return what to do to a pool of nodes of shape `SHAPE`: each step adds one."""
    count = draw(st.integers(1, 8))
    kinds = ["unary", "binary", "reduce", "scan", "flip", "shift", "turn", "slide", "gather", "scatter", "where"]
    return [
        (draw(st.sampled_from(kinds)), draw(st.integers(0, 99)), draw(st.integers(0, 99)), draw(st.integers(0, 99)))
        for _ in range(count)
    ]


def _build(lab, plan):
    def build(graph, *leaves):
        pool = list(leaves)
        for kind, i, j, k in plan:
            x, y, axis = pool[i % len(pool)], pool[j % len(pool)], k % 2
            pool.append(_tamed(graph, _step(lab, graph, kind, x, y, axis, k)))
        return pool[-1]

    return build


def _step(lab, graph, kind, x, y, axis, k):
    match kind:
        case "unary":
            return graph.unary(SMOOTH[k % len(SMOOTH)], x)
        case "binary":
            return graph.binary([BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL][k % 3], x, y)
        case "reduce":
            op = [ReduceOp.SUM, ReduceOp.PROD][k % 2]
            return graph.binary(BinaryOp.SUB, graph.expand(graph.reduce(op, x, (axis,)), SHAPE), y)
        case "scan":
            return graph.scan([ReduceOp.SUM, ReduceOp.PROD][k // 2 % 2], x, axis)
        case "flip":
            return graph.flip(x, (axis,))
        case "shift":
            shorter = graph.shrink(x, [(1, 2), (0, 3)] if axis == 0 else [(0, 2), (1, 3)])
            return graph.pad(shorter, [(0, 1), (0, 0)] if axis == 0 else [(0, 0), (1, 0)], 0.5)
        case "turn":
            return graph.reshape(graph.permute(graph.reshape(x, (3, 2)), (1, 0)), SHAPE)
        case "slide":
            rows = graph.expand(graph.reshape(x, (2, 3, 1)), (2, 3, 2))
            sums = graph.reshape(graph.reduce(ReduceOp.SUM, graph.slide(rows, 1, 2, 2), (2,)), (2, 2))
            return graph.pad(sums, [(0, 0), (0, 1)])
        case "gather":
            return graph.gather(x, lab.leaf(np.array([[0, 2, -1], [1, 1, 5]])), 1)
        case "scatter":
            op = [None, ReduceOp.SUM][k // 2 % 2]
            return graph.scatter(x, lab.leaf(np.array([[0, 2, 2], [1, 1, 5]])), y, 1, op)
        case _:
            return graph.where(lab.leaf(np.array([[True, False, True], [False, False, True]])), x, y)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=steps(), seed=st.integers(0, 2**32 - 1))
def test_gradients_of_random_graphs_are_those_of_differences(lab, plan, seed):
    random = np.random.default_rng(seed)
    lab.check(_build(lab, plan), random.normal(size=SHAPE), random.normal(size=SHAPE), tolerance=1e-5)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=steps(), seed=st.integers(0, 2**32 - 1))
def test_second_gradients_of_random_graphs_are_those_of_differences(lab, plan, seed):
    random = np.random.default_rng(seed)
    lab.check_twice(_build(lab, plan[:4]), random.normal(size=SHAPE), random.normal(size=SHAPE), tolerance=1e-5)
