"""Lengths that change from call to call: right at each, and given to kernels where the host reaches the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.lengths import Lengths
from zyx.runtime.runtime import use
from zyx.testing.lengths import operand, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx import Tensor
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape
    from zyx.testing.values import Array

#: Around powers of two, where one plan ends and another one begins.
LENGTHS = (1, 2, 3, 8, 17, 31, 32, 33, 50, 64, 65)

PROGRAMS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array], Callable[[int], Shape]]] = {
    "element by element": (lambda x: x * 2.0 + 1.0, lambda x: x * 2 + 1, lambda length: (length,)),
    "sum": (lambda x: x.sum(), lambda x: x.sum(), lambda length: (length,)),
    "inner axis": (lambda x: x - x.max(-1, keepdims=True), lambda x: x - x.max(-1, keepdims=True), lambda n: (8, n)),
    "product": (lambda x: x @ zyx.ones((16, 16)), lambda x: x @ np.ones((16, 16), np.float32), lambda n: (n, 16)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths_are_right_and_share_kernels(open_again: Callable[[], Runtime], name: str) -> None:
    function, meaning, shape_at = PROGRAMS[name]
    runtime = open_again()
    with use(runtime):
        before = runtime.compiler.compiled
        for length in LENGTHS:
            x = operand(shape_at(length), length)
            np.testing.assert_allclose(function(zyx.Tensor(x)).numpy(), meaning(x), rtol=1e-4, atol=1e-4)
        buffer = runtime.buffer_of(zyx.Tensor(operand((3,), 0)).node)
        is_on_host = buffer.raw is not None and buffer.raw.host_bytes is not None
        if is_on_host and buffer.pool.completed().complete_when_made:
            assert runtime.compiler.compiled - before <= 6


def test_random_programs_are_right_at_lengths_that_others_were_planned_for(open_again: Callable[[], Runtime]) -> None:
    shared, alone = open_again(), open_again()
    for seed in range(8):
        shape_at, function = program(seed)
        for length in (5, 9, 33, 4):
            x, found = operand(shape_at(length), length), []
            for runtime in (shared, alone):
                with use(runtime):
                    found.append(function(zyx.Tensor(x)).numpy())
            alone.planner.lengths = Lengths()  # it has met no other length
            np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-4, err_msg=f"{seed}, {length}")
