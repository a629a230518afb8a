"""Random programs of one operand whose length varies.

shape, function = program(7)
function(zyx.Tensor(np.ones(shape(20), np.float32)))        at length 20
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

import zyx
import zyx.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.shape import Shape
    from zyx.testing.values import Array


def _axis(x: zyx.Tensor, draw: random.Random) -> int:
    return draw.randrange(x.ndim)


def _unary(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    return [(x.abs() + 1).log(), x.abs(), -x, x.tanh(), x * 0.5, x.sigmoid()][draw.randrange(6)]


def _with_itself(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    return [x + x, x * x.abs(), zyx.maximum(x, -x), zyx.where(x > 0, x, x * 0.1)][draw.randrange(4)]


def _combined(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    axis, keep = _axis(x, draw), draw.random() < 0.8
    kind = draw.choice(("sum", "max", "min", "mean", "var"))
    result: zyx.Tensor = getattr(x, kind)(axis, keepdims=keep)
    return x - result if keep and draw.random() < 0.6 else result


def _argmax(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    axis = _axis(x, draw)
    return x.argmax(axis, keepdims=True).astype(zyx.float32) + x * 0.5


def _product(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    if x.ndim < 2:
        return x.unsqueeze(0) * x.unsqueeze(1) * 0.1
    kind = draw.randrange(3)
    last = x.shape[-1]
    if kind == 0:
        return (x @ x.transpose(-1, -2)) * (1 / last)
    if kind == 1:
        return F.softmax(x @ x.transpose(-1, -2), -1) @ x
    return x.transpose(-1, -2)


def _moved(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    kind, axis = draw.randrange(7), _axis(x, draw)
    if kind == 0:
        return x.reshape(-1)
    if kind == 1:
        return x.reshape((*x.shape, 1)).expand((*x.shape, 3))
    if kind == 2 and x.ndim > 1:
        return x.transpose(0, -1)
    if kind == 3:
        return x[1:] if x.shape[0] > 2 else x
    if kind == 4:
        return x[:-1] if x.shape[0] > 2 else x
    if kind == 5:
        return x.flip(axis)
    return x.unsqueeze(axis)


def _cut(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    count = draw.randrange(1, 4)
    kind = draw.randrange(3)
    if kind == 0 or x.shape[0] <= count:
        return x[-count:]
    return x[x.shape[0] - count] + x if kind == 1 else x[count:-1] if x.shape[0] > count + 1 else x


def _sorted(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    axis = _axis(x, draw)
    return x.sort(axis) if draw.random() < 0.7 else zyx.take_along_axis(x, x.argsort(axis), axis)


def _joined(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    axis = _axis(x, draw)
    kind = draw.randrange(3)
    if kind == 0:
        return zyx.concat([x, x * 2], axis)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (draw.randrange(3), draw.randrange(3))
    return zyx.pad(x, widths, value=draw.choice((0.0, -1.5)))


def _running(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    return x.cumsum(_axis(x, draw)) * 0.1


def _positions(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    places = zyx.arange(x.shape[-1])
    return [x + places, zyx.where(places < 3, x, 0.25), zyx.where(places % 2 == 0, x, -x)][draw.randrange(3)]


def _windows(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    if x.shape[-1] < 4 or x.ndim > 2:
        return x
    rows = x.reshape((1, 1, -1)) if x.ndim == 1 else x.unsqueeze(0)
    kind = draw.randrange(3)
    if kind == 0:
        return F.avg_pool1d(rows, 3, stride=1)[0]
    if kind == 1:
        return F.max_pool1d(rows, 2, stride=2)[0]
    kernel = zyx.arange(3).astype(zyx.float32).reshape((1, 1, 3)).expand((1, rows.shape[1], 3)) * 0.3
    return F.conv1d(rows, kernel, padding=1)[0]


def _slope(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    axis = _axis(x, draw)
    slope: zyx.Tensor = zyx.grad(lambda y: (F.softmax(y, axis) * y).sum() + y.max())(x)
    return slope


def _picked(x: zyx.Tensor, draw: random.Random) -> zyx.Tensor:
    table = zyx.arange(10).astype(zyx.float32)
    return x + table[(x.abs() * 3).astype(zyx.int32) % 10]


_STEPS: tuple[Callable[[zyx.Tensor, random.Random], zyx.Tensor], ...] = (
    _unary, _unary, _with_itself, _combined, _combined, _argmax, _product, _moved, _moved, _joined, _running,
    _positions, _picked, _windows, _windows, _slope, _cut, _sorted,
)  # fmt: skip
_SHAPES: tuple[Callable[[int], Shape], ...] = (lambda n: (n,), lambda n: (n, 4), lambda n: (3, n), lambda n: (2, n, 3))


def operand(shape: Shape, seed: int) -> Array:
    """Return random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def program(seed: int) -> tuple[Callable[[int], Shape], Callable[[zyx.Tensor], zyx.Tensor]]:
    """Return the shape of the operand by length, and a function of it."""
    draw = random.Random(seed)
    shape = draw.choice(_SHAPES)
    count = draw.randrange(1, 6)
    steps = [(draw.choice(_STEPS), draw.random()) for _ in range(count)]

    def function(x: zyx.Tensor) -> zyx.Tensor:
        for step, seed_of_it in steps:
            x = step(x, random.Random(seed_of_it)) if x.ndim else x * 2
        return x

    return shape, function
