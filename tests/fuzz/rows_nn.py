"""Softmax, normalisation, losses, attention, each beside its meaning in NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from meanings import formulas, losses, reductions

from fuzz.drawing import Unfit
from fuzz.program import Call
from fuzz.rows import Family

if TYPE_CHECKING:
    from fuzz.drawing import Draw
    from zyx.testing.values import Array


def layer_norm(d: Draw) -> Call:
    """Rows normalised."""
    x = d.floating(least_rank=1, not_empty=True)
    d.refuse_squares(x)
    shape = d.shape(x)
    count = d.choices.integer(1, min(2, len(shape)))
    size, axes = shape[-count:], tuple(range(-count, 0))
    if math.prod(size) < 3:
        raise Unfit
    if d.choices.chance(30):
        return Call(
            f"F.rms_norm({{0}}, {size}, eps=0.01)",
            lambda x: x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + 0.01), (x,),
        )  # fmt: skip
    if d.choices.chance(50):
        return _normalising(f"F.layer_norm({{0}}, {size}, eps=0.01)", x, axes)
    w, b = d.leaf(size, d.dtype(x)), d.leaf(size, d.dtype(x))
    return Call(
        f"F.layer_norm({{0}}, {size}, {{1}}, {{2}}, eps=0.01)",
        lambda x, w, b: formulas.standardise(x, axes, 0.01) * w + b, (x, w, b),
        inner=lambda x, w, b: formulas.lost_by_centring(x, axes, 0.01) * np.abs(w),
    )  # fmt: skip


def _normalising(text: str, x: int, axes: tuple[int, ...], shape: tuple[int, ...] | None = None) -> Call:
    """Return a call that standardises its operand along axes of `shape`, or of its own."""
    return Call(
        text,
        lambda x: formulas.standardise(x.reshape(shape or x.shape), axes, 0.01).reshape(x.shape), (x,),
        inner=lambda x: formulas.lost_by_centring(x.reshape(shape or x.shape), axes, 0.01).reshape(x.shape),
    )  # fmt: skip


def batch_norm(d: Draw) -> Call:
    """Channels normalised, over the batch or by groups."""
    x = d.floating(least_rank=3, most_rank=4, not_empty=True)
    d.refuse_squares(x)
    shape = d.shape(x)
    behind = tuple(range(2, len(shape)))
    match d.choices.integer(0, 2):
        case 0 if math.prod(shape) // shape[1] > 2:
            return _normalising("F.batch_norm({0}, eps=0.01)", x, (0, *behind))
        case 1 if math.prod(shape[2:]) > 2:
            return _normalising("F.instance_norm({0}, eps=0.01)", x, behind)
        case _:
            groups = d.choices.pick([g for g in (1, 2, 3, 4) if shape[1] % g == 0])
            if math.prod(shape[1:]) // groups < 3:
                raise Unfit
            by_group = (shape[0], groups, math.prod(shape[1:]) // groups)
            return _normalising(f"F.group_norm({{0}}, {groups}, eps=0.01)", x, (2,), by_group)


def cross_entropy(d: Draw) -> Call:
    """The loss of classifiers."""
    x = d.floating(least_rank=2, most_rank=2, not_empty=True)
    rows, classes = d.shape(x)
    target, how = d.index((rows,), classes, negative=False), d.choices.pick(tuple(losses.HOW))
    reduce = losses.HOW[how]

    def entropies(x: Array, t: Array) -> Array:
        logs = x - formulas.logsumexp(x, 1, keepdims=True)
        return np.asarray(reduce(-np.take_along_axis(logs, t[:, None].astype(np.int64), 1)[:, 0]))

    if d.choices.chance(40):
        return Call(
            f"zyx.nll_loss({{0}}, {{1}}, reduction='{how}')",
            lambda x, t: reduce(-np.take_along_axis(x, t[:, None].astype(np.int64), 1)[:, 0]), (x, target),
        )  # fmt: skip
    return Call(
        f"zyx.cross_entropy({{0}}, {{1}}, reduction='{how}')", entropies, (x, target),
        inner=lambda x, _: reduce(np.abs(x).max(axis=1)),
    )  # fmt: skip


def triplet(d: Draw) -> Call:
    """A loss of three."""
    x = d.floating(least_rank=2, most_rank=2, not_empty=True)
    d.refuse_squares(x)
    y, z = d.leaf(d.shape(x), d.dtype(x)), d.leaf(d.shape(x), d.dtype(x))

    def far(x: Array, y: Array) -> Array:
        return np.asarray(np.sqrt(((x - y + 1e-6) ** 2).sum(axis=-1)))

    return Call(
        "zyx.triplet_margin_loss({0}, {1}, {2})",
        lambda x, y, z: np.mean(np.maximum(far(x, y) - far(x, z) + 1, 0)), (x, y, z),
    )  # fmt: skip


def attention(d: Draw) -> Call:
    """Attention of some heads."""
    dtype = d.choices.pick([t for t in d.dtypes if t.is_float] or [None])
    if dtype is None:
        raise Unfit
    heads, queries, keys = d.choices.integer(1, 3), d.choices.pick((1, 3, 8, 17)), d.choices.pick((1, 4, 8, 33))
    width = d.choices.pick((1, 4, 8, 16))
    is_causal = d.choices.chance(40) and keys >= queries
    found = [n for n in range(d.count) if d.shape(n) == (heads, queries, width) and d.dtype(n) is dtype]
    q = d.choices.pick(found) if found else d.leaf((heads, queries, width), dtype)
    k, v = d.leaf((heads, keys, width), dtype), d.leaf((heads, keys, width), dtype)
    return Call(
        f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}, causal_lower_right={is_causal})",
        lambda q, k, v: formulas.attention(q, k, v, is_causal=is_causal), (q, k, v),
    )  # fmt: skip


def rope(d: Draw) -> Call:
    """Pairs of elements turned by angles that depend on the place."""
    dtype = d.choices.pick([t for t in d.dtypes if t.is_float] or [None])
    if dtype is None:
        raise Unfit
    length, width = d.choices.pick((1, 3, 8)), d.choices.pick((2, 4, 6))
    x = d.leaf((2, length, width), dtype)
    angles = np.arange(length)[:, None] / 10000.0 ** (2 * np.arange(width // 2) / width)

    def turned(x: Array) -> Array:
        a, b = x[..., : width // 2], x[..., width // 2 :]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    return Call(f"F.rope({{0}}, *F.rope_tables({length}, {width}, dtype='{dtype}'))", turned, (x,), inner=np.abs)


def bilinear(d: Draw) -> Call:
    """A product of two vectors by a matrix for each output."""
    x = d.floating(least_rank=1, most_rank=2)
    shape = d.shape(x)
    y = d.leaf((*shape[:-1], 4), d.dtype(x))
    w = d.leaf((3, shape[-1], 4), d.dtype(x))
    if math.prod(shape) * 12 > 20 * d.most_elements:
        raise Unfit
    return Call("F.bilinear({0}, {1}, {2})", lambda x, y, w: np.einsum("...i,kij,...j->...k", x, w, y), (x, y, w))


def resize(d: Draw) -> Call:
    """Nearest neighbours at other sizes, and means over windows of any sizes."""
    x = d.floating(least_rank=3, most_rank=3, not_empty=True)
    old, new = d.shape(x)[2], d.choices.pick((1, 2, 5, 9))
    if d.choices.chance(50):
        places = np.floor(np.arange(new) * old / new).astype(np.int64)
        return Call(f"F.interpolate({{0}}, {new})", lambda x: x[:, :, places], (x,), exact=True)

    def means(x: Array) -> Array:
        cuts = [(j * old // new, -(-(j + 1) * old // new)) for j in range(new)]
        return np.stack([x[..., a:b].mean(axis=-1) for a, b in cuts], axis=-1)

    if d.choices.chance(30):
        return Call(f"F.adaptive_avg_pool2d({{0}}[:, None], (None, {new}))[:, 0]", means, (x,))

    return Call(f"F.adaptive_avg_pool1d({{0}}, {new})", means, (x,))


ROWS: Final = (
    (Family("softmax", reductions.SOFTMAXES), 4),
    (layer_norm, 3), (batch_norm, 2), (Family("loss", losses.PAIRS), 3), (cross_entropy, 2), (triplet, 1),
    (attention, 2), (rope, 1), (bilinear, 1), (resize, 1),
)  # fmt: skip
