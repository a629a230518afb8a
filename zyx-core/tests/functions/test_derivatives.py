"""Products with Jacobians, Jacobians and Hessians, beside differences of values in float64."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
import zyx.nn.functional as F
from zyx.errors import GradientError

pytestmark = pytest.mark.usefixtures("interpreter")

A = np.random.default_rng(7).standard_normal((3, 4))


def tensor(values):
    return zyx.Tensor(np.asarray(values, np.float64))


FUNCTIONS = {
    "elementwise": lambda x: zyx.sin(x) * zyx.exp(x / 2),
    "tall": lambda x: zyx.outer(zyx.tanh(x.reshape(-1)), x.reshape(-1)),
    "wide": lambda x: (x * x).sum(),
    "axis": lambda x: zyx.softmax(x, axis=-1),
    "product": lambda x: zyx.matmul(x, x.mT),
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "indices": lambda x: zyx.take(x.reshape(-1), zyx.Tensor([3, 0, 3])) ** 3,
    "scan": lambda x: zyx.cumulative_sum(x * x, axis=-1),
    "constant": lambda x: zyx.ones(2, dtype="float64") + 0 * x.sum(),
}
KINDS = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def differences(f, x, step=1e-5):
    """Return what a Jacobian is by central differences."""
    columns = []
    for i in range(x.size):
        move = np.zeros(x.size)
        move[i] = step
        move = move.reshape(x.shape)
        columns.append((f(tensor(x + move)).numpy() - f(tensor(x - move)).numpy()) / (2 * step))
    return np.stack(columns, -1).reshape(columns[0].shape + x.shape)


@KINDS
def test_a_jacobian_is_that_of_differences(f):
    found = zyx.jacobian(f)(tensor(A)).numpy()
    wanted = differences(f, A)
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-7, atol=1e-7)


@KINDS
def test_products_from_both_sides_are_those_with_the_jacobian(f):
    x = tensor(A)
    table = zyx.jacobian(f)(x).numpy()
    rng = np.random.default_rng(1)
    y, pull = zyx.vjp(f, x)
    assert np.allclose(y.numpy(), f(x).numpy())
    for _ in range(2):
        u, t = rng.standard_normal(y.shape), rng.standard_normal(A.shape)
        (left,) = pull(tensor(u))
        assert np.allclose(left.numpy(), np.tensordot(u, table, u.ndim))
        _, right = zyx.jvp(f, (x,), (tensor(t),))
        assert np.allclose(right.numpy(), np.tensordot(table, t, t.ndim))


@KINDS
def test_a_hessian_is_that_of_differences_of_gradients(f):
    def total(x):
        return zyx.sin(f(x)).sum()

    found = zyx.hessian(total)(tensor(A)).numpy()
    assert found.shape == A.shape * 2
    assert np.allclose(found, differences(zyx.grad(total), A), rtol=1e-6, atol=1e-6)
    assert np.allclose(found, found.transpose(2, 3, 0, 1))


AT_REST = {
    "sqrt": (zyx.sqrt, 1 / 4),
    "rsqrt": (zyx.rsqrt, -0.5 * 4**-1.5),
    "power": (lambda x: x**1.5, 3.0),
    "log": (zyx.log, 1 / 4),
    "log2": (zyx.log2, 1 / (4 * np.log(2))),
    "log1p": (zyx.log1p, 1 / 5),
    "reciprocal": (zyx.reciprocal, -1 / 16),
    "acosh": (zyx.acosh, 15**-0.5),
    "asin": (lambda x: zyx.asin(x / 8), 1 / 8 / np.sqrt(0.75)),
    "atanh": (lambda x: zyx.atanh(x / 8), 1 / 8 / 0.75),
    "hypot": (lambda x: zyx.hypot(x, x * 0 + 3), 0.8),
    "norm": (lambda x: zyx.linalg.vector_norm(x.reshape(1)), 1.0),
    "exponent": (lambda x: zyx.pow(tensor(2.0), x), 16 * np.log(2)),
}


@pytest.mark.parametrize(("f", "slope"), AT_REST.values(), ids=AT_REST)
def test_second_derivatives_are_right_where_the_first_is_zero(f, slope):
    x = tensor(4.0)
    rest = f(x).numpy()
    assert np.isclose(zyx.hessian(lambda x: (f(x) - tensor(rest)) ** 2)(x).numpy(), 2 * slope**2)


def test_an_infinite_slope_is_one_in_both_directions():
    x, one = tensor([0.0, 4.0]), tensor([1.0, 1.0])
    assert np.array_equal(zyx.jvp(zyx.sqrt, (x,), (one,))[1].numpy(), [np.inf, 0.25])
    assert np.array_equal(zyx.vjp(zyx.sqrt, x)[1](one)[0].numpy(), [np.inf, 0.25])


def test_derivatives_nest():
    def cube(x):
        return (x**3).sum()

    x = tensor([1.0, 2.0])
    third = zyx.jacobian(zyx.hessian(cube))(x).numpy()
    wanted = np.zeros((2, 2, 2))
    wanted[0, 0, 0] = wanted[1, 1, 1] = 6
    assert np.allclose(third, wanted)
    _, change = zyx.jvp(zyx.grad(cube), (x,), (tensor([1.0, -1.0]),))
    assert np.allclose(change.numpy(), [6, -12])
    gradient = zyx.grad(lambda x: (zyx.jacobian(lambda v: v**2)(x) ** 2).sum())(x)
    assert np.allclose(gradient.numpy(), [8, 16])


def test_arguments_and_results_may_be_structures():
    def f(weights, x):
        y = zyx.matmul(weights["w"], x) + weights["b"][0]
        return {"y": y, "more": (y.sum(), [x * 2])}

    weights = {"w": tensor(A), "b": [tensor([1.0, 2.0, 3.0])]}
    x = tensor(np.arange(4.0))
    result = zyx.jacobian(f, (0, 1))(weights, x)
    of_weights, of_x = result["y"]
    assert np.allclose(of_x.numpy(), A)
    assert np.allclose(of_weights["b"][0].numpy(), np.eye(3))
    assert of_weights["w"].shape == (3, 3, 4)
    assert np.allclose(result["more"][0][1].numpy(), A.sum(0))
    assert np.allclose(result["more"][1][0][1].numpy(), 2 * np.eye(4))
    assert not result["more"][1][0][0]["w"].numpy().any()
    _, pull = zyx.vjp(f, weights, x)
    ones = {"y": tensor(np.ones(3)), "more": (tensor(1.0), [tensor(np.zeros(4))])}
    back, at_x = pull(ones)
    assert np.allclose(back["b"][0].numpy(), 2)
    assert np.allclose(at_x.numpy(), 2 * A.sum(0))
    _, change = zyx.jvp(f, [weights, x], [weights, x])
    assert np.allclose(change["y"].numpy(), 2 * A @ np.arange(4) + [1, 2, 3])
    only = zyx.hessian(lambda w, x: (w["w"] @ x).sum() ** 2, 1)(weights, x)
    assert np.allclose(only.numpy(), 2 * np.outer(A.sum(0), A.sum(0)))


def test_aux_comes_back_as_it_is():
    def f(x):
        return (x * x).sum(), {"count": 3}

    x = tensor([1.0, 2.0])
    assert zyx.vjp(f, x, has_aux=True)[2] == {"count": 3}
    assert zyx.jvp(f, (x,), (x,), has_aux=True)[2] == {"count": 3}
    first, aux = zyx.jacobian(f, has_aux=True)(x)
    second, more = zyx.hessian(f, has_aux=True)(x)
    assert aux == more == {"count": 3}
    assert np.allclose(first.numpy(), [2, 4])
    assert np.allclose(second.numpy(), 2 * np.eye(2))


def test_float32_and_other_keywords_stay():
    x = zyx.Tensor([1.0, 2.0])
    found = zyx.jacobian(lambda x, power: x**power)(x, power=3)
    assert found.dtype is zyx.float32
    assert np.allclose(found.numpy(), np.diag([3, 12]))


def test_of_no_elements_there_are_no_derivatives():
    x = tensor(np.zeros((0, 2)))
    assert zyx.jacobian(lambda x: x.sum(axis=0))(x).shape == (2, 0, 2)
    assert zyx.jacobian(lambda x: x * 2)(x).shape == (0, 2, 0, 2)
    assert zyx.hessian(lambda x: x.sum())(x).shape == (0, 2, 0, 2)


def test_products_of_complex_numbers_are_those_of_the_derivative():
    z, u = np.array([1 + 2j, -0.5j]), np.array([2 - 1j, 1j])
    x = zyx.Tensor(z, "complex128")
    _, pull = zyx.vjp(lambda x: x**2, x)
    assert np.allclose(pull(zyx.Tensor(u, "complex128"))[0].numpy(), u * np.conj(2 * z))
    _, change = zyx.jvp(lambda x: x**2, (x,), (zyx.Tensor(u, "complex128"),))
    assert np.allclose(change.numpy(), 2 * z * u)
    with pytest.raises(GradientError, match="real numbers, not complex128"):
        zyx.jacobian(lambda x: x**2)(x)


def test_traced_functions_may_take_derivatives():
    @zyx.jit
    def both(x):
        return zyx.jacobian(zyx.sin)(x), zyx.hessian(lambda x: (x**3).sum())(x)

    for values in ([1.0, 2.0], [3.0, 4.0]):
        first, second = both(tensor(values))
        assert np.allclose(first.numpy(), np.diag(np.cos(values)))
        assert np.allclose(second.numpy(), np.diag(6 * np.array(values)))


def test_what_does_not_fit_is_refused():
    x = tensor([1.0, 2.0])
    _, pull = zyx.vjp(lambda x: (x, x), x)
    with pytest.raises(GradientError, match="the gradient at the result is structured otherwise"):
        pull(x)
    with pytest.raises(GradientError, match=r"\[1\] is float64\[\] on .*belongs to float64\[2\]"):
        pull((x, tensor(1.0)))
    with pytest.raises(GradientError, match=r"float32\[2\]"):
        pull((x, x.astype("float32")))
    with pytest.raises(GradientError, match="jvp takes the arguments as a tuple or list, not a Tensor"):
        zyx.jvp(zyx.sin, x, x)
    with pytest.raises(GradientError, match="the tangents is structured otherwise"):
        zyx.jvp(zyx.sin, (x,), (x, x))
    with pytest.raises(GradientError, match="argnums cannot be 1"):
        zyx.jacobian(zyx.sin, 1)(x)
    with pytest.raises(GradientError, match="returned Tensor; with has_aux=True"):
        zyx.vjp(zyx.sin, x, has_aux=True)
    with pytest.raises(GradientError, match=r"the result of .* is a float"):
        zyx.vjp(lambda x: 1.0, x)
    with pytest.raises(GradientError, match="not of a float dtype"):
        zyx.jacobian(lambda x: x * 2.0)(zyx.Tensor([1, 2]))
    with pytest.raises(GradientError):
        zyx.hessian(lambda x: x)(x)


def test_each_pass_of_a_jacobian_has_the_plan_of_the_one_before(interpreter):
    x = tensor(np.arange(1.0, 41.0))
    zyx.jacobian(zyx.sqrt)(x).numpy()
    made = interpreter.compiler.compiled
    zyx.jacobian(zyx.sqrt)(x + 1).numpy()
    assert interpreter.compiler.compiled - made <= 3
