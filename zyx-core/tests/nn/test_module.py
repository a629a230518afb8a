"""Modules: what belongs to one, saving and loading, modes, moving, text."""

import copy
import pickle

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, DTypeError, GradientError, StateError

pytestmark = pytest.mark.usefixtures("interpreter")


class Net(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]
        self.scales = {"in": nn.Parameter(np.ones(2, np.float32)), "deep": [(nn.Linear(1, 1),)]}
        self.seen = zyx.Tensor(np.zeros(2, np.float32))
        self._table = zyx.Tensor(np.ones(2, np.float32))
        self.text = "not a tensor"

    def forward(self, x):
        return self.layers[1](self.layers[0](x * self.scales["in"]).relu())


NAMES = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "scales.in", "scales.deep.0.0.weight"]
NAMES += ["scales.deep.0.0.bias"]


def test_parameters_are_found_in_attributes_lists_tuples_and_dicts():
    names = [name for name, _ in Net().named_parameters()]
    assert sorted(names) == sorted(NAMES)
    assert all(isinstance(parameter, nn.Parameter) for parameter in Net().parameters())


def test_other_tensors_are_buffers_and_those_with_an_underscore_are_not_saved():
    net = Net()
    assert [name for name, _ in net.named_buffers()] == ["seen", "_table"]
    assert sorted(net.state_dict()) == sorted([*NAMES, "seen"])


def test_a_shared_parameter_counts_once_but_is_saved_under_each_name():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert sorted(net.state_dict()) == ["0.bias", "0.weight", "1.bias", "1.weight"]


def test_a_part_may_refer_to_the_whole():
    net = Net()
    net.layers[0].owner = net
    assert len(net.modules()) == 4
    assert sorted(net.state_dict()) == sorted([*NAMES, "seen"])
    assert "Net(...)" in repr(net)


def test_subclasses_need_no_super_init_and_a_missing_forward_is_named():
    with pytest.raises(NotImplementedError, match="Empty has no method forward"):
        type("Empty", (nn.Module,), {})()(1)


def test_equal_first_values_are_parameters_of_their_own():
    first, second = nn.Parameter(zyx.zeros(3)), nn.Parameter(zyx.zeros(3))
    with zyx.Tape() as tape:
        loss = (first * 2.0 + second * 3.0).sum()
    found = tape.gradient(loss, [first, second])
    assert found[0].tolist() == [2, 2, 2]
    assert found[1].tolist() == [3, 3, 3]


def test_parameters_are_computed_when_they_are_made_and_results_of_them_are_tensors():
    parameter = nn.Parameter(zyx.uniform(4))
    assert parameter.is_realized
    assert type(parameter + 1.0) is zyx.Tensor
    assert type(parameter + parameter) is zyx.Tensor
    assert type(parameter[1:]) is zyx.Tensor
    assert nn.Parameter([1, 2], dtype="float64").dtype is zyx.float64
    assert np.array_equal(parameter.numpy(), parameter.numpy())


def test_results_are_of_the_class_of_what_they_are_computed_from_unless_that_is_trained():
    class Length(zyx.Tensor):
        __slots__ = ()

    class Weight(nn.Parameter):
        __slots__ = ()

    class Offset(Length):
        __slots__ = ()
        result_class = Length

    class Shift(Offset):
        __slots__ = ()

    for kind, result in (
        (Length, Length), (nn.Parameter, zyx.Tensor), (Weight, zyx.Tensor), (Offset, Length), (Shift, Length),
    ):  # fmt: skip
        x, y = kind([1.0, 2.0]), zyx.Tensor([1.0, 2.0])
        assert {type(z) for z in (x + x, x + y, x * 2.0, 2.0 - x, x.exp(), x - x, -x)} == {result}
        assert type(y + x) is zyx.Tensor


def test_a_parameter_of_a_tensor_has_no_part_in_its_history():
    x = zyx.Tensor([1.0, 2.0])
    with zyx.Tape() as tape:
        y = x * 3.0
        loss = (nn.Parameter(y) + y).sum()
    assert tape.gradient(loss, x).tolist() == [3, 3]


