"""Gradients of what test_rows.py does not draw, against differences; and finite ones at corners and far out."""

import math

import numpy as np
import pytest
from meanings.slopes import differences

import zyx

RNG = np.random.default_rng(9)


def check(function, *arrays):
    tensors = [zyx.Tensor(a) for a in arrays]
    with zyx.Tape() as tape:
        result = function(*tensors)
        weights = np.random.default_rng(0).standard_normal(result.shape)
        loss = (result * weights).sum()
    wanted = differences(lambda *moved: (function(*map(zyx.Tensor, moved)).numpy() * weights).sum(), arrays)
    for found, slope in zip(tape.gradient(loss, tensors), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["copysign", "remainder", "fmod"])
def test_gradients_of_functions_that_jump(name):
    check(getattr(zyx, name), RNG.uniform(-2, 2, 8), RNG.uniform(0.5, 2, 8))


FAR = ["sinh", "cosh", "sigmoid", "softplus", "silu", "mish", "gelu", "selu", "elu", "logsigmoid", "quick_gelu",
"asinh", "softsign",
       "hardswish", "relu6", "tanh"]  # fmt: skip


@pytest.mark.parametrize("name", FAR)
def test_gradients_far_out_are_no_nan(name):
    x = zyx.Tensor([-1e4, -200.0, -90.0, 90.0, 200.0, 1e4])
    with zyx.Tape() as tape:
        y = getattr(zyx, name)(x).sum()
    assert not np.isnan(tape.gradient(y, x).numpy()).any()


def test_gradients_of_hypot_and_atan2_on_the_axes():
    x, y = zyx.Tensor([0.0, 3.0, 0.0]), zyx.Tensor([0.0, 0.0, 2.0])
    with zyx.Tape() as tape:
        length, angle = zyx.hypot(x, y).sum(), zyx.atan2(y, x).sum()
    assert np.isfinite(tape.gradient(length, [x, y])[0].numpy()).all()
    assert tape.gradient(length, x).tolist()[1:] == [1.0, 0.0]
    assert tape.gradient(angle, y).tolist()[1:] == [pytest.approx(1 / 3), 0.0]


def test_gradients_of_softmax_and_losses_of_masked_logits_are_finite():
    x = zyx.Tensor([[0.5, -math.inf, 1.0], [2.0, 1.0, -math.inf]])
    with zyx.Tape() as tape:
        loss = zyx.cross_entropy(x, zyx.Tensor([0, 1]))
        shares = (x.softmax() * zyx.Tensor([1.0, 2.0, 3.0])).sum()
        total = x.logsumexp(axis=1).sum()
    for target in (loss, shares, total):
        assert np.isfinite(tape.gradient(target, x).numpy()).all()


def test_ignored_examples_have_no_gradient():
    x = zyx.Tensor(RNG.standard_normal((3, 4)))
    with zyx.Tape() as tape:
        loss = zyx.cross_entropy(x, zyx.Tensor([1, -100, 2]), label_smoothing=0.1)
    found = tape.gradient(loss, x).numpy()
    assert (found[1] == 0).all()
    assert (found[0] != 0).all()


def test_gradients_of_smoothed_and_weighted_losses():
    x, y = RNG.standard_normal((3, 4)), RNG.uniform(0.1, 0.9, (3, 4))
    classes = zyx.Tensor([0, 3, 1])
    check(lambda t: zyx.cross_entropy(t, classes, label_smoothing=0.1), x)
    check(lambda t, w: zyx.cross_entropy(t, classes, w), x, y[0])
    check(zyx.cross_entropy, x, y)


def test_gradients_of_products_that_repeat_an_axis():
    check(zyx.matmul, RNG.standard_normal((2, 3)), RNG.standard_normal((4, 3, 2)))
    check(lambda a, b: zyx.einsum("iij,jk->k", a, b), RNG.standard_normal((2, 2, 3)), RNG.standard_normal((3, 2)))


def test_gradients_of_convolutions_and_pooling():
    x, weight, bias = RNG.standard_normal((1, 2, 5, 4)), RNG.standard_normal((4, 1, 2, 2)), RNG.standard_normal(4)
    check(lambda a, w, b: zyx.conv(a, w, b, stride=(2, 1), padding=1, dilation=(1, 2), groups=2), x, weight, bias)
    check(
        lambda a, w: zyx.conv_transpose(a, w, stride=2, padding=1, output_padding=1, groups=2),
        x[..., :3, :2],
        weight[:2],
    )
    check(lambda a: zyx.max_pool(a, (2, 2), 1, 1, ceil_mode=True), x)
    check(lambda a: zyx.avg_pool(a, (2, 3), 2, 1, count_include_pad=False), x)


def test_gradients_of_indexing():
    x = RNG.standard_normal((4, 5))
    index = np.array([[0, 2], [2, -1]])
    check(lambda t: t[index, zyx.Tensor([0, 1])], x)
    check(lambda t: zyx.roll(t, (1, 2), (0, 1)), x)

    def written(t, v):
        y = t * 1.0
        y[1:, ::2] = v
        y[zyx.Tensor([0, 2])] = v[:2, :1]
        return y

    check(written, x, RNG.standard_normal((3, 3)))


@pytest.mark.parametrize("way", ["refused", "contiguous", "parameter"])
def test_a_constant_has_no_gradient_and_the_error_says_how_it_gets_one(way):
    x = zyx.full((2, 3), 0.5)
    match way:
        case "refused":
            with zyx.Tape() as tape:
                loss = (x * x).sum()
            with pytest.raises(zyx.errors.GradientError) as caught:
                tape.gradient(loss, x)
            text = str(caught.value)
            assert "sources is a constant, float32[2, 3] filled with 0.5" in text
            assert "x = x.contiguous(), or x = zyx.nn.Parameter(x)" in text
            return
        case "contiguous":
            x = x.contiguous()
        case "parameter":
            x = zyx.nn.Parameter(x)
    with zyx.Tape() as tape:
        loss = (x * x).sum()
    assert tape.gradient(loss, x).tolist() == [[1.0] * 3] * 2
