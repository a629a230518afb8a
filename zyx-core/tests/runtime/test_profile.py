"""Launches are timed one by one while a profile is under way, and only then."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zyx
from zyx.runtime.profile import Profile, duration
from zyx.runtime.trace import TIMED


def test_launches_of_a_block_are_counted_by_program(interpreter):
    x = zyx.Tensor(np.ones((4, 5), np.float32))
    (x + 1).numpy()
    with zyx.profile() as seen:
        for _ in range(2):
            (x + 1).numpy()
        x.sum(1).numpy()
    (x * 3).numpy()
    kernels = seen.kernels()
    assert sorted(kernel.launches for kernel in kernels) == [1, 2]
    assert all(kernel.expected_s is not None and kernel.measured_s > 0 for kernel in kernels)
    assert [kernel.seconds for kernel in kernels] == sorted((kernel.seconds for kernel in kernels), reverse=True)
    assert json.loads(json.dumps(seen.as_json()))["kernels"][0]["name"] == kernels[0].name
    lines = str(seen).splitlines()
    assert lines[3] == ""
    assert lines[4].startswith("3 launches, ")
    assert lines[0].split()[:2] == ["KERNEL", "LAUNCHES"]


def test_what_is_traced_within_a_block_has_every_launch_by_itself(interpreter):
    @zyx.jit
    def both(x):
        return zyx.softmax(x.cumsum(0), axis=1), x.sort()

    x = zyx.Tensor(np.ones((4, 5), np.float32))
    with zyx.profile() as seen:
        values = [both(x)[0].numpy() for _ in range(3)]
    assert {kernel.launches for kernel in seen.kernels()} == {3}
    np.testing.assert_array_equal(values[0], values[2])
    np.testing.assert_array_equal(both(x)[0].numpy(), values[0])


def test_a_function_traced_before_has_times_and_nothing_that_is_expected(interpreter):
    double = zyx.jit(lambda x: x + x)
    x = zyx.Tensor(np.ones(3, np.float32))
    double(x).numpy()
    with zyx.profile() as seen:
        double(x).numpy()
    (kernel,) = seen.kernels()
    assert kernel.launches == 1
    assert kernel.expected_s is kernel.ratio is None
    assert kernel.bytes > 0


def test_nothing_is_left_of_a_profile_and_one_in_another_takes_over(interpreter):
    x = zyx.Tensor(np.ones(3, np.float32))
    with zyx.profile() as outer:
        (x + 1).numpy()
        with zyx.profile() as inner, pytest.raises(ZeroDivisionError):
            (x + 2).numpy()
            raise ZeroDivisionError
        (x + 3).numpy()
    assert len(inner.kernels()) == 1
    assert sum(kernel.launches for kernel in outer.kernels()) == 2
    assert interpreter.trace.profile is None
    assert not interpreter.trace.configured & TIMED
    empty = Profile().as_json()
    assert (empty["seconds"], empty["kernels"], empty["memory"]) == (0, [], [])


def test_what_debugging_shows_does_not_end_it(interpreter, capsys):
    x = zyx.Tensor(np.ones(3, np.float32))
    with zyx.profile() as seen, zyx.debug("plan"):
        (x + 1).numpy()
        (x + 1).numpy()
        (x + 1).numpy()
    assert seen.kernels()[0].launches == 3
    assert "launch" in capsys.readouterr().err


def test_times_have_three_digits_and_a_unit():
    assert [duration(each) for each in (2.0, 0.0123, 1.5e-5, 2e-7)] == ["2 s", "12.3 ms", "15 us", "200 ns"]
