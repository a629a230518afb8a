"""Between row-major elements and tiles.

This says what staging means, and is how devices do it that work on host memory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.semantics import apply_cast
from zyx.tiles.data import Constant, LaunchArgument, Pads, Ramp

if TYPE_CHECKING:
    import numpy.typing as npt

    from zyx.tiles.data import Matrix, TileAccess

    Array = npt.NDArray[Any]


def shape_in_tiles(view: Matrix, tile: tuple[int, int]) -> tuple[int, int]:
    """Return rows and columns of tiles of all matrices of a view, which lie below each other."""
    *batch, rows, columns = view.shape
    return math.prod(batch) * -(-rows // tile[0]), -(-columns // tile[1])


def has_pads(view: Matrix, tile: tuple[int, int]) -> bool:
    """Whether there is anything in the tiles of a view beside its elements."""
    return view.count > 0 or any(size % of for size, of in zip(view.shape[-2:], tile, strict=True))


def elements_in_tiles(view: Matrix, tile: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return where the tiles of a view have elements, and not pads."""
    *batch, rows, columns = view.shape
    height, width = (-(-size // of) * of for size, of in zip((rows, columns), tile, strict=True))
    found = np.zeros((math.prod(batch), height, width), np.bool_)
    found[:, :rows, :columns] = True
    if view.count:
        found[:, rows - 1, view.count - (rows - 1) * columns :] = False
    return found.reshape(-1, width)


def to_tiles(flat: Array, view: Matrix, tile: tuple[int, int], pads: Pads = Pads.ZERO) -> Array:
    """Return the elements of a view of a buffer as one matrix of whole tiles, with 0 where `pads` may be anything."""
    *batch, rows, columns = view.shape
    elements = apply_cast(_elements(flat, view, pads), view.tile_dtype).reshape(math.prod(batch), rows, columns)
    height, width = (-(-size // of) * of for size, of in zip((rows, columns), tile, strict=True))
    padded = np.zeros((len(elements), height, width), view.tile_dtype.numpy)
    padded[:, :rows, :columns] = elements
    if pads is Pads.LAST:
        padded[:, :rows, columns:] = padded[:, :rows, columns - 1 : columns]
        padded[:, rows:] = padded[:, rows - 1 : rows]
    return padded.reshape(-1, width)


def from_tiles(matrix: Array, flat: Array, view: Matrix, tile: tuple[int, int]) -> None:
    """Store what a matrix of whole tiles has for a view of a buffer."""
    *batch, rows, columns = view.shape
    height = -(-rows // tile[0]) * tile[0]
    elements = matrix.reshape(math.prod(batch), height, -1)[:, :rows, :columns]
    found = apply_cast(np.ascontiguousarray(elements), view.dtype)
    if view.count:
        step = view.strides[-1]
        flat[view.offset : view.offset + step * (view.count - 1) + 1 : step] = found.reshape(-1)[: view.count]
        return
    _strided(flat, view)[...] = found.reshape(view.shape)


def constant_tiles(operand: TileAccess, tile: tuple[int, int]) -> Array:
    """Return the matrix of whole tiles of an operand that is no launch argument."""
    match operand.source:
        case Constant() as constant:
            return _constant(constant, operand, tile)
        case Ramp(start=start, step=step):
            view = operand.view
            size = view.count or math.prod(view.shape)
            numbers = (start + step * np.arange(size, dtype=np.float64)).astype(view.dtype.numpy)
            return to_tiles(numbers, view, tile, Pads.LAST)
        case LaunchArgument(param=param):
            raise AssertionError(f"{param} is given at launch")


def _constant(constant: Constant, operand: TileAccess, tile: tuple[int, int]) -> Array:
    rows, columns = operand.view.shape[-2:]
    height, width = (-(-size // of) * of for size, of in zip((rows, columns), tile, strict=True))
    matrix = np.full((height, width), constant.pad, operand.view.tile_dtype.numpy)
    matrix[:rows, :columns] = constant.value
    if (count := operand.view.count) and rows > 1:
        matrix[rows - 1, count - (rows - 1) * columns : columns] = constant.pad
    return matrix


def _elements(flat: Array, view: Matrix, pads: Pads) -> Array:
    if not view.count and not view.within:
        return np.ascontiguousarray(_strided(flat, view))
    found = np.zeros(view.shape, flat.dtype)
    if len(view.within) == len(view.shape):
        part = tuple(slice(low, high) for low, high in view.within)
        starts = [low * stride for (low, _), stride in zip(view.within, view.strides, strict=True)]
        if all(low < high for low, high in view.within):
            found[part] = _strided(flat, replace(view, offset=view.offset + sum(starts), shape=found[part].shape))
        return found
    step, vector = view.strides[-1], found.reshape(-1)
    count = view.count or len(vector)
    low, high = view.within[0] if view.within else (0, count)
    if low < high:
        start = view.offset + step * low
        vector[low:high] = flat[start : start + step * (high - low - 1) + 1 : step]
    if pads is Pads.LAST:
        vector[count:] = vector[count - 1]
    return found


def _strided(flat: Array, view: Matrix) -> Array:
    strides = tuple(stride * flat.itemsize for stride in view.strides)
    return np.lib.stride_tricks.as_strided(flat[view.offset :], view.shape, strides)
