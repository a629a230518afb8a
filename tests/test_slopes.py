"""First and second derivatives of every function of elements where they are special, on the default device.

The rule: where two pieces meet the slope is the mean of theirs, half of it for each of two operands that are equal; at
an end of the domain it is the limit from inside, infinite if that is; outside, it is NaN. What departs from it is said
beside its row, and in docs/coming-from.md where PyTorch or JAX differ.

The expected values are limits in closed form. A function that is added needs a row: the tables are held against the
list of public functions.
"""

from __future__ import annotations

import functools
import inspect
import math

import numpy as np
import pytest

import zyx
from zyx.functions import activations, arithmetic, choosing, complex_numbers, elementwise, logic, transcendental

INF, NAN, E, PI = math.inf, math.nan, math.e, math.pi
LN_2, LN_10 = math.log(2), math.log(10)
OUT = (NAN, NAN)
FLAT = (0, 0)
RISING = (1, 0)
SELU, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def everywhere(slopes, *points):
    return [(point, *slopes) for point in points or (-INF, -1.5, -0.0, 0.0, 1.5, INF)]


def gated(slope):
    """Rows of ``x * gate(x)``, which is infinity times 0 at minus infinity: NaN, as in PyTorch and JAX."""
    return [(-0.0, 0.5, slope), (0.0, 0.5, slope)]


