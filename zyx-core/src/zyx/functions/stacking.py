"""Rows, columns and planes: more axes, and joining, under NumPy's names.

All is put together from `movement` and `joining`, so that gradients are theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.errors import ArgumentError, ShapeError
from zyx.functions import take_habits
from zyx.functions.joining import concat, pad
from zyx.functions.movement import reshape
from zyx.functions.operands import is_tensor, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block", "block_diag", "column_stack", "dstack", "hstack", "vstack",
]  # fmt: skip


# ---- more axes


def _each(given: tuple[Any, ...], grow: Any, what: str) -> Any:  # noqa: ANN401  # a tensor, or several
    tensors = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    if not tensors:
        raise ArgumentError(f"{what} takes at least one tensor")
    found = tuple(grow(require(x, what)) for x in tensors)
    return found[0] if len(given) == 1 and tensors is given else found


def _of_rank_1(x: Tensor) -> Tensor:
    return x if x.node.ndim else reshape(x, 1)


def _of_rank_2(x: Tensor) -> Tensor:
    return x if x.node.ndim > 1 else reshape(x, 1, -1 if x.node.ndim and x.node.shape[0] else x.size)


def _of_rank_3(x: Tensor) -> Tensor:
    shape = x.node.shape
    return x if len(shape) > 2 else reshape(x, [(1, 1, 1), (1, *shape, 1), (*shape, 1)][len(shape)])


def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return each tensor with an axis if it has none; of one tensor it, of several or a list a tuple.

    Raises:
        ArgumentError: None are given.
        DTypeError: One is no tensor.

    >>> zyx.atleast_1d(zyx.Tensor(3)).shape
    (1,)
    """
    return _each(tensors, _of_rank_1, "atleast_1d")


def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return each tensor with at least two axes, new ones in front; of one tensor it, of several or a list a tuple.

    Raises:
        ArgumentError: None are given.
        DTypeError: One is no tensor.

    >>> zyx.atleast_2d(zyx.ones(3)).shape
    (1, 3)
    """
    return _each(tensors, _of_rank_2, "atleast_2d")


def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return each tensor with at least three axes: (N) becomes (1, N, 1), (M, N) becomes (M, N, 1).

    Raises:
        ArgumentError: None are given.
        DTypeError: One is no tensor.

    >>> zyx.atleast_3d(zyx.ones(3)).shape
    (1, 3, 1)
    """
    return _each(tensors, _of_rank_3, "atleast_3d")


# ---- joining


def _listed(tensors: Sequence[Tensor], what: str) -> list[Tensor]:
    if is_tensor(tensors) or not isinstance(tensors, list | tuple) or not tensors:
        raise ArgumentError(f"{what} takes a list or tuple of tensors, at least one, not {type(tensors).__name__}")
    return [require(x, what) for x in tensors]


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along axis 1; those of rank 0 or 1 along axis 0.

    Raises:
        ArgumentError: No list of tensors.
        ShapeError: Shapes that differ along another axis.

    >>> zyx.hstack([zyx.ones(2, 1), zyx.ones(2, 2)]).shape
    (2, 3)
    """
    given = [_of_rank_1(x) for x in _listed(tensors, "hstack")]
    return concat(given, 0 if given[0].node.ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along axis 0, each with at least two axes.

    Raises:
        ArgumentError: No list of tensors.
        ShapeError: Shapes that differ along another axis.

    >>> zyx.vstack([zyx.ones(2), zyx.ones(2)]).shape
    (2, 2)
    """
    return concat([_of_rank_2(x) for x in _listed(tensors, "vstack")], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along axis 2, each with three axes as `atleast_3d` gives them.

    Raises:
        ArgumentError: No list of tensors.
        ShapeError: Shapes that differ along another axis.

    >>> zyx.dstack([zyx.ones(2, 3), zyx.ones(2, 3)]).shape
    (2, 3, 2)
    """
    return concat([_of_rank_3(x) for x in _listed(tensors, "dstack")], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return vectors as the columns of a matrix, and matrices beside them.

    Raises:
        ArgumentError: No list of tensors.
        ShapeError: Columns of different lengths.

    >>> zyx.column_stack([zyx.Tensor([1, 2]), zyx.Tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    given = _listed(tensors, "column_stack")
    return concat([x if x.node.ndim > 1 else reshape(x, x.size, 1) for x in given], 1)


def block(arrays: Tensor | list[Any]) -> Tensor:
    """Return what nested lists of blocks make: the innermost lie along the last axis, lists of these along that before.

    Blocks of fewer axes than the others, or than the lists are deep, have axes of size 1 in front.

    Raises:
        ArgumentError: Lists without blocks, or of different depths.
        DTypeError: A block that is no tensor.
        ShapeError: Blocks that do not fit.

    >>> zyx.block([[zyx.ones(2, 2), zyx.zeros(2, 1)], [zyx.zeros(1, 2), zyx.ones(1, 1)]]).shape
    (3, 3)
    """
    depths, blocks = set[int](), list[Any]()

    def visit(part: object, depth: int) -> None:
        if isinstance(part, list):
            if not part:
                raise ArgumentError("block: a list has at least one block")
            for each in part:
                visit(each, depth + 1)
        else:
            depths.add(depth)
            blocks.append(require(part, "block"))

    visit(arrays, 0)
    if len(depths) != 1:
        raise ArgumentError(f"block: lists are all equally deep, not {sorted(depths)}")
    depth = max(depths)
    rank = max(depth, *(x.node.ndim for x in blocks))

    def joined(part: Any, axis: int) -> Tensor:  # noqa: ANN401  # a list or a tensor
        if isinstance(part, list):
            return concat([joined(each, axis + 1) for each in part], axis=axis)
        return reshape(part, ((1,) * (rank - part.node.ndim) + part.node.shape))

    return joined(arrays, -depth)


def block_diag(*tensors: Tensor) -> Tensor:
    """Return the matrix with `tensors` along its diagonal and 0 elsewhere; vectors and numbers are rows.

    Raises:
        ShapeError: None are given, or one of rank 3 or more.

    >>> zyx.block_diag(zyx.ones(1, 2), zyx.ones(2, 1)).shape
    (3, 3)
    """
    given = [_of_rank_2(require(x, "block_diag")) for x in tensors]
    if not given or any(x.node.ndim > 2 for x in given):
        raise ShapeError(f"block_diag takes matrices, at least one, not shapes {[x.node.shape for x in given]}")
    width = sum(x.node.shape[1] for x in given)
    rows, before = [], 0
    for x in given:
        own = x.node.shape[1]
        rows.append(pad(x, ((0, 0), (before, width - before - own))))
        before += own
    return concat(rows, 0)


take_habits(globals())
