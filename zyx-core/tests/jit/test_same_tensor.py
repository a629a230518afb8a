"""Traced functions that meet one tensor in several ways, and assign to it: they do what they do without a trace."""

import numpy as np
import pytest

import zyx
from zyx import nn

pytestmark = pytest.mark.usefixtures("interpreter")

SIDE = 24


def numbers(*shape, seed=0):
    return zyx.Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).realize()


def both(make, calls=3):
    """Return what ``function, arguments, state = make()`` leaves in `state` and returns, untraced and traced."""
    found = []
    for wrap in (lambda function: function, zyx.jit):
        function, arguments, state = make()
        function = wrap(function)
        results = [function(*arguments()) for _ in range(calls)]
        results = [result.numpy() for result in results if result is not None]
        found.append([tensor.numpy() for tensor in state] + results)
    return zip(*found, strict=True)


def same(make, calls=3):
    for untraced, traced in both(make, calls):
        assert np.allclose(untraced, traced, rtol=1e-4, atol=1e-5)


# ---- a tensor that is assigned to is an argument as well


@pytest.mark.parametrize(
    "change",
    [
        lambda w, x: w + x.flip(0),
        lambda w, x: zyx.roll(x, 1, 0) + w * 0.5,
        lambda w, x: x[zyx.Tensor(list(reversed(range(SIDE))))] - w,
        lambda w, x: w @ x * 0.1,
        lambda w, x: x @ x * 0.1,
        lambda w, x: x.T + w,
        lambda w, x: x.softmax(0) + w,
        lambda w, x: x.cumsum(0) * 0.1 + w,
        lambda w, x: w * 0.5 + x,
    ],
    ids=["flip", "roll", "gather", "matmul", "square", "transposed", "softmax", "cumsum", "by element"],
)  # fmt: skip
@pytest.mark.parametrize("way", ["itself", "reshaped", "shared", "lazy"])
def test_state_that_is_given_as_an_argument_too_is_not_stored_over(change, way):
    def make():
        w = numbers(SIDE, SIDE)
        arguments = {
            "itself": lambda: (w,),
            "reshaped": lambda: (w.reshape(SIDE * SIDE).reshape(SIDE, SIDE),),
            "shared": lambda: (zyx.Tensor(w),),
            "lazy": lambda: (w * 1.0,),
        }[way]
        return lambda x: w.assign(change(w, x)) * 1, arguments, [w]

    same(make)


@pytest.mark.parametrize(
    "change", [lambda w: w.flip(0), lambda w: w @ w * 0.1, lambda w: zyx.roll(w, 1, 0) + w, lambda w: w[:1] + w],
    ids=["flip", "W @ W", "roll", "row"],
)  # fmt: skip
def test_state_is_read_before_it_is_stored_over(change):
    def make():
        w = numbers(SIDE, SIDE)
        return lambda: w.assign(change(w)) * 1, tuple, [w]

    same(make)


def test_a_recurrent_cell_may_be_called_with_its_own_state():
    def make():
        h, u = numbers(SIDE, 4), numbers(SIDE, SIDE, seed=1)
        return lambda s: h.assign((u @ s).tanh()) * 1, lambda: (h,), [h]

    same(make)


def test_states_that_are_exchanged_or_rotated():
    def make():
        a, b, c = numbers(5), numbers(5, seed=1), numbers(5, seed=2)

        def rotate(x):
            old = a.detach()
            a.assign(b.flip(0))
            b.assign(c)
            c.assign(old + x)

        return rotate, lambda: (b,), [a, b, c]

    same(make, 4)


def test_arguments_that_are_other_tensors_and_then_the_state_itself():
    w, v = numbers(8), numbers(8, seed=1)
    step = zyx.jit(lambda x: w.assign(w + x.flip(0)))
    wanted = w.numpy()
    for x in (v, w, v, w, v):
        wanted = wanted + (wanted if x is w else v.numpy())[::-1]
        step(x)
        assert np.allclose(w.numpy(), wanted, rtol=1e-5)


def test_an_argument_that_is_state_too_means_the_new_value_once_that_is_assigned():
    def make():
        x = zyx.Tensor([1.0])

        def step(y):
            before = y * 10
            x.assign(x * 2)
            return before + y + x

        return step, lambda: (x,), [x]

    same(make)


