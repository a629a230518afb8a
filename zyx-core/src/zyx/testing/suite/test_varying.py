"""What changes from call to call is given to kernels, numbers and places: nothing is compiled for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest

import zyx
from zyx.backend import SupportsCapture
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from zyx import Tensor
    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array

T = TypeVar("T", "Tensor", "Array")

CALLS = 1000
DATA = np.random.default_rng(8).standard_normal((CALLS + 12, 6)).astype(np.float32)

PROGRAMS: dict[str, tuple[Callable[[Tensor, int], Tensor], Callable[[Array, int], Array]]] = {
    "numbers": (lambda x, i: x[:12] * (i / 8 + 0.1) - i, lambda x, i: x[:12] * np.float32(i / 8 + 0.1) - np.float32(i)),
    "starts of slices": (lambda x, i: x[i : i + 12] + 1.0, lambda x, i: x[i : i + 12] + 1),
    "starts of slices that are multiplied": (lambda x, i: x[i : i + 12] @ x[:6], lambda x, i: x[i : i + 12] @ x[:6]),
    "starts of computed slices": (lambda x, i: (x * 2.0)[i : i + 12], lambda x, i: x[i : i + 12] * 2),
    "places": (lambda x, i: x[i] * 2.0, lambda x, i: x[i] * 2),
    "places from the end": (lambda x, i: x[-i - 1] * 2.0, lambda x, i: x[-i - 1] * 2),
    "places in a ring": (lambda x, i: (x + 1.0)[i % 7], lambda x, i: x[i % 7] + 1),
    "places that are taken": (lambda x, i: zyx.take(x, i, axis=0) + 1.0, lambda x, i: x[i] + 1),
    "positions": (lambda x, i: _written(x[:], i, 7.0)[: CALLS + 3], lambda x, i: _written(x, i, 7)[: CALLS + 3]),
    "positions of boxes": (
        lambda x, i: _written(x * 1.0, (slice(i, i + 2), slice(1, 3)), x[2:4, 3:5]),
        lambda x, i: _written(x, (slice(i, i + 2), slice(1, 3)), x[2:4, 3:5]),
    ),
    "rolls": (lambda x, i: zyx.roll(x, i + 1, 0) - x, lambda x, i: np.roll(x, i + 1, 0) - x),
    "counters": (
        lambda x, i: zyx.where(zyx.arange(12) <= i, x[:12, 0], 0.0) / (i + 1),
        lambda x, i: np.where(np.arange(12) <= i, x[:12, 0], 0) / np.float32(i + 1),
    ),
}

#: The greatest length, up to which each has been asked for once.
LENGTHS = 512
#: Of a length, which is an int among the arguments.
SIZED: dict[str, tuple[Callable[[Tensor, int], Tensor], Callable[[Array, int], Array]]] = {
    "fronts": (lambda x, n: x[:n] * 2.0, lambda x, n: x[:n] * 2),
    "slices": (lambda x, n: (x[3 : n + 3] / n).sum(0), lambda x, n: (x[3 : n + 3] / np.float32(n)).sum(0)),
    "ranges": (lambda x, n: zyx.arange(n) * 2 + 1, lambda x, n: np.arange(n) * 2 + 1),
    "masks": (
        lambda x, n: zyx.where(zyx.arange(LENGTHS) < n, x[:LENGTHS, 0], 0.0).sum(),
        lambda x, n: np.where(np.arange(LENGTHS) < n, x[:LENGTHS, 0], 0).sum(),
    ),
    "fronts and places": (lambda x, n: x[:n].mean(0) + x[n - 1], lambda x, n: x[:n].mean(0) + x[n - 1]),
}


def _written(x: T, key: Any, value: T | float) -> T:  # noqa: ANN401  # whatever is an index
    x = x.copy() if isinstance(x, np.ndarray) else x
    x[key] = value
    return x


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_thousand_of_them_compile_two_kernels(open_again: Callable[[], Runtime], what: str, is_traced: bool) -> None:
    function, meaning = PROGRAMS[what]
    runtime = open_again()
    with use(runtime):
        x = zyx.Tensor(DATA).realize()
        called = zyx.jit(function) if is_traced else function
        called(x, 0).realize()
        before = runtime.compiler.compiled
        results = [called(x, i).realize() for i in range(1, CALLS)]
        assert runtime.compiler.compiled - before <= 2
        for i in range(0, CALLS - 1, 37):
            np.testing.assert_allclose(results[i].numpy(), meaning(DATA, i + 1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("what", SIZED)
def test_lengths_among_the_arguments_compile_a_kernel_for_each_bound(
    open_again: Callable[[], Runtime], shares_lengths: bool, what: str
) -> None:
    function, meaning = SIZED[what]
    runtime = open_again()
    with use(runtime):
        x = zyx.Tensor(DATA).realize()
        called = zyx.jit(function)
        lengths = np.random.default_rng(5).permutation(LENGTHS if shares_lengths else 30)
        for n in lengths.tolist():
            np.testing.assert_allclose(called(x, n + 1).numpy(), meaning(DATA, n + 1), rtol=1e-4, atol=1e-4)
        if shares_lengths:
            assert runtime.compiler.compiled <= 12


def test_a_language_model_writes_to_its_cache_and_compiles_nothing_after_the_second_word(
    open_again: Callable[[], Runtime],
) -> None:
    """Two layers of four heads of width 64, over a cache of 512 positions."""
    layers, heads, width, positions = 2, 4, 64, 512
    rng = np.random.default_rng(512)
    weights = [(rng.standard_normal((4, width, width)) / 8).astype(np.float32) for _ in range(layers)]
    words = rng.standard_normal((6, width)).astype(np.float32)
    runtime = open_again()
    with use(runtime):
        parameters = [zyx.Tensor(weight).realize() for weight in weights]
        shape = (heads, positions, width // heads)
        caches = [(zyx.zeros(shape).realize(), zyx.zeros(shape).realize()) for _ in range(layers)]

        @zyx.jit
        def step(x: Tensor, position: int) -> Tensor:
            for (keys, values), (q, k, v, o) in zip(caches, parameters, strict=True):
                keys[:, position] = (x @ k).reshape(heads, -1)
                values[:, position] = (x @ v).reshape(heads, -1)
                scores = (keys @ (x @ q).reshape(heads, -1, 1))[..., 0] / 4.0
                scores = zyx.where(zyx.arange(positions) <= position, scores, -np.inf)
                x = x + (zyx.softmax(scores, axis=-1).reshape(heads, 1, -1) @ values).reshape(-1) @ o
            return x

        counts, found = [], []
        for position, word in enumerate(words):
            found.append(step(zyx.Tensor(word), position).numpy())
            counts.append(runtime.compiler.compiled)
        assert counts[2:] == counts[1:2] * (len(counts) - 2)
        for position, result in enumerate(found):
            np.testing.assert_allclose(result, _decoded(words, weights, position, heads), rtol=2e-4, atol=2e-4)


def _decoded(words: Array, weights: Sequence[Array], last: int, heads: int) -> Array:
    """Return what the last of some words becomes, all of them computed anew."""
    x = words[: last + 1].astype(np.float64)
    for q, k, v, o in weights:
        queries, keys, values = ((x @ w).reshape(len(x), heads, -1).swapaxes(0, 1) for w in (q, k, v))
        scores = queries @ keys.swapaxes(1, 2) / 4
        scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + (shares @ values).swapaxes(0, 1).reshape(len(x), -1) @ o
    last_one: Array = x[-1]
    return last_one


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


def test_layers_that_read_sequences_share_kernels_between_lengths(
    device: Device, open_again: Callable[[], Runtime]
) -> None:
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
        if device.takes_fronts:  # which steps of a loop are given
            assert runtime.compiler.compiled - before <= 8


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


def test_captured_sequences_take_new_numbers_in_one_launch(open_again: Callable[[], Runtime]) -> None:
    @zyx.jit
    def chain(x: zyx.Tensor, factor: float, place: int) -> zyx.Tensor:
        for _ in range(3):
            x = (x * factor - x.max(1, keepdims=True)).contiguous()
        return x[place] + 1.0

    def meaning(x: Array, factor: float, place: int) -> Array:
        for _ in range(3):
            x = x * np.float32(factor) - x.max(1, keepdims=True)
        row: Array = x[place] + np.float32(1)
        return row

    runtime = open_again()
    with use(runtime):
        x = zyx.Tensor(DATA[:5]).realize()
        for step in range(12):
            factor, place = 1.0 + step / 16, step % 5
            np.testing.assert_allclose(
                chain(x, factor, place).numpy(), meaning(DATA[:5], factor, place), rtol=1e-4, atol=1e-5
            )
        plan = chain.traces[-1].plan
        device = runtime.device(x.device)
        if isinstance(device, SupportsCapture) and plan.launches > 1:
            assert plan.capture(runtime.trace)
