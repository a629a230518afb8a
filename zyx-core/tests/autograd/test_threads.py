"""Tapes, `grad` and `backward` in several threads at once, and within one another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest

import zyx
from zyx.errors import GradientError

pytestmark = pytest.mark.usefixtures("interpreter")

X = np.arange(1, 5, dtype=np.float32)


def taped(x, factor):
    with zyx.Tape() as tape:
        read = x * factor
        read.numpy()
        y = (read.reshape(2, 2) ** 2).sum()
        y.item()
    return [found.numpy() for found in tape.gradient(y, [x, read])], [2 * factor**2 * X, 2 * factor * X]


def backwards(x, factor):
    w = zyx.ones_like(x, requires_grad=True)
    y = w * factor
    y.retain_grad()
    z = (y * x).sum()
    z.item()
    z.backward()
    return [w.grad.numpy(), y.grad.numpy()], [factor * X, X]


def graded(x, factor):
    return [zyx.grad(lambda v: (v**2).sum() * factor)(x).numpy()], [2 * factor * X]


def free(x, factor):
    with zyx.no_grad():
        y = x * factor
        assert not y.requires_grad
    return [y.numpy()], [X * factor]


def traced(x, factor):
    step = zyx.jit(zyx.value_and_grad(lambda v: (v**3).sum() * factor))
    return [step(x)[1].numpy() for _ in range(2)], [3 * factor * X**2] * 2


def test_each_thread_has_its_own_gradients():
    x = zyx.Tensor(X)
    shared = zyx.ones(4, requires_grad=True)

    def work(number):
        kind = (taped, backwards, graded, free, traced)[number % 5]
        for factor in range(2, 6):
            (shared * x).sum().backward()
            for found, wanted in zip(*kind(x, float(factor)), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=kind.__name__)

    with ThreadPoolExecutor(5) as pool:
        contexts = [copy_context() for _ in range(15)]
        list(pool.map(lambda context, number: context.run(work, number), contexts, range(15)))
    assert shared.grad.tolist() == (60 * X).tolist()


def test_backward_in_the_block_of_a_tape():
    w, x = zyx.ones(4, requires_grad=True), zyx.Tensor(X)
    with zyx.Tape() as tape:
        y = (w**2 * x).sum()
        y.item()
        y.backward()
        product = (w.grad * x).sum()
        with pytest.raises(GradientError, match="retain_graph"):
            y.backward()
    assert w.grad.tolist() == (2 * X).tolist()
    assert [found.tolist() for found in tape.gradient(y, [w, x])] == [(2 * X).tolist(), [1] * 4]
    assert tape.gradient(product, x).tolist() == (2 * X).tolist()  # the gradient itself is given
    assert tape.gradient(product, w).tolist() == [0] * 4


def test_a_tape_in_the_block_of_a_tape_takes_what_backward_gives_with_its_graph():
    w, x = zyx.ones(4, requires_grad=True), zyx.Tensor(X)
    with zyx.Tape() as tape:
        (w**3 * x).sum().backward(create_graph=True)
        slope = w.grad.sum()
        slope.item()
    slope.backward(retain_graph=True)
    assert w.grad.tolist() == (9 * X).tolist()
    assert tape.gradient(slope, [w, x])[0].tolist() == (6 * X).tolist()
    with pytest.raises(GradientError, match=r"differentiated by a tape .* call backward\(\) before that"):
        slope.backward()
