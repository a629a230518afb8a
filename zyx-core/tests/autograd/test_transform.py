from __future__ import annotations

import numpy as np
import pytest

from zyx.autograd import grad, value_and_grad
from zyx.errors import GradientError


def cube(x):
    return x * x * x


def test_grad_gives_the_derivative_of_every_order(values):
    x = values.data([2.0])
    assert grad(cube)(x).read() == [12.0]
    assert grad(grad(cube))(x).read() == [12.0]
    assert grad(grad(grad(cube)))(x).read() == [6.0]
    assert grad(grad(grad(grad(cube))))(x).read() == [0.0]


def test_value_and_grad_gives_both(values):
    value, slope = value_and_grad(cube)(values.data([2.0]))
    assert (value.read(), slope.read()) == ([8.0], [12.0])


def test_argnums_picks_the_argument_or_several(values):
    x, y = values.data([2.0]), values.data([3.0])

    def product(x, y):
        return x * x * y

    assert grad(product, 1)(x, y).read() == [4.0]
    assert grad(product, -1)(x, y).read() == [4.0]
    at_y, at_x = grad(product, (1, 0))(x, y)
    assert (at_y.read(), at_x.read()) == ([4.0], [12.0])


def test_an_argument_means_this_argument_alone(values):
    x = values.data([2.0])
    assert grad(lambda a: a * x)(x).read() == [2.0]
    assert [g.read() for g in grad(lambda a, b: a * a * b, (0, 1))(x, x)] == [[8.0], [4.0]]
    assert grad(lambda a: grad(lambda b: a * a * b)(x))(x).read() == [4.0]


def test_arguments_may_be_nested_and_others_are_passed_as_they_are(values):
    def loss(weights, factor, *, power):
        total = weights["a"] * factor
        for _ in range(power):
            total = total * weights["b"][0]
        return total

    weights = {"a": values.data([2.0]), "b": [values.data([3.0]), None]}
    found = grad(loss)(weights, 5.0, power=2)
    assert found["a"].read() == [45.0]
    assert found["b"][0].read() == [60.0]
    assert found["b"][1] is None


def test_aux_comes_back_beside_the_value(values):
    (value, aux), slope = value_and_grad(lambda x: (x * x, "more"), has_aux=True)(values.data([3.0]))
    assert (value.read(), aux, slope.read()) == ([9.0], "more", [6.0])


def test_the_function_may_read_values_as_it_goes(values):
    def steps(x):
        while x.read()[0] < 100.0:
            x = x * x
        return x

    assert grad(steps)(values.data([3.0])).read() == [8 * 3.0**7]
    assert grad(grad(steps))(values.data([3.0])).read() == [56 * 3.0**6]


def test_a_constant_function_has_the_gradient_zero(values):
    assert grad(lambda x: values.zeros(1))(values.data([3.0, 4.0])).read() == [0.0, 0.0]


def test_the_identity_has_the_gradient_one(values):
    assert grad(lambda x: x)(values.data([3.0])).read() == [1.0]


def test_arguments_are_not_changed_by_the_function(values):
    def shift(x):
        x.assign(x + 1.0)
        return x * x

    x = values.data([3.0])
    grad(shift)(x)
    assert x.read() == [3.0]


def test_wrong_uses_say_what_is_wrong(values):
    x = values.data([2.0])
    with pytest.raises(GradientError, match="called with 1 positional arguments, so argnums cannot be 1"):
        grad(cube, 1)(x)
    with pytest.raises(GradientError, match="returned float, not a tensor"):
        grad(lambda x: 1.0)(x)
    with pytest.raises(GradientError, match="returns a pair"):
        value_and_grad(cube, has_aux=True)(x)
    with pytest.raises(GradientError, match="argument 0 is a float"):
        grad(cube)(3.0)
    with pytest.raises(GradientError, match="not of a float dtype"):
        grad(lambda n: x * x)(values.data([2], np.int64))
    with pytest.raises(GradientError, match="not one element"):
        grad(cube)(values.data([1.0, 2.0]))


def test_the_name_and_documentation_of_the_function_stay(values):
    assert grad(cube).__name__ == value_and_grad(cube).__name__ == "cube"
