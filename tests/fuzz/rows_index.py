"""Reading and writing at places, each beside its meaning in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from meanings import formulas

from fuzz.drawing import Unfit
from fuzz.program import Call
from zyx import dtype as dtypes

if TYPE_CHECKING:
    from fuzz.drawing import Draw
    from zyx.testing.values import Array


def _key(d: Draw, x: int) -> tuple[str, Any]:
    """Return a key of slices and numbers, as text and as it is."""
    texts: list[str] = []
    parts: list[Any] = []
    shape = d.shape(x)
    for size in shape:
        match d.choices.integer(0, 5):
            case 0 if size:
                at = d.place(-size, size - 1)
                texts.append(str(at))
                parts.append(at)
            case 1 | 2:
                start, stop = d.place(-size - 3, size + 3), d.place(-size - 3, size + 3)
                step = d.choices.pick((1, 2, 3, -1, -2))
                texts.append(f"{start}:{stop}:{step}")
                parts.append(slice(start, stop, step))
            case 3:
                texts.append("::-1")
                parts.append(slice(None, None, -1))
            case 4:
                texts += ["None", ":"]
                parts += [None, slice(None)]
            case _:
                texts.append(":")
                parts.append(slice(None))
    if d.choices.chance(20):
        texts.append("...")
        parts.append(...)
    return ", ".join(texts) or "...", tuple(parts) or (...,)


def getitem(d: Draw) -> Call:
    """Slices, numbers, new axes."""
    x = d.value(most_rank=3)
    text, key = _key(d, x)
    return Call(f"{{0}}[{text}]", lambda x: x[key], (x,), exact=True)


def getitem_by_tensor(d: Draw) -> Call:
    """An array of places among slices."""
    x = d.value(least_rank=1, most_rank=3, not_empty=True)
    shape = d.shape(x)
    axis = d.choices.integer(0, len(shape) - 1)
    index = d.index(d.random_shape(1, 2), shape[axis])
    lead = ":, " * axis
    cut = (slice(None),) * axis
    return Call(f"{{0}}[{lead}{{1}}]", lambda x, i: x[(*cut, i)], (x, index), exact=True, jumps=True)


def getitem_by_mask(d: Draw) -> Call:
    """Rows where a bool on the host says so."""
    x = d.value(least_rank=1, most_rank=3, not_empty=True)
    size = d.shape(x)[0]
    if size > 16:
        raise Unfit
    mask = [d.choices.chance(50) for _ in range(size)]
    return Call(f"{{0}}[{mask}]", lambda x: x[np.array(mask)], (x,), exact=True)


def take(d: Draw) -> Call:
    """Slices at places along an axis."""
    x = d.value(least_rank=1, not_empty=True)
    shape = d.shape(x)
    axis = d.choices.integer(0, len(shape) - 1)
    index = d.index(d.random_shape(1, 2), shape[axis])
    if len(d.shape(index)) == 1 and d.choices.chance(40):
        return Call(
            f"zyx.index_select({{0}}, {axis}, {{1}})", lambda x, i: np.take(x, i.astype(np.int64), axis), (x, index),
            exact=True, jumps=True,
        )  # fmt: skip
    return Call(
        f"zyx.take({{0}}, {{1}}, {axis})", lambda x, i: np.take(x, i.astype(np.int64), axis), (x, index),
        exact=True, jumps=True,
    )  # fmt: skip


def along(d: Draw) -> Call:
    """One element for each place."""
    x = d.value(least_rank=1, not_empty=True)
    shape = list(d.shape(x))
    axis = d.choices.integer(0, len(shape) - 1)
    size = shape[axis]
    shape[axis] = d.choices.pick((1, 3, 8, size))
    index = d.index(tuple(shape), size)
    text = d.choices.pick(("zyx.take_along_axis({0}, {1}, %d)" % axis, "zyx.gather({0}, %d, {1})" % axis))  # noqa: UP031
    return Call(text, lambda x, i: np.take_along_axis(x, i.astype(np.int64), axis), (x, index), exact=True, jumps=True)


def scatter(d: Draw) -> Call:
    """Values combined into others at places."""
    x = d.number(least_rank=1, not_empty=True)
    shape = list(d.shape(x))
    axis = d.choices.integer(0, len(shape) - 1)
    how = d.choices.pick((None, "sum", "amax", "amin", "sum"))
    size = shape[axis]
    shape[axis] = d.choices.integer(1, size)
    index = d.index(tuple(shape), size, negative=False, unique_along=axis if how is None else None)
    source = d.leaf(tuple(shape), d.dtype(x))
    is_exact = how != "sum" or d.dtype(x).is_integer
    text = f"zyx.scatter({{0}}, {axis}, {{1}}, {{2}}{'' if how is None else f', {how!r}'})"
    if how is not None and d.choices.chance(40):
        text = f"zyx.scatter_reduce({{0}}, {axis}, {{1}}, {{2}}, '{how}')"
    elif how is None and d.choices.chance(40):
        text = f"zyx.put_along_axis({{0}}, {{1}}, {{2}}, {axis})"
    if how == "sum" and d.choices.chance(40):
        text = f"zyx.scatter_add({{0}}, {axis}, {{1}}, {{2}})"
    return Call(
        text, lambda x, i, s: formulas.scattered(x, axis, i, s, how), (x, index, source), exact=is_exact,
        has_slope=how in (None, "sum"),
    )  # fmt: skip


def put(d: Draw) -> Call:
    """Values at places of the elements in order."""
    x = d.number(least_rank=1, not_empty=True)
    size = int(np.prod(d.shape(x)))
    index = d.index((d.choices.integer(1, min(size, 40)),), size, negative=False, unique_along=0)
    values = d.leaf(d.shape(index), d.dtype(x))

    def placed(x: Array, i: Array, v: Array) -> Array:
        result = x.reshape(-1).copy()
        result[i.astype(np.int64)] = v
        return result.reshape(x.shape)

    return Call("zyx.put({0}, {1}, {2})", placed, (x, index, values), exact=True)


def assign(d: Draw) -> Call:
    """A part written over."""
    x = d.value(least_rank=1, most_rank=3)
    text, key = _key(d, x)
    part = d.known(x).value[key]
    text = ", ".join("slice(None)" if t == ":" else _as_slice(t) for t in text.split(", "))
    y = d.leaf(part.shape, d.dtype(x))

    def written(x: Array, y: Array) -> Array:
        result = x.copy()
        result[key] = y
        return result

    return Call(f"(lambda x: (x.__setitem__(({text},), {{1}}), x)[1])({{0}}.clone())", written, (x, y), exact=True)


def _as_slice(text: str) -> str:
    if ":" not in text:
        return text
    return f"slice({', '.join(part or 'None' for part in text.split(':'))})"


def one_hot(d: Draw) -> Call:
    """Classes as rows."""
    shape = d.random_shape(0, 2)
    classes = d.choices.integer(1, 9)
    index = d.index(shape, classes, negative=False)
    return Call(
        f"zyx.one_hot({{0}}, {classes})",
        lambda i: (i[..., None].astype(np.int64) == np.arange(classes)).astype(np.int64), (index,), exact=True,
        has_slope=False,
    )  # fmt: skip


def embedding(d: Draw) -> Call:
    """Rows of a table."""
    x = d.floating(least_rank=2, most_rank=2, not_empty=True)
    index = d.index(d.random_shape(1, 2), d.shape(x)[0], negative=False)
    return Call("F.embedding({1}, {0})", lambda x, i: x[i.astype(np.int64)], (x, index), exact=True, jumps=True)


def selected(d: Draw) -> Call:
    """How many elements a mask selects, and their sum: shapes that depend on values are read."""
    x = d.number(least_rank=1, certain=True)
    mask = d.leaf(d.shape(x), dtypes.bool_)
    return Call(
        "{0} * zyx.where({1}, 1, 0).astype({0}.dtype)", lambda x, m: x * m.astype(x.dtype), (x, mask), exact=True
    )


ROWS: Final = (
    (getitem, 5), (getitem_by_tensor, 3), (getitem_by_mask, 1), (take, 3), (along, 2), (scatter, 4), (put, 1),
    (assign, 3), (one_hot, 1), (embedding, 1), (selected, 1),
)  # fmt: skip
