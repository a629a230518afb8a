from __future__ import annotations

import pytest

from zyx.autograd.rules import RULES
from zyx.autograd.rules.binary import BINARY
from zyx.autograd.rules.indexing import SCATTER
from zyx.autograd.rules.reduce import REDUCE
from zyx.autograd.rules.scan import SCAN
from zyx.autograd.rules.unary import UNARY
from zyx.dtype import FLOATS
from zyx.graph import node as n
from zyx.graph.walk import NO_GRADIENT
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp, binary_ops, reduce_ops, unary_ops

FLAT = {UnaryOp.FLOOR, UnaryOp.TRUNC}


def test_every_kind_of_node_has_a_rule_or_is_where_gradients_end():
    kinds = {kind for name, kind in vars(n).items() if isinstance(kind, type) and not name.startswith("_")} - {n.Node}
    assert set(RULES) | NO_GRADIENT == {kind for kind in kinds if issubclass(kind, n.Node)}
    assert not set(RULES) & NO_GRADIENT


@pytest.mark.parametrize(
    ("table", "ops"),
    [(UNARY, UnaryOp), (BINARY, BinaryOp), (REDUCE, ReduceOp), (SCAN, ReduceOp), (SCATTER, [None, *ReduceOp])],
)
def test_every_operation_stands_in_its_table(table, ops):
    assert set(table) == set(ops)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_operation_of_floats_has_a_formula_unless_it_is_flat(dtype):
    assert {op for op in unary_ops(dtype) if UNARY[op] is None} == FLAT
    assert {op for op in binary_ops(dtype) if BINARY[op] is None} == COMPARISONS
    assert all(REDUCE[op] and SCAN[op] and SCATTER[op] for op in reduce_ops(dtype))
