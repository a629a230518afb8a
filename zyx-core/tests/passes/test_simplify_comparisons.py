"""How the ends of a clamp are asked for. What compilers of drivers make of the other form is told in the module."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import COMPARISONS
from zyx.passes.simplify_algebra import simplify_algebra
from zyx.testing.patterns import draw


def comparisons(kernel):
    """Return for each comparison of a kernel its operation, and what its sides are if they are literals."""
    ops = kernel.ops
    found = [op for op in ops if isinstance(op, k.Binary) and op.op in COMPARISONS]
    return [(op.op.value, *(getattr(ops[side], "value", "v") for side in (op.x, op.y))) for op in found]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("== 26", ("lt", 25, "v")),
        ("!= 26", ("lt", "v", 26)),
        ("== 0", ("lt", "v", 1)),
        ("!= 0", ("lt", 0, "v")),
        ("== 25", ("eq", "v", 25)),
        ("!= 1", ("ne", "v", 1)),
    ],
)
@pytest.mark.parametrize("clamp", ["min(max(x, 0), 26)", "max(min(x, 26), 0)"])
def test_the_ends_of_a_clamp_are_asked_for_by_order_and_what_lies_between_as_it_is(clamp, asked, expected):
    kernel = draw(f"{clamp} {asked}", dtypes.int8, np.random.default_rng(0))
    assert comparisons(simplify_algebra(kernel)) == [expected]
