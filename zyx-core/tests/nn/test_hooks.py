"""Hooks: when they are called, with what, and what their results change."""

import copy

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, GradientError


class Twice(nn.Module):
    def forward(self, x, factor=2.0):
        return x * factor


def test_hooks_are_called_in_order_and_handles_remove_them():
    seen = []
    net = Twice()
    first = net.register_forward_pre_hook(lambda *given: seen.append("before"))
    net.register_forward_hook(lambda *given: seen.append("after"))
    net.register_forward_hook(lambda *given: seen.append("first after"), prepend=True)
    net(zyx.ones(2))
    assert seen == ["before", "first after", "after"]
    first.remove()
    first.remove()
    seen.clear()
    with net.register_forward_pre_hook(lambda *given: seen.append("for a block")):
        net(zyx.ones(2))
    net(zyx.ones(2))
    assert seen == ["for a block", "first after", "after", "first after", "after"]


def test_hooks_change_arguments_and_results():
    net = Twice()
    net.register_forward_pre_hook(lambda module, args: args[0] + 1)
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {"factor": 3.0}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, result: result - args[0])
    net.register_forward_hook(lambda module, args, kwargs, result: result * kwargs["factor"], with_kwargs=True)
    assert net(zyx.ones(2)).tolist() == [(2 * 3 - 2) * 3] * 2


def test_always_called_hooks_see_that_forward_failed():
    seen = []
    net = Twice()
    net.register_forward_hook(lambda module, args, result: seen.append(result), always_call=True)
    net.register_forward_hook(lambda module, args, result: seen.append("never"))
    with pytest.raises(TypeError):
        net(zyx.ones(2), nothing=1)
    assert seen == [None]


def test_a_traced_function_is_traced_anew_when_hooks_come_and_go():
    net = Twice()
    function = zyx.jit(lambda x: net(x) * 1)
    x = zyx.ones(2)
    assert function(x).tolist() == [2, 2]
    handle = net.register_forward_hook(lambda module, args, result: result + 1)
    assert function(x).tolist() == [3, 3]
    handle.remove()
    assert function(x).tolist() == [2, 2]


def test_copies_have_the_hooks_and_lose_them_on_their_own():
    net = Twice()
    net.register_forward_hook(lambda module, args, result: result + 1)
    other = copy.deepcopy(net)
    other._hooks[0].remove()
    assert net(zyx.ones(1)).tolist() == [3]
    assert other(zyx.ones(1)).tolist() == [2]


def gradients_of(net, x):
    with zyx.Tape() as tape:
        loss = (net(x) * zyx.Tensor([1.0, 10.0])).sum()
    return tape.gradient(loss, [x, *net.parameters()])


def test_backward_hooks_see_gradients_of_both_sides_and_change_them():
    seen = []
    net = nn.Linear(2, 2, bias=False)
    net.weight.assign(zyx.Tensor([[1.0, 2.0], [3.0, 4.0]]))
    net.register_full_backward_pre_hook(lambda module, outer: seen.append(outer[0].tolist()) or (outer[0] * 2,))
    net.register_full_backward_hook(
        lambda module, inner, outer: seen.extend([inner[0].tolist(), outer[0].tolist()]) or (inner[0] + 1,)
    )
    x = zyx.Tensor([1.0, -1.0])
    at_x, at_weight = gradients_of(net, x)
    assert seen[0] == [1, 10]
    assert seen[1:] == [[62, 84], [2, 20]]
    assert at_x.tolist() == [63, 85]
    assert at_weight.tolist() == [[2, -2], [20, -20]]


def test_a_hook_waits_for_all_inputs_and_outputs():
    calls = []

    class Split(nn.Module):
        def forward(self, a, b, scale):
            return a * b * scale, a + b, "text"

    net = Split()
    net.register_full_backward_hook(lambda module, inner, outer: calls.append((inner, outer)))
    x = zyx.Tensor([2.0])
    with zyx.Tape() as tape:
        product, total, _ = net(x, x * 3, 5.0)
        loss = (product + total.exp() * 0 + total).sum()
    (gradient,) = tape.gradient(loss, [x])
    ((inner, outer),) = calls
    assert [None if g is None else g.tolist() for g in inner] == [[31], [11], None]
    assert [None if g is None else g.tolist() for g in outer] == [[1], [1], None]
    assert gradient.tolist() == [31 + 33]


def test_without_gradients_at_the_input_a_hook_is_given_none():
    seen = []
    net = nn.Linear(2, 1)
    net.register_full_backward_hook(lambda module, inner, outer: seen.append((inner, outer[0].shape)))
    with zyx.Tape() as tape:
        loss = net(zyx.ones(3, 2)).sum()
    tape.gradient(loss, net.weight)
    assert seen == [((None,), (3, 1))]


def test_hooks_of_nested_modules_and_of_realised_results():
    names = []
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    plain = copy.deepcopy(net)
    for module in net.modules():
        module.register_full_backward_hook(lambda module, inner, outer: names.append(type(module).__name__))
    x = zyx.Tensor([0.5, -1.0])
    net.register_forward_hook(lambda module, args, result: result.realize())
    found = gradients_of(net, x)
    assert names == ["Linear", "Tanh", "Linear", "Sequential"]
    for a, b in zip(found, gradients_of(plain, x), strict=True):
        assert np.allclose(a.numpy(), b.numpy())


def test_what_is_no_hook_and_wrong_gradients_are_refused():
    net = Twice()
    with pytest.raises(ArgumentError, match="function, not int"):
        net.register_forward_hook(3)
    net.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(ArgumentError, match="pair"):
        net(zyx.ones(1))
    for result, text in [((1, 2), "2 gradients in place of 1"), ((zyx.ones(3),), r"shape \(3,\)"), ("x", "is str")]:
        net = Twice()
        net.register_full_backward_hook(lambda module, inner, outer, result=result: result)
        with pytest.raises(GradientError, match=text):
            gradients_of(net, zyx.Tensor([1.0, 2.0]))