#: Points, first and second derivatives there.
UNARY = {
    # exponentials and logarithms
    "exp": [(-INF, *FLAT), (-0.0, 1, 1), (0.0, 1, 1), (INF, INF, INF)],
    "exp2": [(-INF, *FLAT), (-0.0, LN_2, LN_2**2), (0.0, LN_2, LN_2**2), (INF, INF, INF)],
    "expm1": [(-INF, *FLAT), (-0.0, 1, 1), (0.0, 1, 1), (INF, INF, INF)],
    "log": [(-INF, *OUT), (-1, *OUT), (-0.0, INF, -INF), (0.0, INF, -INF), (1, 1, -1), (INF, *FLAT)],
    "log2": [(-INF, *OUT), (-1, *OUT), (-0.0, INF, -INF), (0.0, INF, -INF), (1, 1 / LN_2, -1 / LN_2), (INF, *FLAT)],
    "log10": [(-INF, *OUT), (-1, *OUT), (-0.0, INF, -INF), (0.0, INF, -INF), (1, 1 / LN_10, -1 / LN_10), (INF, *FLAT)],
    "log1p": [(-INF, *OUT), (-2, *OUT), (-1, INF, -INF), (-0.0, 1, -1), (0.0, 1, -1), (INF, *FLAT)],
    "sqrt": [(-INF, *OUT), (-1, *OUT), (-0.0, INF, -INF), (0.0, INF, -INF), (1, 0.5, -0.25), (INF, *FLAT)],
    "rsqrt": [(-INF, *OUT), (-1, *OUT), (0.0, -INF, INF), (1, -0.5, 0.75), (INF, *FLAT)],  # at -0 it is -inf, as IEEE's
    "reciprocal": [(-INF, *FLAT), (-0.0, -INF, -INF), (0.0, -INF, INF), (1, -1, 2), (INF, *FLAT)],
    "square": [(-INF, -INF, 2), (-0.0, 0, 2), (0.0, 0, 2), (INF, INF, 2)],
    # trigonometry
    "sin": [(-INF, *OUT), (-0.0, *RISING), (0.0, *RISING), (INF, *OUT)],
    "cos": [(-INF, *OUT), (-0.0, 0, -1), (0.0, 0, -1), (INF, *OUT)],
    "tan": [(-INF, *OUT), (-0.0, *RISING), (0.0, *RISING), (INF, *OUT)],
    "asin": [(-INF, *OUT), (-2, *OUT), (-1, INF, -INF), (-0.0, *RISING), (0.0, *RISING), (1, INF, INF), (2, *OUT),
             (INF, *OUT)],
    "acos": [(-INF, *OUT), (-2, *OUT), (-1, -INF, INF), (-0.0, -1, 0), (0.0, -1, 0), (1, -INF, -INF), (2, *OUT),
             (INF, *OUT)],
    "atan": [(-INF, *FLAT), (-1, 0.5, 0.5), (-0.0, *RISING), (0.0, *RISING), (INF, *FLAT)],
    "sinh": [(-INF, INF, -INF), (-0.0, *RISING), (0.0, *RISING), (INF, INF, INF)],
    "cosh": [(-INF, -INF, INF), (-0.0, 0, 1), (0.0, 0, 1), (INF, INF, INF)],
    "tanh": [(-INF, *FLAT), (-0.0, *RISING), (0.0, *RISING), (INF, *FLAT)],
    "asinh": [(-INF, *FLAT), (-0.0, *RISING), (0.0, *RISING), (INF, *FLAT)],
    "acosh": [(-INF, *OUT), (-1, *OUT), (0.0, *OUT), (0.5, *OUT), (1, INF, -INF),
              (2, 1 / math.sqrt(3), -2 / math.sqrt(27)), (INF, *FLAT)],
    "atanh": [(-INF, *OUT), (-2, *OUT), (-1, INF, -INF), (-0.0, *RISING), (0.0, *RISING), (1, INF, INF), (2, *OUT),
              (INF, *OUT)],
    "deg2rad": everywhere((PI / 180, 0)),
    "rad2deg": everywhere((180 / PI, 0)),
    # error function
    "erf": [(-INF, *FLAT), (-0.0, 2 / math.sqrt(PI), 0), (0.0, 2 / math.sqrt(PI), 0), (INF, *FLAT)],
    "erfinv": [(-INF, *OUT), (-2, *OUT), (-1, INF, -INF), (-0.0, math.sqrt(PI) / 2, 0), (0.0, math.sqrt(PI) / 2, 0),
               (1, INF, INF), (2, *OUT), (INF, *OUT)],
    # signs and parts; what rounds is flat, and no slope is where it jumps
    "abs": [(-INF, -1, 0), (-1, -1, 0), (-0.0, *FLAT), (0.0, *FLAT), (INF, *RISING)],
    "negative": everywhere((-1, 0)),
    "positive": everywhere(RISING),
    "sign": everywhere(FLAT),
    "frac": everywhere(RISING, -1.0, -0.0, 0.0, 1.0),
    "floor": everywhere(FLAT),
    "ceil": everywhere(FLAT),
    "trunc": everywhere(FLAT),
    "round": everywhere(FLAT, -0.5, -0.0, 0.0, 0.5, 1.5),
    "nan_to_num": [(-INF, *FLAT), (-0.0, *RISING), (0.0, *RISING), (INF, *FLAT), (NAN, *FLAT)],
    # activations: at a corner the slope is that of the flat side
    "relu": [(-INF, *FLAT), (-0.0, *FLAT), (0.0, *FLAT), (INF, *RISING)],
    "relu6": [(-INF, *FLAT), (-0.0, *FLAT), (0.0, *FLAT), (3, *RISING), (6, *FLAT), (INF, *FLAT)],
    "leaky_relu": [(-INF, 0.01, 0), (-0.0, 0.01, 0), (0.0, 0.01, 0), (INF, *RISING)],
    "elu": [(-INF, *FLAT), (-0.0, 1, 1), (0.0, 1, 1), (INF, *RISING)],
    "celu": [(-INF, *FLAT), (-0.0, 1, 1), (0.0, 1, 1), (INF, *RISING)],
    "selu": [(-INF, *FLAT), (-0.0, SELU * SELU_ALPHA, SELU * SELU_ALPHA), (0.0, SELU * SELU_ALPHA, SELU * SELU_ALPHA),
             (INF, SELU, 0)],
    "gelu": gated(2 / math.sqrt(2 * PI)),
    "quick_gelu": gated(2 * 1.702 / 4),
    "silu": gated(0.5),
    "mish": [(point, 0.6, 0.64) for point in (-0.0, 0.0)],
    "sigmoid": [(-INF, *FLAT), (-0.0, 0.25, 0), (0.0, 0.25, 0), (INF, *FLAT)],
    "hardsigmoid": [(-INF, *FLAT), (-3, *FLAT), (-0.0, 1 / 6, 0), (0.0, 1 / 6, 0), (3, *FLAT), (INF, *FLAT)],
    "hardswish": [(-0.0, 0.5, 1 / 3), (0.0, 0.5, 1 / 3), (INF, *RISING)],
    "hardtanh": [(-INF, *FLAT), (-1, *FLAT), (-0.0, *RISING), (0.0, *RISING), (1, *FLAT), (INF, *FLAT)],
    "softplus": [(-INF, *FLAT), (-0.0, 0.5, 0.25), (0.0, 0.5, 0.25), (INF, *RISING)],
    "softsign": [(-1, 0.25, 0.25), (-0.0, *RISING), (0.0, *RISING), (1, 0.25, -0.25)],
    "logsigmoid": [(-INF, *RISING), (-0.0, 0.5, -0.25), (0.0, 0.5, -0.25), (INF, *FLAT)],
    # of real numbers
    "real": everywhere(RISING),
    "imag": everywhere(FLAT),
    "conj": everywhere(RISING),
    "angle": everywhere(FLAT),
}  # fmt: skip

