"""Activation functions of neural networks, and the softmax family.

All take integers and bools as float32, compute float16 and bfloat16 in float32 with one rounding at the end, pass NaN
on, and do not overflow on the way. Where a function has a corner, its gradient there is the one of the flat side.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions import formulas, habitual, take_habits
from zyx.functions.operands import by_float_formula, by_float_formula_of, float_dtype, require, term_of, wide_term, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = [
    "celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_softmax", "logsigmoid",
    "mish", "prelu", "quick_gelu", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softsign",
]  # fmt: skip

SELU_SCALE = 1.0507009873554805  # Klambauer et al., "Self-normalizing neural networks", 2017
SELU_ALPHA = 1.6732632423543772


def _bounded(t: Term, low: float, high: float) -> Term:
    """Return `t` between two numbers, with gradient 0 at both."""
    return (t <= low).where(low, (t >= high).where(high, t))


def relu(x: Tensor) -> Tensor:
    """Return `x` where it is positive, else 0.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.relu(zyx.Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return wrap(term_of(x, "relu").maximum(0).node, x)


def relu6(x: Tensor) -> Tensor:
    """Return `x` bounded by 0 and 6.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.relu6(zyx.Tensor([-1.0, 8.0])).tolist()
    [0.0, 6.0]
    """
    return wrap(_bounded(term_of(x, "relu6"), 0, 6).node, x)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Return `x` where it is positive, else ``negative_slope * x``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.leaky_relu(zyx.Tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    return by_float_formula(x, "leaky_relu", lambda t: (t > 0).where(t, t * negative_slope))


def prelu(x: Operand, weight: Operand) -> Tensor:
    """Return `x` where it is positive, else ``weight * x``; `weight` broadcasts with `x`.

    The result has the shape that both broadcast to.

    Raises:
        DTypeError: `x` or `weight` is complex.

    >>> zyx.prelu(zyx.Tensor([-4.0, 2.0]), zyx.Tensor(0.25)).tolist()
    [-1.0, 2.0]
    """

    def formula(t: Term, w: Term) -> Term:
        positive = t > 0
        return positive.where(t, positive.where(0.0, t) * w)

    return by_float_formula_of((x, weight), "prelu", formula)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else ``alpha * (exp(x) - 1)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.elu(zyx.Tensor([2.0])).tolist()
    [2.0]
    """
    return by_float_formula(x, "elu", lambda t: _elu(t, alpha, 1.0))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else ``alpha * (exp(x / alpha) - 1)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.celu(zyx.Tensor([-1.0, 3.0]), alpha=2.0).tolist()]
    [-0.7869, 3.0]
    """
    return by_float_formula(x, "celu", lambda t: _elu(t, alpha, 1.0 / alpha))


def selu(x: Tensor) -> Tensor:
    """Return the scaled `elu` that keeps mean 0 and variance 1.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.selu(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 1.0507]
    """
    return by_float_formula(x, "selu", lambda t: _elu(t, SELU_ALPHA, 1.0) * SELU_SCALE)


def _elu(t: Term, alpha: float, rate: float) -> Term:
    positive = t > 0
    return positive.where(t, (positive.where(0.0, t) * rate).expm1() * alpha)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Return `x` times the standard normal distribution function of it.

    Args:
        x: Any shape.
        approximate: "none" computes it with erf, "tanh" with the formula of Hendrycks and Gimpel, 2016.

    Raises:
        DTypeError: Another value of `approximate`.

    >>> f"{zyx.gelu(zyx.Tensor(1.0)).item():.4f}"
    '0.8413'
    """
    if approximate == "none":
        return by_float_formula(x, "gelu", lambda t: 0.5 * t * ((t * math.sqrt(0.5)).erf() + 1.0))
    if approximate != "tanh":
        raise DTypeError(f'approximate is "none" or "tanh", not {approximate!r}')
    slope = math.sqrt(2 / math.pi)
    return by_float_formula(x, "gelu", lambda t: 0.5 * t * ((slope * (t + 0.044715 * t * t * t)).tanh() + 1.0))


def quick_gelu(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(1.702 * x)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.quick_gelu(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.8458]
    """
    return by_float_formula(x, "quick_gelu", lambda t: t * formulas.sigmoid(t * 1.702))


def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.sigmoid(zyx.Tensor([0.0])).tolist()
    [0.5]
    """
    return by_float_formula(x, "sigmoid", formulas.sigmoid)


def hardsigmoid(x: Tensor) -> Tensor:
    """Return ``x / 6 + 1 / 2`` bounded by 0 and 1.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.hardsigmoid(zyx.Tensor([-3.0, 0.0, 3.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return by_float_formula(x, "hardsigmoid", lambda t: _bounded(t + 3.0, 0.0, 6.0) * (1 / 6))


def silu(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> f"{zyx.silu(zyx.Tensor(1.0)).item():.4f}"
    '0.7311'
    """
    return by_float_formula(x, "silu", lambda t: t * formulas.sigmoid(t))


def hardswish(x: Tensor) -> Tensor:
    """Return ``x * hardsigmoid(x)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.hardswish(zyx.Tensor([-1.5, 3.0])).tolist()
    [-0.375, 3.0]
    """
    return by_float_formula(x, "hardswish", lambda t: t * (_bounded(t + 3.0, 0.0, 6.0) * (1 / 6)))


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return `x` bounded by two numbers.

    Elementwise: the result has the shape of `x`.

    Raises:
        ShapeError: The lower bound is above the upper one.

    >>> zyx.hardtanh(zyx.Tensor([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    if min_val > max_val:
        raise ShapeError(f"hardtanh: the lower bound {min_val} is above the upper bound {max_val}")
    return by_float_formula(x, "hardtanh", lambda t: _bounded(t, min_val, max_val))


def mish(x: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.mish(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.8651]
    """
    return by_float_formula(x, "mish", lambda t: t * formulas.softplus(t).tanh())


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return ``log(1 + exp(beta * x)) / beta``, and `x` itself where ``beta * x`` exceeds `threshold`.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.softplus(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.6931, 1.3133]
    """

    def formula(t: Term) -> Term:
        scaled = t if beta == 1.0 else t * beta
        smooth = formulas.softplus(scaled)
        return (scaled > threshold).where(t, smooth if beta == 1.0 else smooth * (1.0 / beta))

    return by_float_formula(x, "softplus", formula)


def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.softsign(zyx.Tensor([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    return by_float_formula(x, "softsign", lambda t: t / (t.abs() + 1.0))


def logsigmoid(x: Tensor) -> Tensor:
    """Return ``log(sigmoid(x))`` without taking a logarithm of 0.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.logsigmoid(zyx.Tensor([0.0, 2.0])).tolist()]
    [-0.6931, -0.1269]
    """
    return by_float_formula(x, "logsigmoid", lambda t: -formulas.softplus(-t))


def softmax(x: Tensor, axis: int | Sequence[int] | None = -1, **habits: object) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along `axis` (one, several, or None for all).

    A slice of nothing but minus infinities gives NaN.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.softmax(zyx.Tensor([[0.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    """
    if habits:
        return habitual(softmax, (x, axis), {}, habits)
    return _along(x, axis, "softmax", formulas.softmax)


def log_softmax(x: Tensor, axis: int | Sequence[int] | None = -1, **habits: object) -> Tensor:
    """Return ``log(softmax(x))`` along `axis`, without taking a logarithm of 0.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> f"{zyx.log_softmax(zyx.Tensor([0.0, 0.0]))[0].item():.4f}"
    '-0.6931'
    """
    if habits:
        return habitual(log_softmax, (x, axis), {}, habits)
    return _along(x, axis, "log_softmax", formulas.log_softmax)


def softmin(x: Tensor, axis: int | Sequence[int] | None = -1) -> Tensor:
    """Return ``softmax(-x)`` along `axis`.

    The result has the shape of `x`, and sums to 1 along the axis.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.softmin(zyx.Tensor([1.0, 1.0, 50.0])).tolist()]
    [0.5, 0.5, 0.0]
    """
    return _along(x, axis, "softmin", lambda t, axes: formulas.softmax(-t, axes))


def _along(
    x: Tensor, axis: int | Sequence[int] | None, what: str, formula: Callable[[Term, Sequence[int]], Term]
) -> Tensor:
    tensor = require(x, what)
    axes = shapes.normalize_axes(axis, tensor.node.ndim)
    term = wide_term(x, what)
    dtype = float_dtype(term.dtype)
    return wrap(formula(term.cast(dtypes.accumulator(dtype)), axes).cast(dtype).node, tensor)


take_habits(globals())
