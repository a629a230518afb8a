"""Put tensors together, take them apart, repeat them, and add borders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions import take_habits
from zyx.functions.index_key import inside
from zyx.functions.indexing import cut
from zyx.functions.movement import expand_dims, narrow, reshape
from zyx.functions.operands import common_dtype, first_tensor, is_tensor, node_of, require, term_of, wrap
from zyx.functions.term import Term
from zyx.graph.making import joined
from zyx.graph.places import AxisRange, VaryingNumber, is_given
from zyx.integers import as_integer, as_integers, is_several
from zyx.shape import VaryingSize, as_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import Scalar
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = ["chunk", "concat", "meshgrid", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]


def join_terms(terms: Sequence[Term], axis: int) -> Term:
    """Return `terms`, of one dtype and of shapes that differ along `axis` only, one after the other."""
    graph = terms[0].graph
    return Term(graph, joined(graph, [term.node for term in terms], axis))


def concat(tensors: Sequence[Operand], axis: int | None = 0) -> Tensor:
    """Return `tensors` joined along `axis`; with None they are flattened first. Dtypes are promoted.

    An empty one of shape (0,) is left out beside others of more axes, as in PyTorch.

    Raises:
        ShapeError: No tensors, or shapes that differ along another axis.

    >>> zyx.concat([zyx.Tensor([1]), zyx.Tensor([2, 3])]).tolist()
    [1, 2, 3]
    """
    given = list(tensors)
    if not given:
        raise ShapeError("concat takes at least one tensor")
    like = first_tensor(given, "concat")
    dtype = common_dtype(given, "concat")
    terms = [Term(like.runtime.graph, node_of(x, dtype, like)) for x in given]
    if axis is None:
        return wrap(join_terms([term.reshape((shapes.size_of(term.shape),)) for term in terms], 0).node, like)
    if len({len(term.shape) for term in terms}) > 1:  # PyTorch's habit: (0,) is nothing, beside whatever shapes
        terms = [term for term in terms if term.shape != (0,)] or terms
    place = shapes.normalize_axis(axis, len(terms[0].shape))
    rest = [(*term.shape[:place], *term.shape[place + 1 :]) for term in terms]
    if any(len(term.shape) <= place or other != rest[0] for term, other in zip(terms, rest, strict=True)):
        raise ShapeError(
            f"concat: shapes {', '.join(str(t.shape) for t in terms)} differ on an axis other than {place}"
        )
    return wrap(join_terms(terms, place).node, like)


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Return `tensors`, all of one shape, joined along a new axis at `axis`.

    Raises:
        ShapeError: No tensors, or different shapes.

    >>> zyx.stack([zyx.Tensor([1, 2]), zyx.Tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    given = list(tensors)
    if not given:
        raise ShapeError("stack takes at least one tensor")
    like = first_tensor(given, "stack")
    dtype = common_dtype(given, "stack")
    parts = [wrap(node_of(x, dtype, like), like) for x in given]
    if any(part.node.shape != parts[0].node.shape for part in parts[1:]):
        raise ShapeError(f"stack: shapes {', '.join(str(part.node.shape) for part in parts)} differ")
    return concat([expand_dims(part, axis) for part in parts], shapes.normalize_axis(axis, parts[0].node.ndim + 1))


def unstack(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of `x` along `axis`, without that axis.

    Raises:
        AxisError: `x` has no such axis.

    >>> [row.tolist() for row in zyx.unstack(zyx.Tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    term = term_of(x, "unstack")
    axis = shapes.normalize_axis(axis, len(term.shape))
    rest = (*term.shape[:axis], *term.shape[axis + 1 :])
    return tuple(wrap(term.narrow(axis, i, i + 1).reshape(rest).node, x) for i in range(term.shape[axis]))


def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return consecutive parts of `x` along `axis`: of the sizes given, or of one size each, the last maybe smaller.

    Raises:
        ShapeError: The sizes do not add up.

    >>> [part.tolist() for part in zyx.split(zyx.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    shape = require(x, "split").node.shape
    axis = shapes.normalize_axis(axis, len(shape))
    total = shape[axis]
    if is_several(sizes):
        parts = list(as_integers(sizes, "each of sizes"))
    else:
        size = as_integer(sizes, "sizes")
        if size < 1:
            raise ShapeError(f"split: parts have at least one position, not {size}")
        parts = [min(size, total - start) for start in range(0, max(total, 1), size)]
    if sum(parts) != total or min(parts, default=0) < 0:
        raise ShapeError(f"split: sizes {parts} do not add up to {total}, the size of axis {axis} of {shape}")
    starts = [sum(parts[:i]) for i in range(len(parts))]
    return tuple(narrow(x, axis, start, size) for start, size in zip(starts, parts, strict=True))


def chunk(x: Tensor, count: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return at most `count` parts of `x` along `axis`, all of one size but the last, which may be smaller.

    Raises:
        ShapeError: Fewer than one part.

    >>> [part.tolist() for part in zyx.chunk(zyx.arange(6), 3)]
    [[0, 1], [2, 3], [4, 5]]
    """
    total = require(x, "chunk").node.shape[shapes.normalize_axis(axis, x.node.ndim)]
    count = as_integer(count, "count")
    if count < 1:
        raise ShapeError(f"chunk makes at least one part, not {count}")
    return split(x, max(-(-total // count), 1), axis)


# ---- repetition


def tile(x: Tensor, *counts: int | Sequence[int]) -> Tensor:
    """Return `x` repeated as a whole ``counts[i]`` times along axis i; missing counts and axes are 1, in front.

    Raises:
        ShapeError: A negative count.

    >>> zyx.tile(zyx.Tensor([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    term = term_of(x, "tile")
    times = as_sizes(counts)
    if min(times, default=0) < 0:
        raise ShapeError(f"tile: counts are at least 0, not {min(times)}")
    ndim = max(len(times), len(term.shape))
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - len(term.shape)) + term.shape
    apart = term.reshape([n for size in shape for n in (1, size)])
    repeated = apart.expand([n for size, count in zip(shape, times, strict=True) for n in (count, size)])
    return wrap(repeated.reshape([size * count for size, count in zip(shape, times, strict=True)]).node, x)


def repeat(x: Tensor, repeats: int | Sequence[int] | Tensor, axis: int | None = None) -> Tensor:
    """Return `x` with each position along `axis` repeated; with None, `x` is flattened first.

    Args:
        x: Any shape.
        repeats: How often, one number for all positions or one for each. A tensor of them is read.
        axis: Where.

    Raises:
        ShapeError: Not one number for each position.

    >>> zyx.repeat(zyx.Tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    term = term_of(x, "repeat")
    if axis is None:
        return repeat(reshape(x, (shapes.size_of(term.shape),)), repeats, 0)
    axis = shapes.normalize_axis(axis, len(term.shape))
    size = term.shape[axis]
    if not is_several(repeats):
        repeats = as_integer(repeats, "repeats")
    listed = np.asarray(repeats.numpy() if is_tensor(repeats) else repeats)
    if listed.dtype.kind not in "iu":
        raise DTypeError(f"repeat takes integers, not {listed.dtype}")
    if listed.min(initial=0) < 0:
        raise ShapeError(f"repeat: counts are at least 0, not {listed.min()}")
    if listed.size == 1:
        times = int(listed.reshape(()))
        shape = (*term.shape[:axis], size, times, *term.shape[axis + 1 :])
        spread = term.reshape((*term.shape[: axis + 1], 1, *term.shape[axis + 1 :])).expand(shape)
        return wrap(spread.reshape((*term.shape[:axis], size * times, *term.shape[axis + 1 :])).node, x)
    if listed.shape != (size,):
        raise ShapeError(f"repeat: {listed.shape} counts for axis {axis} of size {size}")
    positions = np.repeat(np.arange(size, dtype=np.int32 if size < 1 << 31 else np.int64), listed)
    index = Term(term.graph, x.runtime.upload(positions, term.node.device))
    ones = [1] * len(term.shape)
    ones[axis] = len(positions)
    index = index.reshape(ones).expand((*term.shape[:axis], len(positions), *term.shape[axis + 1 :]))
    return wrap(term.graph.gather(term.node, index.node, axis), x)


def roll(x: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Return `x` with positions moved by `shift` along `axis`, round the end; with None, `x` counts as one axis.

    Raises:
        ShapeError: Not one shift for each axis.

    >>> zyx.roll(zyx.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    term = term_of(x, "roll")
    if axis is None:
        flat = reshape(x, (shapes.size_of(term.shape),))
        return reshape(roll(flat, shift, 0), term.shape)
    axes: list[int] = list(axis) if is_several(axis) else [axis]  # type: ignore[list-item]  # it says what it is
    given = list(shift) if is_several(shift) else [shift] * len(axes)
    shifts = [each if _is_place(each) else as_integer(each, "shift") for each in given]
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for place, distance in zip(axes, shifts, strict=True):
        term = _rolled(term, shapes.normalize_axis(place, len(term.shape)), distance)
    return wrap(term.node, x)


def _is_place(shift: object) -> bool:
    """Whether a shift is one that kernels are given, or a tensor that they read."""
    return is_given(shift) or (is_tensor(shift) and shift.node.dtype.is_integer and not shift.node.shape)


def _rolled(term: Term, axis: int, shift: Any) -> Term:  # noqa: ANN401  # an int, or a tensor of rank 0
    """Return a slice of `term` twice in succession: where it begins is all that differs between two shifts."""
    size = term.shape[axis]
    if not size:
        return term
    if isinstance(size, VaryingSize):
        first = inside(-shift, axis, size) if -size <= -shift < size else -shift % size
        return join_terms([term.narrow(axis, first, size), term.narrow(axis, 0, first)], axis) if first else term
    before, behind = term.shape[:axis], term.shape[axis + 1 :]
    twice = term.reshape((*before, 1, size, *behind)).expand((*before, 2, size, *behind))
    if is_tensor(shift):
        shift = wrap(term.graph.cast(shift.node, dtypes.int64), shift)
    start: object = -shift % size
    if is_tensor(start):
        start = term.graph.cast(start.node, dtypes.int32 if size <= dtypes.int32.max else dtypes.int64)
    elif isinstance(start, VaryingNumber):  # an int to `isinstance`
        start = start.place(axis, size, term.node.device)
    elif not start:
        return term
    boxes = [AxisRange(0, n) for n in term.shape]
    boxes[axis] = AxisRange(start, size)  # type: ignore[arg-type]  # an int or a node
    return cut(twice.reshape((*before, 2 * size, *behind)), boxes)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid, one tensor for each of `tensors`, which have one axis.

    Args:
        tensors: Coordinates along each axis, rank 0 or 1; or a list of them.
        indexing: "ij" keeps the order of axes, "xy" swaps the first two.

    Raises:
        ShapeError: A tensor of rank 2 or more, or another value of `indexing`.

    >>> x, y = zyx.meshgrid(zyx.arange(2), zyx.arange(3))
    >>> x.tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    if indexing not in ("xy", "ij"):
        raise ShapeError(f'meshgrid: indexing is "xy" or "ij", not {indexing!r}')
    given: Sequence[Any] = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    terms = [term_of(x, "meshgrid") for x in given]
    if any(len(term.shape) > 1 for term in terms):
        raise ShapeError(f"meshgrid takes one axis each, not {', '.join(str(term.shape) for term in terms)}")
    shape = tuple(shapes.size_of(term.shape) for term in terms)
    grids = []
    for i, (x, term) in enumerate(zip(given, terms, strict=True)):
        along = term.reshape([shape[i] if j == i else 1 for j in range(len(shape))]).expand(shape)
        if indexing == "xy" and len(shape) >= 2:
            along = along.permute([1, 0, *range(2, len(shape))])
        grids.append(wrap(along.node, x))
    return tuple(grids)


# ---- borders


def pad(
    x: Tensor,
    widths: int | Sequence[int] | Sequence[Sequence[int]],
    mode: str = "constant",
    value: Scalar = 0,
) -> Tensor:
    """Return `x` with a border.

    Args:
        x: Any shape.
        widths: (before, after) for each axis; fewer pairs than axes are for the last ones. One pair, or one number, is
            for all axes; four numbers or more in a row are pairs for the last axis, the one before it, and so on.
            Negative widths cut, after what is positive at the other end was added.
        mode: "constant" is `value`; "reflect" mirrors without repeating the edge; "replicate" repeats the edge;
            "circular" goes on at the other end.
        value: What a constant border consists of.

    Raises:
        ShapeError: Widths that do not fit the shape or the mode, or an unknown mode.

    >>> zyx.pad(zyx.Tensor([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    term = term_of(x, "pad")
    pairs = _pairs(widths, len(term.shape))
    if mode == "constant":
        dtypes.promote_scalar(term.dtype, value)
        bounds = [
            (max(-before, 0), max(size - max(-after, 0), -before, 0))
            for size, (before, after) in zip(term.shape, pairs, strict=True)
        ]
        if any(
            size + min(before, 0) + min(after, 0) < 0 for size, (before, after) in zip(term.shape, pairs, strict=True)
        ):
            raise ShapeError(f"pad: widths {pairs} cut more than there is of shape {term.shape}")
        inner = term.shrink(bounds)
        return wrap(inner.pad([(max(before, 0), max(after, 0)) for before, after in pairs], value).node, x)
    border = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}.get(mode)
    if border is None:
        raise ShapeError(f'pad: mode is "constant", "reflect", "replicate" or "circular", not {mode!r}')
    for axis, (before, after) in enumerate(pairs):
        size, cut = term.shape[axis], (max(-before, 0), max(-after, 0))
        before, after = max(before, 0), max(after, 0)
        limit = {"reflect": size - 1, "circular": size}.get(mode, max(before, after) if size else 0)
        if not (0 <= before <= max(limit, 0) and 0 <= after <= max(limit, 0)):
            raise ShapeError(
                f"pad: mode {mode} adds 0 to {limit} positions to axis {axis} of {term.shape}, not {(before, after)}"
            )
        if before or after:
            term = join_terms([part for part in border(term, axis, before, after) if part.shape[axis]], axis)
        if any(cut):
            if sum(cut) > term.shape[axis]:
                raise ShapeError(f"pad: widths {pairs} cut more than there is of axis {axis} of {term.shape}")
            term = term.narrow(axis, cut[0], term.shape[axis] - cut[1])
    return wrap(term.node, x)


def _pairs(widths: int | Sequence[int] | Sequence[Sequence[int]], ndim: int) -> list[tuple[int, int]]:
    if not is_several(widths):
        width = as_integer(widths, "widths")
        return [(width, width)] * ndim
    listed = list(widths)
    each = [as_integers(pair, "each of widths") for pair in listed]
    if all(is_several(pair) for pair in listed):
        pairs = [(pair[0], pair[-1]) for pair in each if len(pair) == 2]
        is_one = len(pairs) == len(listed) == 1 < ndim
        fits = len(pairs) == len(listed)
    elif len(listed) > 2 and len(listed) % 2 == 0 and not any(is_several(pair) for pair in listed):
        # As PyTorch has it: pairs, one after the other, from the last axis on.
        numbers = [pair[0] for pair in each]
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
        is_one, fits = False, True
    else:
        is_one = fits = [len(pair) for pair in each] == [1, 1] and not any(is_several(pair) for pair in listed)
        pairs = [(each[0][0], each[-1][0])]
    if not fits:
        raise ShapeError(f"pad: widths are one number, one pair or a pair for each axis, not {widths!r}")
    if is_one:
        return pairs * ndim
    if len(pairs) > ndim:
        raise ShapeError(f"pad: {len(pairs)} pairs of widths for {ndim} axes")
    return [(0, 0)] * (ndim - len(pairs)) + pairs


def _reflected(term: Term, axis: int, before: int, after: int) -> list[Term]:
    size = term.shape[axis]
    head = term.narrow(axis, 1, 1 + before).flip((axis,)) if before else term.narrow(axis, 0, 0)
    tail = term.narrow(axis, size - 1 - after, size - 1).flip((axis,)) if after else term.narrow(axis, 0, 0)
    return [head, term, tail]


def _replicated(term: Term, axis: int, before: int, after: int) -> list[Term]:
    size = term.shape[axis]
    first, last = term.narrow(axis, 0, 1), term.narrow(axis, size - 1, size)
    shape = list(term.shape)
    shape[axis] = before
    head = first.expand(shape) if before else term.narrow(axis, 0, 0)
    shape[axis] = after
    tail = last.expand(shape) if after else term.narrow(axis, 0, 0)
    return [head, term, tail]


def _wrapped(term: Term, axis: int, before: int, after: int) -> list[Term]:
    size = term.shape[axis]
    return [term.narrow(axis, size - before, size), term, term.narrow(axis, 0, after)]


take_habits(globals())
