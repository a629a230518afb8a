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


def late(lib, p):
    """Gradients at results: kept before and after they are used and read, or asked for by `inputs`."""
    found = []
    for is_read in (False, True):
        for is_kept_first in (False, True):
            y = p * 5
            if is_kept_first:
                y.retain_grad()
            z = y * 3
            if is_read:
                y.tolist()
            if not is_kept_first:
                y.retain_grad()
            (z + y * 2).sum().backward()
            found.append(y.grad.tolist())
    y, twin = p * 6, p * 6
    y.retain_grad()
    (y * 3 + twin * 4).sum().backward()
    found += [y.grad.tolist(), twin.requires_grad, p.grad.tolist()]
    p.grad = None
    view = p.reshape(3, 1)
    (view * view.reshape(1, 3)).sum().backward(inputs=[view])
    return [*found, view.grad.tolist(), p.grad]


def higher(lib, p):
    """Derivatives of derivatives: by `backward` alone, of what was read, and added up in ``.grad``."""
    found = []
    value = (p**4 * lib.sin(p)).sum()
    for _ in range(4):
        value.backward(create_graph=True)
        slope, p.grad = p.grad, None
        found.append(slope.tolist())
        value = (slope * slope).sum() / 100
    value.backward()
    found.append(p.grad.tolist())
    p.grad = None
    (p**3).sum().backward(create_graph=True)
    p.grad.sum().backward()  # adds to that which it is of
    found.append(p.grad.tolist())
    p.grad = None
    y = p**2
    (y * y).sum().backward(create_graph=True, inputs=[y])
    (y.grad * p).sum().backward()
    return [*found, p.grad.tolist()]


def penalised(lib, p):
    """A gradient as a part of a loss."""
    x = lib.ones(3) * 0.5
    x.requires_grad_()
    score = lib.tanh(x * p).sum()
    score.backward(create_graph=True, inputs=[x])
    penalty = ((x.grad * x.grad).sum() ** 0.5 - 1) ** 2
    penalty.backward()
    return [p.grad.tolist()]


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("part", [late, higher, penalised])
def test_gradients_at_results_and_of_gradients(part):
    values = np.array([0.5, 1.5, 2.0], np.float32)
    ours, wanted = (part(lib, lib.tensor(values, requires_grad=True)) for lib in (zyx, torch))
    for found, expected in zip(ours, wanted, strict=True):
        if isinstance(expected, list):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        else:
            assert found == expected