EQUAL = [(-INF, -INF), (-1, -1), (0.0, 0.0), (-0.0, 0.0), (2, 2), (INF, INF)]
HALVES = [(x, y, 0.5, 0, 0.5, 0) for x, y in EQUAL]
FIRST, SECOND = (1, 0, 0, 0), (0, 0, 1, 0)

#: Points x and y; first and second derivative in x, first and second derivative in y.
BINARY = {
    "add": [(x, y, 1, 0, 1, 0) for x, y in EQUAL],
    "subtract": [(x, y, 1, 0, -1, 0) for x, y in EQUAL],
    "multiply": [(0.0, 0.0, 0, 0, 0, 0), (INF, 2, 2, 0, INF, 0), (INF, INF, INF, 0, INF, 0),
                 (-INF, INF, INF, 0, -INF, 0)],
    "divide": [(1, 0.0, INF, 0, -INF, INF), (1, -0.0, -INF, 0, -INF, -INF), (0.0, 2, 0.5, 0, 0, 0),
               (INF, 1, 1, 0, -INF, INF), (1, INF, 0, 0, 0, 0), (1, -INF, 0, 0, 0, 0)],
    # beside a jump, at a multiple of y, the slopes are those of the side where the quotient is whole
    "remainder": [(3, 1, 1, 0, -3, 0), (1, 0.0, *OUT, *OUT), (INF, 1, *OUT, *OUT), (1, INF, 1, 0, 0, 0)],
    "fmod": [(3, 1, 1, 0, -3, 0), (1, 0.0, *OUT, *OUT), (INF, 1, *OUT, *OUT), (1, INF, 1, 0, 0, 0)],
    "floor_divide": [(3, 1, 0, 0, 0, 0), (0.5, 1, 0, 0, 0, 0), (1, INF, 0, 0, 0, 0)],
    # 0 to the power of 0 is 1, which jumps in y; so does the slope
    "pow": [(0.0, 0.0, 0, 0, 0, 0), (0.0, 0.5, INF, -INF, 0, 0), (0.0, 1, 1, 0, 0, 0), (0.0, 1.5, 0, INF, 0, 0),
            (0.0, 2, 0, 2, 0, 0), (-0.0, 0.5, INF, -INF, 0, 0), (0.0, 3, 0, 0, 0, 0), (0.0, -1, -INF, INF, -INF, INF),
            (-1, 2, -2, 2, *OUT), (-1, 0.5, *OUT, *OUT), (1, 0.0, 0, 0, 0, 0), (INF, 1, 1, 0, INF, INF)],
    "maximum": [*HALVES, (1, 0.0, *FIRST), (-INF, 1, *SECOND), (INF, 1, *FIRST)],
    "minimum": [*HALVES, (1, 0.0, *SECOND), (-INF, 1, *FIRST), (INF, 1, *SECOND)],
    "logaddexp": [*((x, x, 0.5, 0.25, 0.5, 0.25) for x in (-1, 0.0, 2)), (-INF, -INF, 0.5, 0, 0.5, 0),
                  (INF, INF, 0.5, 0, 0.5, 0), (-INF, 1, *SECOND), (INF, 1, *FIRST), (1, INF, *SECOND)],
    # at the origin angles of all directions meet, and slopes of all directions
    "atan2": [(0.0, 0.0, 0, 0, 0, 0), (0.0, -0.0, 0, 0, 0, 0), (0.0, 1, 1, 0, 0, 0), (1, 0.0, 0, 0, -1, 0),
              (1, 1, 0.5, -0.5, -0.5, 0.5), (0.0, -1, -1, 0, 0, 0), (INF, 1, 0, 0, 0, 0), (1, INF, 0, 0, 0, 0)],
    "hypot": [(0.0, 0.0, 0, 0, 0, 0), (-0.0, 0.0, 0, 0, 0, 0), (2, 0.0, 1, 0, 0, 0.5), (0.0, -2, 0, 0.5, -1, 0),
              (1, 1, 0.5**0.5, 0.5**1.5, 0.5**0.5, 0.5**1.5), (INF, 1, *FIRST), (1, -INF, 0, 0, -1, 0)],
    "copysign": [(0.0, 1, 0, 0, 0, 0), (-0.0, -1, 0, 0, 0, 0), (2, -0.0, -1, 0, 0, 0), (-2, 0.0, -1, 0, 0, 0),
                 (-INF, -1, 1, 0, 0, 0)],
    "prelu": [(0.0, 0.25, 0.25, 0, 0, 0), (-1, 0.25, 0.25, 0, -1, 0), (INF, 0.25, *FIRST),
              (-INF, 0.25, 0.25, 0, -INF, 0)],
    # between bounds, and at them, the slope is 1, as in PyTorch; in x, and in the lower bound
    "clip": [(0.0, 0.0, *FIRST), (-1, 0.0, *SECOND), (1, 0.0, *FIRST), (-INF, 0.0, *SECOND), (INF, 0.0, *FIRST)],
    "masked_fill": [(-1, 2, 0, 0, 0, 0), (1, 2, 1, 0, 0, 0), (NAN, 2, 1, 0, 0, 0)],  # where x < 0
    "where": [(-1, 2, *SECOND), (1, 2, *FIRST), (NAN, 2, *FIRST)],  # where x < 0
    "lerp": [(0.0, 1, 0.75, 0, 0.25, 0), (1, 1, 0.75, 0, 0.25, 0)],  # by 0.25
}  # fmt: skip

