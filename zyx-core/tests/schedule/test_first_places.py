"""The place of the extreme of a long axis is found by reading it once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zyx.functions.formulas import first_place
from zyx.functions.term import Term
from zyx.nest.accesses import reads_in
from zyx.ops import ReduceOp


def points_read(scheduled, leaf) -> int:
    """Return at how many points the kernels read a leaf, which no other array is as long as."""
    return sum(
        math.prod(range_.size for range_ in statement.order)
        for nest in scheduled.nests
        for statement in nest.statements
        for read in reads_in(statement)
        if read.param.length == leaf.storage.size
    )


@pytest.mark.parametrize("shape", [(100_000,), (9, 16_400)], ids=str)
def test_long_axes_are_read_once(bench, shape):
    axis = len(shape) - 1
    x = bench.normal(*shape)
    found = first_place(Term(bench.graph, x), ReduceOp.MAX, axis)
    scheduled = bench.check(found.node)
    np.testing.assert_array_equal(scheduled.value(), np.argmax(x.storage, axis, keepdims=True))
    assert points_read(scheduled, x) < 1.1 * math.prod(shape)


def test_short_axes_rows_that_a_cache_holds_and_columns_are_read_twice(bench):
    for shape, axis in (((30, 200), 1), ((15, 9001), 1), ((5000, 3), 0)):
        x = bench.normal(*shape)
        scheduled = bench.check(first_place(Term(bench.graph, x), ReduceOp.MIN, axis).node)
        np.testing.assert_array_equal(scheduled.value(), np.argmin(x.storage, axis, keepdims=True))
        assert 2 <= points_read(scheduled, x) / math.prod(shape) < 2.01  # threads may have a few points too many
