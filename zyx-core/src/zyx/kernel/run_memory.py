"""The three memories of a kernel, as the interpreter sees them: arrays that many threads read and write at once.

A value of the interpreter has a row for each thread, or one row if all threads agree, and a column for each lane.
Indices have one column. Masks have one column or as many as there are lanes; None means that all threads take part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Define
    from zyx.semantics import Array


_SIGNED: Final = np.dtype(np.int64)
_UNSIGNED: Final = np.dtype(np.uint64)


class OutOfBoundsError(Exception):
    """An index outside of its array; the interpreter adds where, and raises it as an error of zyx."""

    def __init__(self, position: int, length: int) -> None:
        super().__init__(f"element {position} of {length}")


class Storage(Protocol):
    """An array of the kernel."""

    def load(self, index: Array, lanes: int, mask: Array | None) -> Array:
        """Return what lies at `index`, 0 where `mask` is false."""

    def store(self, index: Array, value: Array, mask: Array | None) -> None:
        """Write `value` at `index` where `mask` is true."""

    def combine(self, function: np.ufunc, index: Array, value: Array, mask: Array | None, rows: int) -> None:
        """Combine `value`, once for each of the `rows` threads, into what lies at `index`."""


class Shared:
    """Global memory, or the local memory of several groups, one after the other.

    Attributes:
        array: All elements.
        length: Number of elements that a thread can reach.
        base: Where these start, a row for each thread; None if at 0 for all.
    """

    def __init__(self, array: Array, length: int, base: Array | None = None) -> None:
        self.array = array
        self.length = length
        self.base = base

    def _positions(self, index: Array, lanes: int, mask: Array | None) -> tuple[Array, Array | None]:
        """Return the positions in `array`, one per lane, checked where `mask` holds, and the mask in their shape."""
        positions = index.astype(np.int64, copy=False)
        if lanes > 1:
            positions = positions + np.arange(lanes)
        if mask is None:
            check_bounds(positions, self.length)
        else:
            positions, mask = alike(positions, mask)
            check_bounds(positions[mask], self.length)
        if self.base is not None:
            positions = positions + self.base
            mask = None if mask is None else spread(mask, positions.shape)
        return positions, mask

    def load(self, index: Array, lanes: int, mask: Array | None) -> Array:
        positions, mask = self._positions(index, lanes, mask)
        if mask is None:
            return self.array.take(positions)
        result = np.zeros(positions.shape, self.array.dtype)
        result[mask] = self.array[positions[mask]]
        return result

    def store(self, index: Array, value: Array, mask: Array | None) -> None:
        positions, mask = self._positions(index, value.shape[1], mask)
        if mask is None:
            self.array[alike(positions, value)[0]] = value
        else:
            positions, value = alike(positions, value)
            mask = spread(mask, value.shape)
            self.array[positions[mask]] = value[mask]

    def combine(self, function: np.ufunc, index: Array, value: Array, mask: Array | None, rows: int) -> None:
        positions, mask = self._positions(index, 1, mask)
        positions, value = np.broadcast_to(positions, (rows, 1)), np.broadcast_to(value, (rows, 1))
        if mask is not None:
            mask = np.broadcast_to(mask, (rows, 1))
            positions, value = positions[mask], value[mask]
        function.at(self.array, positions.ravel(), value.ravel())


class Registers:
    """Register memory: a value for each element, replaced as a whole, so that a value once loaded never changes."""

    def __init__(self, define: Define) -> None:
        self.elements = [np.full((1, define.lanes), undefined(define.dtype))] * define.length

    def load(self, index: Array, lanes: int, mask: Array | None) -> Array:
        if len(index) == 1:
            if mask is not None and not mask.any():
                return np.zeros_like(self.elements[0])
            check_bounds(index, len(self.elements))
            element = self.elements[int(index[0, 0])]
            return element if mask is None else np.where(mask, element, element.dtype.type(0))
        result = np.zeros((1, lanes), self.elements[0].dtype)
        for position, chosen in self._chosen(index, mask):
            result = np.where(chosen, self.elements[position], result)
        return result

    def store(self, index: Array, value: Array, mask: Array | None) -> None:
        if len(index) == 1 and mask is None:
            check_bounds(index, len(self.elements))
            self.elements[int(index[0, 0])] = value
            return
        for position, chosen in self._chosen(index, mask):
            self.elements[position] = np.where(chosen, value, self.elements[position])

    def combine(self, function: np.ufunc, index: Array, value: Array, mask: Array | None, rows: int) -> None:
        raise AssertionError("an atomic on register memory, which the verifier refuses")

    def _chosen(self, index: Array, mask: Array | None) -> list[tuple[int, Array]]:
        """Return each position that some thread names, and which threads and lanes do."""
        if mask is None:
            mask = np.ones((1, 1), np.bool_)
        taking_part: Array = np.logical_or.reduce(mask, axis=1, keepdims=True)
        index_of_each, taking_part = alike(index, taking_part)
        named = index_of_each[taking_part]
        check_bounds(named, len(self.elements))
        return [(int(position), (index == position) & mask) for position in np.unique(named)]


def alike(x: Array, y: Array) -> tuple[Array, Array]:
    """Return two arrays in the shape that they have together; as they are if it is theirs, which takes no time."""
    if x.shape == y.shape:
        return x, y
    shape = max(len(x), len(y)), max(x.shape[1], y.shape[1])
    return spread(x, shape), spread(y, shape)


def spread(x: Array, shape: tuple[int, int]) -> Array:
    """Return an array in `shape`; as it is if that is its own."""
    return x if x.shape == shape else np.broadcast_to(x, shape)


def check_bounds(positions: Array, length: int) -> None:
    """Raise if a position lies outside of 0 to `length` - 1.

    Raises:
        OutOfBoundsError: One does.
    """
    if positions.size == 1:  # a thread, or all at one place
        if 0 <= int(positions.item()) < length:
            return
    elif not positions.size:
        return
    else:  # without their sign, those below 0 lie above all others: one pass over them in the place of two
        unsigned = positions.astype(_SIGNED, copy=False).view(_UNSIGNED)
        if int(np.maximum.reduce(unsigned, axis=None)) < length:
            return
    low, high = int(positions.min()), int(positions.max())
    raise OutOfBoundsError(low if low < 0 else high, length)


def undefined(dtype: DType) -> np.generic:
    """Return what memory holds that nobody has written: NaN, or a conspicuous integer."""
    if dtype.is_float:
        return dtype.numpy.type(float("nan"))
    return dtype.numpy.type(True) if dtype.is_bool else dtype.numpy.type(int(dtype.max) // 3)
