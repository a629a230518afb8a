"""Numbers among the arguments of a traced function: one trace for all, but of those that the function looks at."""

import dataclasses
import math

import numpy as np
import pytest

import zyx
from zyx.errors import UnsupportedError
from zyx.jit.numbers import StandIn

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
VALUES = (0.5, 1.5, -2.25, 0.0, 3.0, 0.75)


def check(function, values=VALUES, x=X, **options):
    """Compare `function` traced with itself as it is, for each of `values`; return how many traces there are."""
    traced = zyx.jit(function)
    with np.errstate(all="ignore"):
        for value in (*values, *values):
            x_ = zyx.Tensor(x)
            found, wanted = traced(x_, value, **options), function(x_, value, **options)
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-6, atol=1e-6, err_msg=repr(value))
            assert found.dtype is wanted.dtype
    return len(traced.traces)


def test_traces_that_differ_in_numbers_share_kernels(interpreter):
    @zyx.jit
    def scaled(x, number):
        return ((x * number).tanh() @ x).sum() - number

    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    compiled = []
    for number in range(1, 31):
        found = scaled(zyx.Tensor(x), number / 8)
        np.testing.assert_allclose(
            found.numpy(), (np.tanh(x * number / 8) @ x).sum() - number / 8, rtol=1e-5, atol=1e-5
        )
        compiled.append(interpreter.compiler.compiled)
    assert compiled[1:] == [compiled[1]] * 29
    assert len(scaled.traces) == 2
    for number in (30, 1, 17):
        found = scaled(zyx.Tensor(x + 1), number / 8)
        expected = (np.tanh((x + 1) * number / 8) @ (x + 1)).sum() - number / 8
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_what_is_assigned_is_right_with_numbers_that_change(interpreter):
    weight = zyx.Tensor(np.ones((4, 4), np.float32))

    @zyx.jit
    def step(x, rate):
        with zyx.Tape() as tape:
            loss = ((weight @ x) ** 2).sum()
        weight.assign(weight - tape.gradient(loss, [weight])[0] * rate)
        return loss

    x, expected = np.eye(4, dtype=np.float32) / 2, np.ones((4, 4))
    compiled = []
    for number in range(20):
        rate = 0.1 / (1 + number)
        loss = step(zyx.Tensor(x), rate)
        np.testing.assert_allclose(loss.numpy(), ((expected @ x) ** 2).sum(), rtol=1e-4)
        expected -= rate * 2 * (expected @ x) @ x.T
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-4)
        compiled.append(interpreter.compiler.compiled)
    assert compiled[1:] == [compiled[1]] * 19


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x * s + s / x - (s - x),
        lambda x, s: x * (2 * s - 1 / (s + 7) * 3) + -s,
        lambda x, s: zyx.where(x > 0, s, x) + zyx.full((4,), s) + zyx.clip(x, -s, s),
        lambda x, s: zyx.maximum(x, s) * 2,
        lambda x, s: (x * s).sum(axis=0).exp(),
        lambda x, s: x.astype("int32") * s,
        lambda x, s: (x > s).astype("int32"),
        lambda x, s: x.astype("float64") * s,
        lambda x, s: x - 0.5 if isinstance(s, float) else x * s,
    ],
)
def test_numbers_that_meet_tensors_and_numbers_have_one_trace(interpreter, function):
    assert check(function) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x if s > 0.6 else -x,
        lambda x, s: x * math.sqrt(abs(s)),
        lambda x, s: x * math.floor(s) + round(s) + int(s),
        lambda x, s: x * float(np.sqrt(np.abs(s))),
        lambda x, s: x * np.float32(s),
        lambda x, s: x + len(f"{s}") + len(str(s)) + len(repr(s)),
        lambda x, s: x * {0.5: 1.0, 3.0: 2.0}.get(s, 4.0),
        lambda x, s: x * max(s, 1.0),
        lambda x, s: x * (s % 2) + s // 2 + abs(s) ** 0.5,
        lambda x, s: x + 1 if s else x,
        lambda x, s: x * (s == 3.0) + (s in (0.5, 1.5)),
        lambda x, s: x * s.is_integer() + s.hex().count("1"),
        lambda x, s: x.abs() ** s,
        lambda x, s: x * np.array([s, s], np.float32).sum(),
        lambda x, s: x * (s * 2 > 1),
    ],
)
def test_numbers_that_are_looked_at_have_a_trace_each(interpreter, function):
    assert check(function) == len(VALUES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x.sum(axis=n),
        lambda x, n: x[n],
        lambda x, n: x.reshape(-1, n + 1) if 12 % (n + 1) == 0 else x,
        lambda x, n: x[:, n:],
        lambda x, n: sum((x * i for i in range(n)), x),
        lambda x, n: x + [1.0, 2.0, 3.0][n],
        lambda x, n: zyx.concat([x] * (n + 1)),
        lambda x, n: x.astype("int8") + n * 100,
    ],
)
def test_sizes_axes_and_places_have_a_trace_each(interpreter, function):
    assert check(function, (0, 1, 0)) == 2
    assert check(lambda x, s: function(x, s["n"]) * s["by"], [{"n": n, "by": n / 2} for n in (0, 1, 0)]) >= 2