# ---- saving and loading


def test_a_saved_state_is_loaded_into_another_network():
    first, second = Net(), Net()
    report = second.load_state_dict(first.state_dict())
    assert sorted(report.loaded) == sorted([*NAMES, "seen"])
    assert report.missing == report.unexpected == ()
    for (_, a), (_, b) in zip(first.named_parameters(), second.named_parameters(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_a_state_is_of_the_moment_when_it_was_taken():
    net = nn.Linear(2, 2)
    before = net.weight.numpy()
    state = net.state_dict()
    net.weight.assign(net.weight * 0.0)
    assert np.array_equal(state["weight"].numpy(), before)
    net.load_state_dict(state)
    assert np.array_equal(net.weight.numpy(), before)


def test_loading_converts_to_the_dtype_that_is_there_and_keeps_the_tensors():
    net = nn.Linear(2, 1)
    weight = net.weight
    net.load_state_dict({"weight": np.array([[1.5, 2.5]]), "bias": zyx.Tensor([1], dtype="int64")})
    assert net.weight is weight
    assert weight.dtype is zyx.float32
    assert weight.tolist() == [[1.5, 2.5]]
    assert net.bias.tolist() == [1.0]


def test_loading_names_everything_that_does_not_fit_and_changes_nothing():
    net = Net()
    before = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    state = {**net.state_dict(), "layers.0.weight": zyx.zeros(3, 3), "head.weight": zyx.zeros(1)}
    del state["layers.1.weight"]
    with pytest.raises(StateError) as caught:
        net.load_state_dict({name: tensor * 0.0 for name, tensor in state.items()})
    text = str(caught.value)
    assert "do not fit Net" in text
    assert "1 missing: layers.1.weight" in text
    assert "1 unexpected: head.weight" in text
    assert "layers.0.weight is (3, 3) and should be (3, 2)" in text
    for name, tensor in net.state_dict().items():
        assert np.array_equal(tensor.numpy(), before[name])


def test_loading_that_is_not_strict_takes_what_fits_and_reports_the_rest():
    net = nn.Linear(2, 1)
    report = net.load_state_dict({"weight": np.ones((1, 2), np.float32), "other": np.ones(1)}, strict=False)
    assert report.loaded == ("weight",)
    assert report.missing == ("bias",)
    assert report.unexpected == ("other",)
    assert net.weight.tolist() == [[1, 1]]
    with pytest.raises(StateError, match=r"weight is \(2,\) and should be \(1, 2\)"):
        net.load_state_dict({"weight": np.ones(2)}, strict=False)


def test_gradients_are_not_mixed_with_those_of_the_network_that_was_copied():
    teacher, student = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    student.load_state_dict(teacher.state_dict())
    x = zyx.Tensor([[2.0]])
    with zyx.Tape() as tape:
        loss = (student(x) + teacher(x) * 10.0).sum()
    assert tape.gradient(loss, student.parameters())[0].tolist() == [[2.0]]


def test_networks_are_copied_and_pickled_by_value():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(other.layers[0].weight, nn.Parameter)
        assert np.array_equal(other.layers[0].weight.numpy(), net.layers[0].weight.numpy())
        other.layers[0].weight.assign(zyx.zeros(3, 2))
        assert net.layers[0].weight.numpy().any()


def test_a_parameter_that_is_shared_is_shared_in_the_copy():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    other = copy.deepcopy(net)
    assert other[1].weight is other[0].weight
    assert other[0].weight is not net[0].weight


# ---- modes


def test_a_module_begins_in_training_as_do_all_in_it():
    net = nn.Sequential(nn.Dropout(1.0), nn.BatchNorm1d(2))
    x = zyx.ones(3, 2)
    assert net.training and net[0].training
    assert net[0](x).tolist() == [[0, 0]] * 3
    assert net.eval() is net
    assert not net.training and not net[0].training
    assert net[0](x) is x
    net.train()
    assert net[0].training
    net.training = False  # of this one alone
    assert not net.training and net[0].training


def test_a_traced_function_follows_the_mode():
    net = nn.Dropout(1.0)
    traced = zyx.jit(net)
    x = zyx.ones(2)
    for _ in range(2):
        assert traced(x).tolist() == [0, 0]
        net.training = False
        assert traced(x).tolist() == [1, 1]
        net.train()
    assert len(traced.traces) == 2


def test_all_parameters_can_be_told_to_require_gradients_and_lose_them():
    net = nn.Linear(2, 1)
    net(zyx.ones(1, 2)).sum().backward()
    assert net.weight.grad.tolist() == [[1, 1]]
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.tolist() == [[0, 0]]
    net.zero_grad()
    assert net.weight.grad is None
    assert net.requires_grad_(False) is net
    assert not net(zyx.ones(1, 2)).requires_grad
    net.bias.requires_grad = True
    net(zyx.ones(1, 2)).sum().backward()
    assert (net.weight.grad, net.bias.grad.tolist()) == (None, [1])


def test_parts_may_have_modes_of_their_own():
    net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)).train()
    net[1].eval()
    assert net[0].training
    assert not net[1].training


