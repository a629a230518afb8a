"""Activation functions where textbook formulas overflow, at infinities and NaN; test_rows.py has their values."""

import math

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError

PLAIN = [
    "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "quick_gelu", "sigmoid", "hardsigmoid", "silu",
    "hardswish",
    "hardtanh", "mish", "softplus", "softsign", "logsigmoid", "softmax", "log_softmax", "softmin",
]  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_activations_pass_nan_on(name):
    assert np.isnan(getattr(zyx, name)(zyx.Tensor([math.nan, 1.0])).numpy()[0])


def test_relu_keeps_integers_and_is_zero_at_minus_infinity():
    assert zyx.relu(zyx.Tensor([-2, 3])).tolist() == [0, 3]
    assert zyx.relu(zyx.Tensor([-2, 3])).dtype is zyx.int64
    assert zyx.hardtanh(zyx.Tensor([-2, 3])).dtype is zyx.float32
    assert zyx.relu(zyx.Tensor([-math.inf, math.inf])).tolist() == [0.0, math.inf]


@pytest.mark.parametrize(
    ("name", "at_minus", "at_plus"),
    [
        ("sigmoid", 0.0, 1.0), ("softplus", 0.0, math.inf), ("logsigmoid", -math.inf, 0.0), ("relu6", 0.0, 6.0),
        ("hardtanh", -1.0, 1.0), ("hardsigmoid", 0.0, 1.0), ("elu", -1.0, math.inf),
    ],
)  # fmt: skip
def test_limits_at_infinity(name, at_minus, at_plus):
    assert getattr(zyx, name)(zyx.Tensor([-math.inf, math.inf])).tolist() == [at_minus, at_plus]


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "silu", "mish", "gelu", "logsigmoid", "selu", "quick_gelu"])
def test_large_inputs_do_not_overflow_on_the_way(name):
    found = getattr(zyx, name)(zyx.Tensor([-1e4, -200.0, 200.0, 1e4])).numpy()
    assert np.isfinite(found).all()


def test_sigmoid_keeps_its_digits_far_below_zero():
    assert zyx.sigmoid(zyx.Tensor([-80.0])).item() == pytest.approx(math.exp(-80), rel=1e-6)


def test_prelu_broadcasts_its_slope():
    x, slope = zyx.Tensor([[-1.0, 2.0], [-3.0, -4.0]]), zyx.Tensor([0.5, 0.25])
    assert zyx.prelu(x, slope).tolist() == [[-0.5, 2.0], [-1.5, -1.0]]


def test_softmax_of_huge_numbers_is_finite():
    x = zyx.Tensor([1e30, 1e30, -1e30])
    assert x.softmax().tolist() == [0.5, 0.5, 0.0]
    assert x.log_softmax().tolist() == [pytest.approx(-math.log(2)), pytest.approx(-math.log(2)), pytest.approx(-2e30)]


def test_softmax_gives_masked_places_nothing():
    assert zyx.Tensor([0.0, -math.inf]).softmax().tolist() == [1.0, 0.0]
    assert np.isnan(zyx.Tensor([-math.inf, -math.inf]).softmax().numpy()).all()


def test_softmax_in_bfloat16_rounds_once():
    x = zyx.Tensor(np.linspace(-3, 3, 64), "bfloat16")
    wanted = x.astype(zyx.float32).softmax().astype(zyx.bfloat16).astype(zyx.float32)
    assert np.array_equal(x.softmax().astype(zyx.float32).numpy(), wanted.numpy())


def test_wrong_options_are_named():
    with pytest.raises(DTypeError, match='approximate is "none" or "tanh", not \'fast\''):
        zyx.gelu(zyx.ones(1), approximate="fast")
    with pytest.raises(ShapeError, match=r"lower bound 2.0 is above the upper bound 1.0"):
        zyx.hardtanh(zyx.ones(1), 2.0, 1.0)
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        zyx.softmax(zyx.ones(2, 2), axis=2)
