"""Indexed reads and writes along an axis, by tensors of integers.

Of an index tensor, negative numbers count from the end; reads outside give 0, and writes outside are dropped, since
what a tensor holds is not known when the graph is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, ShapeError
from zyx.functions import take_habits
from zyx.functions.index_key import located
from zyx.functions.operands import is_tensor, node_of, require, term_of, wrap
from zyx.functions.term import Term
from zyx.graph.places import VaryingNumber
from zyx.integers import as_integer
from zyx.ops import ReduceOp, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike, Scalar
    from zyx.functions import Tensor
    from zyx.functions.operands import Array

__all__ = [
    "gather", "index_select", "masked_select", "nonzero", "one_hot", "put", "put_along_axis", "scatter",
    "scatter_add", "scatter_reduce", "take", "take_along_axis",
]  # fmt: skip

IndexLike: TypeAlias = "Tensor | Array | Sequence[int] | int"


def index_term(index: IndexLike, size: int, axis: int, like: Tensor, what: str) -> Term:
    """Return an index as a term of integers; what is on the host is checked against `size`.

    Raises:
        DTypeError: Not integers.
        IndexRangeError: An index on the host lies outside.
    """
    if is_tensor(index):
        if not index.node.dtype.is_integer:
            raise DTypeError(f"{what}: an index is of integers, not {index.node.dtype}")
        return term_of(index, what)
    given: object = index  # what stands in for an int is one to `isinstance`
    if isinstance(given, VaryingNumber) and isinstance(given, int):
        return Term(like.runtime.graph, given.place(axis, size, like.node.device))
    array = np.asarray(index)
    if not array.size:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{what}: an index is of integers, not {array.dtype}")
    places = located(array, axis, size).astype(np.int32 if size < 1 << 31 else np.int64)
    graph = like.runtime.graph
    if not places.ndim:
        return Term(graph, graph.const(int(places), dtypes.int32, like.node.device))
    return Term(graph, like.runtime.upload(places, like.node.device))


def take(x: Tensor, indices: IndexLike, axis: int | None = None) -> Tensor:
    """Return the slices of `x` at `indices` along `axis`.

    Args:
        x: Any rank.
        indices: Integers of any shape, which takes the place of the axis.
        axis: Without one, `x` counts as one axis.

    Raises:
        DTypeError: Indices that are no integers.
        IndexRangeError: An index on the host lies outside.

    >>> zyx.take(zyx.Tensor([10, 20, 30]), zyx.Tensor([2, 0]), axis=0).tolist()
    [30, 10]
    """
    term = term_of(x, "take")
    if axis is None:
        term, axis = term.reshape((shapes.size_of(term.shape),)), 0
    axis = shapes.normalize_axis(axis, len(term.shape))
    index = index_term(indices, term.shape[axis], axis, x, "take")
    count = shapes.size_of(index.shape)
    before, after = term.shape[:axis], term.shape[axis + 1 :]
    spread = index.reshape((*[1] * len(before), count, *[1] * len(after))).expand((*before, count, *after))
    found = Term(term.graph, term.graph.gather(term.node, spread.node, axis))
    return wrap(found.reshape((*before, *index.shape, *after)).node, x)


def index_select(x: Tensor, axis: int, index: IndexLike) -> Tensor:
    """Return `take` along `axis`, of an index of rank 1; of a number, along its axis 0, a number.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.index_select(zyx.Tensor([[1, 2], [3, 4]]), 0, zyx.Tensor([1])).tolist()
    [[3, 4]]
    """
    if not require(x, "index_select").node.ndim and axis in (0, -1):
        found = take(x, index)
        return found.reshape(()) if found.node.ndim else found
    return take(x, index, axis)


def take_along_axis(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """Return ``out[i] = x[i with i[axis] := indices[i]]``; on the other axes the two broadcast.

    Raises:
        ShapeError: Different ranks, or axes that do not broadcast.
        DTypeError: Indices that are no integers.

    >>> zyx.take_along_axis(zyx.Tensor([[1, 2], [3, 4]]), zyx.Tensor([[1], [0]]), 1).tolist()
    [[2], [3]]
    """
    term = term_of(x, "take_along_axis")
    axis = shapes.normalize_axis(axis, len(term.shape))
    index = index_term(indices, term.shape[axis], axis, x, "take_along_axis")
    term, index = _matched(term, index, axis, "take_along_axis")
    return wrap(term.graph.gather(term.node, index.node, axis), x)


def _matched(term: Term, index: Term, axis: int, what: str) -> tuple[Term, Term]:
    """Return both broadcast to one shape, but for `axis`."""
    if len(term.shape) != len(index.shape):
        raise ShapeError(f"{what}: indices {index.shape} and data {term.shape} have different ranks")
    own, other = list(term.shape), list(index.shape)
    sizes = own[axis], other[axis]
    own[axis] = other[axis] = 1
    shape = list(shapes.broadcast(tuple(own), tuple(other)))
    shape[axis] = sizes[0]
    term = term.expand(shape)
    shape[axis] = sizes[1]
    return term, index.expand(shape)


def gather(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """Return ``out[i] = x[i with i[axis] := index[i]]``, of the shape of `index`.

    On other axes `index` may be smaller than `x`.

    Raises:
        ShapeError: Different ranks, or an index larger than `x` on another axis.
        DTypeError: An index that is of no integers.

    >>> zyx.gather(zyx.Tensor([[1, 2], [3, 4]]), 1, zyx.Tensor([[0], [1]])).tolist()
    [[1], [4]]
    """
    term = term_of(x, "gather")
    if not term.shape and axis in (0, -1) and is_tensor(index) and index.node.ndim < 2:
        return wrap(take(x, index).node, x)
    axis = shapes.normalize_axis(axis, len(term.shape))
    places = index_term(index, term.shape[axis], axis, x, "gather")
    if not shapes.size_of(places.shape):  # of any rank
        return wrap(term.graph.const(0, term.dtype, term.node.device, places.shape), x)
    bounds = _box(places.shape, term.shape, axis, "gather")
    return wrap(term.graph.gather(term.shrink(bounds).node, places.node, axis), x)


def _box(inner: tuple[int, ...], outer: tuple[int, ...], axis: int, what: str) -> list[tuple[int, int]]:
    """Return the bounds of an index inside data, whole along `axis`."""
    if len(inner) != len(outer):
        raise ShapeError(f"{what}: index {inner} and data {outer} have different ranks")
    if any(i != axis and a > b for i, (a, b) in enumerate(zip(inner, outer, strict=True))):
        raise ShapeError(f"{what}: index {inner} is larger than data {outer} on an axis other than {axis}")
    return [(0, b if i == axis else a) for i, (a, b) in enumerate(zip(inner, outer, strict=True))]


_REDUCTIONS: Final = {
    None: None,
    "add": ReduceOp.SUM, "sum": ReduceOp.SUM,
    "multiply": ReduceOp.PROD, "prod": ReduceOp.PROD,
    "amax": ReduceOp.MAX, "max": ReduceOp.MAX,
    "amin": ReduceOp.MIN, "min": ReduceOp.MIN,
}  # fmt: skip


def scatter(x: Tensor, axis: int, index: Tensor, source: Tensor | Scalar, reduce: str | None = None) -> Tensor:
    """Return `x` with ``source[i]`` written to, or combined into, ``[i with i[axis] := index[i]]``.

    Args:
        x: Any rank from 1 on.
        axis: Where `index` counts.
        index: Integers, on other axes at most as large as `x`.
        source: A number, or a tensor at least as large as `index`, cast to the dtype of `x`.
        reduce: None replaces, and of several the last stays; "sum" ("add"), "prod" ("multiply"), "amax" and "amin"
            combine.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown `reduce`.
        DTypeError: An index that is of no integers.

    >>> zyx.scatter(zyx.zeros(3), 0, zyx.Tensor([2]), zyx.Tensor([5.0])).tolist()
    [0.0, 0.0, 5.0]
    """
    if reduce not in _REDUCTIONS:
        raise ShapeError(f"scatter: reduce is one of {', '.join(map(repr, _REDUCTIONS))}, not {reduce!r}")
    base = term_of(x, "scatter")
    axis = shapes.normalize_axis(axis, len(base.shape))
    places, updates = _writes(base, axis, index, source, x)
    op = _REDUCTIONS[reduce]
    # Sums and products of 16 bits are formed in 32, so that many small updates count.
    wide = dtypes.accumulator(base.dtype) if op in (ReduceOp.SUM, ReduceOp.PROD) else base.dtype
    node = base.graph.scatter(base.cast(wide).node, places.node, updates.cast(wide).node, axis, op)
    return wrap(base.graph.cast(node, base.dtype), x)


def _writes(base: Term, axis: int, index: Tensor, source: Tensor | Scalar, like: Tensor) -> tuple[Term, Term]:
    """Return index and updates that match `base` except along `axis`; what is added is written outside."""
    size = base.shape[axis]
    places = index_term(index, size, axis, like, "scatter")
    bounds = _box(places.shape, base.shape, axis, "scatter")
    updates = Term(base.graph, node_of(source, base.dtype, like))
    if not is_tensor(source):
        updates = updates.expand(places.shape)
    if len(updates.shape) != len(places.shape) or any(a < b for a, b in zip(updates.shape, places.shape, strict=True)):
        raise ShapeError(f"scatter: source {updates.shape} is smaller than index {places.shape}")
    updates = updates.shrink([(0, extent) for extent in places.shape])
    widths = [
        (0, 0 if i == axis else outer - stop)
        for i, (outer, (_, stop)) in enumerate(zip(base.shape, bounds, strict=True))
    ]
    if any(after for _, after in widths):
        if places.dtype.max < size:
            places = places.cast(dtypes.int64)
        places, updates = places.pad(widths, size), updates.pad(widths)
    return places, updates


def scatter_add(x: Tensor, axis: int, index: Tensor, source: Tensor | Scalar) -> Tensor:
    """Return `x` with ``source[i]`` added to ``[i with i[axis] := index[i]]``; see `scatter`.

    On devices with many threads, sums of floats may differ in their last bits from run to run; the setting
    ``deterministic`` keeps them the same.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.scatter_add(zyx.zeros(2), 0, zyx.Tensor([0, 0]), zyx.Tensor([1.0, 2.0])).tolist()
    [3.0, 0.0]
    """
    return scatter(x, axis, index, source, "sum")


def scatter_reduce(
    x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return `x` with ``source[i]`` combined into ``[i with i[axis] := index[i]]``.

    Args:
        x: Any rank from 1 on.
        axis: Where `index` counts.
        index: Integers, on other axes at most as large as `x`.
        source: At least as large as `index`.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: Whether the values of `x` take part where something is written; if not, they only stay elsewhere.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown `reduce`.
        DTypeError: An index that is of no integers.

    >>> zyx.scatter_reduce(zyx.zeros(3), 0, zyx.Tensor([0, 2, 2]), zyx.Tensor([1.0, 2.0, 3.0]), "sum").tolist()
    [1.0, 0.0, 5.0]
    """
    op = ReduceOp.SUM if reduce == "mean" else _REDUCTIONS.get(reduce)
    if op is None:
        raise ShapeError(f'scatter_reduce: reduce is "sum", "prod", "mean", "amax" or "amin", not {reduce!r}')
    if include_self and reduce != "mean":
        return scatter(x, axis, index, source, reduce)
    base = term_of(x, "scatter_reduce")
    axis = shapes.normalize_axis(axis, len(base.shape))
    places, updates = _writes(base, axis, index, source, x)
    wide = dtypes.accumulator(base.dtype)
    graph = base.graph

    def combined(start: Term, values: Term, by: ReduceOp) -> Term:
        return Term(graph, graph.scatter(start.node, places.node, values.node, axis, by))

    start = base.cast(wide)
    ones = Term(graph, graph.const(1, dtypes.int32, base.node.device, places.shape))
    count = combined(Term(graph, graph.const(0, dtypes.int32, base.node.device, base.shape)), ones, ReduceOp.SUM)
    written = count != 0
    if not include_self:
        start = written.where(identity(op, wide), start)
    result = combined(start, updates.cast(wide), op)
    if reduce == "mean":
        divisor = (count + 1 if include_self else count.maximum(1)).cast(wide)
        result = result / written.where(divisor, 1)
    return wrap(written.where(result, base.cast(wide)).cast(base.dtype).node, x)


