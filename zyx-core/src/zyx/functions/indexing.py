"""Read ``x[key]``, and write it: ``x[key] = value``. What a key means is told in `index_key`.

Indices that are known when the graph is built are checked then. Of an index tensor, negative numbers count from the
end; reads outside give 0, and writes outside are dropped.

To write is to make the whole new value, and to let the tensor stand for it. Nothing is changed in place as far as
anybody can see: other tensors computed from `x` keep their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, IterationError, ShapeError
from zyx.functions.index_key import IndexKey, inside, is_whole, read_key
from zyx.functions.ingest import node_from_data
from zyx.functions.operands import is_operand, is_tensor, node_of, require, term_of, wrap
from zyx.functions.term import Term, expand_to
from zyx.graph import node as n
from zyx.graph.places import AxisRange, box_at, written_at
from zyx.shape import VaryingSize

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


def cut(term: Term, boxes: Sequence[AxisRange]) -> Term:
    """Return the positions that `boxes` name, in their order; no axis goes."""
    if is_whole(boxes, term.shape):
        return term
    for axis, box in enumerate(boxes):
        if isinstance(box.start, n.Node):
            term = Term(term.graph, box_at(term.graph, term.node, axis, box.start, box.size))
            boxes = [*boxes[:axis], AxisRange(0, box.size), *boxes[axis + 1 :]]
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


def look_up(boxed: Term, key: IndexKey, like: Tensor) -> Term:
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


def pool_axes(boxed: Term, key: IndexKey) -> tuple[Term, int, Shape]:
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


def flat_index(boxed: Term, key: IndexKey, batch: Shape, like: Tensor) -> Term:
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


# ---- writing


def setitem(x: Tensor, key: object, value: object) -> None:
    """Let `x` stand for its values with those at `key` replaced by `value`, which broadcasts and is cast.

    A mask as the only key, with a value that needs no counting, is not read. Of several values written to one place by
    an index array, the last stays.

    Raises:
        IndexRangeError: As for reading.
        ShapeError: As for reading, or `value` does not broadcast.
        DTypeError: As for reading, or a number that does not fit the dtype.
    """
    tensor = require(x, "assignment")
    tensor.runtime.assign(tensor, replaced(tensor, key, value).node)


def replaced(x: Tensor, key: object, value: object) -> Tensor:
    """Return `x` with the values at `key` replaced; see `setitem`."""
    tensor, base = require(x, "assignment"), term_of(x, "assignment")
    new = _as_value(value, tensor)
    if is_tensor(key) and key.node.dtype.is_bool and _fits_behind(key, new, base):
        mask = Term(base.graph, key.node)
        mask = mask.reshape((*mask.shape, *[1] * (len(base.shape) - len(mask.shape)))).expand(base.shape)
        result = mask.where(Term(base.graph, new).expand(base.shape), base)
    else:
        parsed = read_key(key, tensor)
        result = _replaced(base, parsed, new, tensor)
    return wrap(result.node, tensor)


def assign(x: Tensor, value: object) -> Tensor:
    """Let `x` stand for `value`, of the same shape and dtype; return `x`.

    What has no history of gradients, such as a weight, is computed together with whatever is computed next: so a loop
    that assigns in each turn what it made of the turn before never computes a turn twice.

    Raises:
        ShapeError: Another shape.
        DTypeError: Another dtype.
    """
    tensor = require(x, "assign")
    node = tensor.node
    new = value.node if is_tensor(value) else node_from_data(value, node.dtype, node.device, tensor.runtime)
    if new.shape != node.shape:
        raise ShapeError(f"assign: a tensor of shape {node.shape} cannot stand for one of shape {new.shape}")
    if new.dtype is not node.dtype:
        raise DTypeError(
            f"assign: a tensor of {node.dtype} cannot stand for one of {new.dtype}; use .astype({node.dtype})"
        )
    tensor.runtime.assign(tensor, tensor.runtime.graph.to_device(new, node.device))
    if tensor.is_leaf:
        tensor.runtime.realize_along(tensor)
    return tensor


def _as_value(value: object, like: Tensor) -> Node:
    """Return `value` in the dtype of `like`."""
    dtype = like.node.dtype
    graph = like.runtime.graph
    if isinstance(value, bool | int | float):
        dtypes.promote_scalar(dtype, value)
        own = dtypes.float64 if isinstance(value, float) else dtype
        return graph.cast(graph.const(value, own, like.node.device), dtype)
    if is_operand(value):
        return node_of(value, dtype, like)
    return graph.cast(node_from_data(value, None, like.node.device, like.runtime), dtype)


def _fits_behind(mask: Tensor, value: Node, base: Term) -> bool:
    """Tell whether each place of `mask`, which covers the first axes of `base`, takes the same `value`."""
    covered = mask.node.ndim
    return mask.node.shape == base.shape[:covered] and value.ndim <= len(base.shape) - covered


def _replaced(base: Term, key: IndexKey, value: Node, like: Tensor) -> Term:
    region_shape = tuple(box.size for box in key.boxes)
    boxed = cut(base, key.boxes).reshape(key.box_shape)
    if not key.lookup:
        new = Term(base.graph, _broadcast(value, key.box_shape, base))
    else:
        pooled, place, batch = pool_axes(boxed, key)
        index = flat_index(boxed, key, batch, like)
        rest = (*pooled.shape[:place], *pooled.shape[place + 1 :])
        count = shapes.size_of(batch)
        along = (*rest[:place], count, *rest[place:])
        spread = index.reshape([count if i == place else 1 for i in range(len(along))]).expand(along)
        updates = Term(base.graph, _broadcast(value, (*rest[:place], *batch, *rest[place:]), base)).reshape(along)
        written = base.graph.scatter(pooled.node, spread.node, updates.node, place)
        axes = [axis for axis, _ in key.lookup]
        order = pooling_order(len(key.box_shape), axes, place)
        turned = Term(base.graph, written).reshape([key.box_shape[axis] for axis in order])
        new = turned.permute(sorted(range(len(order)), key=order.__getitem__))
    return _put_back(base, key.boxes, new.reshape(region_shape))


def _broadcast(value: Node, shape: tuple[int, ...], base: Term) -> Node:
    """Return `value` in the shape of the part that it replaces; axes of size 1 in front may be too many."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = base.graph.reshape(value, value.shape[1:])
    covered = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in covered):
        raise ShapeError(
            f"a value of shape {value.shape} does not fit the part of shape {shape} that it is assigned to"
        )
    return expand_to(base.graph, value, shape)


