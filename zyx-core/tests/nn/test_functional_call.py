"""Calls with other parameters: results, gradients with respect to a dict, and the module as it was."""

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import DTypeError, ShapeError, StateError


class Net(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(2, 3), nn.Linear(3, 1)]
        self.scales = {"in": nn.Parameter(np.ones(2, np.float32))}
        self.mean = zyx.Tensor(np.zeros(2, np.float32))
        self.whole = self

    def forward(self, x, shift=0.0):
        return self.layers[1](self.layers[0](x * self.scales["in"] - self.mean).tanh()) + shift


def test_other_values_take_the_place_of_all_and_the_module_is_as_it_was():
    zyx.manual_seed(0)
    net, other = Net(), Net()
    x = zyx.Tensor([[1.0, -2.0]])
    kept = dict(net.named_parameters())
    before = net(x).tolist()
    values = {**dict(other.named_parameters()), "mean": zyx.Tensor([0.5, 0.5])}
    other.mean = zyx.Tensor([0.5, 0.5])
    assert nn.functional_call(net, values, (x,), {"shift": 2.0}).tolist() == other(x, 2.0).tolist()
    assert (
        nn.functional_call(net, [dict(other.named_parameters()), {"mean": other.mean}], x).tolist() == other(x).tolist()
    )
    assert net(x).tolist() == before
    assert all(parameter is kept[name] for name, parameter in net.named_parameters())


def test_gradients_with_respect_to_a_dict_are_those_of_the_parameters():
    zyx.manual_seed(0)
    net = Net()
    x = zyx.Tensor([[1.0, -2.0]])
    parameters = dict(net.named_parameters())
    with zyx.Tape() as tape:
        loss = (net(x) ** 2).sum()
    wanted = tape.gradient(loss, parameters)
    of_dict = zyx.grad(lambda params: (nn.functional_call(net, params, (x,)) ** 2).sum())
    for found in (of_dict(parameters), zyx.jit(of_dict)(parameters)):
        assert found.keys() == parameters.keys()
        assert all(np.allclose(found[name].numpy(), wanted[name].numpy(), atol=1e-6) for name in parameters)


def test_tied_tensors_are_replaced_under_each_name():
    first = nn.Linear(2, 2, bias=False)
    net = nn.Sequential(first, nn.Linear(2, 2, bias=False))
    net[1].weight = first.weight
    twice = {"0.weight": zyx.eye(2) * 2}
    x = zyx.ones(1, 2)
    assert nn.functional_call(net, twice, (x,)).tolist() == [[4, 4]]
    alone = nn.functional_call(net, twice, (x,), tie_weights=False)
    assert np.allclose(alone.numpy(), 2 * x.numpy() @ first.weight.numpy().T)


def test_an_error_leaves_the_module_as_it_was():
    net = nn.Linear(2, 2)
    weight = net.weight
    with pytest.raises(ShapeError):
        nn.functional_call(net, {"weight": zyx.eye(2)}, (zyx.ones(3),))
    assert net.weight is weight


def test_what_does_not_fit_is_refused():
    net = nn.Linear(2, 2)
    for parameters, strict, error, text in [
        ({"weigth": zyx.eye(2)}, False, StateError, "1 unknown: weigth"),
        ({"weight": zyx.eye(2)}, True, StateError, "1 missing: bias"),
        ({"weight": zyx.eye(3)}, False, ShapeError, r"weight is \(3, 3\) and should be \(2, 2\)"),
        ({"weight": [1.0]}, False, DTypeError, "not list"),
    ]:
        with pytest.raises(error, match=text):
            nn.functional_call(net, parameters, (zyx.ones(2),), strict=strict)
    with pytest.raises(DTypeError, match="module"):
        nn.functional_call(zyx.relu, {}, (zyx.ones(2),))
