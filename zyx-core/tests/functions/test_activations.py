"""Activation functions against PyTorch's values, and where textbook formulas overflow."""

import functools
import math

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError

X = [-3.5, -1.0, -0.25, 0.0, 0.25, 1.0, 3.5]

#: Values of PyTorch 2 in float64.
VALUES = {
    "relu6": [0.0, 0.0, 0.0, 0.0, 0.25, 1.0, 3.5],
    "leaky_relu": [-0.35, -0.1, -0.025, 0.0, 0.25, 1.0, 3.5],
    "elu": [-1.454703925, -0.9481808382, -0.3317988254, 0.0, 0.25, 1.0, 3.5],
    "celu": [-1.354542048, -0.7298743215, -0.2302774127, 0.0, 0.25, 1.0, 3.5],
    "selu": [-1.705009341, -1.111330738, -0.3888901975, 0.0, 0.2626752468, 1.050700987, 3.677453456],
    "gelu": [-0.0008142017766, -0.1586552539, -0.1003234186, 0.0, 0.1496765814, 0.8413447461, 3.499185798],
    "gelu_tanh": [-0.0006161976554, -0.1588080094, -0.1003246493, 0.0, 0.1496753507, 0.8411919906, 3.499383802],
    "sigmoid": [0.02931223075, 0.2689414214, 0.4378234991, 0.5, 0.5621765009, 0.7310585786, 0.9706877692],
    "hardsigmoid": [0.0, 0.3333333333, 0.4583333333, 0.5, 0.5416666667, 0.6666666667, 1.0],
    "silu": [-0.1025928076, -0.2689414214, -0.1094558748, 0.0, 0.1405441252, 0.7310585786, 3.397407192],
    "hardswish": [-0.0, -0.3333333333, -0.1145833333, 0.0, 0.1354166667, 0.6666666667, 3.5],
    "mish": [-0.1040957545, -0.3034014614, -0.1299269637, 0.0, 0.1695724097, 0.8650983883, 3.493990715],
    "softplus": [0.02975041827, 0.3132616875, 0.5759394199, 0.6931471806, 0.8259394199, 1.313261688, 3.529750418],
    "softplus_beta": [0.0004557332269, 0.06346400552, 0.2370384921, 0.3465735903, 0.4870384921, 1.063464006, 3.5],
    "softsign": [-0.7777777778, -0.5, -0.2, 0.0, 0.2, 0.5, 0.7777777778],
    "logsigmoid": [
        -3.529750418,
        -1.313261688,
        -0.8259394199,
        -0.6931471806,
        -0.5759394199,
        -0.3132616875,
        -0.02975041827,
    ],
}
FUNCTIONS = {
    "leaky_relu": functools.partial(zyx.leaky_relu, negative_slope=0.1),
    "elu": functools.partial(zyx.elu, alpha=1.5),
    "celu": functools.partial(zyx.celu, alpha=1.5),
    "gelu_tanh": functools.partial(zyx.gelu, approximate="tanh"),
    "softplus_beta": functools.partial(zyx.softplus, beta=2.0, threshold=4.0),
}
PLAIN = [
    "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "quick_gelu", "sigmoid", "hardsigmoid", "silu",
    "hardswish",
    "hardtanh", "mish", "softplus", "softsign", "logsigmoid", "softmax", "log_softmax", "softmin",
]  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-6), ("bfloat16", 1e-2)])
def test_activations_agree_with_pytorch(name, dtype, tolerance):
    function = FUNCTIONS.get(name) or getattr(zyx, name)
    found = function(zyx.Tensor(X, dtype))
    assert found.dtype.name == dtype
    assert np.allclose(found.numpy().astype(np.float64), VALUES[name], rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", PLAIN)
def test_activations_are_methods_and_pass_nan_on(name):
    x = zyx.Tensor([math.nan, 1.0])
    found = getattr(x, name)().numpy()
    assert np.isnan(found[0])
    assert np.array_equal(found, getattr(zyx, name)(x).numpy(), equal_nan=True)


@pytest.mark.parametrize("name", [name for name in PLAIN if "soft" not in name and name not in ("relu", "relu6")])
def test_activations_take_integers_as_float32(name):
    assert getattr(zyx, name)(zyx.Tensor([1, 2])).dtype is zyx.float32


def test_relu_keeps_integers_and_is_zero_at_minus_infinity():
    assert zyx.relu(zyx.Tensor([-2, 3])).tolist() == [0, 3]
    assert zyx.relu(zyx.Tensor([-2, 3])).dtype is zyx.int64
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


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softmax_agrees_with_its_definition(axis, dtype):
    x = (np.random.default_rng(0).standard_normal((4, 5)) * 5).astype(dtype)
    exact = np.exp(x.astype(np.float64))
    wanted = exact / exact.sum(axis, keepdims=True)
    tolerance = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    assert np.allclose(zyx.softmax(zyx.Tensor(x), axis).numpy(), wanted, rtol=tolerance, atol=1e-7)
    assert np.allclose(zyx.log_softmax(zyx.Tensor(x), axis).numpy(), np.log(wanted), rtol=tolerance, atol=tolerance)
    assert np.allclose(zyx.softmin(zyx.Tensor(-x), axis).numpy(), wanted, rtol=tolerance, atol=1e-7)


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
