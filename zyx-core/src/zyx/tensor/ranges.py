"""Tensors of a rule: ranges on other scales, places in grids, and windows for signals; NumPy's and PyTorch's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import as_dtype
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions import take_habits
from zyx.functions.joining import stack
from zyx.functions.operands import require
from zyx.integers import as_integer
from zyx.shape import as_shape
from zyx.tensor import creation
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DTypeLike

__all__ = [
    "bartlett", "bartlett_window", "blackman", "blackman_window", "diag_indices", "fromfunction", "geomspace",
    "hamming", "hamming_window", "hann_window", "hanning", "identity", "indices", "kaiser", "kaiser_window", "logspace",
    "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
]  # fmt: skip


def _float(dtype: DTypeLike | None, what: str) -> dtypes.DType:
    target = dtypes.float32 if dtype is None else as_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"{what} makes floats, not {target}")
    return target


def _of_host(values: Any, dtype: dtypes.DType, device: str | None) -> Tensor:  # noqa: ANN401  # a NumPy array
    return Tensor(values, dtype=dtype, device=device)


def logspace(
    start: float,
    stop: float,
    num: int = 50,
    *,
    base: float = 10.0,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return `num` powers of `base`, whose exponents go evenly from `start` to `stop`.

    A vector of `num` elements.

    Raises:
        ShapeError: A negative number.

    >>> [round(v, 4) for v in zyx.logspace(0.0, 2.0, 3).tolist()]
    [1.0, 10.0, 100.0]
    """
    count = as_integer(num, "num")
    if count < 0:
        raise ShapeError(f"logspace: num is at least 0, not {count}")
    values = np.logspace(start, stop, count, base=base, endpoint=endpoint)
    return _of_host(values, dtypes.float32 if dtype is None else as_dtype(dtype), device)


