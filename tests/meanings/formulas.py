"""Formulas in NumPy for what NumPy has no function of; floats are of float64 or wider."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.testing.values import Array


def of_elements(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function of the C library, element by element."""
    each = np.vectorize(function, otypes=[np.float64])
    return lambda x: each(x) if x.size else x.astype(np.float64)


#: The error function and what it leaves of 1, and the logarithm of the gamma function.
erf: Final = of_elements(math.erf)
erfc: Final = of_elements(math.erfc)
lgamma: Final = of_elements(math.lgamma)


def erfinv(y: Array) -> Array:
    """Return what `erf` gives `y` of, which lies within -0.9 and 0.9; by Newton's method."""
    x = y * (math.sqrt(math.pi) / 2)
    for _ in range(30):
        x = x - (erf(x) - y) * (math.sqrt(math.pi) / 2) * np.exp(np.minimum(x * x, 50.0))
    return np.asarray(x)


def sigmoid(x: Array) -> Array:
    """Return the logistic function."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return ``log(1 + exp(beta * x)) / beta``; `x` itself where the exponent is above a threshold."""
    return np.asarray(np.where(beta * x > threshold, x, np.logaddexp(beta * x, 0.0) / beta))


def safe_integers(x: Array, target: DType) -> bool:
    """Whether all floats lie within an integer type."""
    return bool(np.all((x > float(target.min) - 1) & (x < float(target.max)))) if x.size else True


def softmax(x: Array, axis: int | tuple[int, ...] | None = -1) -> Array:
    """Return exponentials that add up to 1."""
    if not x.size:
        return x
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True))


def logsumexp(x: Array, axis: int | tuple[int, ...] | None, *, keepdims: bool = False) -> Array:
    """Return the logarithm of the sum of exponentials."""
    most = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - most).sum(axis=axis, keepdims=True)) + most
    return np.asarray(total if keepdims else np.squeeze(total, axis=axis))


