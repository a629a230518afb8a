"""Convolutions of 16-bit floats by warps that multiply matrices, on a device on paper, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from meanings.formulas import conv

import zyx
from zyx.fusion import channels_last
from zyx.kernel import data as k
from zyx.nn import functional as F
from zyx.runtime.runtime import use
from zyx.testing.paper import PaperDevice, open_paper


@pytest.fixture
def kernels(monkeypatch):
    """Give the kernels that a card compiles, for which small convolutions are large ones."""
    compiled = []
    compile_ = PaperDevice.compile

    def noted(self, kernel):
        compiled.append(kernel)
        return compile_(self, kernel)

    monkeypatch.setattr(PaperDevice, "compile", noted)
    monkeypatch.setattr(channels_last, "_LEAST_PRODUCTS", 1)
    monkeypatch.setattr(channels_last, "_LEAST_USES", 1)
    with open_paper("card with tensor cores") as runtime, use(runtime):
        yield compiled


def whole(*shape, dtype=zyx.float16, seed=0):
    """Return whole numbers of which sums of products are exact, and the same for NumPy."""
    values = np.random.default_rng([seed, *shape]).integers(-1, 2, shape).astype(np.float32)
    x = zyx.Tensor(values).astype(dtype)
    x.realize()
    return x, values.astype(np.float64)


def multiplies_by_warps(kernel):
    return any(isinstance(op, k.Wmma) for op in kernel.ops)


@pytest.mark.parametrize("dtype", [zyx.float16, zyx.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("image", "weights", "stride", "pad"),
    [
        ((2, 32, 9, 9), (16, 32, 3, 3), 1, 1),
        ((3, 16, 10, 12), (24, 16, 3, 3), 1, 0),
        ((1, 30, 13, 13), (32, 30, 3, 3), 1, 1),  # rows of no whole vectors
        ((2, 16, 16, 16), (32, 16, 5, 5), 2, 2),
        ((5, 32, 4, 4), (16, 32, 3, 3), 1, 1),  # images of few points: several of them side by side
    ],
)
def test_a_convolution_is_a_product_of_matrices(kernels, dtype, image, weights, stride, pad):
    (x, x_), (w, w_) = whole(*image, dtype=dtype), whole(*weights, dtype=dtype, seed=1)
    del kernels[:]
    got = F.conv2d(x, w, None, stride, pad)
    np.testing.assert_array_equal(got.numpy().astype(np.float64), conv(x_, w_, stride, pad))
    assert sum(map(multiplies_by_warps, kernels)) == 1


def test_what_is_summed_up_at_a_place_is_loaded_as_vectors(kernels):
    (x, _), (w, _) = whole(2, 32, 9, 9), whole(16, 32, 3, 3, seed=1)
    del kernels[:]
    F.conv2d(x, w, None, 1, 1).realize()
    (kernel,) = filter(multiplies_by_warps, kernels)
    buffers = [op for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.GLOBAL]
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and kernel.ops[op.source] in buffers]
    assert {op.type.lanes for op in loads} == {8}
    assert len(kernels) <= 3  # with the copies


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_are_products_of_matrices(kernels, stride):
    (x, x_), (w, w_) = whole(2, 32, 16, 16), whole(32, 32, 3, 3, seed=1)
    up_ = np.random.default_rng(2).integers(-1, 2, conv(x_, w_, stride, 1).shape).astype(np.float64)
    up = zyx.Tensor(up_.astype(np.float32)).astype(zyx.float16)
    up.realize()
    del kernels[:]
    by_x, by_w = zyx.grad(
        lambda x, w: (F.conv2d(x, w, None, stride, 1).astype(zyx.float32) * up.astype(zyx.float32)).sum(),
        argnums=(0, 1),
    )(x, w)
    zyx.realize(by_x, by_w)
    spread = np.zeros((2, 32, 16, 16))
    spread[:, :, ::stride, ::stride] = up_
    turned = w_[:, :, ::-1, ::-1].swapaxes(0, 1)
    np.testing.assert_array_equal(by_x.numpy().astype(np.float64), conv(spread, turned, 1, 1))
    padded = np.pad(x_, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(by_w.numpy().astype(np.float64), np.einsum("nchwij,nohw->ocij", windows, up_))
    assert any(map(multiplies_by_warps, kernels))


def test_products_that_are_no_convolutions_are_left_alone(kernels):
    (x, x_), (w, w_) = whole(48, 32), whole(32, 40, seed=1)
    del kernels[:]
    np.testing.assert_array_equal((x @ w).numpy().astype(np.float64), x_ @ w_)
    assert len(kernels) == 1


def test_floats_of_32_bits_stay_where_they_are(kernels):
    (x, x_), (w, w_) = whole(2, 32, 9, 9, dtype=zyx.float32), whole(16, 32, 3, 3, dtype=zyx.float32, seed=1)
    del kernels[:]
    np.testing.assert_array_equal(F.conv2d(x, w, None, 1, 1).numpy(), conv(x_, w_, 1, 1))
    assert len(kernels) == 1
