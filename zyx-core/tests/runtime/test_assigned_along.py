"""What is assigned by hand is computed with what is read next, so that loops do not compute their turns again."""

import numpy as np
import pytest

import zyx

pytestmark = pytest.mark.usefixtures("interpreter")

STEPS = {
    "sub_": lambda w, change: w.sub_(change),
    "assign": lambda w, change: w.assign(w - change),
    "data.sub_": lambda w, change: w.data.sub_(change),
    "data": lambda w, change: setattr(w, "data", w.data - change),
}


@pytest.mark.parametrize("step", STEPS)
def test_weights_are_computed_with_the_loss_that_is_read_next(step):
    w = zyx.ones(3, requires_grad=True)
    wanted = np.ones(3, np.float32)
    for _ in range(4):
        loss = (w * w).sum()
        loss.backward()
        with zyx.no_grad():
            STEPS[step](w, 0.25 * w.grad)
        w.grad = None
        assert not w.is_realized
        assert loss.item() == pytest.approx((wanted * wanted).sum())
        assert w.is_realized
        wanted = wanted - 0.25 * 2 * wanted
    np.testing.assert_allclose(w.numpy(), wanted, rtol=1e-5)


def test_a_loss_may_be_read_before_its_gradients():
    w = zyx.ones(3, requires_grad=True)
    for turn in range(3):
        loss = (w * w).sum()
        assert loss.item() == pytest.approx(3 / 4**turn)
        loss.backward()
        w.data -= 0.25 * w.grad
        w.grad = None
    assert w.tolist() == [0.125] * 3


def test_what_has_a_history_keeps_it():
    w = zyx.ones(3, requires_grad=True)
    y = zyx.zeros(3)
    y.assign(w * 2)
    assert (zyx.ones(3) * 3).sum().item() == 9
    (y * y).sum().backward()
    assert w.grad.tolist() == [8, 8, 8]


def test_values_that_nobody_holds_are_not_computed():
    kept = zyx.zeros(3)
    zyx.zeros(3).assign(kept + 1)
    kept.assign(kept + 2)
    assert kept.tolist() == [2, 2, 2]