def geomspace(
    start: float,
    stop: float,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return `num` numbers from `start` to `stop`, each the same multiple of the one before.

    A vector of `num` elements.

    Raises:
        ShapeError: A negative number.
        ArgumentError: A bound is 0, or they have other signs.

    >>> [round(v, 4) for v in zyx.geomspace(1.0, 100.0, 3).tolist()]
    [1.0, 10.0, 100.0]
    """
    count = as_integer(num, "num")
    if count < 0:
        raise ShapeError(f"geomspace: num is at least 0, not {count}")
    if start * stop <= 0:
        raise ArgumentError(f"geomspace: bounds are not 0 and of one sign, not {start} and {stop}")
    values = np.geomspace(start, stop, count, endpoint=endpoint)
    return _of_host(values, dtypes.float32 if dtype is None else as_dtype(dtype), device)


def identity(n: int, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the matrix (n, n) with 1 on the diagonal and 0 elsewhere.

    Raises:
        ShapeError: A negative size.

    >>> zyx.identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return creation.eye(n, dtype=dtype, device=device)


def indices(
    dimensions: int | Sequence[int], dtype: DTypeLike = "int64", sparse: bool = False, device: str | None = None
) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return the coordinates of the places of a grid: axis 0 tells of which axis; with `sparse` a tuple of tensors that
    broadcast to the grid.

    Raises:
        ShapeError: A negative size.
        DTypeError: There is no such dtype.

    >>> zyx.indices((2, 2))[0].tolist()
    [[0, 0], [1, 1]]
    """
    sizes, target = as_shape(dimensions), as_dtype(dtype)
    lines = [
        creation.arange(size, dtype=target, device=device).reshape(
            [size if i == axis else 1 for i in range(len(sizes))]
        )
        for axis, size in enumerate(sizes)
    ]
    if sparse:
        return tuple(lines)
    if not lines:
        return creation.zeros((0,), dtype=target, device=device)
    return stack([line.broadcast_to(sizes) for line in lines])


def fromfunction(
    function: Callable[..., Any],
    shape: int | Sequence[int],
    *args: Any,  # noqa: ANN401  # those of the function
    dtype: DTypeLike = "float32",
    device: str | None = None,
) -> Any:  # noqa: ANN401  # what the function gives
    """Return what `function` gives of the coordinates of a grid, a tensor an axis, each of the shape of the grid.

    Raises:
        ShapeError: A negative size.

    >>> zyx.fromfunction(lambda i, j: i * 10 + j, (2, 3)).tolist()
    [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
    """
    return function(*indices(shape, dtype, device=device), *args)


def _triangle(n: int, k: int, m: int | None, *, lower: bool, device: str | None) -> tuple[Tensor, Tensor]:
    rows, columns, k = as_integer(n, "n"), as_integer(n if m is None else m, "m"), as_integer(k, "k")
    if rows < 0 or columns < 0:
        raise ShapeError(f"the sizes of a matrix are at least 0, not {rows} and {columns}")
    found = np.tril_indices(rows, k, columns) if lower else np.triu_indices(rows, k, columns)
    return tuple(Tensor(each.astype(np.int64), device=device) for each in found)  # type: ignore[return-value]  # two


def tril_indices(n: int, k: int = 0, m: int | None = None, *, device: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the rows and the columns of the places on and below the `k`-th diagonal of a matrix (n, m or n).

    Raises:
        ShapeError: A size is negative.

    >>> [places.tolist() for places in zyx.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(n, k, m, lower=True, device=device)


def triu_indices(n: int, k: int = 0, m: int | None = None, *, device: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the rows and the columns of the places on and above the `k`-th diagonal of a matrix (n, m or n).

    Raises:
        ShapeError: A size is negative.

    >>> [places.tolist() for places in zyx.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle(n, k, m, lower=False, device=device)


def _matrix(x: Tensor, what: str) -> tuple[int, int, str]:
    shape = require(x, what).node.shape
    if len(shape) != 2:
        raise ShapeError(f"{what} takes a matrix, not shape {shape}")
    return shape[0], shape[1], x.node.device


def tril_indices_from(x: Tensor, k: int = 0) -> tuple[Tensor, Tensor]:
    """Return `tril_indices` of the shape of a matrix.

    Raises:
        ShapeError: `x` is no matrix.

    >>> [places.tolist() for places in zyx.tril_indices_from(zyx.ones(2, 2))]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns, device = _matrix(x, "tril_indices_from")
    return tril_indices(rows, k, columns, device=device)


def triu_indices_from(x: Tensor, k: int = 0) -> tuple[Tensor, Tensor]:
    """Return `triu_indices` of the shape of a matrix.

    Raises:
        ShapeError: `x` is no matrix.

    >>> [places.tolist() for places in zyx.triu_indices_from(zyx.ones(2, 2))]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns, device = _matrix(x, "triu_indices_from")
    return triu_indices(rows, k, columns, device=device)


def diag_indices(n: int, ndim: int = 2, *, device: str | None = None) -> tuple[Tensor, ...]:
    """Return the places of the diagonal of an array of `ndim` axes of size `n`.

    Raises:
        ShapeError: `n` or `ndim` is negative.

    >>> [places.tolist() for places in zyx.diag_indices(3)]
    [[0, 1, 2], [0, 1, 2]]
    """
    n, ndim = as_integer(n, "n"), as_integer(ndim, "ndim")
    if n < 0 or ndim < 0:
        raise ShapeError(f"diag_indices: n and ndim are at least 0, not {n} and {ndim}")
    return (creation.arange(n, dtype="int64", device=device),) * ndim


# ---- windows: symmetric ones under NumPy's names, and PyTorch's, which repeat unless `periodic` is false


def _cosines(n: int, factors: Sequence[float], *, periodic: bool) -> Any:  # noqa: ANN401  # a NumPy array
    """Return the sum of ``factors[k] * cos(2 pi k i / (n - 1))``, with alternating signs; over n if `periodic`."""
    if n < 1:
        return np.zeros(0)
    if n == 1:
        return np.ones(1)
    angle = 2 * math.pi * np.arange(n) / (n if periodic else n - 1)
    return sum((-1) ** k * factor * np.cos(k * angle) for k, factor in enumerate(factors))


def _window(
    name: str, n: int, factors: Sequence[float], dtype: DTypeLike | None, device: str | None, *, periodic: bool
) -> Tensor:
    return _of_host(_cosines(_length(n, name), factors, periodic=periodic), _float(dtype, name), device)


def _length(n: int, name: str) -> int:
    found = as_integer(n, "n")
    if found < 0:
        raise ShapeError(f"{name}: a window has a length of at least 0, not {found}")
    return found


def hanning(n: int, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Hann window of `n` points: ``0.5 - 0.5 cos(2 pi i / (n - 1))``.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.hanning(5).tolist()]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window("hanning", n, (0.5, 0.5), dtype, device, periodic=False)


def hann_window(n: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Hann window of `n` points; if `periodic`, of one more without the last.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.hann_window(4).tolist()]
    [0.0, 0.5, 1.0, 0.5]
    """
    return _window("hann_window", n, (0.5, 0.5), dtype, device, periodic=periodic)


def hamming(n: int, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Hamming window of `n` points: ``0.54 - 0.46 cos(2 pi i / (n - 1))``.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.hamming(5).tolist()]
    [0.08, 0.54, 1.0, 0.54, 0.08]
    """
    return _window("hamming", n, (0.54, 0.46), dtype, device, periodic=False)


def hamming_window(
    n: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return ``alpha - beta cos(2 pi i / (n - 1))``; if `periodic`, of one more point without the last.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.hamming_window(4).tolist()]
    [0.08, 0.54, 1.0, 0.54]
    """
    return _window("hamming_window", n, (alpha, beta), dtype, device, periodic=periodic)


def blackman(n: int, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Blackman window of `n` points: ``0.42 - 0.5 cos(a) + 0.08 cos(2 a)`` with ``a = 2 pi i / (n - 1)``.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.blackman(5)[1:4].tolist()]
    [0.34, 1.0, 0.34]
    """
    return _window("blackman", n, (0.42, 0.5, 0.08), dtype, device, periodic=False)


def blackman_window(
    n: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the Blackman window of `n` points; if `periodic`, of one more without the last.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.blackman_window(4)[1:].tolist()]
    [0.34, 1.0, 0.34]
    """
    return _window("blackman_window", n, (0.42, 0.5, 0.08), dtype, device, periodic=periodic)


def _of_one_more(make: Callable[[int], Any], n: int, name: str, *, periodic: bool) -> Any:  # noqa: ANN401
    n = _length(n, name)
    return make(n + 1)[:-1] if periodic and n > 1 else make(n)


def bartlett(n: int, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the triangle of `n` points, from 0 to 1 and back to 0.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.bartlett(5).tolist()]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _of_host(np.bartlett(_length(n, "bartlett")), _float(dtype, "bartlett"), device)


def bartlett_window(
    n: int, periodic: bool = True, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the triangle of `n` points; if `periodic`, of one more without the last.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.bartlett_window(4).tolist()]
    [0.0, 0.5, 1.0, 0.5]
    """
    values = _of_one_more(np.bartlett, n, "bartlett_window", periodic=periodic)
    return _of_host(values, _float(dtype, "bartlett_window"), device)


def kaiser(n: int, beta: float, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the Kaiser window of `n` points, with the Bessel function of order 0; `beta` is its shape.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.kaiser(3, 2.0).tolist()]
    [0.4387, 1.0, 0.4387]
    """
    return _of_host(np.kaiser(_length(n, "kaiser"), beta), _float(dtype, "kaiser"), device)


def kaiser_window(
    n: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return the Kaiser window of `n` points; if `periodic`, of one more without the last.

    A vector of `n` elements.

    Raises:
        ShapeError: `n` is negative.
        DTypeError: Not a floating-point dtype.

    >>> [round(v, 4) for v in zyx.kaiser_window(4, beta=2.0).tolist()]
    [0.4387, 0.8348, 1.0, 0.8348]
    """
    values = _of_one_more(lambda count: np.kaiser(count, beta), n, "kaiser_window", periodic=periodic)
    return _of_host(values, _float(dtype, "kaiser_window"), device)


take_habits(globals())
