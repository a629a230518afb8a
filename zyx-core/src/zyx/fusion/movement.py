"""How movement nodes map a point of their result to a point of their source, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zyx.graph import node as n
from zyx.nest.pool import Pool

if TYPE_CHECKING:
    from zyx.graph.node import Node
    from zyx.nest.expr import Expr
    from zyx.shape import Shape

#: Movement whose result has each element of its source at one place at most.
Move: TypeAlias = n.Reshape | n.Shrink | n.Flip

MOVEMENT = (n.Reshape, n.Expand, n.Permute, n.Pad, n.Shrink, n.Flip, n.Slide, n.Unslide)


def source_point(pool: Pool, node: n.Movement, point: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr | None]:
    """Return (the point of the source that `point` of `node` shows, where there is one: None means everywhere)."""
    (source,) = node.sources
    match node:
        case n.Reshape():
            return reshape_point(pool, node.shape, source.shape, point), None
        case n.Expand():
            zero = pool.index(0)
            return tuple(zero if size == 1 else at for size, at in zip(source.shape, point, strict=True)), None
        case n.Permute(order=order):
            inverse = sorted(range(len(order)), key=order.__getitem__)
            return tuple(point[axis] for axis in inverse), None
        case n.Pad(widths=widths):
            moved = []
            mask: Expr | None = None
            for at, (before, after), size in zip(point, widths, source.shape, strict=True):
                inner = pool.shift(at, -before)
                # A point outside of `node` itself, as a mask around may have it, is of no interest here.
                mask = pool.both(mask, pool.non_negative(inner) if before else None)
                mask = pool.both(mask, pool.less(inner, size) if after else None)
                moved.append(inner)
            return tuple(moved), mask
        case n.Shrink(bounds=bounds):
            return tuple(pool.shift(at, start) for at, (start, _) in zip(point, bounds, strict=True)), None
        case n.Flip(axes=axes):
            return tuple(
                pool.affine(((at, -1),), node.shape[axis] - 1) if axis in axes else at for axis, at in enumerate(point)
            ), None
        case n.Slide(axis=axis, window=window, stride=stride, dilation=dilation):
            position = pool.affine(((point[axis], stride), (point[window], dilation)))
            return (*point[:axis], position, *point[axis + 1 :]), None
        case n.Unslide(axis=axis, window=window, stride=stride, dilation=dilation):
            offset = pool.affine(((point[axis], 1), (point[window], -dilation)))
            inner = pool.divide(offset, stride)
            mask = pool.both(pool.non_negative(offset), pool.less(inner, source.shape[axis]))
            if stride > 1:
                mask = pool.both(mask, pool.is_zero(pool.modulo(offset, stride)))
            return (*point[:axis], inner, *point[axis + 1 :]), mask


def reshape_point(pool: Pool, shape: Shape, target: Shape, point: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the point of `target` at the row-major position of `point` in `shape`.

    Runs of axes with equal products are treated apart, which keeps divisions small or avoids them.
    """
    result: list[Expr] = []
    i = j = 0
    while i < len(shape) or j < len(target):
        first, other = i, j
        a = b = 1
        while True:
            if i < len(shape) and (a < b or (a == b and i == first) or shape[i] == 1):
                a *= shape[i]
                i += 1
            elif j < len(target) and (b < a or (a == b and j == other) or target[j] == 1):
                b *= target[j]
                j += 1
            else:
                break
        position = pool.flatten(point[first:i], shape[first:i])
        result.extend(pool.unflatten(position, target[other:j]))
    return tuple(result)


def runs_along(node: Node, axis: int) -> bool:
    """Whether what `node` shows, moved and converted, has neighbours in memory along `axis`."""
    pool = Pool()
    ranges = [pool.range(size) for size in node.shape]
    point: tuple[Expr, ...] = tuple(map(pool.ref, ranges))
    while node.storage is None and isinstance(node, (*MOVEMENT, n.Cast)):
        if not isinstance(node, n.Cast):
            point, _ = source_point(pool, node, point)
        (node,) = node.sources
    inner = [index for index, size in zip(point, node.shape, strict=True) if size > 1]
    return bool(inner) and inner[-1].free == ranges[axis].bit


class RootRanges(NamedTuple):
    """The ranges of a kernel that are those of a node in it, by the sizes of its axes.

    `path` is the movement from the node to the root, from the root on.
    """

    sizes: Shape
    path: tuple[Move, ...]


def point_of_root(pool: Pool, ranges: RootRanges, point: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr | None]:
    """Return where the root of a kernel has the element of the node at `point`, and where it has it at all."""
    mask: Expr | None = None
    for node in reversed(ranges.path):
        (source,) = node.sources
        match node:
            case n.Reshape():
                point = reshape_point(pool, source.shape, node.shape, point)
            case n.Shrink(bounds=bounds):
                point = tuple(pool.shift(at, -start) for at, (start, _) in zip(point, bounds, strict=True))
                for at, size, (start, _), whole in zip(point, node.shape, bounds, source.shape, strict=True):
                    mask = pool.both(mask, pool.non_negative(at) if start else None)
                    mask = pool.both(mask, pool.less(at, size) if start + size < whole else None)
            case n.Flip(axes=axes):
                point = tuple(
                    pool.affine(((at, -1),), node.shape[axis] - 1) if axis in axes else at
                    for axis, at in enumerate(point)
                )
    return point, mask
