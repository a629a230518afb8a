"""Losses against PyTorch's values, and where textbook formulas turn into NaN."""

import math

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError

LOGITS = [[2.0, -1.0, 0.5], [0.1, 0.2, -3.0], [1.5, 2.5, -0.5], [0.0, 1.0, 2.0]]
CLASSES = [0, 2, -100, 1]
WEIGHTS = [1.0, 2.0, 0.5]
SHARES = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0]]
A, B = [0.5, -1.5, 2.0, 0.0], [0.25, 1.0, -0.5, 0.0]
Q, Y = [0.0, 0.3, 1.0, 0.9], [0.0, 0.5, 0.0, 1.0]


def t(values):
    return zyx.Tensor(values, zyx.float64)


#: What is computed, and PyTorch 2's values with reduction "mean", "sum" and "none".
CROSS_ENTROPIES = {
    "plain": ({}, CLASSES, 1.8381624932, 5.51448747961, [0.241311296657, 3.86557021851, 0.0, 1.40760596444]),
    "weighted": (
        {"weight": WEIGHTS}, CLASSES, 1.42551666709, 4.9893083348, [0.241311296657, 1.93278510926, 0.0, 2.81521192889],
    ),
    "weighted and smooth": (
        {"weight": WEIGHTS, "label_smoothing": 0.1}, CLASSES,
        1.44535267827, 5.05873437394, [0.470333151601, 1.87382312382, 0.0, 2.71457809852],
    ),
    "smooth": (
        {"label_smoothing": 0.1}, CLASSES, 1.8181624932, 5.45448747961,
        [0.391311296657, 3.65557021851, 0.0, 1.40760596444],
    ),
    "probabilities": (
        {}, SHARES, 1.8708749241, 7.48349969638, [0.991311296657, 3.23557021851, 1.84901221677, 1.40760596444],
    ),
    "weighted and smooth probabilities": (
        {"weight": WEIGHTS, "label_smoothing": 0.1}, SHARES,
        1.83979688955, 7.35918755821, [1.65041017665, 1.71462576316, 1.27957351989, 2.71457809852],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CROSS_ENTROPIES.values(), ids=CROSS_ENTROPIES)
def test_cross_entropy_agrees_with_pytorch(case):
    options, target, mean, total, each = case
    options = {key: t(value) if key == "weight" else value for key, value in options.items()}
    target = zyx.Tensor(target) if target is CLASSES else t(target)
    assert zyx.cross_entropy(t(LOGITS), target, **options).item() == pytest.approx(mean, rel=1e-10)
    assert zyx.cross_entropy(t(LOGITS), target, **options, reduction="sum").item() == pytest.approx(total, rel=1e-10)
    found = zyx.cross_entropy(t(LOGITS), target, **options, reduction="none")
    assert np.allclose(found.numpy(), each, rtol=1e-10)


def test_negative_log_likelihood_agrees_with_pytorch():
    scores = zyx.log_softmax(t(LOGITS))
    assert zyx.nll_loss(scores, zyx.Tensor(CLASSES), t(WEIGHTS)).item() == pytest.approx(1.42551666709, rel=1e-10)
    found = zyx.nll_loss(scores, zyx.Tensor(CLASSES), t(WEIGHTS), reduction="none")
    assert np.allclose(found.numpy(), [0.241311296657, 1.93278510926, 0.0, 2.81521192889], rtol=1e-10)


def test_classes_lie_along_the_second_axis_of_images():
    logits = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    target = np.random.default_rng(1).integers(0, 3, (2, 4, 5))
    scores = np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    wanted = -np.take_along_axis(scores, target[:, None], 1)[:, 0]
    found = zyx.cross_entropy(zyx.Tensor(logits), zyx.Tensor(target), reduction="none")
    assert np.allclose(found.numpy(), wanted)
    assert zyx.cross_entropy(zyx.Tensor(logits), zyx.Tensor(target)).item() == pytest.approx(wanted.mean())
    assert zyx.cross_entropy(zyx.Tensor(logits[0, :, 0, 0]), zyx.Tensor(target[0, 0, 0])).item() == pytest.approx(
        wanted[0, 0, 0]
    )


def test_cross_entropy_of_huge_and_masked_logits_is_finite():
    logits = zyx.Tensor([[1e4, -1e4, -math.inf], [0.0, 0.0, -math.inf]])
    found = zyx.cross_entropy(logits, zyx.Tensor([0, 1]), reduction="none")
    assert np.allclose(found.numpy(), [0.0, math.log(2)])


def test_a_class_that_does_not_exist_gives_nan():
    found = zyx.cross_entropy(zyx.zeros(3, 2), zyx.Tensor([0, 2, -1]), reduction="none").numpy()
    assert np.isnan(found).tolist() == [False, True, True]
    assert np.isnan(zyx.nll_loss(zyx.zeros(3, 2), zyx.Tensor([0, 2, -1]), reduction="none").numpy()).tolist() == [
        False,
        True,
        True,
    ]


def test_ignored_classes_do_not_count_and_may_be_chosen():
    logits = t(LOGITS)
    found = zyx.cross_entropy(logits, zyx.Tensor([0, 2, 1, 1]), ignore_index=1)
    wanted = zyx.cross_entropy(logits[:2], zyx.Tensor([0, 2]))
    assert found.item() == pytest.approx(wanted.item())
    assert np.isnan(zyx.cross_entropy(logits, zyx.full(4, -100, "int32")).item())
    unsigned = zyx.cross_entropy(logits, zyx.Tensor([0, 2, 1, 1], zyx.uint8))
    assert unsigned.item() == zyx.cross_entropy(logits, zyx.Tensor([0, 2, 1, 1])).item()


def test_losses_keep_the_dtype_and_compute_half_precision_in_single():
    for dtype in ("float16", "bfloat16", "float32"):
        assert zyx.cross_entropy(zyx.zeros(4, 3, dtype=dtype), zyx.Tensor([0, 1, 2, 0])).dtype.name == dtype
        assert zyx.mse_loss(zyx.zeros(4, dtype=dtype), zyx.ones(4, dtype=dtype)).dtype.name == dtype
    assert zyx.mse_loss(zyx.full(4096, 8.0, "float16"), zyx.zeros(4096, dtype="float16")).item() == 64.0


def test_distances():
    assert zyx.mse_loss(t(A), t(B)).item() == pytest.approx(np.mean((np.array(A) - B) ** 2))
    assert zyx.l1_loss(t(A), t(B), "sum").item() == pytest.approx(np.abs(np.array(A) - B).sum())
    assert np.allclose(zyx.huber_loss(t(A), t(B), 0.7, "none").numpy(), [0.03125, 1.505, 1.505, 0.0])
    assert np.allclose(zyx.smooth_l1_loss(t(A), t(B), 0.7, "none").numpy(), [0.0446428571429, 2.15, 2.15, 0.0])
    assert np.allclose(zyx.smooth_l1_loss(t(A), t(B), 0.0, "none").numpy(), np.abs(np.array(A) - B))
    assert zyx.mse_loss(t(A), t(B)).shape == ()


def test_binary_cross_entropies_agree_with_pytorch():
    found = zyx.binary_cross_entropy(t(Q), t(Y), reduction="none")
    assert np.allclose(found.numpy(), [0.0, 0.780323874132, 100.0, 0.105360515658])
    assert zyx.binary_cross_entropy(t(Q), t(Y), t([1.0, 2.0, 3.0, 4.0])).item() == pytest.approx(75.4955224527)
    found = zyx.binary_cross_entropy_with_logits(t(A), t(Y), reduction="none")
    assert np.allclose(found.numpy(), [0.97407698418, 0.951413277983, 2.12692801104, 0.69314718056])
    found = zyx.binary_cross_entropy_with_logits(t(A), t(Y), pos_weight=t([1.0, 2.0, 3.0, 4.0]), reduction="none")
    assert np.allclose(found.numpy(), [0.97407698418, 1.80211991697, 2.12692801104, 2.77258872224])
    found = zyx.binary_cross_entropy_with_logits(t([1e4, -1e4]), t([0.0, 1.0]), t([2.0, 1.0]), reduction="none")
    assert found.tolist() == [2e4, 1e4]


def test_divergence_agrees_with_pytorch():
    scores = zyx.log_softmax(t(LOGITS))
    assert zyx.kl_div(scores, t(SHARES), "batchmean").item() == pytest.approx(1.23843732721)
    logs = zyx.log(t(SHARES) + 0.01)
    assert zyx.kl_div(scores, logs, "sum", log_target=True).item() == pytest.approx(5.03767353707)


def test_triplet_margin_loss_agrees_with_pytorch():
    x, p = t(LOGITS), t(SHARES)
    found = zyx.triplet_margin_loss(x, p, -x, 9.0, reduction="none")
    assert np.allclose(found.numpy(), [6.23125964077, 6.78467190332, 5.74662536372, 6.52786370336])
    found = zyx.triplet_margin_loss(x, p, -x, 9.0, 1.0, swap=True, reduction="none")
    assert np.allclose(found.numpy(), [7.8, 10.2, 8.6, 7.0])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: zyx.mse_loss(zyx.ones(2), zyx.ones(3)), ShapeError, r"do not broadcast|prediction and target"),
        (lambda: zyx.mse_loss(zyx.ones(2), zyx.ones(1)), ShapeError,
        r"prediction and target have shapes \(1,\) and \(2,\)"),
        (lambda: zyx.l1_loss(zyx.ones(2), zyx.ones(2), "average"), ShapeError, 'reduction is "mean", "sum" or "none"'),
        (lambda: zyx.cross_entropy(zyx.ones(2, 3), zyx.Tensor([0])), ShapeError, r"target \(1,\) for scores \(2, 3\)"),
        (lambda: zyx.cross_entropy(zyx.ones(2, 3), zyx.ones(2, 4)), ShapeError,
        r"probabilities \(2, 4\) for logits \(2, 3\)"),
        (lambda: zyx.cross_entropy(zyx.ones(2, 3), zyx.Tensor([True, False])), DTypeError, "not bool"),
        (lambda: zyx.cross_entropy(zyx.ones(2, 3), zyx.Tensor([0, 1]), zyx.ones(2)), ShapeError,
        r"weight \(2,\) for 3 classes"),
        (lambda: zyx.cross_entropy(zyx.ones(2, 3), zyx.Tensor([0, 1]), label_smoothing=2), ShapeError,
        "label_smoothing is 0 to 1"),
        (lambda: zyx.nll_loss(zyx.ones(2, 3), zyx.ones(2)), DTypeError, "not float32"),
        (lambda: zyx.huber_loss(zyx.ones(2), zyx.ones(2), 0.0), ShapeError, "delta is above 0"),
        (lambda: zyx.smooth_l1_loss(zyx.ones(2), zyx.ones(2), -1.0), ShapeError, "beta is at least 0"),
        (lambda: zyx.cross_entropy(zyx.Tensor(1.0), zyx.Tensor(0)), ShapeError, "needs an axis of classes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
