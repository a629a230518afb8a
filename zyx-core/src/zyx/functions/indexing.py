"""Read ``x[key]``. What a key means is told in `index_key`.

Indices that are known when the graph is built are checked then. Of an index tensor, negative numbers count from the
end; reads outside give 0, and writes outside are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import IterationError, ShapeError
from zyx.functions.index_key import Key, inside, is_whole, read_key
from zyx.functions.operands import require, term_of, wrap
from zyx.functions.term import Term
from zyx.graph import node as n
from zyx.graph.places import Box, box_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.functions import Tensor
    from zyx.functions.operands import Array
    from zyx.graph import Node
    from zyx.shape import Shape


def getitem(x: Tensor, key: object) -> Tensor:
    """Return the part of `x` that `key` names: integers, slices, ``...``, None, integer arrays, masks, as in NumPy.

    A mask is read if it is a tensor, since the shape of the result depends on it.

    Raises:
        IndexRangeError: An index that is known lies outside its axis, or there are too many.
        ShapeError: A mask that does not match, or a step of 0.
        DTypeError: Something that is no index.
    """
    if type(key) is int:  # as loops over rows have it: without all that a key may be
        tensor = require(x, "indexing")
        graph, node = tensor.runtime.graph, tensor.node
        shape = node.shape
        if shape:
            start = inside(key, 0, shape[0])
            box = graph.shrink(node, ((start, start + 1), *[(0, size) for size in shape[1:]]))
            return tensor.like(graph.reshape(box, shape[1:]))
    term = term_of(x, "indexing")
    parsed = read_key(key, x)
    boxed = cut(term, parsed.boxes).reshape(parsed.box_shape)
    return wrap(look_up(boxed, parsed, x).node, x)


def iterate(x: Tensor) -> Iterator[Tensor]:
    """Return the slices along the first axis, one after the other.

    Raises:
        IterationError: Rank 0.
    """
    shape = require(x, "iteration").node.shape
    if not shape:
        raise IterationError("a tensor of rank 0 has nothing to iterate over; use .item()")
    return (getitem(x, i) for i in range(shape[0]))


def cut(term: Term, boxes: Sequence[Box]) -> Term:
    """Return the positions that `boxes` name, in their order; no axis goes."""
    if is_whole(boxes, term.shape):
        return term
    for axis, box in enumerate(boxes):
        if isinstance(box.start, n.Node):
            term = Term(term.graph, box_at(term.graph, term.node, axis, box.start, box.size))
            boxes = [*boxes[:axis], Box(0, box.size), *boxes[axis + 1 :]]
    bounds: list[tuple[int, int]] = []
    for at, size, step in boxes:
        start = cast("int", at)  # those that are nodes are done
        last = start + (size - 1) * step
        bounds.append((min(start, last), max(start, last) + 1) if size else (0, 0))
    term = term.shrink(bounds)
    if all([box.step == 1 for box in boxes]):
        return term
    term = term.flip([axis for axis, box in enumerate(boxes) if box.step < 0])
    strided = [axis for axis, box in enumerate(boxes) if abs(box.step) > 1]
    if not strided:
        return term
    # A step is a slide of windows of one element.
    window = len(term.shape)
    node = term.reshape((*term.shape, 1)).node
    for axis in strided:
        node = term.graph.slide(node, axis, window, boxes[axis].size, abs(boxes[axis].step))
    return Term(term.graph, term.graph.reshape(node, node.shape[:-1]))


def look_up(boxed: Term, key: Key, like: Tensor) -> Term:
    """Return the elements of `boxed` that the arrays of `key` pick."""
    if not key.lookup:
        return boxed
    pooled, place, batch = pool_axes(boxed, key)
    index = flat_index(boxed, key, batch, like)
    rest = (*pooled.shape[:place], *pooled.shape[place + 1 :])
    count = shapes.size_of(batch)
    spread = index.reshape([count if i == place else 1 for i in range(len(pooled.shape))])
    spread = spread.expand((*rest[:place], count, *rest[place:]))
    found = Term(boxed.graph, boxed.graph.gather(pooled.node, spread.node, place))
    return found.reshape((*rest[:place], *batch, *rest[place:]))


def pool_axes(boxed: Term, key: Key) -> tuple[Term, int, Shape]:
    """Return `boxed` with all indexed axes made one, where that is, and the shape that the arrays broadcast to."""
    axes = [axis for axis, _ in key.lookup]
    try:
        batch = shapes.broadcast(*(tuple(index.shape) for _, index in key.lookup))
    except ShapeError as error:
        raise ShapeError(
            f"indices do not broadcast to one shape: {', '.join(str(i.shape) for _, i in key.lookup)}"
        ) from error
    order = pooling_order(len(boxed.shape), axes, key.place)
    turned = boxed.permute(order)
    pooled_size = shapes.size_of(tuple(boxed.shape[axis] for axis in axes))
    shape = (*turned.shape[: key.place], pooled_size, *turned.shape[key.place + len(axes) :])
    return turned.reshape(shape), key.place, batch


def pooling_order(ndim: int, axes: Sequence[int], place: int) -> list[int]:
    """Return the order of axes in which `axes` stand side by side from `place` on."""
    others = [axis for axis in range(ndim) if axis not in axes]
    return [*others[:place], *axes, *others[place:]]


def flat_index(boxed: Term, key: Key, batch: Shape, like: Tensor) -> Term:
    """Return the places in the pooled axis, one for each element of `batch`, as one axis.

    A place is outside if one of the indices it is made of is.
    """
    sizes = [boxed.shape[axis] for axis, _ in key.lookup]
    total = shapes.size_of(tuple(sizes))
    indices = [index for _, index in key.lookup]
    count = shapes.size_of(batch)
    fixed = [index for index in indices if isinstance(index, np.ndarray)]
    if len(fixed) == len(indices):
        places = np.zeros(batch, dtype=np.int64)
        for array, size in zip(fixed, sizes, strict=True):
            places = places * size + array
        return Term(boxed.graph, _upload(places.reshape(-1), total, like))
    terms = [
        Term(boxed.graph, _upload(index, total, like)) if isinstance(index, np.ndarray) else term_of(index, "indexing")
        for index in indices
    ]
    if len(terms) == 1:
        return terms[0].reshape((count,))  # gather itself counts negative ones from the end
    dtype = dtypes.int64
    result: Term | None = None
    outside: Term | None = None
    for term, size in zip(terms, sizes, strict=True):
        wide = (term.minimum(size) if term.dtype is dtypes.uint64 else term).cast(dtype)
        local = (wide < 0).where(wide + size, wide)
        wrong = (local < 0) | (local >= size)
        result = local if result is None else result * size + local
        outside = wrong if outside is None else outside | wrong
    if result is None or outside is None:
        raise ShapeError("a lookup has at least one index")
    return outside.where(total, result).expand(batch).reshape((count,))


def _upload(index: Array, size: int, like: Tensor) -> Node:
    """Return places below `size` as a node, of the narrower type that holds them."""
    return like.runtime.upload(index.astype(np.int32 if size < 1 << 31 else np.int64), like.node.device)
