"""Read the key of ``x[key]``: what each part of it does to which axis.

A key is read in two steps, which `indexing` then carries out:

1. **box**: integers, slices, ``...`` and None. Each axis of `x` gets a box (start, size, step); then axes of
   integers go, and None puts axes of size 1 in. This alone is movement of elements, nothing is looked up. While a
   function is traced, a start may be a node: a number among its arguments, or a tensor (`zyx.graph.places`).
2. **lookup**: arrays of integers, and masks, which are turned into the places where they hold. All of them broadcast,
   and pick one element for each of theirs.

Where the axes of a lookup end up follows NumPy: in place of the indexed axes if these stand side by side in the key
(integers count as arrays then), else in front.

    x: (4, 5, 6, 7)    key: [2, :, idx, ::2]     idx: (3,)
    box:    axis 0: 2..3, axis 3: 0..7 by 2, axis 0 goes          (5, 6, 4)
    lookup: axis 1 by idx; integer and array are apart: front     (3, 5, 4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import DTypeError, IndexRangeError, MaskError, ShapeError
from zyx.functions.ingest import host_array
from zyx.functions.operands import Array, is_tensor
from zyx.graph import node as n
from zyx.graph.places import AxisRange, VaryingNumber
from zyx.ops import BinaryOp
from zyx.shape import VaryingSize, as_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.functions import Tensor
    from zyx.graph import Node
    from zyx.shape import Shape


_APART: Final = (slice, type(None), type(Ellipsis))
"""What indices do not stand side by side across."""

_BASIC: Final = (int, *_APART)
"""What is no array."""


class IndexKey(NamedTuple):
    """A key that was read.

    Attributes:
        boxes: One for each axis of the tensor.
        box_shape: The shape after the box: without axes of integers, with new axes.
        lookup: Axis of `box_shape` and index, for each array.
        place: The axis of the result where those of the lookup begin: 0, or in place of the indexed ones.
    """

    boxes: tuple[AxisRange, ...]
    box_shape: Shape
    lookup: tuple[tuple[int, Tensor | Array], ...]
    place: int


def read_key(key: object, like: Tensor) -> IndexKey:
    """Return what `key` does to a tensor such as `like`.

    Masks that are tensors, and integer tensors used as slice bounds, are read.

    Raises:
        IndexRangeError: An integer or a NumPy index outside its axis, or more of them than axes.
        MaskError: A mask that does not match its axes.
        ShapeError: A step of 0.
        DTypeError: Something that is no index.
    """
    shape, device = like.node.shape, like.node.device
    items = _without_ellipsis([_item(part) for part in (key if isinstance(key, tuple) else (key,))], shape)
    boxes: list[AxisRange] = []
    box_shape: list[int] = []
    lookup: list[tuple[int, Tensor | Array]] = []
    advanced_at: list[int] = []  # positions in the key, to see whether these stand side by side
    before_first = 0  # axes of the result that lie before the first of them
    has_array = not all([isinstance(item, _BASIC) for item in items])
    for position, item in enumerate(items):
        axis = len(boxes)
        if has_array and not isinstance(item, _APART):
            if not advanced_at:
                before_first = len(box_shape)
            advanced_at.append(position)
        if item is None:
            box_shape.append(1)
        elif item is Ellipsis:
            continue
        elif isinstance(item, int):
            given: object = item  # what stands in for an int is one to `isinstance`
            if isinstance(given, VaryingNumber):
                boxes.append(AxisRange(given.place(axis, shape[axis], device), 1))
            else:
                boxes.append(AxisRange(inside(item, axis, shape[axis]), 1))
        elif isinstance(item, slice):
            boxes.append(_box(item, axis, shape[axis], like))
            box_shape.append(boxes[-1].size)
        elif is_tensor(item) or item.dtype != np.bool_:
            index = item if is_tensor(item) else located(item, axis, shape[axis])
            lookup.append((len(box_shape), index))
            boxes.append(AxisRange(0, shape[axis]))
            box_shape.append(shape[axis])
        else:
            covered = shape[axis : axis + item.ndim]
            _check_mask(item, axis, covered)
            if not item.ndim:  # a bool alone: an axis of size 1 that is there or not
                lookup.append((len(box_shape), np.zeros(int(item), dtype=np.int64)))
                box_shape.append(1)
            for places, size in zip(np.nonzero(item), covered, strict=True) if item.ndim else ():
                lookup.append((len(box_shape), places))
                boxes.append(AxisRange(0, size))
                box_shape.append(size)
    apart = bool(advanced_at) and advanced_at[-1] - advanced_at[0] + 1 != len(advanced_at)
    return IndexKey(tuple(boxes), tuple(box_shape), tuple(lookup), 0 if apart else before_first)


def _item(part: object) -> Any:  # noqa: ANN401  # what follows tells the kinds apart
    """Return one part of a key in its normal form: int, slice, None, Ellipsis, integer tensor, or NumPy array."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, bool | np.bool_):
        return np.asarray(part)
    if is_tensor(part):
        if part.node.dtype.is_bool:
            return part.numpy()
        if not part.node.dtype.is_integer:
            raise DTypeError(f"a tensor used as an index is of integers or bools, not {part.node.dtype}")
        return part
    if isinstance(part, VaryingNumber) and isinstance(part, int):
        return part
    if not isinstance(part, np.ndarray):
        try:
            return as_size(part)  # type: ignore[arg-type]  # the error is what we are after
        except TypeError:
            pass
    if not isinstance(part, np.ndarray | list | tuple):
        raise DTypeError(f"an index is an integer, slice, ..., None, array or list, not {type(part).__name__}")
    array = np.asarray(part)
    if not array.size and not isinstance(part, np.ndarray):
        return array.astype(np.int64)  # NumPy makes floats of an empty list
    array = host_array(array)
    if array.dtype.kind not in "iub":
        raise DTypeError(f"an array used as an index is of integers or bools, not {array.dtype}")
    return array


