"""Sizes beyond what can be counted, stored or gone over: refused at once, with a reason; a part of them is computed."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")

HUGE = 2**62


def repeated(*shape):
    return zyx.broadcast_to(zyx.Tensor([2.0]), shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda: zyx.ones(HUGE).sum(),
        lambda: zyx.zeros(HUGE).max(),
        lambda: zyx.arange(2**60).sum(),
        lambda: zyx.ones(2**31, 2**31).sum(),
        lambda: repeated(HUGE).mean(),
        lambda: repeated(2**61 + 1).min(),
        lambda: zyx.sum(zyx.arange(2**31)[:, None] * zyx.arange(2**31)[None]),
        lambda: zyx.tile(zyx.Tensor([1.0, 2.0]), (2**61,)).sum(),
    ],
)
def test_what_would_take_years_is_refused_before_it_starts(make):
    with pytest.raises(ShapeError, match=r"goes over \d+ points"):
        make().realize()


@pytest.mark.parametrize(
    "make",
    [
        lambda: zyx.ones(2**32, 2**32).sum(),
        lambda: zyx.ones(2**70).sum(),
        lambda: zyx.pad(zyx.Tensor([1.0]), ((0, HUGE),)).sum(),
        lambda: zyx.pad(zyx.Tensor([1.0]), ((HUGE, HUGE),)),
        lambda: repeated(2**63, 2)[0],
    ],
)
def test_what_cannot_be_counted_is_refused(make):
    with pytest.raises(ShapeError, match="do not fit 64 bits"):
        make().realize()


@pytest.mark.parametrize("make", [lambda: zyx.ones(HUGE), lambda: repeated(2**55)])
def test_what_cannot_be_stored_is_refused(make):
    with pytest.raises(AllocationError, match="bytes"):
        make().realize()


def test_a_part_of_something_huge_is_computed():
    assert zyx.arange(HUGE)[-1].item() == HUGE - 1
    assert repeated(HUGE)[5].item() == 2.0
    assert zyx.eye(2**31)[5, 5].item() == 1.0
    assert zyx.ones(2**20, 2**31)[:, 3].sum().item() == 2**20
    assert zyx.zeros(0, HUGE).sum().item() == 0.0
    np.testing.assert_array_equal(zyx.ones(HUGE)[3:6].numpy(), np.ones(3))
    assert zyx.ones(2**70).shape == (2**70,)
