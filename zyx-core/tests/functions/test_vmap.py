"""Functions of one example, run once for many: beside a loop over the examples."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import nn, vmap

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(3)
SIZE = 3


def normal(*shape):
    return zyx.Tensor(RANDOM.standard_normal(shape).astype(np.float32))


# ---- axes and structures


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_examples_lie_along_any_axis(axis, agrees):
    agrees(lambda x: x.sum(axis=0) * 2, normal(2, 3, 4), in_axes=axis)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_results_have_examples_along_any_axis(axis):
    x = normal(4, 2, 3)
    found = vmap(lambda x: x * 2, out_axes=axis)(x)
    np.testing.assert_array_equal(found.numpy(), np.moveaxis(x.numpy() * 2, 0, axis))


def test_arguments_and_results_may_be_structures():
    x, y, z = normal(3, 2), normal(2, 3), normal(2)
    f = vmap(
        lambda tree, z: {"sum": tree["x"][0] + tree["y"], "pair": (z, tree["x"][0], None)},
        in_axes=({"x": 0, "y": 1}, None),
        out_axes={"sum": 1, "pair": (None, 0, 0)},
    )
    found = f({"x": [x], "y": y}, z)
    np.testing.assert_allclose(found["sum"].numpy(), (x.numpy() + y.numpy().T).T)
    assert found["pair"][0].shape == (2,)
    np.testing.assert_array_equal(found["pair"][1].numpy(), x.numpy())
    assert found["pair"][2] is None


def test_arguments_by_name_have_their_examples_in_front_and_others_stay():
    x, scale = normal(3, 2), normal(3)
    found = vmap(lambda x, *, scale, power: (x * scale) ** power)(x, scale=scale, power=2)
    np.testing.assert_allclose(found.numpy(), (x.numpy() * scale.numpy()[:, None]) ** 2, rtol=1e-6)


def test_what_is_the_same_for_all_may_be_anything():
    found = vmap(lambda x, how: how["f"](x), in_axes=(0, None))(normal(3, 2), {"f": zyx.sum})
    assert found.shape == (3,)


def test_a_result_that_depends_on_no_example_is_repeated():
    assert vmap(lambda x: zyx.arange(4), out_axes=1)(normal(3, 2)).tolist() == [[i] * 3 for i in range(4)]


def test_axis_size_says_how_many_there_are_where_no_argument_does():
    assert vmap(lambda: zyx.arange(2), axis_size=3)().tolist() == [[0, 1]] * 3


def test_of_no_examples_the_results_are_empty():
    value, total = vmap(lambda x: (x * 2, x.sum()), out_axes=(1, 0))(zyx.zeros((0, 4)))
    assert value.shape == (4, 0)
    assert total.shape == (0,)
    assert value.numpy().size == total.numpy().size == 0


def test_pytorch_s_names_of_axes_are_understood():
    x = normal(2, 3)
    assert vmap(lambda x: x, in_dims=1, out_dims=-1)(x).tolist() == x.tolist()


def test_it_is_a_decorator_and_keeps_the_name():
    @vmap
    def doubled(x):
        return x * 2

    assert doubled.__name__ == "doubled"
    assert doubled(zyx.ones(3)).tolist() == [2, 2, 2]


# ---- what there may be inside


def test_maps_nest():
    x, y = normal(3, 5), normal(4, 5)
    found = vmap(vmap(lambda x, y: ((x - y) ** 2).sum(), in_axes=(None, 0)), in_axes=(0, None))(x, y)
    np.testing.assert_allclose(found.numpy(), ((x.numpy()[:, None] - y.numpy()) ** 2).sum(-1), rtol=1e-5)


def test_an_inner_map_finds_what_the_outer_one_maps():
    x, y = normal(3, 2), normal(4, 2)
    found = vmap(lambda x: vmap(lambda y: (x * y).sum())(y))(x)
    np.testing.assert_allclose(found.numpy(), x.numpy() @ y.numpy().T, rtol=1e-5)


def test_gradients_of_each_example(agrees):
    w, x, y = normal(4, 3), normal(SIZE, 3), normal(SIZE, 4)

    def loss(w, x, y):
        return ((w @ x - y) ** 2).sum()

    found = agrees(zyx.grad(loss), w, x, y, in_axes=(None, 0, 0))
    np.testing.assert_allclose(
        found.numpy(), 2 * (x.numpy() @ w.numpy().T - y.numpy())[:, :, None] * x.numpy()[:, None], rtol=1e-4
    )


def test_the_gradient_of_a_map_is_that_of_a_loop():
    w, x = normal(4, 3), normal(SIZE, 3)
    found = zyx.grad(lambda w: (vmap(lambda w, x: (w @ x).tanh(), in_axes=(None, 0))(w, x) ** 2).sum())(w)
    wanted = zyx.grad(lambda w: ((x @ w.T).tanh() ** 2).sum())(w)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_derivatives_of_all_kinds_are_mapped(agrees):
    def f(x):
        return x.sin() * x.sum()

    x, t = normal(SIZE, 4), normal(SIZE, 4)
    agrees(zyx.jacobian(f), x)
    agrees(zyx.hessian(lambda x: f(x).sum()), x)
    agrees(lambda x, t: zyx.jvp(f, (x,), (t,))[1], x, t)
    agrees(lambda x, t: zyx.vjp(f, x)[1](t)[0], x, t)
    agrees(zyx.grad(lambda x: zyx.grad(lambda x: f(x).sum())(x).sum()), x)


def test_a_jacobian_is_a_mapped_product():
    x = normal(4)
    _y, pull = zyx.vjp(lambda x: x.cumsum(0) ** 2, x)
    found = vmap(lambda u: pull(u)[0])(zyx.eye(4))
    np.testing.assert_allclose(found.numpy(), zyx.jacobian(lambda x: x.cumsum(0) ** 2)(x).numpy(), rtol=1e-6)


def test_a_tape_outside_records_what_is_mapped():
    x, w = normal(SIZE, 2), nn.Parameter(normal(2))
    with zyx.Tape() as tape:
        loss = vmap(lambda x: (x * w).sum() ** 2)(x).sum()
    first, second = tape.gradient(loss, [x, w])
    inner = (x.numpy() * w.numpy()).sum(1, keepdims=True)
    np.testing.assert_allclose(first.numpy(), 2 * inner * w.numpy(), rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), (2 * inner * x.numpy()).sum(0), rtol=1e-5)


def test_a_traced_function_is_mapped_and_a_mapped_one_traced(agrees):
    w = normal(2, 3)
    traced = zyx.jit(lambda x: w @ x)
    agrees(traced, normal(SIZE, 3))
    mapped = zyx.jit(vmap(lambda x: (w @ x).sum()))
    for size in (3, 4, 5, 6, 7):
        x = normal(size, 3)
        np.testing.assert_allclose(mapped(x).numpy(), (x.numpy() @ w.numpy().T).sum(1), rtol=1e-4, atol=1e-5)
    assert len(mapped.traces) == 3, "one trace is for all lengths from the third one on"


def test_how_many_examples_there_are_may_be_declared_as_a_length():
    weight = normal(2, 3)
    slope = vmap(zyx.grad(lambda w, x: ((w @ x) ** 2).sum()), in_axes=(None, 0))
    traced = zyx.jit(lambda x: slope(weight, x), lengths={"x": {0: zyx.Dim("examples", 2, 64)}})
    for size in (2, 5, 9):
        x = normal(size, 3)
        np.testing.assert_allclose(traced(x).numpy(), slope(weight, x).numpy(), rtol=1e-5, atol=1e-6)
    assert len(traced.traces) == 1


def test_a_traced_step_with_gradients_of_each_example_clips_them():
    w, x = nn.Parameter(normal(3)), normal(SIZE, 3)
    slope = vmap(zyx.grad(lambda w, x: (w * x).sum() ** 2), in_axes=(None, 0))

    @zyx.jit
    def step(x):
        each = slope(w, x)
        w.assign(w - 0.1 * each.clip(-1, 1).mean(axis=0))
        return w * 1

    for _ in range(3):
        before = w.numpy()
        each = 2 * (x.numpy() @ before)[:, None] * x.numpy()
        np.testing.assert_allclose(step(x).numpy(), before - 0.1 * each.clip(-1, 1).mean(0), rtol=1e-4, atol=1e-5)


def test_deep_functions_are_mapped():
    def deep(x):
        for _ in range(4100):
            x = x + 1
        return x

    assert vmap(deep)(zyx.zeros((2, 1))).tolist() == [[4100], [4100]]


def test_chunks_give_the_same():
    w, x = normal(3, 2), normal(5, 2)

    def f(x):
        return ((w @ x).sum(), zyx.arange(2))

    for size in (1, 2, 5, 7):
        found, same = vmap(f, chunk_size=size)(x)
        np.testing.assert_allclose(found.numpy(), vmap(f)(x)[0].numpy(), rtol=1e-6)
        assert same.tolist() == [[0, 1]] * 5
    np.testing.assert_allclose(
        zyx.grad(lambda x: (vmap(lambda x: (w @ x) ** 2, chunk_size=2)(x)).sum())(x).numpy(),
        zyx.grad(lambda x: ((x @ w.T) ** 2).sum())(x).numpy(),
        rtol=1e-5,
    )