def put(x: Tensor, indices: IndexLike, values: Tensor | Scalar, accumulate: bool = False) -> Tensor:
    """Return `x` with ``values[i]`` at place ``indices[i]`` of its elements in row-major order.

    Of several values for one place the last stays; with `accumulate` all are added to what is there.

    Raises:
        ShapeError: `values` is no number and has another shape than `indices`.
        IndexRangeError: An index on the host lies outside.

    >>> zyx.put(zyx.zeros(4, dtype=zyx.int32), zyx.Tensor([0, 2]), zyx.Tensor([5, 7])).tolist()
    [5, 0, 7, 0]
    """
    base = term_of(x, "put")
    flat = base.reshape((shapes.size_of(base.shape),))
    places = index_term(indices, flat.shape[0], 0, x, "put")
    count = shapes.size_of(places.shape)
    updates = Term(base.graph, node_of(values, base.dtype, x))
    if updates.shape not in ((), places.shape):
        raise ShapeError(f"put: values {updates.shape} for indices {places.shape}")
    updates = updates.expand(places.shape).reshape((count,))
    op = ReduceOp.SUM if accumulate else None
    node = base.graph.scatter(flat.node, places.reshape((count,)).node, updates.node, 0, op)
    return wrap(base.graph.reshape(node, base.shape), x)


