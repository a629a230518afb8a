"""What changes from call to call is given to kernels, numbers and starts of slices: nothing is compiled for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx import Tensor
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array

CALLS = 1000
DATA = np.random.default_rng(8).standard_normal((CALLS + 12, 6)).astype(np.float32)

PROGRAMS: dict[str, tuple[Callable[[Tensor, int], Tensor], Callable[[Array, int], Array]]] = {
    "numbers": (lambda x, i: x[:12] * (i / 8 + 0.1) - i, lambda x, i: x[:12] * np.float32(i / 8 + 0.1) - np.float32(i)),
    "starts of slices": (lambda x, i: x[i : i + 12] + 1.0, lambda x, i: x[i : i + 12] + 1),
    "places": (lambda x, i: x[i] * 2.0, lambda x, i: x[i] * 2),
}


# A function that is traced looks at places, each of which has a trace of its own.
@pytest.mark.parametrize(("what", "is_traced"), [*((what, False) for what in PROGRAMS), ("numbers", True)])
def test_a_thousand_of_them_compile_two_kernels(open_again: Callable[[], Runtime], what: str, is_traced: bool) -> None:
    function, meaning = PROGRAMS[what]
    runtime = open_again()
    with use(runtime):
        x = zyx.Tensor(DATA).realize()
        called = zyx.jit(function) if is_traced else function
        before = runtime.compiler.compiled
        results = [called(x, i).realize() for i in range(CALLS)]
        assert runtime.compiler.compiled - before <= 2
        for i in range(0, CALLS, 37):
            np.testing.assert_allclose(results[i].numpy(), meaning(DATA, i), rtol=1e-5, atol=1e-4)