# ---- other things that are done to whole networks


def test_moving_and_converting_keeps_the_tensors_and_leaves_integers_alone():
    net = nn.BatchNorm1d(3)
    weight = net.weight
    assert net.to(dtype="float64") is net
    assert net.weight is weight
    assert {t.dtype.name for t in (net.weight, net.bias, net.running_mean, net.running_var)} == {"float64"}
    assert net.num_batches_tracked.dtype is zyx.int64
    assert net.to("interpreter:0").weight.device == "interpreter:0"


def test_apply_visits_parts_in_order():
    shared = nn.Linear(1, 1)
    net = nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.ReLU(), shared), shared, nn.Tanh())
    seen = []
    net.apply(seen.append)
    assert seen == [net[0], net[1][0], shared, net[1], net[3], net]


def test_apply_visits_parts_before_what_they_are_part_of():
    net = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_text_shows_the_tree():
    net = nn.Sequential({"first": nn.Linear(2, 3), "inner": nn.Sequential(nn.ReLU(), zyx.tanh)})
    assert repr(net) == (
        "Sequential(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (inner): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Function(tanh)\n"
        "  )\n"
        ")"
    )


def test_containers_behave_as_lists_and_dicts():
    layers = nn.ModuleList([nn.Linear(1, 2)])
    layers.append(nn.ReLU()).extend([nn.Tanh()])
    assert len(layers) == 3
    assert isinstance(layers[-1], nn.Tanh)
    layers[-1] = nn.Sigmoid()
    assert [type(layer).__name__ for layer in layers] == ["Linear", "ReLU", "Sigmoid"]
    assert [type(layer).__name__ for layer in layers[:2]] == ["Linear", "ReLU"]
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Linear(1, 1)
    assert "b" in named
    assert list(named) == named.keys() == ["a", "b"]
    del named["a"]
    assert len(named) == len(named.values()) == 1
    assert sorted(name for name, _ in named.named_parameters()) == ["b.bias", "b.weight"]
    with pytest.raises(StateError, match="'keys' is an attribute"):
        named["keys"] = nn.ReLU()
    with pytest.raises(DTypeError, match="a module or a function, not int"):
        nn.Sequential(1)


def test_a_network_learns():
    zyx.manual_seed(0)
    net = Net()
    optimizer = zyx.optim.SGD(net.parameters(), lr=0.1)
    x = zyx.Tensor(np.array([[0, 1], [1, 0], [1, 1]], np.float32))
    target = zyx.Tensor(np.array([[1], [-1], [0]], np.float32))
    losses = []
    for _ in range(10):
        with zyx.Tape() as tape:
            loss = zyx.mse_loss(net(x), target)
        optimizer.step(tape.gradient(loss, net.parameters()))
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_a_gradient_with_respect_to_a_constant_is_refused_but_not_to_a_parameter_of_it():
    with zyx.Tape() as tape:
        constant = zyx.ones(2)
        parameter = nn.Parameter(constant)
        loss = (constant * parameter).sum()
    with pytest.raises(GradientError, match="constant"):
        tape.gradient(loss, constant)
    assert tape.gradient(loss, parameter).tolist() == [1, 1]


