"""First values: constants exactly, distributions by their moments and ends, bad arguments by their errors."""

import math

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.nn import init

COUNT = 40_000


def weights(*shape, dtype="float32"):
    return nn.Parameter(zyx.zeros(*shape, dtype=dtype))


def moments(tensor):
    values = tensor.numpy().astype(np.float64)
    return values.mean(), values.std()


@pytest.fixture(autouse=True)
def _seed():
    zyx.manual_seed(7)


def test_values_are_given_in_place_in_the_dtype_of_the_tensor():
    w = weights(3, 2, dtype="bfloat16")
    assert init.constant_(w, 1.5) is w
    assert isinstance(w, nn.Parameter)
    assert w.dtype == "bfloat16"
    assert w.tolist() == [[1.5] * 2] * 3
    assert init.ones_(w).tolist() == [[1.0] * 2] * 3
    assert init.zeros_(w).tolist() == [[0.0] * 2] * 3
    assert w.is_realized


def test_two_parameters_of_equal_constants_have_gradients_of_their_own():
    a, b = init.zeros_(weights(2)), init.zeros_(weights(2))
    with zyx.Tape() as tape:
        loss = (a * 2 + b * 3).sum()
    assert [g.tolist() for g in tape.gradient(loss, [a, b])] == [[2, 2], [3, 3]]


def test_eye_and_dirac_give_back_what_comes_in():
    assert init.eye_(weights(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    filters = init.dirac_(weights(4, 2, 3, 3), groups=2)
    x = zyx.randn(1, 4, 5, 5)
    assert np.allclose(zyx.conv2d(x, filters, padding=1, groups=2).numpy(), x.numpy())


@pytest.mark.parametrize(
    ("draw", "mean", "std", "bound"),
    [
        (lambda w: init.uniform_(w, -1, 3), 1.0, 4 / math.sqrt(12), None),
        (lambda w: init.normal_(w, 2.0, 0.5), 2.0, 0.5, None),
        (lambda w: init.xavier_uniform_(w, 2.0), 0.0, 2 * math.sqrt(2 / 500), 2 * math.sqrt(6 / 500)),
        (init.xavier_normal_, 0.0, math.sqrt(2 / 500), None),
        (lambda w: init.kaiming_uniform_(w, a=1.0), 0.0, math.sqrt(1 / 400), math.sqrt(3 / 400)),
        (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), 0.0, math.sqrt(2 / 100), None),
    ],
    ids=["uniform", "normal", "xavier uniform", "xavier normal", "kaiming uniform", "kaiming normal"],
)
def test_moments_are_those_of_the_distribution(draw, mean, std, bound):
    w = draw(weights(100, 400))
    found_mean, found_std = moments(w)
    assert abs(found_mean - mean) < 5 * std / math.sqrt(COUNT)
    assert abs(found_std / std - 1) < 5 / math.sqrt(2 * COUNT)
    if bound is not None:
        assert 0.999 * bound < np.abs(w.numpy()).max() <= bound * (1 + 1e-6)


def test_windows_count_as_inputs_and_outputs():
    w = init.xavier_uniform_(weights(20, 30, 5, 4))
    bound = math.sqrt(6 / ((20 + 30) * 20))
    assert 0.99 * bound < np.abs(w.numpy()).max() <= bound * (1 + 1e-6)


def test_truncated_normal_numbers_have_its_ends_and_its_moments():
    w = init.trunc_normal_(weights(COUNT), mean=1.0, std=2.0, a=0.0, b=4.0)
    values = w.numpy().astype(np.float64)
    assert values.min() >= 0.0
    assert values.max() <= 4.0
    # Of the standard normal distribution cut to [l, h]: the mean is (phi(l) - phi(h)) / z.
    low, high = -0.5, 1.5
    phi = [math.exp(-t * t / 2) / math.sqrt(2 * math.pi) for t in (low, high)]
    z = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
    mean = (phi[0] - phi[1]) / z
    variance = 1 + (low * phi[0] - high * phi[1]) / z - mean * mean
    assert abs(values.mean() - (1 + 2 * mean)) < 5 * 2 * math.sqrt(variance / COUNT)
    assert abs(values.std() / (2 * math.sqrt(variance)) - 1) < 0.02
    cut = init.trunc_normal_(weights(9), std=1.0, a=20.0, b=30.0)
    assert cut.tolist() == [20.0] * 9


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 2, 3)])
def test_orthogonal_rows_or_columns(shape):
    w = init.orthogonal_(weights(*shape), gain=3.0).numpy().reshape(shape[0], -1)
    rows, columns = w.shape
    product = w @ w.T if rows <= columns else w.T @ w
    assert np.allclose(product, 9.0 * np.eye(min(rows, columns)), atol=1e-4)


def test_orthogonal_matrices_turn_either_way_equally_often():
    signs = [np.sign(np.linalg.det(init.orthogonal_(weights(2, 2)).numpy())) for _ in range(200)]
    assert 60 < signs.count(1.0) < 140


def test_sparse_columns_have_their_share_of_zeros():
    w = init.sparse_(weights(50, 40), sparsity=0.31, std=0.5).numpy()
    assert ((w == 0).sum(axis=0) == 16).all()
    assert abs(w[w != 0].std() / 0.5 - 1) < 0.1
    assert len({tuple(np.flatnonzero(column == 0)) for column in w.T}) > 30  # not the same places


def test_gains():
    assert init.calculate_gain("conv_transpose2d") == init.calculate_gain("linear") == 1.0
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert init.calculate_gain("selu") == 0.75


def test_a_generator_repeats_values():
    draws = [init.normal_(weights(5), generator=zyx.Generator(3)).tolist() for _ in range(2)]
    assert draws[0] == draws[1] != init.normal_(weights(5)).tolist()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: init.xavier_uniform_(weights(3)), ShapeError, "two axes"),
        (lambda: init.kaiming_normal_(weights(3, 2), mode="fan"), ArgumentError, "fan_in.*'fan'"),
        (lambda: init.calculate_gain("swish"), ArgumentError, "swish"),
        (lambda: init.calculate_gain("leaky_relu", True), ArgumentError, "True"),
        (lambda: init.uniform_(weights(3), 2, 1), ShapeError, "a 2 is above b 1"),
        (lambda: init.trunc_normal_(weights(3), std=0.0), ShapeError, "std 0.0"),
        (lambda: init.eye_(weights(3)), ShapeError, "matrix"),
        (lambda: init.dirac_(weights(3, 3)), ShapeError, "rank 3 to 5"),
        (lambda: init.dirac_(weights(3, 3, 1), groups=2), ShapeError, "2 groups"),
        (lambda: init.orthogonal_(weights(3)), ShapeError, "two axes"),
        (lambda: init.sparse_(weights(3, 3), 1.5), ShapeError, "1.5"),
        (lambda: init.normal_(zyx.arange(3)), DTypeError, "int64"),
        (lambda: init.zeros_([1.0]), DTypeError, "zeros_|constant_"),
    ],
)
def test_bad_arguments_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
