"""The frequencies of transforms, and the order in which these lie around 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, ShapeError
from zyx.fft.arguments import axis_of
from zyx.functions.joining import roll
from zyx.functions.operands import require
from zyx.integers import as_index, is_several
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(n: int, /, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of `fft` of `n` samples `d` apart: 0, 1, .., -2, -1, each over ``n * d``.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is less than 1, or `d` is 0.
        DTypeError: `dtype`, which is float32 unless given, is no float.

    >>> zyx.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    size = _checked(n, d, "fftfreq")
    numbers = np.concatenate((np.arange((size + 1) // 2), np.arange(-(size // 2), 0)))
    return _frequencies(numbers, size, d, dtype, device, "fftfreq")


def rfftfreq(n: int, /, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of `rfft` of `n` samples `d` apart: 0 to ``n // 2``, over ``n * d``; see `fftfreq`.

    A vector of ``n // 2 + 1`` elements.

    Raises:
        ShapeError: `n` is below 1.

    >>> zyx.fft.rfftfreq(4, d=0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    size = _checked(n, d, "rfftfreq")
    return _frequencies(np.arange(size // 2 + 1), size, d, dtype, device, "rfftfreq")


def _checked(n: int, d: float, what: str) -> int:
    size = as_index(n, "n")
    if size < 1:
        raise ShapeError(f"{what}: n = {size}; expected at least 1")
    if d == 0:
        raise ShapeError(f"{what}: d = {d}; samples are not 0 apart")
    return size


def _frequencies(
    numbers: np.ndarray, size: int, d: float, dtype: DTypeLike | None, device: str | None, what: str
) -> Tensor:
    target = dtypes.float32 if dtype is None else as_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"{what}: dtype = {target}; frequencies are real floating-point numbers")
    return Tensor((numbers / (size * d)).astype(target.numpy), target, device)


def fftshift(x: Tensor, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return `x` with what belongs to frequency 0 in the middle of each of `axes`, all unless given.

    Raises:
        AxisError: An axis that is not there.

    >>> zyx.fft.fftshift(zyx.Tensor([0, 1, 2, 3])).tolist()
    [2, 3, 0, 1]
    """
    return _shifted(x, axes, "fftshift", is_back=False)


def ifftshift(x: Tensor, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the inverse of `fftshift`, with its errors.

    The result has the shape of `x`.

    Raises:
        AxisError: There is no such axis.

    >>> zyx.fft.ifftshift(zyx.fft.fftshift(zyx.arange(5))).tolist()
    [0, 1, 2, 3, 4]
    """
    return _shifted(x, axes, "ifftshift", is_back=True)


def _shifted(x: Tensor, axes: int | Sequence[int] | None, what: str, *, is_back: bool) -> Tensor:
    shape = require(x, what).node.shape
    wanted = range(len(shape)) if axes is None else axes if is_several(axes) else (axes,)
    places = [axis_of(axis, len(shape), what) for axis in wanted]  # type: ignore[arg-type]  # it says what they are
    return roll(x, [(-1 if is_back else 1) * (shape[place] // 2) for place in places], places) if places else x