def test_integers_are_given_too(interpreter):
    x = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    assert check(lambda x, n: x * n.real + x, (3, -7, 12), x) == 3
    assert check(lambda x, n: (x > n).astype("int32") + (x == n), (3, -7, 2**40, -(2**40), 4), x) <= 6
    assert check(lambda x, n: x.astype("float32") * n, (3, -7, 2**24 + 1, 10**30), x) == 2


def test_values_at_the_ends_of_floats_are_what_they_are(interpreter):
    values = (1.0, math.inf, -math.inf, math.nan, -0.0, 0.0, 1e300, 5e-324, 1e-40, 16777217.0)
    assert check(lambda x, s: (x * s, 1 / (x * 0 + s))[1], values) == 2
    assert check(lambda x, s: x.astype("float64") * s, values) == 2


def test_only_the_numbers_that_are_looked_at_count(interpreter):
    def function(x, two):
        by, add = two
        return x * by + add if by > 1 else x + add

    traced = zyx.jit(function)
    for by in (2.0, 0.5):
        for add in range(10):
            two = (by, add / 4)
            np.testing.assert_allclose(
                traced(zyx.Tensor(X), two).numpy(), function(zyx.Tensor(X), two).numpy(), rtol=1e-6
            )
    assert len(traced.traces) == 3


@dataclasses.dataclass
class Options:
    rate: float
    steps: int


def test_numbers_are_found_in_what_is_looked_into(interpreter):
    runs = []

    @zyx.jit
    def function(x, options, *, more):
        runs.append(1)
        for _ in range(options.steps):
            x = x * options.rate + more["add"][0]
        return x

    for number in range(6):
        found = function(zyx.Tensor(X), Options(number / 2, 2), more={"add": [number, "text"]})
        np.testing.assert_allclose(found.numpy(), (X * (number / 2) + number) * (number / 2) + number, rtol=1e-6)
    assert len(function.traces) == 2
    assert len(runs) == 3  # the second time to see that `steps` is looked at, the third for all but that


def test_a_number_that_is_returned_is_that_of_the_call(interpreter):
    function = zyx.jit(lambda x, s: (x * s, s, [s * 2]))
    for value in VALUES:
        tensor, number, (twice,) = function(zyx.Tensor(X), value)
        np.testing.assert_allclose(tensor.numpy(), X * value, rtol=1e-6)
        assert type(number) is float
        assert (number, twice) == (value, value * 2)


def test_errors_for_some_numbers_are_errors(interpreter):
    @zyx.jit
    def function(x, s):
        if s < 0:
            raise ValueError("negative")
        return x * (1 / (s - 1.5))

    for value in (0.5, 2.0, 3.0):
        assert function(zyx.Tensor(X), value).numpy()[0, 0] == pytest.approx(-2 / (value - 1.5))
        with pytest.raises(ValueError, match="negative"):
            function(zyx.Tensor(X), -value)
        with pytest.raises(ZeroDivisionError):
            function(zyx.Tensor(X), 1.5)


def test_a_device_that_refuses_numbers_has_a_trace_for_each(interpreter, monkeypatch):
    from zyx.kernel.data import Variable

    device = interpreter.device(interpreter.default_device)
    compile_ = type(device).compile

    def refuse(kernel):
        if any(isinstance(op, Variable) for op in kernel.ops):
            raise UnsupportedError("no numbers here")
        return compile_(device, kernel)

    monkeypatch.setattr(device, "compile", refuse)
    assert check(lambda x, s: x * s + 1) == len(VALUES)


def test_why_a_function_is_traced_is_shown(interpreter, capsys):
    @zyx.jit
    def scaled(x, s):
        return x * s

    with zyx.debug("plan"):
        for value in (0.5, 0.5, 1.5, 2.5):
            scaled(zyx.Tensor(X), value)
        scaled(zyx.Tensor(X[0]), 2.5)
    lines = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines() if "trace of" in line]
    assert lines == [
        "this is the first call",
        "numbers among its arguments change, and are given to one trace from now on",
        "its arguments are of another kind, or have other values that it looks at",
    ]


def test_no_shape_has_a_number_that_stands_in():
    sizes = []

    @zyx.jit
    def diagonals(x, k):
        found = zyx.diagonal(x, k) * 2
        sizes.extend(found.shape)
        return found

    square = zyx.ones((8, 8))
    for k in (1, 0, 3, 5):
        assert diagonals(square, k).shape == (8 - k,)
    assert sizes and not any(type(size) is StandIn for size in sizes)