def windows(x: Array, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """Return the windows over the last axes, their elements on axes of their own."""
    count = len(size)
    spans = [d * (s - 1) + 1 for s, d in zip(size, dilation, strict=True)]
    axes = tuple(range(x.ndim - count, x.ndim))
    if any(n < span for n, span in zip(x.shape[x.ndim - count :], spans, strict=True)):
        rest = [max(0, n - span + 1) for n, span in zip(x.shape[x.ndim - count :], spans, strict=True)]
        rest = [-(-n // s) for n, s in zip(rest, stride, strict=True)]
        return np.zeros((*x.shape[: x.ndim - count], *rest, *size), x.dtype)
    view = sliding_window_view(x, spans, axis=axes)
    lead = (slice(None),) * (x.ndim - count)
    return np.asarray(view[(*lead, *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))])


def conv(
    x: Array,
    weight: Array,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int | tuple[int, int]] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return the cross-correlation of ``(N, C_in, ...)`` with filters ``(C_out, C_in / groups, ...)``.

    Options are numbers for all axes, or for each; padding is as wide on both sides of an axis, or of two widths.
    """
    axes = x.ndim - 2
    stride, dilation = ((n,) * axes if isinstance(n, int) else n for n in (stride, dilation))
    padding = (padding,) * axes if isinstance(padding, int) else padding
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) if isinstance(p, int) else p for p in padding)])
    n, channels = x.shape[:2]
    view = windows(padded, weight.shape[2:], stride, dilation)
    out = view.shape[2 : 2 + axes]
    flat = view.reshape(n, groups, channels // groups, math.prod(out), math.prod(weight.shape[2:]))
    filters = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    result = np.einsum("ngcok,gfck->ngfo", flat, filters, optimize=True)
    return np.asarray(result.reshape(n, weight.shape[0], *out))


def conv_transpose(
    x: Array,
    weight: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    extra: Sequence[int] | None = None,
) -> Array:
    """Return the elements of ``(N, C_in, ...)`` spread by filters ``(C_in, C_out / groups, ...)``.

    The end of each axis has `extra` positions more.
    """
    behind = [0] * len(stride) if extra is None else extra
    n, channels = x.shape[:2]
    sizes = x.shape[2:]
    kernel = weight.shape[2:]
    out = weight.shape[1]
    full = [
        (s - 1) * st + d * (k - 1) + 1 + more
        for s, st, d, k, more in zip(sizes, stride, dilation, kernel, behind, strict=True)
    ]
    result = np.zeros((n, groups * out, *full))
    parts = x.reshape(n, groups, channels // groups, *sizes)
    filters = weight.reshape(groups, channels // groups, out, *kernel)
    for place in np.ndindex(*kernel):
        term = np.einsum("ngc...,gcf->ngf...", parts, filters[(slice(None),) * 3 + place])
        where = tuple(
            slice(p * d, p * d + (s - 1) * st + 1, st)
            for p, d, s, st in zip(place, dilation, sizes, stride, strict=True)
        )
        result[(slice(None), slice(None), *where)] += term.reshape(n, groups * out, *sizes)
    cut = tuple(slice(p, size - p) for p, size in zip(padding, full, strict=True))
    return result[(slice(None), slice(None), *cut)]


def pool_windows(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    fill: float,
    *,
    ceil_mode: bool = False,
) -> Array:
    """Return the windows of pooling over the last axes, with their elements on one axis behind; `fill` surrounds.

    With `ceil_mode` the last window of an axis may reach over its end, if it begins before that.
    """
    count = len(kernel)
    widths = [(0, 0)] * (x.ndim - count)
    for n, k, s, p, d in zip(x.shape[x.ndim - count :], kernel, stride, padding, dilation, strict=True):
        reach = d * (k - 1) + 1
        places = -((reach - n - 2 * p) // s) + 1
        if (places - 1) * s >= n + p:
            places -= 1
        widths.append((p, p + max((places - 1) * s + reach - n - 2 * p, 0) * ceil_mode))
    view = windows(np.pad(x, widths, constant_values=fill), kernel, stride, dilation)
    return view.reshape(*view.shape[: x.ndim], math.prod(kernel))


def pool(x: Array, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], how: str) -> Array:
    """Return the "max" or "mean" of windows over the last axes; padding is minus infinity or 0."""
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min if x.dtype.kind in "iu" else False
    view = pool_windows(x, kernel, stride, padding, [1] * len(kernel), least if how == "max" else 0)
    return np.asarray(view.max(axis=-1) if how == "max" else view.mean(axis=-1))


def standardise(x: Array, axes: int | tuple[int, ...], eps: float) -> Array:
    """Return `x` less its mean, over its standard deviation."""
    centre = x.mean(axis=axes, keepdims=True)
    return np.asarray((x - centre) / np.sqrt(x.var(axis=axes, keepdims=True) + eps))


def lost_by_centring(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """Return how large what `standardise` takes away is in units of its result: of equal elements all is lost."""
    largest = np.abs(x).max(axis=axes, keepdims=True)
    return np.asarray(np.broadcast_to(largest / np.sqrt(x.var(axis=axes, keepdims=True) + eps), x.shape))


def scattered(x: Array, axis: int, index: Array, source: Array, how: str | None) -> Array:
    """Return `x` with ``source[i]`` combined into ``[i with i[axis] := index[i]]``."""
    result = x.copy()
    places: list[Array] = list(np.indices(index.shape))
    places[axis] = np.where(index < 0, index + x.shape[axis], index).astype(np.int64)
    part = source[tuple(slice(0, n) for n in index.shape)]
    where = tuple(places)
    match how:
        case None:
            result[where] = part
        case "sum":
            np.add.at(result, where, part)
        case "prod":
            np.multiply.at(result, where, part)
        case "amax":
            np.maximum.at(result, where, part)
        case _:
            np.minimum.at(result, where, part)
    return result


def attention(query: Array, key: Array, value: Array, *, is_causal: bool) -> Array:
    """Return ``softmax(query @ key.T / sqrt(width)) @ value``."""
    scores = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    if is_causal:
        late = np.arange(key.shape[-2]) > np.arange(query.shape[-2])[:, None] + key.shape[-2] - query.shape[-2]
        scores = np.where(late, -np.inf, scores)
    return np.asarray(softmax(scores, -1) @ value)
