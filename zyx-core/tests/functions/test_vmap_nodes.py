"""Each kind of node of one example, for many."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
import zyx.nn.functional as F
from zyx import nn, vmap
from zyx.graph.host_call import HostCall
from zyx.kernel.parse import parse_kernel
from zyx.kernels.custom import CustomKernel

#: What runs which recurrences: all others are run on the interpreter, where nodes become kernels. Loops take long to
#: compile, so the oracle has all kinds of them, and one is compiled.
LOOPS = {"oracle": ("rnn", "gru", "lstm"), "interpreter": ("rnn",)}
ON = [(runtime, cell) for runtime, cells in LOOPS.items() for cell in cells]

RANDOM = np.random.default_rng(3)
SIZE = 3


def normal(*shape):
    return zyx.Tensor(RANDOM.standard_normal(shape).astype(np.float32))


def integers(high, *shape):
    return zyx.Tensor(RANDOM.integers(0, high, shape))


@pytest.fixture(autouse=True)
def _runtime(request):
    """Make the runtime that a test names the current one, or one with the interpreter."""
    callspec = getattr(request.node, "callspec", None)
    request.getfixturevalue("interpreter" if callspec is None else callspec.params.get("runtime", "interpreter"))


# ---- kinds of nodes


@pytest.mark.parametrize("index_axes", [(0, 0), (None, 0), (0, None)])
def test_indices_and_data_differ_between_examples(index_axes, agrees):
    of_data, of_index = index_axes
    x = normal(*((SIZE, 4, 5) if of_data == 0 else (4, 5)))
    for shape in ((), (3,), (2, 3)):
        index = integers(4, *((SIZE,) if of_index == 0 else ()), *shape)
        agrees(lambda x, index: zyx.take(x, index, axis=0), x, index, in_axes=index_axes)
        agrees(lambda x, index: x[index], x, index, in_axes=index_axes)
    index = integers(4, *((SIZE,) if of_index == 0 else ()), 2, 5)
    agrees(lambda x, index: zyx.take_along_axis(x, index, axis=0), x, index, in_axes=index_axes)
    agrees(zyx.grad(lambda x, index: (zyx.take(x, index[0], axis=0) ** 2).sum()), x, index, in_axes=index_axes)


@pytest.mark.parametrize(
    "axes", [(0, 0, 0), (None, 0, 0), (0, None, 0), (0, 0, None), (None, None, 0), (None, 0, None)]
)
def test_writes_differ_between_examples(axes, agrees):
    shapes = ((4, 3), (2,), (2, 3))
    base, index, updates = (
        make(*((SIZE,) if axis == 0 else ()), *shape)
        for make, axis, shape in zip((normal, lambda *shape: integers(4, *shape), normal), axes, shapes, strict=True)
    )

    def written(base, index, updates):
        y = base * 1
        y[index] = updates
        return y

    agrees(written, base, index, updates, in_axes=axes)


def test_slices_begin_at_other_places_for_each_example(agrees):
    agrees(lambda x, start: x[start : start + 2], normal(SIZE, 6, 2), integers(4, SIZE))


def test_an_embedding_is_looked_up_without_a_copy_for_each_example(agrees):
    table, index = normal(50, 4), integers(50, SIZE, 5)
    found = agrees(lambda index: F.embedding(index, table), index)
    plan = zyx.explain_plan(found * 1 if found.is_realized else vmap(lambda index: F.embedding(index, table))(index))
    assert not plan["temporaries"]


@pytest.mark.parametrize("length", [12, 16, 17])
def test_fourier_transforms(length, agrees):
    x = normal(SIZE, 2, length)
    agrees(zyx.fft.fft, x)
    agrees(lambda x: zyx.fft.ifft(zyx.complex(x, x * 2), axis=0), x)
    agrees(lambda x: zyx.fft.irfft(zyx.fft.rfft(x), length), x)
    agrees(zyx.grad(lambda x: abs(zyx.fft.rfft(x)).sum()), x)


def test_what_the_host_computes_by_lapack_takes_all_examples_at_once(agrees):
    a, b = normal(SIZE, 4, 4), normal(SIZE, 4)
    for f in (
        zyx.linalg.inv,
        zyx.linalg.det,
        lambda a: zyx.linalg.svd(a)[1],
        lambda a: zyx.linalg.eigvals(a).real.sum(),
    ):
        agrees(f, a)
    agrees(zyx.linalg.solve, a, b)
    agrees(zyx.linalg.solve, a[0], b, in_axes=(None, 0))
    agrees(zyx.grad(lambda a, b: (zyx.linalg.solve(a, b) ** 2).sum()), a, b)
    agrees(vmap(zyx.linalg.inv), normal(SIZE, 2, 3, 3))
    found = zyx.grad(lambda a: (vmap(zyx.linalg.solve)(a, b) ** 2).sum())(a)
    wanted = zyx.grad(lambda a: sum((zyx.linalg.solve(a[i], b[i]) ** 2).sum() for i in range(SIZE)))(a)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)


def test_calls_of_the_host_that_take_one_example_are_called_for_each():
    shapes = []

    def outer(x, y, factor):
        shapes.append(x.shape)
        return (factor * np.outer(x, y),)

    def gradient(graph, node, upstream):
        return [None, graph.reshape(graph.reduce(zyx.ops.ReduceOp.SUM, upstream, (0,)), (3,))]

    call = HostCall("outer", "NumPy", outer, (((2, 3), zyx.float32),), (2.0,), gradient=gradient)

    def f(x, y):
        return x.like(call.apply(x.runtime.graph, [x.node, y.node])[0])

    x, y = normal(SIZE, 2), normal(SIZE, 3)
    found = vmap(f)(x, y)
    np.testing.assert_allclose(found.numpy(), 2 * x.numpy()[:, :, None] * y.numpy()[:, None], rtol=1e-6)
    assert shapes == [(2,)] * SIZE
    weights = normal(SIZE, 2, 3)
    slope = zyx.grad(lambda y: (vmap(f)(x, y) * weights).sum())(y)
    np.testing.assert_allclose(slope.numpy(), weights.numpy().sum(1), rtol=1e-5)


@pytest.mark.parametrize(("runtime", "cell"), ON)
@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bidirectional": True}])
def test_recurrences(runtime, cell, options, agrees):
    layer = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
    made, x = layer(3, 4, **options), normal(2, 5, 2, 3)

    def loss(x):
        return (made(x)[0] ** 2).sum()

    agrees(lambda x: made(x)[0], x)
    agrees(zyx.grad(loss), x)

    def at_weights(x):
        with zyx.Tape() as tape:
            total = loss(x)
        return tape.gradient(total, made.parameters()[1])

    agrees(at_weights, x)
    with zyx.Tape() as tape:
        total = vmap(loss)(x).sum()
        looped_total = sum((loss(x[i]) for i in range(2)), zyx.zeros(()))
    for found, wanted in zip(
        *(tape.gradient(each, list(made.parameters())) for each in (total, looped_total)), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("runtime", "cell"), ON)
def test_weights_of_recurrences_differ_between_examples(runtime, cell, agrees):
    from zyx.nn.recurrence import Cell, Weights, over_steps

    gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    states = 2 if cell == "lstm" else 1
    x, h = normal(SIZE, 5, 2, 3), normal(SIZE, 2, 4)
    weights = (normal(SIZE, gates * 4, 3), normal(SIZE, gates * 4, 4), normal(SIZE, gates * 4), normal(SIZE, gates * 4))

    def f(x, h, *weights):
        return over_steps(Cell(cell, "tanh"), x, (h,) * states, Weights(*weights), is_backward=False)[0]

    agrees(f, x, h, *weights)
    for place in range(6):

        def slope(*given, place=place):
            return zyx.grad(lambda *given: (f(*given) ** 2).sum(), place)(*given)

        agrees(slope, x, h, *weights)


def test_attention_and_norms(agrees):
    q, k, v = normal(SIZE, 2, 5, 8), normal(SIZE, 2, 6, 8), normal(SIZE, 2, 6, 8)
    agrees(F.scaled_dot_product_attention, q, k, v)
    agrees(lambda x, w: F.layer_norm(x, (8,), w), q, normal(8), in_axes=(0, None))
    agrees(zyx.grad(lambda x: (F.layer_norm(x, (8,)) ** 3).sum()), q)


DOUBLE = """
kernel double
%0 = global f32[4]
%1 = global f32[4] readonly
%2 = group 0 < 4 : i64
%3 = load %1[%2] : f32
%4 = add %3, %3 : f32
store %0[%2] = %4
"""


def test_kernels_written_by_hand_are_launched_for_each_example(agrees):
    def gradient(graph, node, upstream):
        return [graph.binary(zyx.ops.BinaryOp.ADD, upstream, upstream)]

    custom = CustomKernel(parse_kernel(DOUBLE), (((4,), zyx.float32),), gradient)

    def double(x):
        return x.like(custom.apply(x.runtime.graph, (x.node,))[0])

    x = normal(SIZE, 4)
    agrees(double, x)
    agrees(zyx.grad(lambda x: (double(x) ** 2).sum()), x)
    np.testing.assert_allclose(zyx.grad(lambda x: (vmap(double)(x) ** 2).sum())(x).numpy(), 8 * x.numpy(), rtol=1e-6)
