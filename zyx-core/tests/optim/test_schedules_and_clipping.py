"""Learning rates by the number of steps, and bounds for gradients."""

import math

import numpy as np
import pytest

import zyx
from zyx import optim
from zyx.errors import GradientError, ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")


def rates(schedule, count):
    return [schedule(zyx.Tensor(step)).item() for step in range(count)]


def half_cosine(start, end, part):
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (optim.StepLR(1.0, 2, 0.5), [1, 1, 0.5, 0.5, 0.25, 0.25]),
        (optim.MultiStepLR(1.0, (1, 4), 0.1), [1, 0.1, 0.1, 0.1, 0.01, 0.01]),
        (optim.ExponentialLR(2.0, 0.5), [2, 1, 0.5, 0.25, 0.125, 0.0625]),
        (optim.ExponentialLR(2.0, 0.0), [2, 0, 0, 0, 0, 0]),
        (optim.CosineAnnealingLR(1.0, 4, 0.2), [half_cosine(1, 0.2, min(s / 4, 1)) for s in range(6)]),
        (optim.LinearWarmup(1.0, 4), [0, 0.25, 0.5, 0.75, 1, 1]),
        (optim.LinearWarmup(optim.StepLR(1.0, 1, 0.5), 2, 0.5), [0.5, 0.75, 1, 0.5, 0.25, 0.125]),
        (optim.LambdaLR(2.0, lambda step: 1.0 / (step + 1.0)), [2 / (s + 1) for s in range(6)]),
        (
            optim.OneCycleLR(1.0, 6, pct_start=0.5, div_factor=10, final_div_factor=10),
            [half_cosine(0.1, 1, s / 2) for s in range(3)] + [half_cosine(1, 0.01, s / 3) for s in (1, 2, 3)],
        ),
        (
            optim.OneCycleLR(1.0, 3, pct_start=0.0, final_div_factor=1),
            [half_cosine(1, 0.04, (s + 1) / 3) for s in range(3)],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_schedules_follow_their_formulas(schedule, wanted):
    assert rates(schedule, len(wanted)) == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_an_optimiser_moves_its_schedule_on(traced):
    param = zyx.Tensor([0.0])
    optimizer = optim.SGD([param], optim.StepLR(1.0, 2, 0.1))
    step = zyx.jit(lambda grad: optimizer.step([grad])) if traced else lambda grad: optimizer.step([grad])
    places = []
    for _ in range(4):
        step(zyx.Tensor([-1.0]))
        places.append(param.item())
    assert places == pytest.approx([1.0, 2.0, 2.1, 2.2])
    assert "lr" not in optimizer.state_dict()
    assert optimizer.last_lr.item() == pytest.approx(0.1)
    optimizer.lr = 0.5
    assert optimizer.last_lr.item() == 0.5


def test_schedules_without_steps_are_refused():
    for make in (lambda: optim.StepLR(1.0, 0), lambda: optim.CosineAnnealingLR(1.0, 0)):
        with pytest.raises(ShapeError, match="is at least 1, not 0"):
            make()
    with pytest.raises(ShapeError, match="pct_start is 0 to 1"):
        optim.OneCycleLR(1.0, 3, pct_start=2.0)


# ---- clipping

GRADS = [np.array([[3.0, -4.0]], np.float32), np.array(12.0, np.float32)]


def test_all_gradients_are_scaled_by_their_common_norm():
    clipped, norm = optim.clip_grad_norm([zyx.Tensor(GRADS[0]), None, zyx.Tensor(GRADS[1])], 6.5)
    assert norm.item() == pytest.approx(13.0)
    assert clipped[1] is None
    assert np.allclose(clipped[0].numpy(), GRADS[0] / 2, rtol=1e-5)
    assert np.allclose(clipped[2].numpy(), GRADS[1] / 2, rtol=1e-5)


def test_gradients_within_the_bound_stay_as_they_are():
    clipped, _ = optim.clip_grad_norm([zyx.Tensor(g) for g in GRADS], 20.0)
    assert np.array_equal(clipped[0].numpy(), GRADS[0])


@pytest.mark.parametrize(("kind", "wanted"), [(1.0, 19.0), (math.inf, 12.0), (3.0, (27 + 64 + 1728) ** (1 / 3))])
def test_other_norms(kind, wanted):
    clipped, norm = optim.clip_grad_norm([zyx.Tensor(g) for g in GRADS], 1.0, kind)
    assert norm.item() == pytest.approx(wanted, rel=1e-5)
    assert np.allclose(clipped[1].numpy(), 12.0 / wanted, rtol=1e-4)


def test_half_precision_gradients_do_not_overflow_in_the_norm():
    clipped, norm = optim.clip_grad_norm([zyx.full(4, 300.0, dtype="float16")], 1.0)
    assert norm.item() == pytest.approx(600.0)
    assert clipped[0].dtype is zyx.float16
    assert np.allclose(clipped[0].numpy(), 0.5, rtol=1e-3)


def test_elements_are_bounded_one_by_one():
    clipped = optim.clip_grad_value([zyx.Tensor(GRADS[0]), None], 3.5)
    assert clipped[0].tolist() == [[3.0, -3.5]]
    assert clipped[1] is None


def test_bounds_out_of_range_are_refused():
    with pytest.raises(ShapeError, match=r"max_norm -1\.0 is at least 0"):
        optim.clip_grad_norm([zyx.Tensor([1.0])], -1.0)
    with pytest.raises(ShapeError, match="clip_value is at least 0"):
        optim.clip_grad_value([zyx.Tensor([1.0])], -1.0)
    with pytest.raises(GradientError, match="no gradients"):
        optim.clip_grad_norm([None], 1.0)
