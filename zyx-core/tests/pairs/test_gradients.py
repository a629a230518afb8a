"""Gradients at complex numbers, ``dL/dx + i dL/dy``, beside finite differences; and traced functions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from meanings.slopes import differences

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(3)
POINTS = RANDOM.standard_normal(6) + 1j * RANDOM.standard_normal(6)
WEIGHTS = RANDOM.standard_normal(6) + 1j * RANDOM.standard_normal(6)
NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "reciprocal", "square", "sign", "abs", "angle", "conj",
    "real", "imag",
)  # fmt: skip


def check(loss: Callable[[zyx.Tensor], zyx.Tensor]) -> None:
    got, (wanted,) = zyx.grad(loss)(zyx.Tensor(POINTS)).numpy(), differences(lambda z: loss(zyx.Tensor(z)), [POINTS])
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_functions_have_their_slopes(name):
    weights = zyx.Tensor(WEIGHTS)

    def loss(z: zyx.Tensor) -> zyx.Tensor:
        value = getattr(zyx, name)(z) * weights
        return zyx.real(value).sum() + 0.3 * zyx.imag(value).sum()

    check(loss)


@pytest.mark.parametrize(
    "loss",
    [
        lambda z: zyx.abs(z.reshape(2, 3) @ zyx.Tensor(WEIGHTS).reshape(3, 2)).sum(),
        lambda z: zyx.abs(zyx.Tensor(WEIGHTS) / z).sum(),
        lambda z: (z ** zyx.Tensor(WEIGHTS)).real.sum(),
        lambda z: (zyx.Tensor(WEIGHTS) ** z).imag.sum(),
        lambda z: (z**3 + z**0.3).real.sum(),
        lambda z: z.prod().real,
        lambda z: (zyx.cumulative_prod(z) * zyx.Tensor(WEIGHTS)).real.sum(),
        zyx.var,
        zyx.norm,
        lambda z: (zyx.view_as_real(z) ** 3).sum(),
        lambda z: (zyx.complex(z.imag, z.real * z.imag) ** 2).real.sum(),
        lambda z: zyx.abs(z[zyx.Tensor([1, 1, 2])]).sum(),
    ],
    ids=["matmul", "divide", "base", "exponent", "powers", "prod", "cumprod", "var", "norm", "views", "parts", "take"],
)
def test_operations_have_their_slopes(loss):
    check(loss)


def test_the_conventions_descend_and_hold_for_upstreams():
    z = zyx.Tensor(POINTS)
    gradient = zyx.grad(lambda z: (zyx.abs(z) ** 2).sum())(z)
    np.testing.assert_allclose(gradient.numpy(), 2 * POINTS, rtol=1e-12)
    assert zyx.grad(lambda z: zyx.abs(z).sum())(zyx.Tensor([0j])).tolist() == [0]
    with zyx.Tape() as tape:
        target = zyx.exp(z)
    found = tape.gradient(target, z, zyx.Tensor(WEIGHTS))
    np.testing.assert_allclose(found.numpy(), WEIGHTS * np.exp(POINTS).conj(), rtol=1e-12)


def test_second_derivatives():
    first = zyx.grad(lambda z: (z**3).real.sum())

    def loss(z: zyx.Tensor) -> zyx.Tensor:
        return zyx.real(first(z) * zyx.Tensor(WEIGHTS)).sum()

    check(loss)


def test_traced_functions_take_and_give_complex_numbers():
    @zyx.jit
    def step(z: zyx.Tensor, rate: complex) -> tuple[zyx.Tensor, zyx.Tensor]:
        return z - rate * zyx.exp(z), zyx.abs(z).sum()

    for rate in (0.1, 0.2, 0.3, 1j, 2 - 1j):
        moved, size = step(zyx.Tensor(POINTS), rate)
        np.testing.assert_allclose(moved.numpy(), POINTS - rate * np.exp(POINTS), rtol=1e-12)
        assert float(size) == pytest.approx(np.abs(POINTS).sum())


def test_lengths_and_numbers_vary():
    summed = zyx.jit(lambda x: zyx.exp(x).sum(0))
    for length in range(2, 9):
        z = np.resize(POINTS, (length, 3))
        np.testing.assert_allclose(summed(zyx.Tensor(z)).numpy(), np.exp(z).sum(0), rtol=1e-12)
        scaled = zyx.Tensor(z) * (0.5 + length * 1j) + length
        np.testing.assert_allclose(scaled.numpy(), z * (0.5 + length * 1j) + length, rtol=1e-12)