def test_no_other_argument_is_taken_for_the_state():
    x, z = zyx.Tensor([1.0]), zyx.Tensor([100.0])

    @zyx.jit
    def step(y):
        x.assign(x * 2)
        return y + 1

    assert [step(x).tolist(), step(z).tolist(), step(x).tolist()] == [[3], [101], [9]]
    assert x.tolist() == [8]


# ---- arguments that are assigned to


def test_an_assignment_to_an_argument_takes_effect_at_each_call():
    @zyx.jit
    def double(w):
        w.assign(w * 2)

    a, b = zyx.Tensor([1.0]), zyx.Tensor([10.0])
    for tensor in (a, b, a, b):
        double(tensor)
    assert (a.tolist(), b.tolist()) == ([4], [40])
    assert len(double.traces) == 1


def test_an_assignment_to_a_part_of_an_argument_takes_effect_at_each_call():
    def make():
        x = numbers(4, 3)

        def change(x):
            x[0] = 1.0
            x[1:, 2] = x[1:, 0] * 2

        return change, lambda: (x,), [x]

    same(make)


def test_arguments_in_structures_are_assigned_to_as_well():
    @zyx.jit
    def step(tree, *, rate):
        for name in ("a", "b"):
            tree[name][0].assign(tree[name][0] - rate["x"] * 0.5)
        return tree["a"][0]

    tree = {"a": (zyx.Tensor([1.0]),), "b": [zyx.Tensor([2.0])]}
    results = [step(tree, rate={"x": zyx.Tensor([1.0])}) for _ in range(2)]
    assert [result.tolist() for result in results] == [[0.5], [0]]
    assert (tree["a"][0].tolist(), tree["b"][0].tolist()) == ([0], [1])


def test_two_arguments_that_are_one_tensor_are_one():
    def make():
        x, y = zyx.Tensor([1.0]), zyx.Tensor([5.0])
        turns = iter([(x, x), (x, y), (y, y), (x, x), (y, x)])

        def step(a, b):
            a.assign(a + b)
            b.assign(a * b)
            return a - b

        return step, lambda: next(turns), [x, y]

    same(make, 5)


def test_arguments_that_are_exchanged():
    def make():
        a, b = numbers(3), numbers(3, seed=1)

        def exchange(x, y):
            old = x.detach()
            x.assign(y)
            y.assign(old)

        return exchange, lambda: (a, b), [a, b]

    same(make)


def test_an_argument_that_is_assigned_to_and_found_outside_as_well():
    def make():
        w, v = zyx.Tensor([1.0]), zyx.Tensor([5.0])
        turns = iter([w, v, w, v])

        def step(a):
            first = w + 0
            a.assign(a * 2)
            return first + w

        return step, lambda: (next(turns),), [w, v]

    same(make, 4)


def test_other_tensors_with_the_values_of_an_argument_keep_theirs():
    x = numbers(4)
    before = x.numpy()
    view, copy = x.reshape(2, 2), zyx.Tensor(x)
    step = zyx.jit(lambda w: w.assign(w.flip(0) + 1))
    for _ in range(2):
        step(x)
    assert np.array_equal(view.numpy().ravel(), before)
    assert np.array_equal(copy.numpy(), before)


def test_an_error_in_the_function_leaves_its_arguments_as_they_were():
    x = zyx.Tensor([1.0])

    @zyx.jit
    def step(w):
        w.assign(w * 2)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        step(x)
    assert x.tolist() == [1]


def test_parameters_that_are_arguments_stay_parameters():
    net = nn.Linear(2, 1, bias=False)
    before = net.weight.numpy()
    step = zyx.jit(lambda w: w.assign(w * 2))
    step(net.weight)
    assert isinstance(net.weight, nn.Parameter)
    assert np.array_equal(net.weight.numpy(), before * 2)


# ---- tapes


def test_a_tape_knows_the_value_that_a_step_stored_over():
    w = numbers(4)
    before = w.numpy()
    step = zyx.jit(lambda: w.assign(w + 1))
    step()
    with zyx.Tape() as tape:
        loss = (w * w).sum()
    step()
    assert np.allclose(tape.gradient(loss, w).numpy(), 2 * (before + 1), rtol=1e-5)
