"""One operation on what lies in memory goes to its plan without the key of a whole graph."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import zyx
from zyx.runtime import plans
from zyx.runtime import runtime as runtimes
from zyx.runtime.signature import single


def tensor(*values):
    return zyx.Tensor(np.array(values, np.float32))


@pytest.fixture
def no_signatures(monkeypatch):
    """Return what lets no key of a whole graph be made from then on."""

    def refuse(outputs):
        raise AssertionError(f"the key of {outputs} was made")

    return lambda: monkeypatch.setattr(runtimes, "signature", refuse)


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(operator.sub, id="two tensors"),
        pytest.param(lambda x, y: x * 1.5, id="a number"),
        pytest.param(lambda x, y: x + x, id="one tensor twice"),
        pytest.param(lambda x, y: x < y, id="a comparison"),
        pytest.param(lambda x, y: abs(x), id="one operand"),
    ],
)
def test_its_second_time_needs_no_key(lab, device, no_signatures, operation):
    arrays = np.float32([1, 2, 3]), np.float32([4, 1, 9])
    for _ in range(2):
        operation(*map(zyx.Tensor, arrays)).realize()
    no_signatures()
    launched = len(device.launched)
    others = np.float32([7, 8, -9]), np.float32([1, 8, 0.25])
    result = operation(*map(zyx.Tensor, others)).realize()
    assert len(device.launched) == launched + 1
    assert result.tolist() == operation(*others).tolist()


def test_numbers_that_change_need_no_key(lab, device, no_signatures):
    array = np.float32([1, 2, -3])
    x = zyx.Tensor(array)
    for number in (1.5, 2.5, 3.5):
        (x * number).realize()
    no_signatures()
    compiled = len(device.compiled)
    for number in (4.5, 1.5, -0.0, 0.1, 7, True, 1e300, -math.inf, math.nan):
        result = (x * number).realize()
        with np.errstate(over="ignore"):
            expected = array * np.float32(number)
        assert repr(result.tolist()) == repr(expected.tolist())
    assert len(device.compiled) == compiled


def test_exponents_have_plans_of_their_own_first(lab):
    x = tensor(1, 2, 3)
    for number in (5.0, 4.0, 6.0, 7.0, 8.0, 9.0, 5.0, 4.0, 10.0):
        assert (x**number).tolist() == pytest.approx([1, 2**number, 3**number], rel=1e-5)


def test_keys_tell_apart_what_differs(lab):
    x, y = (tensor(1, 2, 3).realize() for _ in range(2))
    short, whole = tensor(1, 2).realize(), zyx.Tensor([1, 2, 3]).realize()
    zero, one = x * 0.5, x + 1.0  # kept, so that no id is used twice
    keys = [
        single(z._node)[0]
        for z in (
            x + y, x + x, x - y, y - y, short + short, whole + whole, whole * whole, x < y, x.exp(), x.sin(),
            zero, one, x * 0.25, x + math.nan, x + 0.1, whole + 2,
        )
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert single((y + x)._node)[0] == keys[0]
    assert single((x + math.nan)._node)[0] == keys[13]


def test_other_graphs_have_none(lab):
    x = tensor(1, 2, 3).realize()
    file = tensor(1, 2, 3)  # an upload has a buffer at once
    assert single((x + x.exp())._node) is None
    assert single(x.sum()._node) is None
    assert single((1.0 - x)._node) is None
    assert single((file + x)._node) is not None


def test_a_plan_that_was_dropped_is_made_again(lab, monkeypatch):
    x = tensor(1, 2, 3)
    for _ in range(3):
        assert (x + x).tolist() == [2, 4, 6]
    lab._drop_plans()
    assert not lab._of_single
    assert (x + x).tolist() == [2, 4, 6]
    monkeypatch.setattr(plans, "_MAX_PLANS", 2)
    for _ in range(2):
        for number, operation in enumerate((operator.add, operator.sub, operator.mul, operator.truediv)):
            assert operation(x, x).tolist() == [[2, 4, 6], [0, 0, 0], [1, 4, 9], [1, 1, 1]][number]
            assert len(lab._of_single) <= len(lab._plans) <= 2


def test_a_tape_has_the_history_of_what_was_computed_at_once(lab):
    x = tensor(1, 2, 3)
    for _ in range(3):
        with zyx.Tape() as tape:
            y = (x * x).realize()
            z = (y * y).realize().sum()
        assert tape.gradient(z, [x])[0].tolist() == [4, 32, 108]


def test_another_tensor_of_the_same_operation_has_its_values(lab, device):
    x = tensor(1, 2, 3)
    for _ in range(3):
        (x + x).realize()
    first, second = x + x, x + x
    first.realize()
    launched = len(device.launched)
    assert second.tolist() == [2, 4, 6]
    assert len(device.launched) == launched
