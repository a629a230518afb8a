"""Shapes and order of axes: views of the same elements. Nothing is copied until values are needed, and rarely then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ShapeError
from zyx.functions import habitual, take_habits
from zyx.functions.formulas import slide_windows
from zyx.functions.operands import require, term_of, wrap
from zyx.functions.term import Term, expand_to
from zyx.graph.places import VaryingNumber, box_at, is_given
from zyx.integers import as_integer, as_integers, is_several, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.functions import Tensor
    from zyx.shape import Shape

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "diag", "diagonal", "expand_dims", "flatten", "flip",
    "matrix_transpose", "moveaxis", "narrow", "permute_dims", "ravel", "reshape", "squeeze", "swapaxes", "transpose",
    "tril", "triu", "unflatten", "unfold", "windows",
]  # fmt: skip


def reshape(
    x: Tensor, shape: int | Sequence[int] = (), *more: int, copy: bool | None = None, **habits: object
) -> Tensor:
    """Return the elements of `x`, in row-major order, in another shape; one size may be -1 and is worked out.

    The shape is given as ``reshape(x, 2, 3)``, ``reshape(x, (2, 3))`` or ``reshape(x, shape=(2, 3))``.

    Tensors never share what one of them can change, so `copy` makes no difference.

    Raises:
        ShapeError: The numbers of elements differ.

    >>> zyx.reshape(zyx.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    if habits:
        return habitual(reshape, (x, shape, *more), {"copy": copy}, habits)
    tensor = require(x, "reshape")
    node = tensor.node
    return wrap(
        tensor.runtime.graph.reshape(node, shapes.resolve_reshape(node.shape, shapes.as_sizes((shape, *more)))), tensor
    )


def flatten(x: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Return `x` with the axes from `start_axis` to `end_axis`, both included, made one; rank 0 becomes rank 1.

    Raises:
        ShapeError: `start_axis` lies behind `end_axis`.

    >>> zyx.flatten(zyx.zeros(2, 3, 4), 1).shape
    (2, 12)
    """
    shape = require(x, "flatten").node.shape
    if not shape:
        return reshape(x, (1,))
    first = shapes.normalize_axis(start_axis, len(shape), "start_axis")
    last = shapes.normalize_axis(end_axis, len(shape), "end_axis")
    if first > last:
        raise ShapeError(f"flatten: start_axis {start_axis} lies behind end_axis {end_axis} of {shape}")
    merged = shapes.size_of(shape[first : last + 1])
    return reshape(x, (*shape[:first], merged, *shape[last + 1 :]))


def ravel(x: Tensor) -> Tensor:
    """Return `x` as one axis.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.ravel(zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    return reshape(x, (shapes.size_of(require(x, "ravel").node.shape),))


def unflatten(x: Tensor, axis: int, sizes: Sequence[int]) -> Tensor:
    """Return `x` with `axis` made several of `sizes`, one of which may be -1.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: The sizes make another number of elements than the axis has, or two of them are -1.

    >>> zyx.unflatten(zyx.zeros(2, 6), 1, (2, 3)).shape
    (2, 2, 3)
    """
    shape = require(x, "unflatten").node.shape
    axis = shapes.normalize_axis(axis, len(shape))
    inner = shapes.resolve_reshape((shape[axis],), sizes)
    return reshape(x, (*shape[:axis], *inner, *shape[axis + 1 :]))


def expand_dims(x: Tensor, axis: int | Sequence[int] = 0, **habits: object) -> Tensor:
    """Return `x` with new axes of size 1 at `axis`, counted in the result.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.expand_dims(zyx.zeros(2, 3), 1).shape
    (2, 1, 3)
    """
    if habits:
        return habitual(expand_dims, (x, axis), {}, habits)
    shape = require(x, "expand_dims").node.shape
    count = len(axis) if is_several(axis) else 1  # type: ignore[arg-type]  # what is several has a length
    places = shapes.normalize_axes(axis, len(shape) + count)
    old = iter(shape)
    return reshape(x, tuple(1 if i in places else next(old) for i in range(len(shape) + count)))


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None, **habits: object) -> Tensor:
    """Return `x` without the axes `axis`, which have size 1; None means all of size 1.

    Raises:
        ShapeError: An axis that is named has another size.

    >>> zyx.squeeze(zyx.zeros(2, 1, 3), 1).shape
    (2, 3)
    """
    if habits:
        return habitual(squeeze, (x, axis), {}, habits)
    shape = require(x, "squeeze").node.shape
    if axis is None:
        return reshape(x, tuple(size for size in shape if size != 1))
    axes = shapes.normalize_axes(axis, len(shape))
    for i in axes:
        if shape[i] != 1:
            raise ShapeError(f"cannot squeeze axis {i} of {shape}: its size is {shape[i]}, not 1")
    return reshape(x, tuple(size for i, size in enumerate(shape) if i not in axes))


def broadcast_to(x: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Return `x` repeated along new axes in front and axes of size 1, to `shape`.

    Raises:
        ShapeError: `x` does not broadcast to it.

    >>> zyx.broadcast_to(zyx.Tensor([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    tensor = require(x, "broadcast_to")
    target = shapes.as_shape(shape)
    if shapes.broadcast(tensor.node.shape, target) != target:
        raise ShapeError(f"cannot broadcast {tensor.node.shape} to {target}")
    return wrap(expand_to(tensor.runtime.graph, tensor.node, target), tensor)


def expand(x: Tensor, *shape: int | Sequence[int]) -> Tensor:
    """Return `x` broadcast to `shape`, in which -1 keeps a size."""
    own = require(x, "expand").node.shape
    wanted = shapes.as_sizes(shape)
    missing = len(wanted) - len(own)
    kept = tuple(own[i - missing] if size == -1 and i >= missing else size for i, size in enumerate(wanted))
    return broadcast_to(x, kept)


def broadcast_arrays(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return `tensors` broadcast to one shape.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: One is no tensor.

    >>> [x.shape for x in zyx.broadcast_arrays(zyx.ones(2, 1), zyx.ones(3))]
    [(2, 3), (2, 3)]
    """
    shape = shapes.broadcast(*(require(x, "broadcast_arrays").node.shape for x in tensors))
    return tuple([broadcast_to(x, shape) for x in tensors])


def broadcast_shapes(*given: int | Sequence[int]) -> Shape:
    """Return the one shape that tensors of the shapes `given` are broadcast to, by NumPy's rules; () of none.

    Raises:
        ShapeError: There is none, or a size is negative or no integer.

    >>> zyx.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return shapes.broadcast(*(shapes.as_shape(shape) for shape in given))


# ---- order of axes


def permute_dims(x: Tensor, axes: int | Sequence[int] = (), *more: int, **habits: object) -> Tensor:
    """Return `x` with its axis number ``axes[i]`` at position i; they may also be given one by one.

    Raises:
        ShapeError: `axes` are not all axes of `x`.

    >>> zyx.permute_dims(zyx.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    if habits:
        return habitual(permute_dims, (x, axes, *more), {}, habits)
    tensor = require(x, "permute_dims")
    wanted = shapes.as_sizes((axes, *more))
    node = tensor.node
    ndim = len(node.shape)
    places = shapes.normalize_axes(wanted, ndim)
    if len(places) != ndim:
        raise ShapeError(f"permute_dims: {wanted} names {len(places)} of the {ndim} axes of {node.shape}")
    return wrap(tensor.runtime.graph.permute(node, places), tensor)


def transpose(x: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """Return `x` with axes reordered.

    Without axes, all are reversed; two integers are swapped, as in PyTorch; a sequence, or another number of integers,
    is the order of all axes, as in NumPy.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: An axis comes twice, or is left out.

    >>> zyx.transpose(zyx.zeros(2, 3), 0, 1).shape
    (3, 2)
    """
    ndim = require(x, "transpose").node.ndim
    if not axes or axes[0] is None:
        return permute_dims(x, tuple(reversed(range(ndim))))
    if len(axes) == 2:
        places = shapes.as_sizes(axes)
        return x if not ndim and {*places} <= {0, -1} else swapaxes(x, *places)
    return permute_dims(x, shapes.as_sizes(axes))


def swapaxes(x: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return `x` with two axes exchanged.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.swapaxes(zyx.zeros(2, 3, 4), 0, 2).shape
    (4, 3, 2)
    """
    return _exchanged(x, axis0, axis1)


def _exchanged(x: Tensor, axis0: int, axis1: int) -> Tensor:
    ndim = require(x, "swapaxes").node.ndim
    if not ndim and axis0 in (0, -1) and axis1 in (0, -1):  # those of a number, as in PyTorch
        return x
    first, second = shapes.normalize_axis(axis0, ndim, "axis0"), shapes.normalize_axis(axis1, ndim, "axis1")
    order = list(range(ndim))
    order[first], order[second] = second, first
    return permute_dims(x, order)


def matrix_transpose(x: Tensor) -> Tensor:
    """Return `x` with its last two axes exchanged.

    Raises:
        ShapeError: Fewer than two axes.

    >>> zyx.matrix_transpose(zyx.zeros(5, 2, 3)).shape
    (5, 3, 2)
    """
    if require(x, "matrix_transpose").node.ndim < 2:
        raise ShapeError(f"matrix_transpose needs two axes; the shape is {x.node.shape}")
    return _exchanged(x, -1, -2)


def t(x: Tensor) -> Tensor:
    """Return `x` with its last two axes exchanged; rank 0 and 1 stay as they are."""
    return _exchanged(x, -1, -2) if require(x, "t").node.ndim >= 2 else wrap(x.node, x)


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return `x` with the axes `source` moved to the positions `destination`; the others keep their order.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: An axis comes twice, or there are not as many axes as positions.

    >>> zyx.moveaxis(zyx.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    ndim = require(x, "moveaxis").node.ndim
    origins = shapes.normalize_axes(source, ndim, "source")
    targets = shapes.normalize_axes(destination, ndim, "destination")
    if len(origins) != len(targets):
        raise ShapeError(f"moveaxis: {len(origins)} axes do not go to {len(targets)} positions")
    placed = dict(zip(targets, origins, strict=True))
    rest = iter(axis for axis in range(ndim) if axis not in origins)
    return permute_dims(x, tuple(placed[i] if i in placed else next(rest) for i in range(ndim)))


def flip(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return `x` reversed along `axis`; None means all axes.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: An axis comes twice.

    >>> zyx.flip(zyx.arange(3)).tolist()
    [2, 1, 0]
    """
    tensor = require(x, "flip")
    axes = shapes.normalize_axes(axis, tensor.node.ndim)
    return wrap(tensor.runtime.graph.flip(tensor.node, axes), tensor)


# ---- parts


def shrink(x: Tensor, bounds: Sequence[tuple[int, int]]) -> Tensor:
    """Return the box ``bounds[i]`` = (start, stop) along axis i of `x`."""
    tensor = require(x, "shrink")
    pairs = [(as_integer(start, "each bound"), as_integer(stop, "each bound")) for start, stop in bounds]
    return wrap(tensor.runtime.graph.shrink(tensor.node, pairs), tensor)


def narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """Return `length` positions of `axis` from `start` on, which may count from the end.

    Raises:
        ShapeError: They do not lie within the axis.

    >>> zyx.narrow(zyx.arange(6), 0, 1, 3).tolist()
    [1, 2, 3]
    """
    term = term_of(x, "narrow")
    axis = shapes.normalize_axis(axis, len(term.shape))
    size = term.shape[axis]
    length = shapes.as_size(length, "length")
    given: object = start  # what stands in for an int is one to `isinstance`
    if isinstance(given, VaryingNumber) and (found := given.box(start + length, size, term.node.device)) is not None:
        return wrap(box_at(term.graph, term.node, axis, *found), x)
    start = as_integer(start, "start")
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise ShapeError(f"narrow: {length} positions from {start} do not lie within axis {axis} of size {size}")
    return wrap(term.narrow(axis, first, first + length).node, x)


def diagonal(x: Tensor, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return the diagonals of the matrices in `axis1` and `axis2`, as a new last axis.

    `offset` > 0 lies above the main diagonal, < 0 below.

    Raises:
        ShapeError: Fewer than two axes.

    >>> zyx.diagonal(zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    offset = as_integer(offset, "offset")
    moved = moveaxis(x, (axis1, axis2), (-2, -1))
    term = term_of(moved, "diagonal")
    batch, (rows, columns) = term.shape[:-2], term.shape[-2:]
    length = min(rows + min(offset, 0), columns - max(offset, 0))
    if length <= 0:
        return wrap(term.graph.const(0, term.dtype, term.node.device, (*batch, 0)), x)
    square = term.narrow(len(batch), max(-offset, 0), max(-offset, 0) + length)
    square = square.narrow(len(batch) + 1, max(offset, 0), max(offset, 0) + length)
    # One more element at the end, and rows of one more: then the diagonal is the first column.
    flat = square.reshape((*batch, length * length)).pad([(0, 0)] * len(batch) + [(0, length)])
    column = flat.reshape((*batch, length, length + 1)).narrow(len(batch) + 1, 0, 1)
    return wrap(column.reshape((*batch, length)).node, x)


def diag(x: Tensor, offset: int = 0) -> Tensor:
    """Return the matrix with `x` of rank 1 on a diagonal and 0 elsewhere, or the diagonal of a matrix.

    Raises:
        ShapeError: `x` has no axis, or more than two.
        IntegerError: `offset` is no integer.

    >>> zyx.diag(zyx.Tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    term = term_of(x, "diag")
    if len(term.shape) == 2:
        return diagonal(x, offset)
    if len(term.shape) != 1:
        raise ShapeError(f"diag takes one or two axes, not {term.shape}")
    length, offset = term.shape[0], as_integer(offset, "offset")
    size = length + abs(offset)
    spread = term.pad([(max(offset, 0), max(-offset, 0))]).reshape((1, size)).expand((size, size))
    row, column = spread.iota(0, dtypes.int32), spread.iota(1, dtypes.int32)
    return wrap((column - row == offset).where(spread, 0).node, x)


def as_diagonal(k: int) -> int:
    """Return the number of a diagonal, which may be beyond all there are, as one that coordinates are compared with."""
    if is_given(k):
        return k
    number = as_integer(k, "k")
    return max(min(number, int(dtypes.int32.max)), int(dtypes.int32.min)) if type(number) is int else number


def triu(x: Tensor, k: int = 0) -> Tensor:
    """Return the matrices `x` with 0 below diagonal `k`.

    Raises:
        ShapeError: `x` has fewer than two axes.
        IntegerError: `k` is no integer.

    >>> zyx.triu(zyx.ones(3, 3), 1).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    bound = as_diagonal(k)
    return _triangle(x, "triu", lambda distance: distance >= bound)


def tril(x: Tensor, k: int = 0) -> Tensor:
    """Return the matrices `x` with 0 above diagonal `k`.

    Raises:
        ShapeError: `x` has fewer than two axes.
        IntegerError: `k` is no integer.

    >>> zyx.tril(zyx.ones(3, 3)).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    bound = as_diagonal(k)
    return _triangle(x, "tril", lambda distance: distance <= bound)


def _triangle(x: Tensor, what: str, keeps: Callable[[Term], Term]) -> Tensor:
    term = term_of(x, what)
    ndim = len(term.shape)
    if ndim < 2:
        raise ShapeError(f"{what} needs matrices; the shape is {term.shape}")
    distance = term.iota(ndim - 1, dtypes.int32) - term.iota(ndim - 2, dtypes.int32)
    return wrap(keeps(distance).where(term, 0).node, x)


# ---- windows


def windows(
    x: Tensor, size: Sequence[int], stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1
) -> Tensor:
    """Return the windows of `size` over the last axes of `x`.

    Args:
        x: ``(..., n1, .., nk)``.
        size: Sizes of a window along the last k axes.
        stride: Distance between windows, for all axes or each.
        dilation: Distance between elements of a window.

    Returns:
        ``(..., o1, .., ok, *size)`` with ``o = (n - dilation * (size - 1) - 1) // stride + 1``, 0 if no window fits.

    Raises:
        ShapeError: A size, stride or dilation below 1, or more of them than there are axes.

    >>> zyx.windows(zyx.arange(5), 3).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    extents = as_integers(size, "size")
    count = len(extents)
    strides, dilations = spread(stride, count, "stride"), spread(dilation, count, "dilation")
    return wrap(slide_windows(term_of(x, "windows"), extents, strides, dilations).node, x)


def unfold(x: Tensor, axis: int, size: int, step: int = 1) -> Tensor:
    """Return the windows of `size` along `axis`, `step` apart, as a new last axis.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: `size` or `step` is below 1.

    >>> zyx.unfold(zyx.arange(5), 0, 3, 1).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    ndim = require(x, "unfold").node.ndim
    if not ndim and axis in (0, -1):
        return unfold(reshape(x, (1,)), 0, size, step)[0]
    axis = shapes.normalize_axis(axis, ndim)
    size, step = as_integer(size, "size"), as_integer(step, "step")
    return moveaxis(windows(moveaxis(x, axis, -1), (size,), step), -2, axis)


take_habits(globals())
