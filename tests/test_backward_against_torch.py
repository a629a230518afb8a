"""`backward`, ``.grad`` and steps without arguments give what PyTorch gives, in the same lines of code."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import nn, optim

torch = pytest.importorskip("torch", reason="PyTorch, which these tests compare with, is not installed")

RANDOM = np.random.default_rng(5)
XS, YS = (RANDOM.standard_normal((10, 16, width)).astype(np.float32) for width in (4, 1))


def network(layers):
    return layers.Sequential(layers.Linear(4, 8), layers.Tanh(), layers.Linear(8, 1))


def pair():
    theirs, ours = network(torch.nn), network(nn)
    ours.load_state_dict({name: value.detach().numpy() for name, value in theirs.state_dict().items()})
    return theirs, ours


def train(model, optimizer, tensor, clip, is_read, accumulated):
    losses = []
    for number, (x, y) in enumerate(zip(XS, YS, strict=True)):
        if number % accumulated == 0:
            optimizer.zero_grad()
        loss = ((model(tensor(x)) - tensor(y)) ** 2).mean()
        if is_read:
            loss.item()
        loss.backward()
        clip(model.parameters(), 0.5)
        if number % accumulated == accumulated - 1:
            optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("accumulated", [1, 2])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_ten_steps_with_clipping(name, accumulated, is_read):
    torch.manual_seed(0)
    theirs, ours = pair()
    wanted = train(
        theirs,
        getattr(torch.optim, name)(theirs.parameters(), lr=0.05),
        torch.tensor,
        torch.nn.utils.clip_grad_norm_,
        is_read,
        accumulated,
    )
    optimizer = getattr(optim, name)(ours.parameters(), lr=0.05)
    found = train(ours, optimizer, zyx.Tensor, optim.clip_grad_norm_, is_read, accumulated)
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-3, atol=1e-5)


def test_what_each_part_says_of_gradients():
    for lib in (zyx, torch):
        w = lib.ones(3, requires_grad=True)
        y = w * 2
        y.retain_grad()
        with lib.no_grad():
            z = w * 2
        loss = (y * y + z).sum()
        said = [t.requires_grad for t in (w, y, z, loss, y.detach(), y > 0)]
        leaves = [t.is_leaf for t in (w, y, z, y.detach())]
        loss.backward()
        values = [w.grad.tolist(), y.grad.tolist(), z.grad]
        if lib is zyx:
            ours = said, leaves, values
    assert ours == (said, leaves, values)
    assert said == [True, True, False, True, False, False]


def test_two_losses_on_one_part_of_a_network():
    found = []
    for lib in (zyx, torch):
        w = lib.ones(3, requires_grad=True)
        h = (w * 3).tanh()
        h.tolist()
        h.sum().backward(retain_graph=True)
        (h * h).sum().backward()
        found.append(w.grad.tolist())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_a_recurrence_whose_states_are_read():
    found = []
    for lib in (zyx, torch):
        w = lib.full((3, 3), 0.3, requires_grad=True)
        h = lib.ones(2, 3)
        for _ in range(5):
            h = (h @ w).tanh()
            h.sum().item()
        h.sum().backward()
        found.append(w.grad.tolist())
    np.testing.assert_allclose(*found, rtol=1e-5)
