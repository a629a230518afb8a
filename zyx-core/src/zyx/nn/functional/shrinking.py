"""Activations that cut off, shrink, gate or draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions import formulas
from zyx.functions.activations import softmax
from zyx.functions.choosing import where
from zyx.functions.joining import chunk
from zyx.functions.operands import by_float_formula, by_float_formula_of, require
from zyx.functions.selection import one_hot
from zyx.tensor.random import rand_like, uniform

if TYPE_CHECKING:
    from zyx.functions.term import Term
    from zyx.tensor.tensor import Tensor


def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``a * sigmoid(b)``, a and b being the halves of `x` along `axis`.

    Dauphin et al., "Language modeling with gated convolutional networks", 2016.

    Raises:
        ShapeError: An odd number of elements along `axis`.

    >>> zyx.nn.functional.glu(zyx.Tensor([2.0, 4.0, 0.0, 0.0])).tolist()
    [1.0, 2.0]
    """
    shape = require(x, "glu").node.shape
    place = shapes.normalize_axis(axis, len(shape))
    if shape[place] % 2:
        raise ShapeError(f"glu: axis {axis} of {shape} does not fall into two halves")
    return by_float_formula_of(chunk(x, 2, place), "glu", lambda a, b: a * formulas.sigmoid(b))


def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """Return `x` where its magnitude is above `lambd`, else 0.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.nn.functional.hardshrink(zyx.Tensor([-1.0, 0.25, 2.0])).tolist()
    [-1.0, 0.0, 2.0]
    """
    return by_float_formula(x, "hardshrink", lambda t: (t.abs() <= lambd).where(0.0, t))


def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """Return `x` moved towards 0 by `lambd`, and 0 where it would pass it.

    Elementwise: the result has the shape of `x`.

    Raises:
        ShapeError: `lambd` is negative.

    >>> zyx.nn.functional.softshrink(zyx.Tensor([-1.0, 0.25, 2.0])).tolist()
    [-0.5, 0.0, 1.5]
    """
    if not lambd >= 0.0:
        raise ShapeError(f"softshrink: lambd is at least 0, not {lambd}")

    def formula(t: Term) -> Term:
        return (t.abs() <= lambd).where(0.0, (t > 0.0).where(t - lambd, t + lambd))

    return by_float_formula(x, "softshrink", formula)


def tanhshrink(x: Tensor) -> Tensor:
    """Return ``x - tanh(x)``.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.nn.functional.tanhshrink(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.2384]
    """
    return by_float_formula(x, "tanhshrink", lambda t: t - t.tanh())


def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """Return `x` where it is above `threshold`, else `value`.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.nn.functional.threshold(zyx.Tensor([0.5, 2.0]), 1.0, -9.0).tolist()
    [-9.0, 2.0]
    """
    return by_float_formula(x, "threshold", lambda t: (t <= threshold).where(value, t))


def rrelu(x: Tensor, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = False) -> Tensor:
    """Return `x` where it is positive, else times a slope: in training one drawn for each element, else the middle one.

    Xu et al., "Empirical evaluation of rectified activations in convolutional network", 2015.

    Raises:
        ShapeError: `lower` is above `upper`.

    >>> zyx.nn.functional.rrelu(zyx.Tensor([-2.0, 2.0]), 0.25, 0.75).tolist()
    [-1.0, 2.0]
    """
    if lower > upper:
        raise ShapeError(f"rrelu: lower {lower} is above upper {upper}")
    if not training or lower == upper:
        middle = (lower + upper) / 2.0
        return by_float_formula(x, "rrelu", lambda t: (t < 0.0).where(t * middle, t))
    node = require(x, "rrelu").node
    slopes = uniform(node.shape, low=lower, high=upper, dtype=node.dtype, device=node.device)
    return by_float_formula_of((x, slopes), "rrelu", lambda t, slope: (t < 0.0).where(t * slope, t))


def gumbel_softmax(x: Tensor, tau: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """Return a sample of the distribution of which `x` are logits: the softmax of ``(x + noise) / tau``.

    Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2016.

    Args:
        x: Logits, of floats.
        tau: Above 0; the smaller, the nearer to one class.
        hard: Whether the result is 1 at the greatest and 0 elsewhere; the gradient is that of the soft one.
        axis: Of classes.

    Raises:
        ShapeError: `tau` is not above 0.
        DTypeError: `x` is not of floats.

    >>> zyx.nn.functional.gumbel_softmax(zyx.zeros(4), hard=True).sum().item()
    1.0
    """
    if not tau > 0.0:
        raise ShapeError(f"gumbel_softmax: tau is above 0, not {tau}")
    node = require(x, "gumbel_softmax").node
    if not node.dtype.is_float:
        raise DTypeError(f"gumbel_softmax takes floats, not {node.dtype}")
    wait = (-(1.0 - rand_like(x, dtype="float32")).log()).clip(min=2.0**-30)  # exponentially distributed, and not 0
    soft = softmax((x - wait.log().astype(node.dtype)) / tau, axis)
    if not hard:
        return soft
    chosen = one_hot(soft.argmax(axis), node.shape[shapes.normalize_axis(axis, node.ndim)], axis=axis, dtype=node.dtype)
    return where(chosen == 1, 1.0, 0.0).astype(node.dtype) - soft.detach() + soft
