"""Kernels of a plan that differ only in where they read are one, which is given the place."""

import numpy as np
import pytest

import zyx

RNG = np.random.default_rng(5)
W, U = (RNG.standard_normal(shape).astype(np.float32) / 4 for shape in ((16, 24), (24, 24)))


def steps(lib, x, w, u, count, of=lambda x, t: x[:, t]):
    """A recurrence whose products with `x` are kernels of their own."""
    h = lib.zeros((x.shape[0], 24), dtype=lib.float32)
    for t in range(count):
        h = lib.tanh(of(x, t) @ w + h @ u)
    return h


def compiled(lab, x, *args, w=W):
    """Return how many kernels are compiled for the recurrence, which has NumPy's values."""
    before = lab.compiler.compiled
    result = steps(zyx, zyx.Tensor(x), zyx.Tensor(w), zyx.Tensor(U), *args)
    np.testing.assert_allclose(result.numpy(), steps(np, x, w, U, *args), rtol=1e-5, atol=1e-6)
    return lab.compiler.compiled - before


def numbers(shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_steps_of_a_recurrence_share_their_kernels(lab):
    few = compiled(lab, numbers((5, 4, 16)), 4)
    assert compiled(lab, numbers((5, 9, 16)), 9) == 1  # all but the product with `x`, whose rows lie elsewhere
    assert few <= 6


def test_a_plan_that_is_run_again_and_captured_has_the_same_values(lab):
    x, w, u = zyx.Tensor(numbers((5, 7, 16))), zyx.Tensor(W), zyx.Tensor(U)
    step = zyx.jit(lambda x: steps(zyx, x, w, u, 7))
    for _ in range(4):
        np.testing.assert_allclose(step(x).numpy(), steps(np, x.numpy(), W, U, 7), rtol=1e-5, atol=1e-6)
        x = zyx.Tensor(numbers((5, 7, 16)))


@pytest.mark.parametrize(
    "of",
    [
        lambda x, t: x[:, t],
        lambda x, t: x[::-1, t],
        lambda x, t: x[:, t : t + 2].sum(axis=1),
        lambda x, t: x[:, 7 - t, ::-1],
        lambda x, t: x[:, t] * x[:, 7 - t],
        lambda x, t: x[:, 0],
    ],
)
def test_views_of_many_kinds(lab, of):
    assert compiled(lab, numbers((5, 9, 16)), 8, of) <= 14


def test_two_buffers_that_are_read_at_places_of_their_own(lab):
    x, y = numbers((5, 9, 16)), numbers((9, 5, 16))
    before = lab.compiler.compiled
    a, b, w, u = map(zyx.Tensor, (x, y, W, U))
    results = [
        steps(lib, one, weights, recurrent, 6, lambda x, t, other=other: x[:, t] * other[8 - t]).__array__()
        for lib, one, other, weights, recurrent in ((zyx, a, b, w, u), (np, x, y, W, U))
    ]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)
    assert lab.compiler.compiled - before <= 8


def test_a_device_that_refuses_numbers_has_kernels_for_each(lab, refuses_numbers, capsys):
    with zyx.debug("plan"):
        assert compiled(lab, numbers((5, 4, 16)), 4) >= 6
    assert capsys.readouterr().err.count("next: a kernel for each place that is read") == 1
