"""Products of matrices, convolutions, pooling, each beside its meaning in NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from meanings import formulas

from fuzz.drawing import Unfit
from fuzz.program import Call

if TYPE_CHECKING:
    from fuzz.drawing import Draw
    from zyx.testing.values import Array

_COLUMNS: Final = (1, 2, 3, 4, 7, 8, 16, 17, 33, 64)


def matmul(d: Draw) -> Call:
    """Products of matrices and vectors, of integers too."""
    x = d.number(least_rank=1, most_rank=3)
    shape = d.shape(x)
    depth, columns = shape[-1], d.choices.pick(_COLUMNS)
    other = d.choices.pick(((depth,), (depth, columns), (depth, columns)))
    if len(shape) == 3 and d.choices.chance(50):
        other = (shape[0], depth, columns)
    if math.prod(shape) * columns > 20 * d.most_elements:
        raise Unfit
    twins = [n for n in range(d.count) if d.dtype(n) is d.dtype(x) and d.shape(n)[-2:] == other[-2:]]
    twins = [n for n in twins if len(d.shape(n)) == len(other) and d.shape(n) == other]
    y = d.choices.pick(twins) if twins and d.choices.chance(60) else d.leaf(other, d.dtype(x))
    if len(other) == 2 and d.choices.chance(25):
        y = d.leaf(other[::-1], d.dtype(x))
        return Call("{0} @ {1}.T", lambda x, y: x @ y.T, (x, y), exact=d.dtype(x).is_integer)
    text = d.choices.pick(("zyx.matmul({0}, {1})", "{0} @ {1}", "{0}.dot({1})" if len(shape) < 3 else "{0} @ {1}"))
    return Call(text, lambda x, y: x @ y, (x, y), exact=d.dtype(x).is_integer)


def einsum(d: Draw) -> Call:
    """Sums of products by letters."""
    x = d.floating(least_rank=2, most_rank=2)
    rows, depth = d.shape(x)
    columns = d.choices.pick((1, 3, 5, 8))
    text, shape = d.choices.pick(
        (
            ("ij,jk->ik", (depth, columns)), ("ij,kj->ki", (columns, depth)), ("ij,ij->", (rows, depth)),
            ("ij,ik->jk", (rows, columns)), ("ij,j->i", (depth,)), ("ij,ij->j", (rows, depth)), ("ij,k->ijk", (3,)),
        )
    )  # fmt: skip
    y = d.leaf(shape, d.dtype(x))
    return Call(f"zyx.einsum('{text}', {{0}}, {{1}})", lambda x, y: np.einsum(text, x, y), (x, y))


def tensordot(d: Draw) -> Call:
    """Sums of products along axes."""
    x = d.floating(least_rank=2, most_rank=3)
    shape = d.shape(x)
    kept = d.choices.integer(1, 2)
    y = d.leaf((*shape[-kept:], d.choices.pick((1, 3, 5))), d.dtype(x))
    if math.prod(shape) * d.shape(y)[-1] > 10 * d.most_elements:
        raise Unfit
    return Call(f"zyx.tensordot({{0}}, {{1}}, axes={kept})", lambda x, y: np.tensordot(x, y, kept), (x, y))


def vectors(d: Draw) -> Call:
    """Products of vectors."""
    x = d.floating(least_rank=1, most_rank=2)
    shape = d.shape(x)
    match d.choices.integer(0, 3):
        case 0 if len(shape) == 1:
            y = d.leaf((d.choices.pick((1, 4, 9)),), d.dtype(x))
            return Call("zyx.outer({0}, {1})", np.outer, (x, y))
        case 1 if len(shape) == 2:
            k = d.choices.integer(-1, 1)
            return Call(f"zyx.trace({{0}}, {k})", lambda x: np.trace(x, k), (x,))
        case 2:
            y = d.leaf((*shape[:-1], 3), d.dtype(x))
            z = d.leaf((3,), d.dtype(x))
            return Call("zyx.cross({0}, {1})", np.cross, (y, z))
        case _:
            y = d.like(x, thin=False)
            return Call("zyx.vecdot({0}, {1})", lambda x, y: (x * y).sum(axis=-1), (x, y))


def power(d: Draw) -> Call:
    """A square matrix multiplied with itself."""
    size, n = d.choices.pick((1, 2, 5, 8)), d.choices.integer(1, 3)
    dtype = d.choices.pick([t for t in d.dtypes if t.is_float] or [None])
    if dtype is None:
        raise Unfit
    x = d.leaf((size, size), dtype)
    return Call(f"zyx.matrix_power({{0}}, {n})", lambda x: np.linalg.matrix_power(x, n), (x,))


def linear(d: Draw) -> Call:
    """A layer with a bias and an activation."""
    x = d.floating(least_rank=1, most_rank=3)
    depth, n = d.shape(x)[-1], d.choices.pick(_COLUMNS)
    if math.prod(d.shape(x)) * n > 20 * d.most_elements:
        raise Unfit
    w, b = d.leaf((n, depth), d.dtype(x)), d.leaf((n,), d.dtype(x))
    if d.choices.chance(50):
        return Call("zyx.relu(F.linear({0}, {1}, {2}))", lambda x, w, b: np.maximum(x @ w.T + b, 0), (x, w, b))
    return Call("F.linear({0}, {1}, {2})", lambda x, w, b: x @ w.T + b, (x, w, b))


def _images(d: Draw, axes: int) -> int:
    """Return ``(N, C, ...)`` images."""
    found = [n for n in range(d.count) if d.dtype(n).is_float and len(d.shape(n)) == axes + 2 and d.known(n).value.size]
    if found and d.choices.chance(60):
        return d.choices.pick(found)
    dtype = d.choices.pick([t for t in d.dtypes if t.is_float] or [None])
    if dtype is None:
        raise Unfit
    sizes = {1: (1, 5, 16, 33, 100), 2: (1, 4, 7, 9, 16), 3: (1, 3, 4, 5)}[axes]
    shape = (d.choices.integer(1, 3), d.choices.pick((1, 2, 4, 6)), *(d.choices.pick(sizes) for _ in range(axes)))
    return d.leaf(shape, dtype)


def conv(d: Draw) -> Call:
    """Convolutions of one to three axes."""
    axes = d.choices.pick((1, 2, 2, 3))
    x = _images(d, axes)
    shape = d.shape(x)
    groups = d.choices.pick([g for g in (1, 1, 2, shape[1]) if shape[1] % g == 0])
    out = groups * d.choices.integer(1, 4)
    stride = [d.choices.integer(1, 2) for _ in range(axes)]
    padding = [d.choices.integer(0, 2) for _ in range(axes)]
    dilation = [d.choices.pick((1, 1, 2)) for _ in range(axes)]
    kernel = [d.choices.integer(1, 3) for _ in range(axes)]
    room = zip(shape[2:], padding, dilation, kernel, strict=True)
    if any(size + 2 * p < w * (k - 1) + 1 for size, p, w, k in room) or math.prod(shape) * out > 20000:
        raise Unfit
    weight = d.leaf((out, shape[1] // groups, *kernel), d.dtype(x))
    text = f"zyx.conv{axes}d({{0}}, {{1}}, None, {stride}, {padding}, {dilation}, {groups})"
    return Call(text, lambda x, w: formulas.conv(x, w, stride, padding, dilation, groups), (x, weight))


def conv_transpose(d: Draw) -> Call:
    """Their gradients at the input."""
    axes = d.choices.pick((1, 2))
    x = _images(d, axes)
    shape = d.shape(x)
    groups = d.choices.pick([g for g in (1, 1, 2) if shape[1] % g == 0])
    out = d.choices.integer(1, 3)
    stride = [d.choices.integer(1, 3) for _ in range(axes)]
    dilation = [d.choices.pick((1, 1, 2)) for _ in range(axes)]
    kernel = [d.choices.integer(1, 3) for _ in range(axes)]
    padding = [d.choices.integer(0, 1) for _ in range(axes)]
    sizes = zip(shape[2:], stride, padding, dilation, kernel, strict=True)
    if any((n - 1) * s - 2 * p + w * (k - 1) + 1 < 1 for n, s, p, w, k in sizes) or math.prod(shape) * out > 20000:
        raise Unfit
    weight = d.leaf((shape[1], out, *kernel), d.dtype(x))
    text = (
        f"zyx.conv_transpose{axes}d({{0}}, {{1}}, stride={stride}, padding={padding}, groups={groups}, "
        f"dilation={dilation})"
    )
    return Call(text, lambda x, w: formulas.conv_transpose(x, w, stride, padding, dilation, groups), (x, weight))


def pool(d: Draw) -> Call:
    """The greatest, or the mean, of windows."""
    axes = d.choices.pick((1, 2, 2, 3))
    x = _images(d, axes)
    kernel = [d.choices.integer(1, 3) for _ in range(axes)]
    stride = [d.choices.integer(1, 3) for _ in range(axes)]
    padding = [d.choices.integer(0, k // 2) for k in kernel]
    if any(n + 2 * p < k for n, p, k in zip(d.shape(x)[2:], padding, kernel, strict=True)):
        raise Unfit
    how = d.choices.pick(("max", "mean"))
    name = "max_pool" if how == "max" else "avg_pool"
    return Call(
        f"zyx.{name}{axes}d({{0}}, {kernel}, {stride}, {padding})",
        lambda x: formulas.pool(x, kernel, stride, padding, how), (x,), exact=how == "max",
    )  # fmt: skip


def pairwise(d: Draw) -> Call:
    """Squared distances of all pairs, and the nearest: k-means and n-body."""
    x = d.floating(least_rank=2, most_rank=2, not_empty=True)
    n, width = d.shape(x)
    m = d.choices.pick((1, 2, 3, 13, 64, n))
    if n * m * width > 20 * d.most_elements:
        raise Unfit
    y = x if m == n else d.leaf((m, width), d.dtype(x))

    def squared(x: Array, y: Array) -> Array:
        return np.asarray(((x[:, None] - y[None]) ** 2).sum(axis=2))

    text = "zyx.sum(({0}[:, None] - {1}[None]) ** 2, axis=2)"
    match d.choices.integer(0, 2):
        case 0:
            return Call(f"zyx.min({text}, axis=1)", lambda x, y: squared(x, y).min(axis=1), (x, y))
        case 1:
            return Call(
                f"zyx.sum(({{1}}[None] - {{0}}[:, None]) * (({text} + 0.5) ** -1.5)[:, :, None], axis=1)",
                lambda x, y: ((y[None] - x[:, None]) * ((squared(x, y) + 0.5) ** -1.5)[:, :, None]).sum(axis=1),
                (x, y),
            )
        case _:
            return Call(text, squared, (x, y))


def stencil(d: Draw) -> Call:
    """Some steps of a stencil, by rolls."""
    x = d.floating(least_rank=1, most_rank=2, not_empty=True)
    axis, steps = d.axis(x), d.choices.integer(1, 3)

    def stepped(x: Array) -> Array:
        for _ in range(steps):
            x = (np.roll(x, 1, axis) + np.roll(x, -1, axis)) * 0.5
        return x

    text = "{0}"
    for _ in range(steps):
        text = f"(lambda x: (zyx.roll(x, 1, {axis}) + zyx.roll(x, -1, {axis})) * 0.5)({text})"
    return Call(text, stepped, (x,))


ROWS: Final = (
    (matmul, 7), (einsum, 2), (tensordot, 1), (vectors, 1), (power, 1), (linear, 3), (conv, 3), (conv_transpose, 1),
    (pool, 2), (pairwise, 2), (stencil, 1),
)  # fmt: skip
