"""Values that are computed along with others: nothing is computed twice because somebody reads it late."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import optim
from zyx.errors import LaunchError


def ones(*shape):
    return zyx.Tensor(np.ones(shape, np.float32))


def step(weight, x):
    with zyx.Tape() as tape:
        loss = ((x @ weight).tanh() ** 2).sum()
    optim.SGD([weight], 0.1).step([tape.gradient(loss, weight)])
    return loss


def test_a_loss_is_computed_with_the_step_that_its_gradient_is_for(lab, device):
    weight, x = ones(4, 3), ones(2, 4)
    loss = step(weight, x)
    assert loss.is_realized
    launched = len(device.launched)
    assert loss.item() == pytest.approx(6 * 0.9993293**2, rel=1e-5)
    assert len(device.launched) == launched


@pytest.mark.parametrize("keep", [False, True])
def test_a_loss_is_computed_along_only_if_somebody_keeps_it(lab, keep):
    weight, x = ones(4, 3), ones(2, 4)
    lab.memory.reclaim()
    before = lab.memory.live_bytes
    with zyx.Tape() as tape:
        loss = ((x @ weight).tanh() ** 2).sum()
    gradient = tape.gradient(loss, weight)
    if not keep:
        del loss
    gradient.realize()
    lab.memory.reclaim()
    assert lab.memory.live_bytes == before + gradient.nbytes + (4 if keep else 0)


def test_reading_what_is_computed_already_computes_nothing_along(lab, device):
    weight, x = ones(4, 3), ones(2, 4)
    device.launched = []
    with zyx.Tape() as tape:
        loss = (x @ weight).sum()
    gradient = tape.gradient(loss, weight)
    assert x.numpy().sum() == 8
    assert not device.launched
    gradient.realize()
    assert loss.is_realized


def test_a_target_of_many_elements_is_left_to_whoever_reads_it(lab):
    x = ones(4)
    with zyx.Tape() as tape:
        y = x * x
    tape.gradient(y, x, zyx.ones(4)).realize()
    assert not y.is_realized


def test_what_fails_along_does_not_fail_twice(lab, device):
    x = ones(64, 64)
    total = x.sum()
    lab.realize_along(total)
    device.fails_in_launch = "2_prod"  # both in one launch
    other = x.prod()
    with pytest.raises(LaunchError):
        other.realize()
    assert other.item() == 1
    device.fails_in_launch = None
    assert total.item() == 64 * 64
