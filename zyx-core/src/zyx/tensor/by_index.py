"""Tensors that are written as indices, as NumPy has them: rows of pieces, columns, and grids of places.

    zyx.r_[x, 0, 1:4]               x, then 0, then 1, 2, 3
    zyx.c_[zyx.ones(5), x, y]       columns
    zyx.mgrid[0:2, 0:1:5j]          the places of a grid of 2 by 5, one plane for each axis

In a slice a step that is imaginary is a number of places, from the start to the stop, which is one of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import ArgumentError
from zyx.functions.info import result_type
from zyx.functions.joining import concat, stack
from zyx.functions.movement import broadcast_to, reshape
from zyx.tensor import creation

if TYPE_CHECKING:
    import builtins

    from zyx.tensor.tensor import Tensor

__all__ = ["c_", "mgrid", "ogrid", "r_"]


def _range(piece: builtins.slice[Any, Any, Any], what: str) -> Tensor:
    """Return the numbers of a slice.

    Raises:
        ArgumentError: It has no stop.
    """
    if piece.stop is None:
        raise ArgumentError(f"{what}: a slice has a stop, as in {what}[0:4]; {piece} has none")
    start = 0 if piece.start is None else piece.start
    if isinstance(piece.step, complex):
        return creation.linspace(start, piece.stop, math.floor(abs(piece.step)))
    return creation.arange(start, piece.stop, 1 if piece.step is None else piece.step)


class Pieces:
    """What joins what it is indexed with: tensors, arrays, lists, numbers and slices, which are ranges of numbers.

    Attributes:
        name: In texts of errors.
        are_columns: Whether pieces of one axis or none are columns of a matrix, which are joined along the last axis;
            else pieces are joined along the first.

    Raises:
        ArgumentError: Nothing, a text, or a slice without a stop.
        ShapeError: Shapes that do not fit.
    """

    def __init__(self, name: str, *, are_columns: bool = False) -> None:
        self.name = name
        self.are_columns = are_columns

    def __getitem__(self, pieces: Any) -> Tensor:  # noqa: ANN401  # one, or a tuple
        given = pieces if isinstance(pieces, tuple) else (pieces,)
        if not given:
            raise ArgumentError(f"{self.name} joins at least one piece")
        parts = [self._part(piece) for piece in given]
        if self.are_columns:
            return concat([reshape(part, (-1, 1)) if part.node.ndim < 2 else part for part in parts], axis=-1)
        return concat([reshape(part, (1,)) if not part.node.ndim else part for part in parts], axis=0)

    def _part(self, piece: Any) -> Tensor:  # noqa: ANN401  # whatever users give
        if isinstance(piece, str):
            raise ArgumentError(f"{self.name}[{piece!r}, ...]: texts that say how are not there; use concat and stack")
        return _range(piece, self.name) if isinstance(piece, slice) else creation.asarray(piece)


class Grid:
    """What makes the places of a grid of the slices that it is indexed with, one for each axis.

    Attributes:
        name: In texts of errors.
        is_open: Whether the places of each axis are a tensor of their own, with size 1 along the others, so that they
            broadcast; else all are one tensor of the size of the grid, one plane for each axis.

    Raises:
        ArgumentError: Anything else than slices, or one without a stop.
    """

    def __init__(self, name: str, *, is_open: bool = False) -> None:
        self.name = name
        self.is_open = is_open

    def __getitem__(self, slices: Any) -> Any:  # noqa: ANN401  # one or a tuple; a tensor, or a tuple of them
        given = slices if isinstance(slices, tuple) else (slices,)
        if not given or not all(isinstance(each, slice) for each in given):
            raise ArgumentError(f"{self.name} takes slices, as in {self.name}[0:4, 0:3], not {slices!r}")
        places = [_range(each, self.name) for each in given]
        if not isinstance(slices, tuple):
            return places[0]
        kind = result_type(*places)
        kinds = [place.astype(kind) for place in places]
        shapes = [tuple(-1 if at == axis else 1 for at in range(len(kinds))) for axis in range(len(kinds))]
        axes = [reshape(place, shape) for place, shape in zip(kinds, shapes, strict=True)]
        if self.is_open:
            return tuple(axes)
        size = tuple(place.node.shape[0] for place in kinds)
        return stack([broadcast_to(axis, size) for axis in axes])


#: Pieces one behind the other: ``zyx.r_[x, 0, 1:4]``.
r_: Final = Pieces("r_")
#: Pieces side by side, as columns: ``zyx.c_[zyx.ones(5), x]``.
c_: Final = Pieces("c_", are_columns=True)
#: The places of a grid, one plane for each axis: ``zyx.mgrid[0:4, 0:3]``.
mgrid: Final = Grid("mgrid")
#: The places of a grid, each axis by itself: ``zyx.ogrid[0:4, 0:3]``.
ogrid: Final = Grid("ogrid", is_open=True)
