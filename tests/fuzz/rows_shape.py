"""Calls that move elements, each beside its meaning in NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from meanings import formulas, movement

from fuzz.drawing import Unfit
from fuzz.program import Call
from fuzz.rows import Family

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.drawing import Draw
    from zyx.shape import Shape
    from zyx.testing.values import Array


def _moved(text: str, meaning: Callable[..., Array], *operands: int) -> Call:
    return Call(text, meaning, operands, exact=True)


def _another_shape(d: Draw, shape: Shape) -> Shape:
    sizes = list(shape)
    for _ in range(d.choices.integer(1, 3)):
        at = d.choices.integer(0, max(len(sizes) - 1, 0))
        match d.choices.integer(0, 3):
            case 0:
                sizes = [math.prod(sizes)]
            case 1 if len(sizes) < 5:
                sizes.insert(at, 1)
            case 2 if at + 1 < len(sizes):
                sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            case 3 if sizes and sizes[at] and len(sizes) < 5:
                factors = [f for f in range(2, min(sizes[at], 100)) if sizes[at] % f == 0]
                if factors:
                    factor = d.choices.pick(factors)
                    sizes[at : at + 1] = [factor, sizes[at] // factor]
    return tuple(sizes)


def reshape(d: Draw) -> Call:
    """The same elements in another shape."""
    x = d.value()
    shape = _another_shape(d, d.shape(x))
    given = list(shape)
    if given and 0 not in given and d.choices.chance(30):
        given[d.choices.integer(0, len(given) - 1)] = -1
    text = d.choices.pick(("zyx.reshape({0}, %s)", "{0}.view(%s)")) % (tuple(given),)
    return _moved(text, lambda x: x.reshape(shape), x)


def flatten(d: Draw) -> Call:
    """Axes made one, or one made several."""
    x = d.value(least_rank=1)
    shape = d.shape(x)
    first = d.choices.integer(0, len(shape) - 1)
    last = d.choices.integer(first, len(shape) - 1)
    match d.choices.integer(0, 3):
        case 0:
            return _moved("zyx.ravel({0})", lambda x: x.reshape(-1), x)
        case 1:
            factor = next((f for f in (2, 3, 4, 5, 1) if shape[first] % f == 0), 1)
            new = (*shape[:first], factor, shape[first] // factor, *shape[first + 1 :])
            return _moved(
                f"{{0}}.unflatten({first}, ({factor}, {shape[first] // factor}))", lambda x: x.reshape(new), x
            )
        case _:
            flat = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
            return _moved(f"zyx.flatten({{0}}, {first}, {last})", lambda x: x.reshape(flat), x)


def part(d: Draw) -> Call:
    """One of several parts."""
    x = d.value(least_rank=1, not_empty=True)
    shape = d.shape(x)
    axis = d.choices.integer(0, len(shape) - 1)
    size = d.choices.integer(1, shape[axis])
    number = d.choices.integer(0, -(-shape[axis] // size) - 1)
    cut = (slice(None),) * axis
    match d.choices.integer(0, 3):
        case 0:
            at = slice(number * size, (number + 1) * size)
            return _moved(f"zyx.split({{0}}, {size}, {axis})[{number}]", lambda x: x[(*cut, at)], x)
        case 1:
            parts = -(-shape[axis] // (-(-shape[axis] // size)))
            step = -(-shape[axis] // size)
            at = slice((parts - 1) * step, parts * step)
            return _moved(f"zyx.chunk({{0}}, {size}, {axis})[{parts - 1}]", lambda x: x[(*cut, at)], x)
        case 2 if shape[axis] <= 40:
            return _moved(f"zyx.unstack({{0}}, {axis})[{number}]", lambda x: x[(*cut, number)], x)
        case _:
            start = d.place(0, shape[axis] - size)
            at = slice(start, start + size)
            return _moved(f"zyx.narrow({{0}}, {axis}, {start}, {size})", lambda x: x[(*cut, at)], x)


_MODES: Final = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(d: Draw) -> Call:
    """A border."""
    x = d.value(least_rank=1, not_empty=True)
    shape = d.shape(x)
    widths = [(d.choices.pick((0, 1, 2, 5)), d.choices.pick((0, 1, 3))) for _ in shape]
    mode = d.choices.pick(("constant", "constant", *_MODES))
    if mode == "constant":
        dtype = d.dtype(x)
        value = d.choices.pick((0, 1, 2)) if not dtype.is_bool else 0
        return _moved(f"zyx.pad({{0}}, {widths}, value={value})", lambda x: np.pad(x, widths, constant_values=value), x)
    widths = [(min(a, size - 1), min(b, size - 1)) for (a, b), size in zip(widths, shape, strict=True)]
    numpy_mode = _MODES[mode]
    return _moved(f"zyx.pad({{0}}, {widths}, '{mode}')", lambda x: np.pad(x, widths, numpy_mode), x)  # type: ignore[call-overload]


def window(d: Draw) -> Call:
    """Windows of the last axes."""
    x = d.value(least_rank=1, most_rank=3, not_empty=True)
    shape = d.shape(x)
    size, stride, dilation = d.choices.integer(1, 4), d.choices.integer(1, 3), d.choices.integer(1, 2)
    if d.choices.chance(40):
        axis = d.choices.integer(0, len(shape) - 1)
        if size > shape[axis]:
            raise Unfit

        def unfolded(x: Array) -> Array:
            return np.moveaxis(formulas.windows(np.moveaxis(x, axis, -1), [size], [stride], [1]), -2, axis)

        return _moved(f"zyx.unfold({{0}}, {axis}, {size}, {stride})", unfolded, x)
    if (size - 1) * dilation >= shape[-1]:
        raise Unfit
    return _moved(
        f"zyx.windows({{0}}, ({size},), {stride}, {dilation})",
        lambda x: formulas.windows(x, [size], [stride], [dilation]),
        x,
    )


def arange(d: Draw) -> Call:
    """Numbers that are computed from their places."""
    dtype = d.choices.pick([t for t in d.dtypes if not t.is_bool and t.bits > 8] or [None])
    if dtype is None:
        raise Unfit
    count = d.choices.pick((0, 1, 5, 16, 97, 130))
    start, step = d.choices.integer(0, 5), d.choices.integer(1, 3)
    rows = d.choices.integer(1, 5)
    k = d.choices.integer(-1, 2)
    number = np.dtype(np.float64) if dtype.is_float else dtype.numpy
    value: Array
    match d.choices.integer(0, 4):
        case 0:
            stop = start + step * count
            text, value = f"zyx.arange({start}, {stop}, {step}, dtype='{dtype}')", np.arange(start, stop, step)
        case 1:
            text, value = f"zyx.eye({rows}, {count}, {k}, dtype='{dtype}')", np.eye(rows, count, k)
        case 2:
            text, value = f"zyx.tri({rows}, {count}, {k}, dtype='{dtype}')", np.tri(rows, count, k)
        case 3:
            text, value = f"zyx.full(({rows}, {count}), {start}, dtype='{dtype}')", np.full((rows, count), start)
        case _:
            value = np.linspace(start, start + 8, 33)
            text = f"zyx.linspace({start}, {start + 8}, 33, dtype='float32')"
            number = np.dtype(np.float64)
    array = value.astype(number)
    return Call(text, lambda: array, (), exact=True, has_slope=False)


ROLL: Final = Family("roll", movement.ROLLS)
TRIANGLE: Final = Family("triangle", movement.TRIANGLES)

ROWS: Final = (
    (reshape, 4), (flatten, 2), (Family("dims", movement.DIMS), 2), (Family("permute", movement.ORDERS), 5),
    (Family("flip", movement.FLIPS), 2), (ROLL, 2),
    (Family("broadcast", movement.REPETITIONS), 3), (Family("join", movement.JOINED), 3),
    (Family("stacked", movement.STACKED), 1), (part, 3), (pad, 3),
    (TRIANGLE, 2), (Family("diag", movement.DIAGONAL_MATRICES), 1), (window, 2),
    (Family("grid", movement.GRIDS), 1), (Family("fill", movement.FILLED), 1), (Family("copy", movement.COPIES), 2),
    (arange, 1),
)  # fmt: skip
