"""`custom_gradient` and `checkpoint`: the gradients they give, under everything that takes gradients."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import GradientError
from zyx.runtime.runtime import Runtime, use

pytestmark = pytest.mark.usefixtures("interpreter")


@zyx.custom_gradient
def cube(x):
    """Return the third power, with a gradient twice as large as it is."""
    return x**3, lambda g: g * 6 * x * x


def total(x):
    return cube(x).sum()


X = [1.0, 2.0]


# ---- custom_gradient


def test_the_result_is_what_the_function_gives_and_the_gradient_what_it_says():
    x = zyx.Tensor(X)
    assert cube(x).tolist() == [1, 8]
    assert cube.__doc__.startswith("Return the third power")
    assert zyx.grad(total)(x).tolist() == [6, 24]


@pytest.mark.parametrize("is_read", [False, True])
def test_everything_that_takes_gradients_takes_it(is_read):
    x = zyx.Tensor(X, requires_grad=True)
    y = cube(x)
    if is_read:
        y.numpy()
    (y * 2).sum().backward()
    assert x.grad.tolist() == [12, 48]
    with zyx.Tape() as tape:
        y = cube(x)
        if is_read:
            y.numpy()
        loss = y.sum()
    assert tape.gradient(loss, x).tolist() == [6, 24]
    assert zyx.jit(zyx.grad(total))(x).tolist() == [6, 24]
    assert zyx.vjp(cube, x)[1](zyx.ones(2))[0].tolist() == [6, 24]
    assert zyx.jvp(cube, (x,), (zyx.ones(2),))[1].tolist() == [6, 24]
    assert zyx.jacobian(cube)(x).tolist() == [[6, 0], [0, 24]]


def test_the_rule_can_be_differentiated():
    x = zyx.Tensor(X)
    assert zyx.grad(lambda x: zyx.grad(total)(x).sum())(x).tolist() == [12, 24]
    assert zyx.hessian(total)(x).tolist() == [[12, 0], [0, 24]]


def test_several_arguments_and_results_and_values_by_name():
    @zyx.custom_gradient
    def both(x, nothing, count, y, *, factor=1.0):
        def pull(g):
            return g["sum"] * factor, None, None, g["product"] * 10

        return {"sum": x + y, "product": x * y, "count": count + 1}, pull

    x, y, count = zyx.Tensor(X), zyx.Tensor([3.0, 4.0]), zyx.arange(2)

    def loss(x, y):
        out = both(x, None, count, y, factor=5.0)
        assert out["count"].dtype is zyx.int64
        return (out["sum"] + out["product"] * 2).sum()

    found = zyx.grad(loss, argnums=(0, 1))(x, y)
    assert [part.tolist() for part in found] == [[5, 5], [20, 20]]


def test_gradients_of_complex_numbers_are_as_everywhere():
    @zyx.custom_gradient
    def twice(z):
        return z * (2 + 1j), lambda g: g * (2 - 1j)

    z = zyx.Tensor([1 + 2j])
    own = zyx.grad(lambda z: (abs(twice(z)) ** 2).sum())(z).tolist()
    np.testing.assert_allclose(own, zyx.grad(lambda z: (abs(z * (2 + 1j)) ** 2).sum())(z).tolist(), rtol=1e-6)


def test_what_does_not_fit_is_refused():
    x = zyx.Tensor(X)
    with pytest.raises(GradientError, match="argument 0 is a float, not a tensor"):
        cube(2.0)
    with pytest.raises(GradientError, match="not \\(result, function"):
        zyx.custom_gradient(lambda x: x)(x)
    for given, text in [
        (lambda g: (g, g), "returned 2 values for 1 arguments"),
        (lambda g: 1.0, "a float for argument 0"),
        (lambda g: g.sum(), "must agree in shape"),
    ]:
        wrong = zyx.custom_gradient(lambda x, given=given: (x * 2, given))
        with pytest.raises(GradientError, match=text):
            zyx.grad(lambda x, wrong=wrong: wrong(x).sum())(x)


# ---- checkpoint


def layers():
    zyx.manual_seed(1)
    return [nn.Linear(4, 4) for _ in range(3)]


def through(network, x):
    for layer in network:
        x = zyx.dropout(layer(x).tanh(), 0.3)
    return x


@pytest.mark.parametrize("way", ["backward", "tape", "grad", "jit"])
def test_gradients_are_those_without_also_of_random_numbers_and_parameters(way):
    network = layers()
    parameters = [parameter for layer in network for parameter in layer.parameters()]
    x = zyx.Tensor(np.random.default_rng(2).standard_normal((5, 4)).astype(np.float32))

    def loss_of(x, is_anew):
        zyx.manual_seed(3)
        for _ in range(2):
            x = zyx.checkpoint(lambda h: through(network, h), x) if is_anew else through(network, x)
        return (x * x).sum()

    def gradients(is_anew):
        if way in ("grad", "jit"):
            function = zyx.grad(lambda x: loss_of(x, is_anew))
            return [(zyx.jit(function) if way == "jit" else function)(x)]
        if way == "tape":
            with zyx.Tape() as tape:
                loss = loss_of(x, is_anew)
            loss.item()
            return tape.gradient(loss, [x, *parameters])
        for parameter in parameters:
            parameter.grad = None
        loss = loss_of(x, is_anew)
        loss.item()
        loss.backward()
        return [parameter.grad for parameter in parameters]

    for found, wanted in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_of_gradients_and_custom_ones_inside():
    x = zyx.Tensor(X)

    def loss(x):
        return zyx.checkpoint(lambda h: zyx.checkpoint(cube, h.sin()) * h, x).sum()

    def plain(x):
        return (cube(x.sin()) * x).sum()

    for order in range(2):
        np.testing.assert_allclose(zyx.grad(loss)(x).numpy(), zyx.grad(plain)(x).numpy(), rtol=1e-5, err_msg=str(order))
        loss, plain = ((lambda x, f=f: zyx.grad(f)(x).sum()) for f in (loss, plain))


def test_arguments_in_structures_get_gradients_and_integers_none():
    def part(pair, index, scale):
        return {"a": pair["x"] * pair["y"][0] * scale, "b": index + 1}

    def loss(x, y):
        out = zyx.checkpoint(part, {"x": x, "y": [y]}, zyx.arange(2), scale=3.0)
        assert out["b"].tolist() == [1, 2]
        return out["a"].sum()

    found = zyx.grad(loss, argnums=(0, 1))(zyx.Tensor(X), zyx.Tensor([5.0, 7.0]))
    assert [part.tolist() for part in found] == [[15, 21], [3, 6]]
    with pytest.raises(GradientError, match="only tensors"):
        zyx.checkpoint(lambda: 3)


def test_what_was_computed_before_keeps_its_own_history():
    calls = []

    def before(x):
        made = zyx.custom_gradient(lambda h: (h * 3, lambda slope: (calls.append("back"), slope * 3)[1]))(x)
        zyx.realize(made * 1)
        return made

    def loss(x):
        made = before(x)
        zyx.realize(made)
        return (zyx.checkpoint(lambda h: h * made, made) + made).sum()

    found = zyx.grad(loss)(zyx.Tensor(X))
    assert calls == ["back"]
    assert found.tolist() == [3 * (2 * 3 * each + 1) for each in X]


@pytest.mark.parametrize("look", [lambda h: h.realize(), lambda h: (h.numpy(), h)[1], lambda h: (str(h), h)[1]])
def test_what_is_computed_inside_has_its_history(look):
    weight = zyx.Tensor([5.0, 7.0], requires_grad=True)

    def part(h):
        inner = look(h * weight)
        return look(inner * inner) * h

    def gradients(is_anew):
        x = zyx.Tensor(X, requires_grad=True)
        weight.grad = None
        (zyx.checkpoint(part, x) if is_anew else part(x)).sum().backward()
        return x.grad.tolist(), weight.grad.tolist()

    assert gradients(True) == gradients(False)
    looked_at = zyx.grad(lambda x: zyx.checkpoint(lambda h: look(h) * h, x).sum())(zyx.Tensor(X))
    assert looked_at.tolist() == [2 * each for each in X]
    x = zyx.Tensor(X)
    found, wanted = (zyx.grad(lambda x, f=f: f(x).sum())(x) for f in (lambda x: zyx.checkpoint(part, x), part))
    assert found.tolist() == wanted.tolist()


def test_there_is_memory_for_one_part_at_a_time():
    def peak(is_anew):
        runtime = Runtime()
        with use(runtime), runtime.default("interpreter"):
            weights = [zyx.randn(8, 8).realize() for _ in range(4)]
            x = zyx.randn(200, 8).realize()

            def block(h):
                for weight in weights:
                    h = (h @ weight).tanh()
                return h

            with zyx.Tape() as tape:
                h = x
                for _ in range(6):
                    h = zyx.checkpoint(block, h) if is_anew else block(h)
                loss = h.sum()
            loss.realize()
            gradients = tape.gradient(loss, [x, *weights])
            runtime.realize(gradients)
            values = [gradient.numpy() for gradient in gradients]
            most = max(use.peak_bytes for use in zyx.memory_stats().values()) / x.nbytes
        runtime.close()
        return most, values

    (whole, wanted), (parts, found) = peak(False), peak(True)
    assert whole > 40  # two for each of 24 layers
    assert parts < 24
    assert len(wanted) == len(found) == 5
