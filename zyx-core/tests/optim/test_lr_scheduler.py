"""Schedulers that are told of epochs; tests/test_beside_torch.py holds their rates beside PyTorch's."""

import pytest

import zyx
from zyx import nn, optim
from zyx.errors import ArgumentError, DTypeError, ShapeError, StateError
from zyx.optim import lr_scheduler

pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.fixture
def optimizer():
    return optim.SGD([nn.Parameter(zyx.ones(2))], lr=0.8)


def test_the_optimiser_steps_by_the_rate_of_the_epoch(optimizer):
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    rates = []
    for _ in range(5):
        before = optimizer.params[0].numpy()
        optimizer.step([zyx.ones(2)])
        rates.append(float(before[0] - optimizer.params[0].numpy()[0]))
        scheduler.step()
    assert rates == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2], rel=1e-5)
    assert optimizer.lr == optimizer.param_groups[0]["lr"] == 0.2
    assert scheduler.last_epoch == 5


def test_a_rate_that_was_set_is_gone_on_from(optimizer):
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    scheduler.step()
    optimizer.lr = 10.0
    scheduler.step()
    assert scheduler.get_last_lr() == [5.0]


def test_a_cosine_goes_up_again(optimizer):
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=2, eta_min=0.2)
    found = []
    for _ in range(6):
        found += scheduler.get_last_lr()
        scheduler.step()
    assert found == pytest.approx([0.8, 0.5, 0.2, 0.5, 0.8, 0.5])


def test_functions_are_given_the_epoch_one_for_each_group(optimizer):
    optimizer.add_param_group({"params": [nn.Parameter(zyx.ones(1))], "lr": 1.0})
    scheduler = lr_scheduler.LambdaLR(optimizer, [lambda epoch: 2**epoch, lambda epoch: 0.5 if epoch > 1 else 1])
    assert scheduler.get_last_lr() == [0.8, 1.0]
    scheduler.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [3.2, 0.5]
    with pytest.raises(ArgumentError, match="LambdaLR: 1 functions for 2 groups"):
        lr_scheduler.LambdaLR(optimizer, [abs])


def test_a_state_is_gone_on_from(optimizer):
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    for _ in range(2):
        scheduler.step()
    state = scheduler.state_dict()
    again = lr_scheduler.StepLR(optimizer, 3)
    again.load_state_dict(state)
    again.step()
    assert again.get_last_lr() == pytest.approx([0.08])
    with pytest.raises(ArgumentError, match="StepLR has base_lrs of 1 groups and last_epoch"):
        again.load_state_dict({"last_epoch": 2})


def test_what_cannot_be_followed_is_an_error(optimizer):
    with pytest.raises(ShapeError, match="step_size is at least 1, not 0"):
        lr_scheduler.StepLR(optimizer, 0)
    with pytest.raises(ArgumentError, match="last_epoch is -1, not 3"):
        lr_scheduler.ExponentialLR(optimizer, 0.5, last_epoch=3)
    optimizer.lr = optim.StepLR(0.1, 2)
    with pytest.raises(DTypeError, match="ExponentialLR changes learning rates that are numbers, not StepLR"):
        lr_scheduler.ExponentialLR(optimizer, 0.5)


def test_a_cycle_sets_the_momentum_that_a_step_uses_and_stays_behind_its_end():
    optimizer = optim.SGD([nn.Parameter(zyx.ones(1))], lr=0.8, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(
        optimizer, 0.5, epochs=2, steps_per_epoch=2, pct_start=0.5, anneal_strategy="linear", div_factor=5.0,
        final_div_factor=10.0,
    )  # fmt: skip
    rates, momenta = [], []
    for _ in range(6):
        rates += scheduler.get_last_lr()
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step([zyx.ones(1)])
        scheduler.step()
    assert rates == pytest.approx([0.1, 0.5, 0.255, 0.01, 0.01, 0.01])
    assert momenta == pytest.approx([0.95, 0.85, 0.9, 0.95, 0.95, 0.95])
    direction, place = 0.0, 1.0
    for rate, momentum in zip(rates, momenta, strict=True):
        direction = momentum * direction + 1.0
        place -= rate * direction
    assert optimizer.params[0].item() == pytest.approx(place, rel=1e-5)


def test_schedulers_put_together_go_on_from_a_state(optimizer):
    def made():
        first, then = lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 2), lr_scheduler.ExponentialLR(optimizer, 0.5)
        return lr_scheduler.SequentialLR(optimizer, [first, then], [3])

    scheduler = made()
    found = []
    for _ in range(6):
        found += scheduler.get_last_lr()
        scheduler.step()
    assert found == pytest.approx([0.4, 0.6, 0.8, 0.8, 0.4, 0.2])
    state, rate = scheduler.state_dict(), optimizer.lr
    again = made()
    again.load_state_dict(state)
    optimizer.lr = rate
    again.step()
    assert again.last_epoch == 7
    assert again.get_last_lr() == pytest.approx([0.05])
    with pytest.raises(ArgumentError, match="SequentialLR has schedulers, a list of 2"):
        again.load_state_dict({"last_epoch": 2})
    chained = lr_scheduler.ChainedScheduler(again.schedulers)
    chained.step()
    assert chained.state_dict()["last_epoch"] == 1


def test_cycles_that_cannot_be_made_are_errors(optimizer):
    with pytest.raises(StateError, match="SGD was made without momentum_buffer; make a new one"):
        lr_scheduler.OneCycleLR(optimizer, 0.1, 10)
    adagrad = optim.Adagrad([nn.Parameter(zyx.ones(2))], lr=0.8)
    with pytest.raises(ArgumentError, match="Adagrad has no momentum and no betas; give cycle_momentum=False"):
        lr_scheduler.CyclicLR(adagrad, 0.1, 0.2)
    with pytest.raises(ArgumentError, match="OneCycleLR takes total_steps, or epochs and steps_per_epoch"):
        lr_scheduler.OneCycleLR(adagrad, 0.1, epochs=3, cycle_momentum=False)
    with pytest.raises(ArgumentError, match="takes total_steps, or epochs"):
        optim.OneCycleLR(0.1)
    with pytest.raises(ArgumentError, match="not 'sine'"):
        optim.OneCycleLR(0.1, 3, anneal_strategy="sine")
    with pytest.raises(ArgumentError, match="not 'epochs'"):
        lr_scheduler.CyclicLR(adagrad, 0.1, 0.2, scale_mode="epochs", cycle_momentum=False)
    with pytest.raises(ShapeError, match="OneCycleLR: 2 max_lr for 1 groups"):
        lr_scheduler.OneCycleLR(adagrad, [0.1, 0.2], 10, cycle_momentum=False)
    step = lr_scheduler.StepLR(adagrad, 3)
    with pytest.raises(ShapeError, match="1 schedulers take one milestone less"):
        lr_scheduler.SequentialLR(adagrad, [step], [3])
    with pytest.raises(ArgumentError, match="schedulers of one optimiser, and StepLR is none"):
        lr_scheduler.SequentialLR(optimizer, [step], [])
    with pytest.raises(ArgumentError, match="ChainedScheduler takes at least one scheduler"):
        lr_scheduler.ChainedScheduler([])