def put_along_axis(x: Tensor, indices: Tensor, values: Tensor | Scalar, axis: int = -1) -> Tensor:
    """Return `x` with ``values[i]`` at ``[i with i[axis] := indices[i]]``.

    On other axes `indices` broadcasts to `x`; of several values for one place the last stays.

    Raises:
        ShapeError: `indices` and `x` have other numbers of axes.

    >>> zyx.put_along_axis(zyx.zeros(2, 2), zyx.Tensor([[1], [0]]), zyx.Tensor([[5.0], [7.0]]), axis=1).tolist()
    [[0.0, 5.0], [7.0, 0.0]]
    """
    base = term_of(x, "put_along_axis")
    axis = shapes.normalize_axis(axis, len(base.shape))
    index = index_term(indices, base.shape[axis], axis, x, "put_along_axis")
    matched, index = _matched(base, index, axis, "put_along_axis")
    if matched.shape != base.shape:
        raise ShapeError(
            f"put_along_axis: indices {index.shape} are larger than {base.shape} on an axis other than {axis}"
        )
    updates = Term(base.graph, node_of(values, base.dtype, x)).expand(index.shape)
    return wrap(base.graph.scatter(base.node, index.node, updates.node, axis), x)


def one_hot(x: Tensor, num_classes: int = -1, *, axis: int = -1, dtype: DTypeLike = "int64") -> Tensor:
    """Return 1 at the class that `x` names and 0 elsewhere, along a new axis.

    Args:
        x: Integers. One outside 0 .. `num_classes` gives zeros only.
        num_classes: Size of the new axis; -1 reads `x` and takes its maximum + 1.
        axis: Place of the new axis in the result.
        dtype: Of the result.

    Raises:
        DTypeError: `x` is not of integers.

    >>> zyx.one_hot(zyx.Tensor([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    term = term_of(x, "one_hot")
    if not term.dtype.is_integer:
        raise DTypeError(f"one_hot takes integers, not {term.dtype}")
    num_classes = as_integer(num_classes, "num_classes")
    if num_classes < 0:
        num_classes = int(x.numpy().max(initial=-1)) + 1
    place = shapes.normalize_axis(axis, len(term.shape) + 1)
    spread = term.reshape((*term.shape[:place], 1, *term.shape[place:]))
    spread = spread.expand((*term.shape[:place], num_classes, *term.shape[place:]))
    wide = spread if spread.dtype.max >= num_classes else spread.cast(dtypes.int64)
    return wrap((wide == wide.iota(place, wide.dtype)).cast(as_dtype(dtype)).node, x)


def nonzero(x: Tensor, *, as_tuple: bool = True) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return the places where `x` is not 0, an int64 index tensor for each axis.

    Without `as_tuple` they are the columns of one tensor, as PyTorch has them unless it is told otherwise.

    Reads `x`, as their number depends on it.

    Raises:
        ShapeError: Rank 0.

    >>> [places.tolist() for places in zyx.nonzero(zyx.Tensor([0, 4, 5]))]
    [[1, 2]]
    """
    tensor = require(x, "nonzero")
    if not tensor.node.ndim and as_tuple:
        raise ShapeError("nonzero takes at least one axis; the shape is ()")
    if not as_tuple:
        rows = np.argwhere(tensor.numpy()).astype(np.int64)
        return wrap(tensor.runtime.upload(rows, tensor.node.device), tensor)
    places = np.nonzero(tensor.numpy())
    return tuple(wrap(tensor.runtime.upload(p.astype(np.int64), tensor.node.device), tensor) for p in places)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of `x` where `mask` holds, as one axis; the two broadcast. Reads `mask`.

    Raises:
        ShapeError: The shapes of `x` and `mask` do not broadcast.

    >>> zyx.masked_select(zyx.Tensor([1, 2, 3]), zyx.Tensor([True, False, True])).tolist()
    [1, 3]
    """
    base, chooser = require(x, "masked_select"), require(mask, "masked_select")
    shape = shapes.broadcast(base.node.shape, chooser.node.shape)
    holds = np.broadcast_to(chooser.numpy() != 0, shape)
    term = term_of(base, "masked_select").expand(shape)
    return take(wrap(term.reshape((shapes.size_of(shape),)).node, base), np.flatnonzero(holds), 0)


take_habits(globals())
