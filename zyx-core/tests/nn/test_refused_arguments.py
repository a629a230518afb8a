"""Arguments of layers, containers and optimisers that make no sense are refused where they are given."""

import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError, DTypeError, IntegerError, NoDeviceError, ShapeError, StateError
from zyx.optim import lr_scheduler

X = zyx.ones(1, 2, 8)
LAYER = nn.TransformerEncoderLayer(8, 2, 16)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(-1, 4),
        lambda: nn.Bilinear(-1, 2, 2),
        lambda: nn.Conv2d(-1, 4, 3),
        lambda: nn.Conv1d(3, 4, -1),
        lambda: nn.BatchNorm1d(-1),
        lambda: nn.PReLU(-1),
    ],
)
def test_no_layer_has_a_negative_size(make):
    with pytest.raises(ShapeError, match="negative size in shape"):
        make()


def test_parts_of_containers_are_modules():
    layers = nn.ModuleList([nn.ReLU()])
    for put in (
        lambda: nn.ModuleList([3]),
        lambda: nn.ModuleDict({"a": 3}),
        lambda: layers.append(zyx.sin),
        lambda: layers.__setitem__(0, None),
        lambda: nn.TransformerEncoder(3, 2),
    ):
        with pytest.raises(DTypeError, match=r"a part of a Module(List|Dict) is a module, not"):
            put()
    assert [type(layer) for layer in layers] == [nn.ReLU]
    with pytest.raises(StateError, match="'forward' is an attribute of every ModuleDict"):
        nn.ModuleDict({"forward": nn.ReLU()})


def test_a_sequence_takes_functions_at_its_end_and_in_it():
    net = nn.Sequential(nn.ReLU())
    net.append(zyx.exp)
    assert net(zyx.Tensor([-1.0])).tolist() == [1.0]
    net[1] = zyx.sin
    assert net(zyx.Tensor([-1.0])).tolist() == [0.0]


@pytest.mark.parametrize(("whole", "layer"), [(nn.TransformerEncoder, LAYER), (nn.TransformerDecoder, LAYER)])
def test_there_are_no_fewer_copies_than_none(whole, layer):
    with pytest.raises(ShapeError, match="num_layers is at least 0, not -1"):
        whole(layer, -1)


def test_a_constant_is_a_number():
    with pytest.raises(DTypeError, match="constant_ takes a number, not 'a'"):
        nn.init.constant_(X, "a")


# ---- optimisers and schedulers


def an_optimizer():
    return zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda given: lr_scheduler.StepLR(given, 2),
        lambda given: lr_scheduler.LambdaLR(given, lambda epoch: 1.0),
        lambda given: lr_scheduler.OneCycleLR(given, 1.0, 10),
        lambda given: lr_scheduler.CyclicLR(given, 0.0, 1.0),
        lr_scheduler.ReduceLROnPlateau,
    ],
)
def test_schedulers_take_an_optimiser(make):
    with pytest.raises(ArgumentError, match=r"(LR|Plateau) takes an optimiser, not int"):
        make(3)


def test_chained_schedulers_are_schedulers():
    with pytest.raises(ArgumentError, match="takes schedulers of one optimiser, and int is none"):
        lr_scheduler.ChainedScheduler([3])


@pytest.mark.parametrize("function", [3, [3]])
def test_a_rate_is_made_by_a_function(function):
    with pytest.raises(ArgumentError, match="LambdaLR: lr_lambda is a function or several"):
        lr_scheduler.LambdaLR(an_optimizer(), function)


def test_numbers_of_epochs_and_steps_are_integers_of_at_least_1():
    with pytest.raises(IntegerError, match=r"milestones is an integer, not 1\.5"):
        lr_scheduler.MultiStepLR(an_optimizer(), [1.5])
    with pytest.raises(ShapeError, match="total_iters is at least 1, not 0"):
        zyx.optim.ConstantLR(1.0, total_iters=0)


def test_settings_are_in_their_range_also_in_a_group():
    with pytest.raises(ShapeError, match=r"lambd is at least 0\.0, not -1"):
        zyx.optim.ASGD([zyx.ones(2, requires_grad=True)], lambd=-1)
    group = an_optimizer().param_groups[0]
    with pytest.raises(ShapeError, match=r"momentum is at least 0\.0, not -1"):
        group["momentum"] = -1
    with pytest.raises(DTypeError, match="a learning rate is a number, a tensor or a schedule, not 'a'"):
        group["lr"] = "a"
    assert (group["momentum"], group["lr"]) == (0.0, 1.0)


# ---- what is neither


@pytest.mark.parametrize("switch", [zyx.no_grad, zyx.enable_grad])
def test_gradients_are_switched_in_functions(switch):
    with pytest.raises(ArgumentError, match="switched on or off in a function, not in 3"):
        switch(3)


def test_to_wait_for_a_device_that_there_is_not_is_an_error():
    with pytest.raises(NoDeviceError, match="no device 'cuda:97'"):
        zyx.cuda.synchronize(97)
