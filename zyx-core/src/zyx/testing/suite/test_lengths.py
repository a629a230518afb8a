"""Lengths that change from call to call: right at each, and given to kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
import zyx.nn.functional as F
from zyx.runtime.runtime import use
from zyx.specialise.table import Table
from zyx.testing.lengths import operand, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx import Tensor
    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape
    from zyx.testing.values import Array

#: Around powers of two, at some of which one plan ends and another one begins.
LENGTHS = (1, 2, 3, 8, 17, 31, 32, 33, 50, 64, 65)

PROGRAMS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array], Callable[[int], Shape]]] = {
    "element by element": (lambda x: x * 2.0 + 1.0, lambda x: x * 2 + 1, lambda length: (length,)),
    "sum": (lambda x: x.sum(), lambda x: x.sum(), lambda length: (length,)),
    "inner axis": (lambda x: x - x.max(-1, keepdims=True), lambda x: x - x.max(-1, keepdims=True), lambda n: (8, n)),
    "product": (lambda x: x @ zyx.ones((16, 16)), lambda x: x @ np.ones((16, 16), np.float32), lambda n: (n, 16)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths_are_right_and_share_kernels(
    device: Device, open_again: Callable[[], Runtime], shares_lengths: bool, name: str
) -> None:
    function, meaning, shape_at = PROGRAMS[name]
    runtime = open_again()
    with use(runtime):
        before = runtime.compiler.compiled
        for length in LENGTHS:
            x = operand(shape_at(length), length)
            np.testing.assert_allclose(function(zyx.Tensor(x)).numpy(), meaning(x), rtol=1e-4, atol=1e-4)
        if shares_lengths:
            assert runtime.compiler.compiled - before <= 8


def test_rows_are_written_at_places_that_fall_as_lengths_grow(open_again: Callable[[], Runtime]) -> None:
    with use(open_again()):
        for length, place in ((64, 27), (65, 5), (66, 30), (70, -3), (65, -26)):
            x, row = operand((31, length), length), operand((length,), abs(place))
            held = zyx.Tensor(x) + zyx.Tensor(x)
            held[place] = zyx.Tensor(row)
            wanted = x + x
            wanted[place] = row
            np.testing.assert_array_equal(held.numpy(), wanted)


def test_what_is_not_computed_with_is_no_leaf_of_plans_for_lengths(open_again: Callable[[], Runtime]) -> None:
    with use(open_again()):
        for length in (7, 500, 9, 200):  # what is assigned to as a whole is not read; of two equal ones, one is
            x, y = operand((length,), length), operand((1, length), length + 1)
            held = zyx.Tensor(x).clone()
            row = zyx.Tensor(y)
            held[None, :] = row
            found = zyx.where(zyx.Tensor(x[None] > 0), row, held) + 1
            np.testing.assert_array_equal(found.numpy(), y + 1)


def test_a_value_is_whole_where_only_its_front_is_read_beside(open_again: Callable[[], Runtime]) -> None:
    with use(open_again()):
        for length in (4, 5, 7):  # the front of as many rows; the rows are as many as the greatest length
            x = operand((8, length), length)
            held = zyx.Tensor(x).clone()
            held[:, 1:3] = zyx.Tensor(x)[:, 1:3] + 1
            wanted = x.copy()
            wanted[:, 1:3] += 1
            np.testing.assert_array_equal((held * zyx.diagonal(held)).numpy(), wanted * np.diagonal(wanted))


@pytest.mark.parametrize("name", ["element by element", "sum"])
def test_lengths_up_to_512_share_a_dozen_kernels(
    device: Device, open_again: Callable[[], Runtime], shares_lengths: bool, name: str
) -> None:
    if not shares_lengths:
        pytest.skip("each length has kernels of its own on this device")
    function, meaning, shape_at = PROGRAMS[name]
    runtime = open_again()
    with use(runtime):
        before = runtime.compiler.compiled
        for length in np.random.default_rng(512).permutation(512) + 1:
            x = operand(shape_at(int(length)), int(length))
            np.testing.assert_allclose(function(zyx.Tensor(x)).numpy(), meaning(x), rtol=1e-4, atol=1e-4)
        assert runtime.compiler.compiled - before <= 12


@pytest.mark.parametrize("name", PROGRAMS)
def test_jitted_lengths_up_to_512_share_traces_and_a_dozen_kernels(
    device: Device, open_again: Callable[[], Runtime], shares_lengths: bool, name: str
) -> None:
    function, meaning, shape_at = PROGRAMS[name]
    runtime, runs = open_again(), []

    @zyx.jit
    def jitted(x: Tensor) -> Tensor:
        runs.append(x.ndim)
        return function(x)

    with use(runtime):
        before = runtime.compiler.compiled
        drawn = np.random.default_rng(512).permutation(512) + 1
        for length in map(int, drawn if shares_lengths else drawn[:12]):
            x = operand(shape_at(length), length)
            np.testing.assert_allclose(jitted(zyx.Tensor(x)).numpy(), meaning(x), rtol=1e-4, atol=1e-4)
        if shares_lengths:
            assert len(runs) <= 8
            assert runtime.compiler.compiled - before <= 12


@pytest.mark.parametrize("name", PROGRAMS)
def test_declared_lengths_share_one_trace_from_the_first_call_on(
    device: Device, open_again: Callable[[], Runtime], shares_lengths: bool, name: str
) -> None:
    function, meaning, shape_at = PROGRAMS[name]
    runtime, runs = open_again(), []

    def declared(x: Tensor) -> Tensor:
        runs.append(x.ndim)
        return function(x)

    axis = shape_at(7).index(7)
    jitted = zyx.jit(declared, lengths={"x": {axis: zyx.Dim("n", 2, 100)}})
    with use(runtime):
        before = runtime.compiler.compiled
        for length in (20, 31, 2, 8, 17, 25, 33, 50, 65, 100, 99, 3):
            x = operand(shape_at(length), length)
            np.testing.assert_allclose(jitted(zyx.Tensor(x)).numpy(), meaning(x), rtol=1e-4, atol=1e-4)
        with pytest.raises(zyx.errors.DimError, match="n is 101"):
            jitted(zyx.Tensor(operand(shape_at(101), 1)))
        if shares_lengths:
            assert len(runs) == 1
            assert runtime.compiler.compiled - before <= 6


def test_axes_of_three_dims_share_one_trace(
    device: Device, open_again: Callable[[], Runtime], shares_lengths: bool
) -> None:
    a, b, c = (zyx.Dim(name, 2, 64) for name in "abc")
    jitted = zyx.jit(lambda x, y: zyx.tanh(x) @ y, lengths={"x": {0: a, 1: b}, "y": {0: b, 1: c}})
    with use(open_again()):
        for rows, depth, columns in ((5, 6, 7), (8, 9, 10), (40, 12, 13), (7, 50, 63), (7, 7, 7), (64, 64, 64)):
            x, y = operand((rows, depth), 1), operand((depth, columns), 2)
            found = jitted(zyx.Tensor(x), zyx.Tensor(y))
            np.testing.assert_allclose(found.numpy(), np.tanh(x) @ y, rtol=1e-3, atol=1e-3)
        if shares_lengths:
            assert len(jitted.traces) == 1


def test_jitted_gradients_and_state_are_right_at_all_lengths(open_again: Callable[[], Runtime]) -> None:
    expected = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(3, 2)
    with use(open_again()):
        weight = zyx.Tensor(expected)

        @zyx.jit
        def step(x: Tensor) -> Tensor:
            with zyx.Tape() as tape:
                loss = (F.softmax(x @ weight, 0) ** 2).mean()
            (slope,) = tape.gradient(loss, [weight])
            weight.assign(weight - slope * 0.1)
            return loss

        for length in LENGTHS:
            x = operand((length, 3), length)
            powers = np.exp(x @ expected)
            shares = powers / powers.sum(0)
            np.testing.assert_allclose(step(zyx.Tensor(x)).numpy(), (shares**2).mean(), rtol=1e-3)
            above = shares * 2 / shares.size
            expected = expected - np.float32(0.1) * (x.T @ (shares * (above - (above * shares).sum(0))))
            np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-3, atol=1e-5)


def test_random_programs_are_right_at_lengths_that_others_were_planned_for(open_again: Callable[[], Runtime]) -> None:
    shared, alone = open_again(), open_again()
    for seed in range(8):
        shape_at, function = program(seed)
        jitted = zyx.jit(function)
        for length in (5, 9, 33, 4, 40):
            x, found = operand(shape_at(length), length), []
            for runtime in (shared, alone):
                with use(runtime):
                    found.append(function(zyx.Tensor(x)).numpy())
            with use(shared):
                found.append(jitted(zyx.Tensor(x)).numpy())
            alone.outlines = Table()  # it has met no other length
            for other in (found[0], found[2]):
                np.testing.assert_allclose(other, found[1], rtol=1e-3, atol=1e-4, err_msg=f"{seed}, {length}")
