"""Write ``x[key] = value``: make the whole new value, and let the tensor stand for it.

Nothing is changed in place as far as anybody can see: other tensors computed from `x` keep their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.index_key import is_whole, read_key
from zyx.functions.indexing import cut, flat_index, pool_axes, pooling_order
from zyx.functions.ingest import node_from_data
from zyx.functions.operands import is_operand, is_tensor, node_of, require, term_of, wrap
from zyx.functions.term import Term, expand_to
from zyx.graph import node as n
from zyx.graph.places import written_at
from zyx.shape import VaryingSize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.index_key import Key
    from zyx.graph import Node
    from zyx.graph.places import Box


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


def _replaced(base: Term, key: Key, value: Node, like: Tensor) -> Term:
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


def _put_back(base: Term, boxes: Sequence[Box], region: Term) -> Term:
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


def _varies(shape: tuple[int, ...], boxes: Sequence[Box]) -> bool:
    """Whether a size stands in for one of many."""
    return any(isinstance(size, VaryingSize) for size in (*shape, *(part for box in boxes for part in box)))


def _is_written_to(node: Node) -> bool:
    """Whether `node` lies in memory, or did before parts of it were written to."""
    while node.storage is None and isinstance(node, n.Reshape | n.Scatter) and 0 not in node.shape:
        node = node.sources[0]
    return node.storage is not None or type(node) is n.Leaf


def _spread_out(region: Term, boxes: Sequence[Box], shape: tuple[int, ...]) -> Term:
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
