"""Choose between values, bound them, compare them within a tolerance.

A choice is a choice: no arithmetic with masks, so what is not chosen never leaks, NaN and infinities included.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.functions import complex_numbers
from zyx.functions.formulas import is_finite
from zyx.functions.info import finfo
from zyx.functions.ingest import with_arrays
from zyx.functions.operands import (
    NUMBERS,
    align,
    by_float_formula_of,
    common_dtype,
    first_tensor,
    is_tensor,
    node_of,
    require,
    require_real,
    term_of,
    wrap,
)
from zyx.functions.reduction import all as all_of
from zyx.functions.term import Term, broadcast_shapes, expand_to

if TYPE_CHECKING:
    from zyx.dtype import Scalar
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = ["allclose", "array_equal", "clip", "isclose", "lerp", "masked_fill", "nan_to_num", "where"]


def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """Return `x` where `condition` holds (is not 0), else `y`; the three broadcast.

    The result has the shape that all three broadcast to.

    `x` and `y` are promoted; of two Python numbers the result has the default dtype of the wider family.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.where(zyx.Tensor([True, False]), zyx.Tensor([1, 2]), 0).tolist()
    [1, 0]
    """
    like = first_tensor((condition, x, y), "where")
    graph = like.runtime.graph
    if isinstance(x, NUMBERS) and isinstance(y, NUMBERS):
        dtype = dtypes.promote_all(dtypes.as_dtype(type(value)) for value in (x, y))
    else:
        dtype = common_dtype((x, y), "where")
    chooser = condition if is_tensor(condition) else wrap(node_of(condition, dtypes.bool_, like), like)
    nodes = [graph.cast(chooser.node, dtypes.bool_), node_of(x, dtype, like), node_of(y, dtype, like)]
    shape = broadcast_shapes(*[node.shape for node in nodes])
    return wrap(graph.where(*[expand_to(graph, node, shape) for node in nodes]), like)


def masked_fill(x: Tensor, mask: Tensor, value: Scalar | Tensor) -> Tensor:
    """Return `value`, as the dtype of `x`, where `mask` holds, else `x`; `mask` broadcasts with `x`.

    The result has the shape that all three broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.masked_fill(zyx.Tensor([1, 2]), zyx.Tensor([True, False]), 0).tolist()
    [0, 2]
    """
    base = require(x, "masked_fill")
    graph, dtype = base.runtime.graph, base.node.dtype
    chooser = graph.cast(require(mask, "masked_fill").node, dtypes.bool_)
    if is_tensor(value):
        fill = graph.cast(value.node, dtype)
    else:
        number: Scalar = value  # type: ignore[assignment]  # the other half of the union
        fill = graph.cast(graph.const(number, dtypes.promote_scalar(dtype, number), base.node.device), dtype)
    nodes = (chooser, fill, base.node)
    shape = shapes.broadcast(*(node.shape for node in nodes))
    return wrap(graph.where(*(expand_to(graph, node, shape) for node in nodes)), base)


def clip(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:  # the Array API's
    """Return `x` bounded by `min` below and `max` above, where given; NaN stays NaN, and bounds nothing.

    The result has the shape that `x` and the bounds broadcast to.

    The gradient goes to `x` between the bounds and at them, else to the bound.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.clip(zyx.Tensor([-2, 0, 5]), 0, 3).tolist()
    [0, 0, 3]
    """
    result = require(x, "clip")
    require_real(result.node.dtype, "clip")
    if min is not None:
        like, (value, bound) = align((result, min), "clip")
        result = wrap((value < bound).where(bound, value).node, like)
    if max is not None:
        like, (value, bound) = align((result, max), "clip")
        result = wrap((value > bound).where(bound, value).node, like)
    return result


def lerp(x: Operand, y: Operand, weight: Operand) -> Tensor:
    """Return ``x + weight * (y - x)``.

    The result has the shape that all three broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: One of them is complex.

    >>> zyx.lerp(zyx.Tensor([0.0, 10.0]), zyx.Tensor([4.0, 20.0]), 0.5).tolist()
    [2.0, 15.0]
    """
    return by_float_formula_of((x, y, weight), "lerp", lambda a, b, w: a + w * (b - a))


def nan_to_num(x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Return `x` with NaN replaced by `nan`, and infinities by `posinf`, `neginf` or the greatest finite numbers.

    The result has the shape of `x`.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.nan_to_num(zyx.Tensor([zyx.nan, 1.0, -zyx.inf]), neginf=-9.0).tolist()
    [0.0, 1.0, -9.0]
    """
    t = term_of(x, "nan_to_num")
    require_real(t.dtype, "nan_to_num")
    if not t.dtype.is_float:
        return wrap(t.node, x)
    limits = finfo(t.dtype)
    t = t.is_nan().where(nan, t)
    t = (t == math.inf).where(limits.max if posinf is None else posinf, t)
    return wrap((t == -math.inf).where(limits.min if neginf is None else neginf, t).node, x)


def isclose(x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> Tensor:
    """Tell where ``|x - y| <= atol + rtol * |y|``; equal infinities are close, NaN only if `equal_nan`.

    The result has the shape that both broadcast to.

    One of the two may be a list of numbers.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.isclose(zyx.Tensor([1.0, 2.0]), zyx.Tensor([1.0, 2.1])).tolist()
    [True, False]
    """
    like, (a, b) = align(with_arrays((x, y), "isclose"), "isclose", floating=True)
    wide = dtypes.accumulator(a.dtype)
    a, b = a.cast(wide), b.cast(wide)
    size = complex_numbers.magnitude if wide.is_complex else Term.abs
    close = (size(a - b) <= size(b) * rtol + atol) & is_finite(size(b))
    close = close | (a == b)
    if equal_nan:
        close = close | (a.is_nan() & b.is_nan())
    return wrap(close.node, like)


def allclose(x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> bool:
    """Tell whether all elements are close, see `isclose`; reads.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.allclose(zyx.Tensor([1.0, 2.0]), zyx.Tensor([1.0, 2.0 + 1e-6]))
    True
    """
    return bool(all_of(isclose(x, y, rtol, atol, equal_nan=equal_nan)))


def array_equal(x: Operand, y: Operand, *, equal_nan: bool = False) -> bool:
    """Tell whether shapes and all elements are equal; reads. One of the two may be a list of numbers.

    Raises:
        DTypeError: Neither is a tensor.

    >>> (zyx.array_equal(zyx.Tensor([1, 2]), [1, 2]), zyx.array_equal(zyx.Tensor([1, 2]), [1, 2, 3]))
    (True, False)
    """
    x, y = with_arrays((x, y), "array_equal")
    if getattr(x, "shape", ()) != getattr(y, "shape", ()):
        return False
    like, (a, b) = align((x, y), "array_equal")
    same = a == b
    if equal_nan and a.dtype.is_inexact:
        same = same | (a.is_nan() & b.is_nan())
    return bool(all_of(wrap(same.node, like)))