CALLED = {
    "masked_fill": lambda x, y: zyx.masked_fill(x, x.detach() < 0, 7.0) + y * 0,
    "where": lambda x, y: zyx.where(x.detach() < 0, y, x),
    "lerp": lambda x, y: zyx.lerp(x, y, 0.25),
}

#: What gives integers, bools or other things without slopes, is of bits, or is a formula of several elements.
WITHOUT_SLOPES = {
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isclose", "allclose", "array_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite", "signbit", "is_complex"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "bitwise_invert"),
    "nextafter",
}
OF_OTHERS = {"softmax", "log_softmax", "softmin", "complex", "view_as_real", "view_as_complex"}


def test_every_function_of_elements_has_a_row():
    families = (elementwise, transcendental, arithmetic, logic, activations, choosing, complex_numbers)
    public = {
        name
        for family in families
        for name, function in vars(family).items()
        if inspect.isfunction(function) and function.__module__ == family.__name__ and name in zyx.__all__
    }
    assert public == {*UNARY, *BINARY, *WITHOUT_SLOPES, *OF_OTHERS}


@functools.cache
def float_type():
    is_double = zyx.float64 in zyx.__array_namespace_info__().dtypes(device=zyx.default_device()).values()
    return np.float64 if is_double else np.float32


def slopes(function, *columns):
    """Return the first and second derivatives of a function of elements in each of its operands."""
    tensors = [zyx.Tensor(np.array(column, float_type())) for column in columns]
    found = []
    for x in tensors:
        with zyx.Tape() as outer:
            with zyx.Tape() as inner:
                total = function(*tensors).sum()
            first = inner.gradient(total, x)
            total = first.sum()
        found += [first.numpy(), outer.gradient(total, x).numpy()]
    return found


def agree(found, expected, what):
    assert np.allclose(found, np.array(expected, np.float64), rtol=1e-5, atol=1e-6, equal_nan=True), (
        what,
        found.tolist(),
        expected,
    )


@pytest.mark.parametrize("name", UNARY)
def test_slopes_of_functions_of_one_operand(name):
    points, *expected = zip(*UNARY[name], strict=True)
    for order, found, wanted in zip((1, 2), slopes(getattr(zyx, name), points), expected, strict=True):
        agree(found, wanted, (name, order, points))


