"""What changes from call to call is given to kernels, numbers and starts of slices: nothing is compiled for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

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


def test_steps_of_a_recurrence_share_kernels_whatever_their_number(open_again: Callable[[], Runtime]) -> None:
    rng = np.random.default_rng(9)
    weights = [(rng.standard_normal(shape) / 4).astype(np.float32) for shape in ((8, 64), (16, 64), (64,))]
    runtime = open_again()
    with use(runtime):
        parameters = [zyx.Tensor(weight).realize() for weight in weights]
        before = runtime.compiler.compiled
        for count in (32, 33):
            x = rng.standard_normal((4, count, 8)).astype(np.float32)
            result = _lstm(zyx, zyx.Tensor(x), parameters, zyx.zeros((4, 16)))
            meaning = _lstm(np, x, weights, np.zeros((4, 16), np.float32))
            np.testing.assert_allclose(result.numpy(), meaning, rtol=1e-4, atol=1e-5)
        assert runtime.compiler.compiled - before <= 8


def test_layers_that_read_sequences_share_kernels_between_lengths(open_again: Callable[[], Runtime]) -> None:
    x = np.random.default_rng(39).standard_normal((2, 39, 3)).astype(np.float32)
    runtime = open_again()
    with use(runtime):
        network = zyx.nn.GRU(3, 4, batch_first=True)
        expected = network(zyx.Tensor(x))[0].numpy()
        for length in (36, 34, 33):
            network(zyx.Tensor(x[:, :length]))[0].realize()
        before = runtime.compiler.compiled
        for length in (35, 37, 38):
            found, last = network(zyx.Tensor(x[:, :length]))
            zyx.realize(found, last)
            # What was read before does not depend on what comes later.
            np.testing.assert_allclose(found.numpy(), expected[:, :length], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(last[0].numpy(), expected[:, length - 1], rtol=1e-4, atol=1e-5)
        assert runtime.compiler.compiled - before <= 8


T = TypeVar("T", "Tensor", "Array")


def _lstm(lib: ModuleType, x: T, weights: Sequence[T], h: T) -> T:
    """Return the output of an LSTM's last step."""
    w, u, b = weights
    c, units = h, h.shape[1]
    for t in range(x.shape[1]):
        gates = x[:, t] @ w + h @ u + b
        i, f, o, k = (gates[:, units * part : units * (part + 1)] for part in range(4))
        i, f, o = (1 / (1 + lib.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * lib.tanh(k)
        h = o * lib.tanh(c)
    return h


@pytest.mark.parametrize("is_first", [False, True])
def test_numbers_that_only_what_is_empty_is_computed_with_disturb_nothing(
    open_again: Callable[[], Runtime], is_first: bool
) -> None:
    @zyx.jit
    def function(x: zyx.Tensor, number: float) -> list[zyx.Tensor]:
        results = [(number - x)[2:0], zyx.exp(x)]
        return results[::-1] if is_first else results

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    with use(open_again()):
        for number in (1.5, 2.5, 3.5, 3.5):
            found = function(zyx.Tensor(x), number)
            empty, values = found[::-1] if is_first else found
            assert empty.shape == (0, 4)
            np.testing.assert_allclose(values.numpy(), np.exp(x), rtol=1e-6)
