"""`custom_gradient`, `checkpoint` and hooks inside of `vmap`, with gradients taken outside of it, inside, and both."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import GradientError, TraceError
from zyx.graph.node import Unary
from zyx.graph.walk import topological

torch = pytest.importorskip("torch", reason="PyTorch is what mapped rules are compared with")

pytestmark = pytest.mark.usefixtures("interpreter")

X = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
W = np.array([0.5, -2.0, 3.0], np.float32)


@zyx.custom_gradient
def scaled(x, w):
    """Return a product, whose gradients are two and three times as large as they are."""
    return x * w, lambda g: (g * w * 2, g * x * 3)


class _Scaled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w * 2, g * x * 3


def of_row(function, x, w):
    return (function(x.sin(), w) * x).sum()


WAYS = {
    "outside": lambda lib, f: lib.grad(lambda x, w: lib.vmap(f, (0, None))(x, w).sum(), argnums=(0, 1)),
    "inside": lambda lib, f: lib.vmap(lib.grad(f, argnums=(0, 1)), (0, None)),
    "each its own": lambda lib, f: lib.grad(
        lambda x, w: lib.vmap(f)(x, w[None] * lib.ones_like(x)).sum(), argnums=(0, 1)
    ),
    "the other": lambda lib, f: lib.grad(lambda x, w: lib.vmap(f, (None, 0))(w, x).sum(), argnums=(0, 1)),
    "twice": lambda lib, f: lib.grad(
        lambda x, w: lib.grad(lambda x, w: (lib.vmap(f, (0, None))(x, w) ** 2).sum(), argnums=1)(x, w).sum(),
        argnums=(0, 1),
    ),
    "outside of the inside": lambda lib, f: lib.grad(
        lambda x, w: (lib.vmap(lib.grad(f), (0, None))(x, w) ** 2).sum(), argnums=(0, 1)
    ),
    "of vmap": lambda lib, f: lib.grad(
        lambda x, w: lib.vmap(lib.vmap(f, (0, None)), (None, 0))(x, lib.stack([w, w * 2])).sum(), argnums=(0, 1)
    ),
    "in chunks": lambda lib, f: lib.grad(
        lambda x, w: (lib.vmap(f, (0, None), chunk_size=3)(x, w) ** 2).sum(), argnums=(0, 1)
    ),
}


class _Func:
    """What the ways need of PyTorch."""

    grad, vmap, stack = staticmethod(torch.func.grad), staticmethod(torch.func.vmap), staticmethod(torch.stack)
    ones_like = staticmethod(torch.ones_like)


@pytest.mark.parametrize("is_traced", [False, True], ids=["", "jit"])
@pytest.mark.parametrize("is_anew", [False, True], ids=["", "checkpoint"])
@pytest.mark.parametrize("way", WAYS)
def test_a_mapped_rule_gives_what_it_says_beside_torch(way, is_anew, is_traced):
    def anew(x, w):
        return zyx.checkpoint(scaled, x, w)

    mine = WAYS[way](zyx, lambda x, w: of_row(anew if is_anew else scaled, x, w))
    theirs = WAYS[way](_Func, lambda x, w: of_row(_Scaled.apply, x, w))
    found = (zyx.jit(mine) if is_traced else mine)(zyx.Tensor(X), zyx.Tensor(W))
    wanted = theirs(torch.tensor(X), torch.tensor(W))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_backward_and_tapes_take_it_too():
    x = zyx.Tensor(X, requires_grad=True)
    w = zyx.Tensor(W, requires_grad=True)
    zyx.vmap(scaled, (0, None))(x, w).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(2 * W, X.shape), rtol=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), 3 * X.sum(0), rtol=1e-5)
    with zyx.Tape() as tape:
        h = x * 1.0
        y = zyx.vmap(scaled, (0, None))(h, w)
        y.numpy()
        loss = (y * 5).sum()
    at_h, at_y = tape.gradient(loss, [h, y])
    np.testing.assert_allclose(at_h.numpy(), np.broadcast_to(10 * W, X.shape), rtol=1e-6)
    assert (at_y.numpy() == 5).all()


def test_rules_of_what_does_not_depend_on_the_examples_and_of_several_results():
    @zyx.custom_gradient
    def jump(x):
        return zyx.zeros_like(x), lambda g: g * 7

    @zyx.custom_gradient
    def both(x):
        return (x * 2, x.exp()), lambda g: g[0] * 3 + g[1] * x

    x = zyx.Tensor(X)
    assert (zyx.grad(lambda x: zyx.vmap(jump)(x).sum())(x).numpy() == 7).all()
    found = zyx.grad(lambda x: sum(part.sum() for part in zyx.vmap(both)(x)))(x)
    np.testing.assert_allclose(found.numpy(), 3 + X, rtol=1e-6)


def test_rules_may_draw_and_may_not_read():
    @zyx.custom_gradient
    def noisy(x):
        return x * 1, lambda g: g * zyx.rand(3)

    @zyx.custom_gradient
    def nosy(x):
        return x * 1, lambda g: g * float(x.sum())

    x = zyx.Tensor(X)
    drawn = zyx.grad(lambda x: zyx.vmap(noisy)(x).sum())(x).numpy()
    assert len(np.unique(drawn)) == drawn.size
    with pytest.raises(TraceError, match="inside of vmap of nosy"):
        zyx.grad(lambda x: zyx.vmap(nosy)(x).sum())(x)


def test_what_is_computed_anew_is_so_for_all_examples():
    def shared(part):
        """Return how many operations the way back has from the way there, and how many there are on it in all."""
        x = zyx.Tensor(X)
        with zyx.Tape() as tape:
            y = zyx.vmap(part)(x)
        way = []

        def traced(x):
            with zyx.Tape() as tape:
                y = zyx.vmap(part)(x)
                found = tape.gradient(y, x, zyx.ones(4, 3))
            there, back = ({node for node in topological([h.node]) if isinstance(node, Unary)} for h in (y, found))
            way[:] = len(there & back), len(back)
            return found

        found = zyx.jit(traced)(x)
        np.testing.assert_allclose(found.numpy(), np.exp(np.sin(X)) * np.cos(X), rtol=1e-5)
        np.testing.assert_allclose(tape.gradient(y, x, zyx.ones(4, 3)).numpy(), found.numpy(), rtol=1e-5)
        return way

    def inner(h):
        return h.sin().exp()

    kept, all_of_kept = shared(inner)
    anew, all_of_anew = shared(lambda row: zyx.checkpoint(inner, row))
    assert kept > 0
    assert (anew, all_of_anew) == (0, all_of_kept)


def test_hooks_on_gradients_are_refused_from_outside_and_called_inside():
    layer = nn.Linear(3, 2)
    shapes = []
    handle = layer.register_full_backward_hook(lambda module, before, after: shapes.append(after[0].shape))

    def loss(row):
        return layer(row).sum()

    x = zyx.Tensor(X)
    assert zyx.vmap(loss)(x).shape == (4,)
    found = zyx.vmap(zyx.grad(loss))(x)
    assert shapes == [(2,)]
    np.testing.assert_allclose(found.numpy(), np.tile(layer.weight.numpy().sum(0), (4, 1)), rtol=1e-5)
    with pytest.raises(GradientError, match="has hooks on its gradients"):
        zyx.grad(lambda x: zyx.vmap(loss)(x).sum())(x)
    handle.remove()
    zyx.grad(lambda x: zyx.vmap(loss)(x).sum())(x)


def test_a_mapped_rule_dies_with_its_result():
    x, w = zyx.Tensor(X), zyx.Tensor(W)
    gc.collect()
    gc.disable()  # circles would live on
    try:
        y = zyx.vmap(scaled, (0, None))(x, w)
        node, rule = y.node, weakref.ref(y.node.rule)
        assert rule() is not None
        del y, node
        assert rule() is None
    finally:
        gc.enable()
