"""Ints among the arguments that are sizes: one trace for many of them, and what is asked of them is answered."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zyx

DATA = np.random.default_rng(4).standard_normal((80, 6)).astype(np.float32)


@pytest.fixture
def x(interpreter):
    return zyx.Tensor(DATA).realize()


def check(function, meaning, x, *calls):
    """Compare calls with what they mean, and return the function, traced."""
    traced = zyx.jit(function)
    for call in calls:
        found, expected = traced(x, *call).numpy(), meaning(DATA, *call)
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return traced


def test_what_lies_beyond_the_end_is_cut_off(x):
    calls = [(n,) for n in (5, 6, 7, 8, 80, 81, 100, 9, 0, 1, -3, -80, -90, 10, 2, 79)]
    check(lambda x, n: x[:n] * 2.0, lambda x, n: x[:n] * 2, x, *calls)
    check(lambda x, n: x[n:].sum(0), lambda x, n: x[n:].sum(0), x, *calls)


def test_a_start_and_a_length_that_both_vary(x):
    random = np.random.default_rng(1)
    calls = [(int(random.integers(0, 50)), int(random.integers(1, 40))) for _ in range(30)]
    check(lambda x, p, n: x[p : p + n].sum(0), lambda x, p, n: x[p : p + n].sum(0), x, *calls)
    check(
        lambda x, p, n: x[p] * zyx.arange(n)[:, None],
        lambda x, p, n: x[p] * np.arange(n)[:, None],
        x,
        *calls,
    )


def test_a_length_and_a_size_of_an_argument_that_both_vary(interpreter):
    traced = zyx.jit(lambda x, n: x[:n].sum(0) + len(x))
    for rows, n in itertools.product((20, 31, 40, 57), (3, 7, 11, 19)):
        found = traced(zyx.Tensor(DATA[:rows]), n).numpy()
        np.testing.assert_allclose(found, DATA[:n].sum(0) + rows, rtol=1e-5, atol=1e-5)


def test_branches_and_loops_are_taken_as_the_number_says(x):
    def function(x, n):
        total = x[:n].sum(0) if n > 12 else x[:n].max(0)
        for i in range(n % 4):
            total = total + x[i]
        return total

    def meaning(x, n):
        total = x[:n].sum(0) if n > 12 else x[:n].max(0)
        for i in range(n % 4):
            total = total + x[i]
        return total

    check(function, meaning, x, *[(n,) for n in (5, 6, 20, 21, 7, 8, 30, 9, 22, 13, 12)])


def test_it_is_an_int_to_whoever_asks(x):
    names = []

    def function(x, n):
        names.append((isinstance(n, int), f"{n}", [10, 20, 30][n % 3], {n: "n"}[n]))
        return x[:n] * 1.0

    check(function, lambda x, n: x[:n], x, *[(n,) for n in (4, 5, 6, 7, 8, 9)])
    assert all(name[0] and name[2] == [10, 20, 30][int(name[1]) % 3] and name[3] == "n" for name in names)


def test_a_static_parameter_is_itself_and_a_bool_and_a_float_are_no_lengths(x):
    seen = []

    def function(x, n):
        seen.append(type(n))
        return x[:n] * 1.0

    traced = zyx.jit(function, static="n")
    for n in (4, 5, 6, 7, 8):
        assert traced(x, n).shape == (n, 6)
    assert seen == [int] * 5
    traced = zyx.jit(lambda x, n: x[:n] * 1.0)
    for n in (4, 5, 6, 7):
        assert traced(x, n).shape == (n, 6)
    assert traced(x, True).shape == (1, 6)
    with pytest.raises(zyx.errors.ZyxError, match="integer"):
        traced(x, 4.0)


def test_results_of_lengths_live_on_by_themselves(x):
    traced = zyx.jit(lambda x, n: (x[:n] * 2.0, zyx.arange(n)))
    found = {n: traced(x, n) for n in (3, 9, 4, 30, 33, 12, 70, 11)}
    for n, (front, numbers) in found.items():
        np.testing.assert_array_equal(front.numpy(), DATA[:n] * 2)
        assert numbers.tolist() == [*range(n)]


def test_few_traces_serve_all_lengths(x):
    traced = check(lambda x, n: x[:n].sum(0), lambda x, n: x[:n].sum(0), x, *[(n,) for n in range(2, 80)])
    assert len(traced.traces) <= 5


def test_a_size_can_be_called_where_lengths_vary():
    @zyx.jit(lengths={"x": {0: zyx.Dim("n", 2, 99)}})
    def mean(x):
        return x.reshape(x.size(0), -1).sum() / x.size()[1] / x.size(0) + x.size * 0

    for count in (4, 5, 6):
        assert mean(zyx.ones(count, 3)).item() == 1.0
    with pytest.raises(TypeError, match="not callable"):
        zyx.jit(lambda x: x * x.shape[0](), lengths={"x": {0: zyx.Dim("n", 2, 99)}})(zyx.ones(4))
