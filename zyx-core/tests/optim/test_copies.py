"""Optimisers can be copied and pickled, by themselves and with the module that they train."""

import copy
import pickle

import numpy as np
import pytest

import zyx
from zyx import nn, optim

KINDS = [
    lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
    lambda params: optim.Adam(params, lr=0.1),
    lambda params: optim.AdamW(params, lr=optim.StepLR(0.1, 2, 0.5)),
    lambda params: optim.RMSprop(params, lr=0.1),
]
COPIES = [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))]


def train(model, optimizer, steps):
    x = zyx.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(steps):
        with zyx.Tape() as tape:
            loss = (model(x) ** 2).sum()
        optimizer.step(tape.gradient(loss, model.parameters()))
    return [each.numpy() for each in model.parameters()]


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("make_copy", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("make", KINDS, ids=["sgd", "adam", "schedule", "rmsprop"])
def test_a_copy_goes_on_by_itself_and_in_the_same_way(make, make_copy):
    model = nn.Linear(3, 2)
    optimizer = make(model.parameters())
    train(model, optimizer, 2)
    other_model, other = make_copy((model, optimizer))
    assert all(each is not own for each, own in zip(other.params, optimizer.params, strict=True))
    assert all(each is own for each, own in zip(other.params, other_model.parameters(), strict=True))
    before = [each.numpy() for each in model.parameters()]
    changed = train(other_model, other, 3)
    for each, own in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(each.numpy(), own)
    for each, own in zip(changed, train(model, optimizer, 3), strict=True):
        np.testing.assert_array_equal(each, own)
    assert int(other.step_count.item()) == 5