def _without_ellipsis(items: list[Any], shape: Shape) -> list[Any]:
    """Return items that name each axis, with slices for what ``...`` or nothing stands for.

    A ``...`` that stands for no axis is left: it still keeps the indices on its two sides apart.
    """
    used = 0
    dots: list[int] = []
    for i, item in enumerate(items):
        if item is Ellipsis:
            dots.append(i)
        else:
            used += 1 if isinstance(item, int | slice) else _axes_of(item)
    if used > len(shape):
        raise IndexRangeError(f"{used} indices for the {len(shape)} axes of {shape}")
    if len(dots) > 1:
        raise IndexRangeError("an index has one ... at most")
    missing: list[Any] = [slice(None)] * (len(shape) - used)
    if dots:
        return [*items[: dots[0]], *(missing or [Ellipsis]), *items[dots[0] + 1 :]]
    return [*items, *missing]


def _axes_of(item: object) -> int:
    """Return how many axes an item other than ``...`` is about."""
    if item is None:
        return 0
    if isinstance(item, np.ndarray) and item.dtype == np.bool_:
        return item.ndim
    return 1


def inside(index: int, axis: int, size: int) -> int:
    """Return `index` counted from the front of an axis of `size`."""
    if not -size <= index < size:
        raise IndexRangeError(f"index {index} is out of range for axis {axis} of size {size}")
    return index if index >= 0 else index + size


def located(index: Array, axis: int, size: int) -> Array:
    """Return an integer array counted from the front, as int64."""
    outside = (index >= size) | (index < -size)
    if outside.any():
        raise IndexRangeError(f"index {index[outside].flat[0]} is out of range for axis {axis} of size {size}")
    places = index.astype(np.int64)
    return np.where(places < 0, places + size, places)


def _box(item: slice, axis: int, size: int, like: Tensor) -> AxisRange:
    if isinstance(size, VaryingSize) or isinstance(item.start, VaryingSize) or isinstance(item.stop, VaryingSize):
        found = _varying_box(item, size)
        if found is not None:
            return found
    if item.step in (None, 1):
        given: tuple[Node, int] | None = None
        if isinstance(item.start, VaryingNumber):
            given = item.start.box(item.stop, size, like.node.device)
        elif is_tensor(item.start) and like.runtime.tracing is not None:
            given = _box_of_tensors(item.start, item.stop, size)
        if given is not None:
            return AxisRange(*given)
    try:
        positions = range(*item.indices(size))
    except ValueError as error:
        raise ShapeError(f"a slice of axis {axis} needs a step other than 0") from error
    except TypeError as error:
        raise DTypeError(f"bounds and step of a slice are integers or None: {item}") from error
    if len(positions) <= 1:
        return AxisRange(positions.start if positions else 0, len(positions))
    return AxisRange(positions.start, len(positions), positions.step)


def _box_of_tensors(start: Tensor, stop: object, size: int) -> tuple[Node, int] | None:
    """Return the start and the size of a slice between two tensors that are a number apart; None of others.

    What they hold is not known while a function is traced: places outside read as 0 and are not written to.
    """
    first, more = _apart(start.node)
    last, behind = _apart(stop.node) if is_tensor(stop) else (None, 0)
    count = behind - more
    if first is not last or first.ndim or not first.dtype.is_integer or not 0 < count <= size:
        return None
    return start.runtime.graph.cast(start.node, dtypes.int64 if first.dtype.bits > 32 else dtypes.int32), count


def _apart(node: Node) -> tuple[Node, int]:
    """Return what an integer is the sum of: a node, and numbers that are added to it."""
    total = 0
    while True:
        match node:
            case n.Binary(op=BinaryOp.ADD, sources=(x, n.Const(value=value))):
                node, total = x, total + int(value)
            case n.Binary(op=BinaryOp.ADD, sources=(n.Const(value=value), x)):
                node, total = x, total + int(value)
            case n.Binary(op=BinaryOp.SUB, sources=(x, n.Const(value=value))):
                node, total = x, total - int(value)
            case _:
                return node, total


def _varying_box(item: slice, size: int) -> AxisRange | None:
    """Return the box of a slice among whose bounds are sizes that vary; None if its step is not 1, nor a plain -1."""
    bounds = [bound for bound in (item.start, item.stop) if bound is not None]
    if item.step == -1 and not bounds:
        return AxisRange(size - 1, size, -1)
    if item.step not in (None, 1) or not all([isinstance(bound, int) for bound in bounds]):
        return None
    first, end = (
        default if bound is None else min(max(bound + size if bound < 0 else bound, 0), size)
        for bound, default in ((item.start, 0), (item.stop, size))
    )
    return AxisRange(first, end - first) if first < end else AxisRange(0, 0)


def _check_mask(mask: Array, axis: int, covered: Shape) -> None:
    fits = len(mask.shape) == len(covered) and all(
        given in (size, 0) for given, size in zip(mask.shape, covered, strict=True)
    )
    if not fits:  # an axis of size 0 chooses nothing, of whatever there is
        raise MaskError(
            f"a mask of shape {mask.shape} does not match axes {axis} to {axis + mask.ndim - 1} of shape {covered}"
        )


def is_whole(boxes: Iterable[AxisRange], shape: Shape) -> bool:
    """Tell whether `boxes` keep everything as it is."""
    return all([box == (0, size, 1) for box, size in zip(boxes, shape, strict=True)])
