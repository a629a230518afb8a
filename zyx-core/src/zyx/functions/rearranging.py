"""Rows, columns and planes: splitting, turning, putting in and taking out, under NumPy's names.

All is put together from `movement`, `joining` and `selection`, so that gradients are theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.index_key import located
from zyx.functions.joining import concat, meshgrid, pad, stack
from zyx.functions.mapping import vmap
from zyx.functions.movement import flip, moveaxis, narrow, reshape, swapaxes
from zyx.functions.operands import is_tensor, node_of, require, wrap
from zyx.functions.selection import take, take_along_axis
from zyx.integers import as_integer, as_integers, is_several

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "append", "apply_along_axis", "array_split", "cartesian_prod", "combinations", "delete", "diag_embed",
    "diagflat", "dsplit", "fliplr", "flipud", "hsplit", "insert", "kron", "rot90", "take_along_dim", "tensor_split",
    "vsplit",
]  # fmt: skip


def kron(x: Tensor, y: Tensor) -> Tensor:
    """Return the Kronecker product: each element of `x` times all of `y`, in the place of that element.

    ``out[i * m + k, ...] = x[i, ...] * y[k, ...]``; the one of fewer axes gets new ones in front.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.kron(zyx.Tensor([1, 2]), zyx.Tensor([1, 10])).tolist()
    [1, 10, 2, 20]
    """
    a, b = require(x, "kron"), require(y, "kron")
    ndim = max(a.node.ndim, b.node.ndim)
    first, second = ((1,) * (ndim - each.node.ndim) + each.node.shape for each in (a, b))
    apart = reshape(a, [n for size in first for n in (size, 1)]) * reshape(b, [n for size in second for n in (1, size)])
    return reshape(apart, [m * n for m, n in zip(first, second, strict=True)])


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return all tuples with one element of each vector, as rows; the last vector varies fastest.

    Raises:
        ShapeError: None are given, or one is no vector.

    >>> zyx.cartesian_prod(zyx.Tensor([1, 2]), zyx.Tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    given = [require(x, "cartesian_prod") for x in tensors]
    if not given or any(x.node.ndim != 1 for x in given):
        raise ShapeError(f"cartesian_prod takes vectors, at least one, not shapes {[x.node.shape for x in given]}")
    if len(given) == 1:
        return given[0]
    return stack([reshape(grid, grid.size) for grid in meshgrid(*given, indexing="ij")], 1)


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return the subsets of `r` elements of a vector, as rows, in the order of `itertools.combinations`.

    Raises:
        ShapeError: `x` is no vector, or `r` is negative.

    >>> zyx.combinations(zyx.Tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    import itertools

    size, r = require(x, "combinations").node.shape, as_integer(r, "r")
    if len(size) != 1 or r < 0:
        raise ShapeError(f"combinations takes a vector and r of at least 0, not shape {size} and {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(size[0]), r)), np.int64)
    return take(x, places.reshape(-1, r) if r else np.zeros((0,), np.int64), 0)


def append(x: Tensor, values: Operand | Sequence[Any], axis: int | None = None) -> Tensor:
    """Return `x` with `values` behind it along `axis`; with None both are flattened first.

    Raises:
        ShapeError: Shapes that differ along another axis.
        AxisError: `x` has no such axis.
        DTypeError: `x` is no tensor, or `values` are no numbers.

    >>> zyx.append(zyx.Tensor([1, 2]), zyx.Tensor([3])).tolist()
    [1, 2, 3]
    """
    base = require(x, "append")
    other = values if is_tensor(values) else wrap(base.runtime.upload(np.asarray(values), base.node.device), base)
    if axis is None:
        return concat([base, other], None)
    return concat([base, other], axis)


def apply_along_axis(function: Callable[..., Tensor], axis: int, x: Tensor, *args: Any, **keywords: Any) -> Tensor:  # noqa: ANN401
    """Return what `function`, of a vector, gives of each line of `x` along `axis`; its axes take the place of that one.

    The function is called once, under `zyx.vmap`, whatever the number of lines.

    Raises:
        ShapeError: No lines.

    >>> zyx.apply_along_axis(zyx.sum, 1, zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [3, 7]
    """
    base = require(x, "apply_along_axis")
    place = shapes.normalize_axis(axis, base.node.ndim)
    lines = moveaxis(base, place, -1)
    rest, size = lines.node.shape[:-1], lines.node.shape[-1]
    if 0 in rest:
        raise ShapeError(f"apply_along_axis: there are no lines along axis {axis} of {base.node.shape}")
    found = vmap(lambda line: function(line, *args, **keywords))(reshape(lines, -1, size))
    inner = found.node.shape[1:]
    made = reshape(found, *rest, *inner)
    return moveaxis(made, tuple(range(len(rest), len(rest) + len(inner))), tuple(range(place, place + len(inner))))


# ---- splitting


def tensor_split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return `parts` parts of `x` along `axis`, the first ones larger by 1 where that does not divide; or, given a
    list of places, what lies between these.

    Raises:
        ShapeError: Fewer than 1 part.

    >>> [part.tolist() for part in zyx.tensor_split(zyx.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    base = require(x, "tensor_split")
    axis = shapes.normalize_axis(axis, base.node.ndim)
    size = base.node.shape[axis]
    if is_several(parts):
        inner = [min(max(place + size if place < 0 else place, 0), size) for place in as_integers(parts, "parts")]
    else:
        count = as_integer(parts, "parts")
        if count < 1:
            raise ShapeError(f"tensor_split makes at least one part, not {count}")
        whole, more = divmod(size, count)
        inner = [i * whole + min(i, more) for i in range(1, count)]
    bounds = zip([0, *inner], [*inner, size], strict=True)
    return tuple(narrow(base, axis, start, max(stop - start, 0)) for start, stop in bounds)


def array_split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return `tensor_split`, by NumPy's name.

    The parts have the shape of `x` but for that axis.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: Fewer than one part.

    >>> [part.tolist() for part in zyx.array_split(zyx.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return tensor_split(x, parts, axis)


def _even(x: Tensor, parts: int | Sequence[int], axis: int, what: str) -> tuple[Tensor, ...]:
    size = require(x, what).node.shape[axis]
    if not is_several(parts) and (as_integer(parts, "parts") < 1 or size % as_integer(parts, "parts")):
        raise ShapeError(f"{what}: {size} positions along axis {axis} do not make {parts} equal parts")
    return tensor_split(x, parts, axis)


def hsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return parts of `x` along axis 1, or 0 of a vector: so many equal ones, or those between the places given.

    Raises:
        ShapeError: They would not be equal, or there is no axis.

    >>> [part.shape for part in zyx.hsplit(zyx.ones(2, 4), 2)]
    [(2, 2), (2, 2)]
    """
    ndim = require(x, "hsplit").node.ndim
    if not ndim:
        raise ShapeError("hsplit takes at least one axis; the shape is ()")
    return _even(x, parts, min(ndim - 1, 1), "hsplit")


def vsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return parts of `x`, of two axes or more, along axis 0, as `hsplit` does along axis 1.

    Raises:
        ShapeError: Fewer axes, or an axis that does not make equal parts.

    >>> [part.shape for part in zyx.vsplit(zyx.ones(4, 3), 2)]
    [(2, 3), (2, 3)]
    """
    if require(x, "vsplit").node.ndim < 2:
        raise ShapeError(f"vsplit takes at least two axes; the shape is {x.node.shape}")
    return _even(x, parts, 0, "vsplit")


def dsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return parts of `x`, of three axes or more, along axis 2, as `hsplit` does along axis 1.

    Raises:
        ShapeError: Fewer axes, or an axis that does not make equal parts.

    >>> [part.shape for part in zyx.dsplit(zyx.ones(2, 3, 4), [1])]
    [(2, 3, 1), (2, 3, 3)]
    """
    if require(x, "dsplit").node.ndim < 3:
        raise ShapeError(f"dsplit takes at least three axes; the shape is {x.node.shape}")
    return _even(x, parts, 2, "dsplit")


# ---- turning


def fliplr(x: Tensor) -> Tensor:
    """Return `x`, of two axes or more, in reverse order along axis 1.

    Raises:
        AxisError: Fewer than two axes.

    >>> zyx.fliplr(zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    return flip(x, 1)


def flipud(x: Tensor) -> Tensor:
    """Return `x` in reverse order along axis 0.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.flipud(zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [[3, 4], [1, 2]]
    """
    return flip(x, 0)


def rot90(x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return `x` turned `k` times by 90 degrees, from the first of `axes` towards the second.

    Raises:
        ShapeError: `axes` are not two different ones.

    >>> zyx.rot90(zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    ndim = require(x, "rot90").node.ndim
    found = tuple(shapes.normalize_axis(axis, ndim) for axis in as_integers(axes, "axes"))
    if len(found) != 2 or found[0] == found[1]:
        raise ShapeError(f"rot90: axes are two different ones, not {axes}")
    turns = as_integer(k, "k") % 4
    if turns == 2:
        return flip(x, found)
    if turns == 1:
        return swapaxes(flip(x, found[1]), *found)
    return flip(swapaxes(x, *found), found[1]) if turns else x


# ---- putting in, taking out


def delete(x: Tensor, places: int | slice | Sequence[int], axis: int | None = None) -> Tensor:
    """Return `x` without what is at `places` along `axis`; with None `x` counts as one axis.

    Args:
        x: Any rank.
        places: An integer, a list of them, or a slice; negative ones count from the end.
        axis: Along which.

    Raises:
        IndexRangeError: A place outside.

    >>> zyx.delete(zyx.Tensor([1, 2, 3]), 1).tolist()
    [1, 3]
    """
    base, axis = _along(x, axis, "delete")
    size = base.node.shape[axis]
    kept = np.ones(size, bool)
    kept[places if isinstance(places, slice) else _places(places, axis, size)] = False
    return take(base, np.flatnonzero(kept), axis)


def insert(x: Tensor, places: int | Sequence[int], values: Operand, axis: int | None = None) -> Tensor:
    """Return `x` with `values` put in before `places` along `axis`; with None `x` counts as one axis.

    Args:
        x: Any rank.
        places: An integer, or a list of them, which are those in `x`, before anything is put in.
        values: Cast to the dtype of `x`. Of several places they broadcast to `x` with as many positions along `axis`;
            of one place they may be several along `axis`.
        axis: Along which.

    Raises:
        IndexRangeError: A place outside.
        ShapeError: `values` do not broadcast.

    >>> zyx.insert(zyx.Tensor([1, 3]), 1, 2).tolist()
    [1, 2, 3]
    """
    base, axis = _along(x, axis, "insert")
    shape = base.node.shape
    is_one = not is_several(places)
    found = np.atleast_1d(_places(places, axis, shape[axis], after_end=True))
    new = wrap(node_of(values if is_tensor(values) else np.asarray(values), base.node.dtype, base), base)
    if is_one:  # as in NumPy, where one place is an index that takes the axis away
        missing = max(len(shape) - new.node.ndim, 0)
        new = reshape(new, (1,) * missing + new.node.shape)
        new = moveaxis(new, 0, axis)
        found = np.repeat(found, new.node.shape[axis])
    wanted = (*shape[:axis], len(found), *shape[axis + 1 :])
    new = wrap(base.runtime.graph.cast(new.broadcast_to(wanted).node, base.node.dtype), base)
    order = np.argsort(found, kind="stable")
    slots = np.empty(len(found), np.int64)
    slots[order] = found[order] + np.arange(len(found))
    source = np.zeros(shape[axis] + len(found), np.int64)
    is_new = np.zeros(len(source), bool)
    is_new[slots] = True
    source[slots] = shape[axis] + np.arange(len(found))
    source[~is_new] = np.arange(shape[axis])
    return take(concat([base, new], axis), source, axis)


def _along(x: Tensor, axis: int | None, what: str) -> tuple[Tensor, int]:
    base = require(x, what)
    if axis is None:
        return reshape(base, base.size), 0
    return base, shapes.normalize_axis(axis, base.node.ndim)


def _places(places: object, axis: int, size: int, *, after_end: bool = False) -> Any:  # noqa: ANN401  # a NumPy array
    found = np.array(as_integers(places, "places") if is_several(places) else as_integer(places, "places"), np.int64)
    if after_end:
        return located(np.where(found < 0, found - 1, found), axis, size + 1)
    return located(found, axis, size)


# ---- diagonals


def diag_embed(x: Tensor, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return matrices with the last axis of `x` on a diagonal, 0 elsewhere.

    Args:
        x: Any rank from 1 on.
        offset: Of the diagonal, above the main one if positive.
        axis1: Where the rows are in the result.
        axis2: Where the columns are.

    Raises:
        ShapeError: Rank 0, or twice the same axis.

    >>> zyx.diag_embed(zyx.Tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    base = require(x, "diag_embed")
    shape, offset = base.node.shape, as_integer(offset, "offset")
    if not shape:
        raise ShapeError("diag_embed takes at least one axis; the shape is ()")
    first, second = (shapes.normalize_axis(axis, len(shape) + 1) for axis in (axis1, axis2))
    if first == second:
        raise ShapeError(f"diag_embed: axis1 and axis2 are different ones, not both {axis1}")
    size = shape[-1] + abs(offset)
    widths = [(0, 0)] * (len(shape) - 1)
    rows = pad(base, (*widths, (max(-offset, 0), max(offset, 0))))
    columns = rows.node.shape[:-1]
    spread = reshape(rows, *columns, size, 1).broadcast_to((*columns, size, size))
    graph = base.runtime.graph
    row, column = (wrap(graph.iota((size, size), axis, dtypes.int32, base.node.device), base) for axis in (0, 1))
    chosen = (column - row == offset).where(spread, wrap(graph.const(0, base.node.dtype, base.node.device), base))
    return moveaxis(chosen, (-2, -1), (first, second))


def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """Return the matrix with all elements of `x`, in row-major order, on a diagonal.

    Raises:
        DTypeError: `x` is no tensor.
        IntegerError: `offset` is no integer.

    >>> zyx.diagflat(zyx.Tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    base = require(x, "diagflat")
    return diag_embed(reshape(base, base.size), offset)


def take_along_dim(x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """Return `take_along_axis`; without an axis both count as one axis.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: `x` and `indices` have different ranks.
        DTypeError: Indices that are no integers.

    >>> zyx.take_along_dim(zyx.Tensor([[3, 1], [2, 4]]), zyx.Tensor([[1], [0]]), 1).tolist()
    [[1], [2]]
    """
    if axis is None:
        base, index = require(x, "take_along_dim"), require(indices, "take_along_dim")
        return take_along_axis(reshape(base, base.size), reshape(index, index.size), 0)
    return take_along_axis(x, indices, axis)


take_habits(globals())
