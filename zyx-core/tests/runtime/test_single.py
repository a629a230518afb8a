"""One operation on what lies in memory goes to its plan without the key of a whole graph."""

from __future__ import annotations

import math
import operator
from dataclasses import replace

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend.info import full_capability
from zyx.runtime import plans
from zyx.runtime import runtime as runtimes
from zyx.runtime.buffer import Pending
from zyx.runtime.plans import single


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

    def key(z):
        leaf, key, _ = single(z._node)
        return leaf.shape, leaf.dtype, leaf.device, key

    keys = [
        key(z)
        for z in (
            x + y, x + x, x - y, y - y, short + short, whole + whole, whole * whole, x < y, x.exp(), x.sin(),
            zero, one, x * 0.25, x + math.nan, x + 0.1, whole + 2,
        )
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert key(y + x) == keys[0]
    assert key(x + math.nan) == keys[13]


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
    lab.drop_plans()
    assert not lab._of_single
    assert (x + x).tolist() == [2, 4, 6]
    monkeypatch.setattr(plans, "_MAX_PLANS", 2)
    for _ in range(2):
        for number, operation in enumerate((operator.add, operator.sub, operator.mul, operator.truediv)):
            assert operation(x, x).tolist() == [[2, 4, 6], [0, 0, 0], [1, 4, 9], [1, 1, 1]][number]
            assert sum(map(len, lab._of_single.values())) <= len(lab._plans) <= 2


def test_leaves_from_before_find_the_plans_that_were_made_since(lab, no_signatures):
    x = tensor(1, 2, 3)
    assert (x + x).tolist() == [2, 4, 6]
    lab.drop_plans()
    assert (tensor(1, 2, 3) + tensor(4, 5, 6)).tolist() == [5, 7, 9]
    y = tensor(4, 5, 6)
    no_signatures()
    assert (x + y).tolist() == [5, 7, 9]


def test_a_plan_that_a_larger_graph_asked_for_is_found_from_its_second_use_on(lab, no_signatures):
    x = tensor(1, 2, 3)
    doubled = x + x
    tripled, negative = doubled + x, -doubled
    doubled.realize()
    assert tripled.tolist() == [3, 6, 9]  # of a node that lies in memory, and is no leaf
    assert negative.tolist() == [-2, -4, -6]
    assert (tensor(1, 1, 1) + x).tolist() == [2, 3, 4]
    no_signatures()
    assert (tensor(2, 1, 1) + x).tolist() == [3, 3, 4]


class TestEntries:
    """The short way into programs that are over in no time, where a device has one."""

    @staticmethod
    def given_to(device, monkeypatch, answer):
        """Return what entries of `device` are called with from now on; they answer that the work is done, or not."""
        given = []

        def entry(program):
            def enter(*args):
                given.append(args)
                if answer:
                    device.launch(program, args)
                return answer

            return enter

        # Not of its class: that a class has one is remembered for tests to come.
        monkeypatch.setattr(device, "entry", entry, raising=False)
        return given

    @pytest.mark.parametrize("answer", [True, False])
    @pytest.mark.parametrize(
        ("operation", "count"),
        [(operator.sub, 3), (lambda x, y: x - x, 2), (lambda x, y: abs(x), 2), (lambda x, y: x * 0.5, 2)],
        ids=["two tensors", "one tensor twice", "one operand", "a number"],
    )
    def test_they_compute_what_launches_do(self, interpreter, monkeypatch, answer, operation, count):
        given = self.given_to(interpreter.device(), monkeypatch, answer)
        for number in range(3):
            arrays = np.float32([number - 1, 2, -3]), np.float32([4, 5, 6])
            assert operation(*map(zyx.Tensor, arrays)).tolist() == operation(*arrays).tolist()
            assert [len(args) for args in given] == [count] * number

    @pytest.mark.parametrize("busy", [0, 1, 2], ids=["the first", "the second", "memory that is used again"])
    def test_they_are_not_given_what_work_is_queued_on(self, interpreter, monkeypatch, busy):
        device = interpreter.device()
        given = self.given_to(device, monkeypatch, True)
        operands = tensor(1, 2, 3), tensor(4, 5, 6)
        for _ in range(2):
            result = (operands[0] - operands[1]).realize()
        assert len(given) == 1
        (*operands, result)[busy].node.storage.pending = Pending(device.memory_pool.completed(), device.memory_pool)
        interpreter.memory.reclaim()
        del result
        assert (operands[0] - operands[1]).tolist() == [-3, -3, -3]
        assert len(given) == 1

    def test_where_launches_are_shown_there_are_launches(self, interpreter, monkeypatch, capsys):
        given = self.given_to(interpreter.device(), monkeypatch, True)
        x = tensor(1, 2, 3)
        for _ in range(3):
            (x + x).realize()
        assert len(given) == 2
        with zyx.debug("launches"):
            assert (x + x).tolist() == [2, 4, 6]
        assert len(given) == 2
        assert "interpreter" in capsys.readouterr().err


def let_one_thread_have_vectors(device):
    capabilities = {dtype: full_capability(dtype, lanes=(2, 4)) for dtype in dtypes.ALL}
    device._info = replace(device.info, capabilities=capabilities, max_group_threads=1, max_group_shape=(1, 1, 1))


def test_a_transform_needs_no_key_the_second_time(lab, device, no_signatures):
    let_one_thread_have_vectors(device)
    first, second, third = np.random.default_rng(0).standard_normal((3, 2, 24)).view(np.complex128)
    for array in (first, second):
        zyx.fft.fft(zyx.Tensor(array), axis=0).realize()
    no_signatures()
    launched = len(device.launched)
    found = zyx.fft.fft(zyx.Tensor(third), axis=0).realize()
    assert len(device.launched) == launched + 1
    np.testing.assert_allclose(found.numpy(), np.fft.fft(third, axis=0), rtol=0, atol=1e-13)
    with pytest.raises(AssertionError, match="was made"):  # it is another one
        zyx.fft.ifft(zyx.Tensor(third), axis=0).realize()


def test_transforms_of_real_rows_read_and_write_them_where_they_lie(lab, device):
    let_one_thread_have_vectors(device)
    x = np.random.default_rng(0).standard_normal((3, 24))
    found = zyx.fft.rfft(zyx.Tensor(x)).realize()
    assert len(device.launched) == 2  # pairs are transformed, and taken apart
    back = zyx.fft.irfft(found).realize()
    assert len(device.launched) == 4
    np.testing.assert_allclose(found.numpy(), np.fft.rfft(x), rtol=0, atol=1e-13)
    np.testing.assert_allclose(back.numpy(), x, rtol=0, atol=1e-13)