@pytest.mark.parametrize("name", BINARY)
def test_slopes_of_functions_of_two_operands(name):
    x, y, *expected = zip(*BINARY[name], strict=True)
    function = CALLED.get(name) or getattr(zyx, name)
    for number, (found, wanted) in enumerate(zip(slopes(function, x, y), expected, strict=True)):
        agree(found, wanted, (name, ("x", "xx", "y", "yy")[number], x, y))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_slopes_are_the_same_where_each_point_is_an_example(name):
    is_unary = name in UNARY
    *columns, first, second = (
        list(zip(*UNARY[name], strict=True)) if is_unary else list(zip(*BINARY[name], strict=True))[:4]
    )
    function = CALLED.get(name) or getattr(zyx, name)
    points = [zyx.Tensor(np.array(column, float_type())) for column in columns]
    slope = zyx.grad(function)
    agree(zyx.vmap(slope)(*points).numpy(), first, (name, columns))
    agree(zyx.vmap(zyx.grad(slope))(*points).numpy(), second, (name, columns))


#: Exponents that are numbers; points, and both derivatives there.
POWERS = {
    -1: [(-0.0, -INF, -INF), (0.0, -INF, INF), (INF, *FLAT)],
    -0.5: [(-1, *OUT), (0.0, -INF, INF), (INF, *FLAT)],
    0: everywhere(FLAT),
    0.5: [(-1, *OUT), (0.0, INF, -INF), (1, 0.5, -0.25), (INF, *FLAT)],
    0.75: [(-1, *OUT), (-0.0, INF, -INF), (0.0, INF, -INF), (INF, *FLAT)],
    1: everywhere(RISING),
    1.5: [(-1, *OUT), (0.0, 0, INF), (INF, INF, 0)],
    2: [(-1, -2, 2), (-0.0, 0, 2), (0.0, 0, 2)],
    2.5: [(-1, *OUT), (0.0, 0, 0)],
    3: [(-1, 3, -6), (0.0, 0, 0)],
    4: [(-1, -4, 12), (0.0, 0, 0)],
}


@pytest.mark.parametrize("exponent", POWERS)
def test_slopes_of_powers_whose_exponent_is_a_number(exponent):
    points, *expected = zip(*POWERS[exponent], strict=True)
    for order, found, wanted in zip((1, 2), slopes(lambda x: x**exponent, points), expected, strict=True):
        agree(found, wanted, (order, points))


@pytest.mark.parametrize(
    "function",
    [zyx.sqrt, zyx.rsqrt, zyx.reciprocal, zyx.log, zyx.log2, zyx.log10, lambda x: zyx.log1p(x - 1), lambda x: x**0.75,
     lambda x: x**1.5, lambda x: 1 % x, lambda x: 2 ** (x.log())],
    ids=["sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p", "power", "power above 1", "remainder",
         "log, then"],
)  # fmt: skip
def test_what_is_not_chosen_has_no_part_in_the_gradient(function):
    x = zyx.Tensor(np.array([-2, -0.0, 0.0], float_type()))
    with zyx.Tape() as tape:
        total = zyx.where(x > 0, function(x), 0.0).sum()
    assert tape.gradient(total, x).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "length",
    [zyx.norm, zyx.linalg.vector_norm, zyx.std, lambda x: zyx.norm(x, 3), zyx.linalg.matrix_norm,
     lambda x: zyx.linalg.vector_norm(x, ord=1.5), zyx.normalize, lambda x: zyx.cosine_similarity(x, x)],
)  # fmt: skip
def test_lengths_of_nothing_have_the_gradient_0_though_the_root_has_not(length):
    x = zyx.Tensor(np.zeros((2, 2), float_type()))
    with zyx.Tape() as tape:
        total = length(x).sum()
    found = tape.gradient(total, x).numpy()
    if length is zyx.normalize:
        assert np.isfinite(found).all()
    else:
        assert (found == 0).all()
    with zyx.Tape() as tape:
        total = zyx.sqrt((x * x).sum())
    assert np.isnan(tape.gradient(total, x).numpy()).all()  # infinity times 0, as in PyTorch and JAX