def _put_back(base: Term, boxes: Sequence[AxisRange], region: Term) -> Term:
    """Return `base` with the positions of `boxes` replaced by `region`.

    What lies in memory, or was written to like that, is written to: nothing but the region, where the memory is its
    tensor's alone. Of what is computed, the rest is computed with the region in its place.
    """
    if is_whole(boxes, base.shape):
        return region
    if any(not box.size for box in boxes):
        return base
    is_given = any(isinstance(box.start, n.Node) for box in boxes)
    if is_given or (_is_written_to(base.node) and not _varies(base.shape, boxes)):
        return Term(base.graph, written_at(base.graph, base.node, boxes, region.node))
    placed = _spread_out(region, boxes, base.shape)
    everywhere = base.graph.const(True, dtypes.bool_, base.node.device, region.shape)
    inside = _spread_out(Term(base.graph, everywhere), boxes, base.shape)
    return inside.where(placed, base)


def _varies(shape: tuple[int, ...], boxes: Sequence[AxisRange]) -> bool:
    """Whether a size stands in for one of many."""
    return any(isinstance(size, VaryingSize) for size in (*shape, *(part for box in boxes for part in box)))


def _is_written_to(node: Node) -> bool:
    """Whether `node` lies in memory, or did before parts of it were written to."""
    while node.storage is None and isinstance(node, n.Reshape | n.Scatter) and 0 not in node.shape:
        node = node.sources[0]
    return node.storage is not None or type(node) is n.Leaf


def _spread_out(region: Term, boxes: Sequence[AxisRange], shape: tuple[int, ...]) -> Term:
    """Return `region` at the positions of `boxes` in a tensor of `shape`, and 0 elsewhere: `cut` backward."""
    graph, node = region.graph, region.node
    strided = [axis for axis, box in enumerate(boxes) if abs(box.step) > 1]
    if strided:
        window = node.ndim
        node = graph.reshape(node, (*node.shape, 1))
        for axis in strided:
            box = boxes[axis]
            node = graph.unslide(node, axis, window, (box.size - 1) * abs(box.step) + 1, abs(box.step))
        node = graph.reshape(node, node.shape[:-1])
    spread = Term(graph, node).flip([axis for axis, box in enumerate(boxes) if box.step < 0])
    widths = []
    for box, extent, size in zip(boxes, spread.shape, shape, strict=True):
        start = cast("int", box.start)
        first = min(start, start + (box.size - 1) * box.step)
        widths.append((first, size - first - extent))
    return spread.pad(widths)