def test_buffers_parameters_and_modules_are_registered_by_name():
    net = nn.Module()
    net.register_buffer("mean", zyx.ones(2))
    net.register_buffer("cache", zyx.zeros(3), persistent=False)
    net.register_buffer("nothing", None)
    net.register_parameter("weight", nn.Parameter(zyx.ones(1)))
    net.register_parameter("bias", None)
    net.add_module("part", nn.Linear(1, 1))
    net.register_module("none", None)
    assert list(net.state_dict()) == ["weight", "mean", "part.weight", "part.bias"]
    assert [name for name, _ in net.named_buffers()] == ["mean", "cache"]
    assert net.bias is None
    net.register_buffer("cache", zyx.ones(3))
    assert "cache" in net.state_dict()
    assert net.get_submodule("part") is net.part
    assert net.get_submodule("") is net
    assert net.get_parameter("part.weight") is net.part.weight
    assert net.get_buffer("mean").tolist() == [1, 1]


def test_what_cannot_be_registered_is_refused():
    net = nn.Linear(1, 1)
    for call, error, text in [
        (lambda: net.register_buffer("forward", zyx.ones(1)), StateError, "forward"),
        (lambda: net.register_buffer("in_features", zyx.ones(1)), StateError, "in_features"),
        (lambda: net.register_buffer("a.b", zyx.ones(1)), StateError, "dots"),
        (lambda: net.register_buffer("x", [1.0]), DTypeError, "not list"),
        (lambda: net.register_parameter("x", zyx.ones(1)), DTypeError, "not Tensor"),
        (lambda: net.add_module("x", zyx.ones(1)), DTypeError, "not Tensor"),
        (lambda: net.get_parameter("weigth"), StateError, "did you mean 'weight'"),
        (lambda: net.get_submodule("x"), StateError, "no module 'x'"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_state_lists_parameters_then_buffers_then_parts():
    class Net(nn.Module):
        def __init__(self):
            self.part = nn.BatchNorm1d(1)
            self.scale = zyx.ones(1)
            self.weight = nn.Parameter(zyx.ones(1))

    state = Net().state_dict(prefix="net.")
    assert list(state)[:4] == ["net.weight", "net.scale", "net.part.weight", "net.part.bias"]
    net = Net()
    assert net.state_dict(keep_vars=True)["weight"] is net.weight


def test_a_report_of_loading_has_the_names_of_pytorch():
    report = nn.Linear(1, 1).load_state_dict({"weight": np.ones((1, 1)), "more": np.ones(1)}, strict=False)
    assert report.missing_keys == ["bias"]
    assert report.unexpected_keys == ["more"]


def test_modules_are_converted_as_tensors_are():
    net = nn.BatchNorm1d(2)
    assert net.half().weight.dtype == "float16"
    assert net.num_batches_tracked.dtype == "int64"
    assert net.bfloat16().running_mean.dtype == "bfloat16"
    assert net.double().weight.dtype == "float64"
    assert net.float().weight.dtype == net.to(zyx.float32).weight.dtype == "float32"
    assert net.to("interpreter", zyx.float16).weight.device == "interpreter:0"
    assert net.to(zyx.ones(1, device="interpreter")).weight.dtype == "float32"
    assert net.to(device="interpreter", non_blocking=True) is net
    with pytest.raises(DTypeError, match="int32"):
        net.to(zyx.int32)
    with pytest.raises(ArgumentError, match="blocking"):
        net.to("interpreter", blocking=True)
    with pytest.raises(zyx.errors.ZyxError):
        net.cuda("no such device")


def test_parts_that_look_the_same_are_shown_once():
    assert (
        repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    )
