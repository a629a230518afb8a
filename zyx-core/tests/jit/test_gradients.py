"""Gradients through calls of traced functions: they are those of the function, or there is an error."""

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import GradientError
from zyx.runtime import leaves

pytestmark = pytest.mark.usefixtures("interpreter")


def numbers(*shape, seed=0):
    return zyx.Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).realize()


def untraced(function):
    return function


def same(make, rtol=1e-5):
    """Check that ``make(wrap)`` gives the same tensors with functions wrapped by `zyx.jit` and without."""
    expected = make(untraced)
    for found, wanted in zip(make(zyx.jit), expected, strict=True):
        assert np.any(wanted.numpy() != 0)
        assert np.allclose(found.numpy(), wanted.numpy(), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("is_traced_before", [False, True])
@pytest.mark.parametrize("finish", [lambda y: y, lambda y: y * 2.0], ids=["as it is", "with more behind it"])
def test_gradients_pass_through_a_call_to_its_argument(finish, is_traced_before):
    x = zyx.Tensor([1.0, 2.0, 3.0])
    f = zyx.jit(lambda v: (v * v).sum())
    if is_traced_before:
        assert f(x).item() == 14
    with zyx.Tape() as tape:
        loss = finish(f(x))
    assert tape.gradient(loss, x).tolist() == [value * finish(2) for value in (1, 2, 3)]
    assert loss.item() == finish(14)


def test_gradients_reach_what_the_function_finds_outside():
    def gradients(wrap):
        w, x = numbers(4, 3), numbers(2, 4, seed=1)
        f = wrap(lambda v: (v @ w).tanh())
        f(x)
        with zyx.Tape() as tape:
            loss = (f(x) * f(x * 2)).sum()
        return tape.gradient(loss, [x, w])

    same(gradients)


def test_gradients_pass_through_a_network():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = numbers(5, 3)

    def gradients(wrap):
        f = wrap(net)
        f(x)
        with zyx.Tape() as tape:
            loss = (f(x) ** 2).mean()
        return tape.gradient(loss, net.parameters())

    same(gradients)


def test_gradients_pass_through_several_results_and_structures():
    def gradients(wrap):
        a, b = numbers(3), numbers(3, seed=1)
        f = wrap(lambda tree: {"product": tree["a"] * tree["b"][0], "rest": (tree["a"].exp(), 5, zyx.arange(3))})
        f({"a": a, "b": [b]})
        with zyx.Tape() as tape:
            found = f({"a": a, "b": [b]})
            loss = (found["product"] * found["rest"][0] * found["rest"][2]).sum() * found["rest"][1]
        return tape.gradient(loss, [a, b])

    same(gradients)


def test_gradients_pass_through_traced_functions_in_each_other():
    def gradients(wrap):
        x = numbers(3)
        inner = wrap(lambda v: v.sin())
        outer = wrap(lambda v: inner(v) * inner(v * 2))
        outer(x)
        with zyx.Tape() as tape:
            loss = outer(inner(x)).sum()
        return [tape.gradient(loss, x)]

    same(gradients)


def test_gradients_of_gradients_pass_through_calls():
    def gradients(wrap):
        x = numbers(3)
        f = wrap(lambda v: (v**3).sum())
        f(x)
        with zyx.Tape() as outer:
            with zyx.Tape() as inner:
                loss = f(x)
            slope = inner.gradient(loss, x)
            total = (slope * slope).sum()
        return [slope, outer.gradient(total, x)]

    same(gradients, rtol=1e-4)


def test_functions_that_return_gradients_take_traced_ones_and_may_be_traced():
    def cube(v):
        return (v**3).sum()

    x = zyx.Tensor([1.0, 2.0])
    for function in (
        zyx.grad(zyx.jit(cube)),
        zyx.jit(zyx.grad(cube)),
        zyx.jit(zyx.grad(zyx.jit(cube))),
        lambda v: zyx.value_and_grad(zyx.jit(cube))(v)[1],
    ):
        for _ in range(2):
            assert function(x).tolist() == [3, 12]
    assert zyx.grad(lambda v: zyx.grad(zyx.jit(cube))(v).sum())(x).tolist() == [6, 12]


def test_a_step_with_a_tape_of_its_own_may_be_called_inside_another():
    def run(wrap):
        w, x = numbers(3), numbers(3, seed=1)

        def step(v):
            with zyx.Tape() as tape:
                loss = (w * v).tanh().sum()
            w.assign(w - tape.gradient(loss, w) * 0.5)
            return loss

        step = wrap(step)
        step(x)
        w.realize()  # as a traced step does, so that it counts as given in both
        with zyx.Tape() as tape:
            loss = step(x) + step(x * 2)
        return [tape.gradient(loss, x), w]

    same(run, rtol=1e-4)


def test_gradients_at_states_are_those_at_the_value_that_was_read():
    def run(wrap):
        w, x = numbers(3), numbers(3, seed=1)

        def step(v):
            result = (w * w * v).sum()
            w.assign(w + 1)
            return result

        step = wrap(step)
        step(x)
        with zyx.Tape() as tape:
            loss = step(x)
        return [tape.gradient(loss, w), tape.gradient(loss, x), w]

    same(run)


def test_random_numbers_are_the_same_under_a_tape():
    f = zyx.jit(lambda v: v * zyx.rand(3))
    x = numbers(3)
    zyx.manual_seed(2)
    wanted = [f(x).numpy() for _ in range(3)]
    zyx.manual_seed(2)
    assert np.allclose(f(x).numpy(), wanted[0], rtol=1e-6)
    with zyx.Tape() as tape:
        y = f(x)
    assert np.allclose(y.numpy(), wanted[1], rtol=1e-6)
    assert np.allclose(tape.gradient(y, x, upstream=x).numpy(), wanted[1], rtol=1e-6)
    assert np.allclose(f(x).numpy(), wanted[2], rtol=1e-6)


def test_what_was_computed_before_the_block_counts_as_given():
    x = zyx.Tensor([1.0, 2.0])
    f = zyx.jit(lambda v: v * v)
    y = f(x)
    with zyx.Tape() as tape:
        loss = (y * x).sum()
    assert tape.gradient(loss, x).tolist() == [1, 4]
    assert tape.gradient(loss, y).tolist() == [1, 2]
    with pytest.raises(GradientError, match="not made inside the block"):
        tape.gradient(f(x).sum(), x)


def test_calls_are_replayed_again_once_no_tape_records():
    calls = []
    f = zyx.jit(lambda v: (calls.append(0), v * 2)[1])
    x = zyx.Tensor([1.0])
    f(x)
    with zyx.Tape() as tape:
        f(x)
    f(x)
    f(x)
    assert len(calls) == 2
    del tape


@pytest.mark.parametrize("is_wanted", [False, True])
def test_nodes_of_a_trace_are_asked_a_few_times_each_where_their_gradients_go(is_wanted, monkeypatch):
    """However many tensors the function assigns: a model has two for each of its layers, of all layers before."""
    asked = []
    reached_from = leaves.reached_from
    monkeypatch.setattr(leaves, "reached_from", lambda node: asked.append(node) or reached_from(node))
    states = [numbers(3, seed=place) for place in range(20)]
    weight = numbers(3, seed=30)
    weight.requires_grad = is_wanted

    @zyx.jit
    def step(x):
        for state in states:
            x = zyx.sin(x * weight)
            state.assign(x)
        return x

    x = numbers(3, seed=31)
    step(x)
    assert len(asked) >= len(states)
    # When it is made and when it is assigned, to find what is below it, and to use that.
    assert max(asked.count(node) for node in asked) <= 4
    wanted, factor = x.numpy(), weight.numpy()
    for state in states:
        wanted = np.sin(wanted * factor)
        np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(GradientError):
        states[-1].sum().backward()
