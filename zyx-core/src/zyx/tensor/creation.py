"""Make tensors: of data on the host, of one number, of regular sequences.

Constants and sequences take no memory until something needs their values. `dtype` None means float32, or what the
numbers given are: Python's integers are int64, floats float32, bools bool. `device` None means the default device, or
that of a tensor given.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import DType, as_dtype
from zyx.errors import DTypeError, ShapeError, SharingError
from zyx.functions import sharing, take_habits
from zyx.functions.ingest import node_from_data
from zyx.functions.movement import as_diagonal
from zyx.functions.operands import is_tensor, require, wrap
from zyx.functions.term import Term
from zyx.integers import as_index
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DTypeLike, Number, Scalar
    from zyx.functions.operands import Array
    from zyx.shape import Shape

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full", "full_like", "linspace",
    "ones", "ones_like", "tri", "zeros", "zeros_like",
]  # fmt: skip


def asarray(
    data: object, dtype: DTypeLike | None = None, device: str | None = None, *, copy: bool | None = None
) -> Tensor:
    """Return `data` as a tensor.

    Args:
        data: A tensor, a number, an array, an object with ``__array__`` or ``__dlpack__``, or nested sequences of
            these.
        dtype: Of the result; None keeps that of arrays.
        device: Where.
        copy: True gives a tensor of its own memory. False refuses to copy: a device that computes in host memory, such
            as the CPU, then reads the memory of an array that has no gaps and needs no conversion.

    Returns:
        A tensor that needs no change is returned itself, unless `copy` is true: what is assigned to it later is seen.
        What an array that is not copied has in it when something is computed is what that sees: do not write to it
        before. What is assigned to the tensor does not reach the array.

    Raises:
        SharingError: `copy` is False, and `data` has to be copied or converted; the text says why.
        ShapeError: Nested sequences of different lengths.
        DTypeError: Values that are no numbers.

    >>> zyx.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    target = None if dtype is None else as_dtype(dtype)
    if is_tensor(data):
        place = data.node.device if device is None else data.runtime.device_name(device)
        if copy is False and (target not in (None, data.node.dtype) or place != data.node.device):
            raise SharingError(f"asarray: {data.node} cannot become {target} on {place} without a copy")
        if not copy and target in (None, data.node.dtype) and place == data.node.device:
            return data
        node = node_from_data(data, target, place, data.runtime)
        return wrap(data.runtime.graph.contiguous(node) if copy else node, data)
    if copy is False:
        if not isinstance(data, np.ndarray) and not (hasattr(data, "__dlpack__") and sharing.is_on_host(data)):
            raise SharingError(f"asarray: {type(data).__name__} is copied to the device; copy=False cannot be kept")
        runtime = current()
        return Tensor.of(sharing.from_host(data, target, device, runtime, "asarray"), runtime)
    return Tensor(data, target, device)


def from_numpy(array: Array, device: str | None = None) -> Tensor:
    """Return a tensor with a copy of a NumPy array, of the same dtype.

    The result has the shape of `array`.

    Raises:
        DTypeError: `array` is no NumPy array.

    >>> import numpy as np
    >>> zyx.from_numpy(np.array([[1, 2], [3, 4]])).shape
    (2, 2)
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy takes a NumPy array, not {type(array).__name__}; see asarray")
    return Tensor(array, None, device)


def from_dlpack(data: object, device: str | None = None, *, copy: bool | None = None) -> Tensor:
    """Return a tensor of an object with ``__dlpack__``.

    The result has the shape of `data`.

    Values in host memory are copied to the device, unless `copy` is False: then a device that computes in host memory
    reads them where they are, as `asarray` says. Those on a device that shares its memory with other libraries stay
    where they are, unless `device` names another or `copy` is true: then what the other library writes to them later is
    seen, and its array is kept.

    Raises:
        SharingError: `copy` is False for what must be copied; or the data is on a device that no backend shares, or not
            contiguous there.
        DTypeError: It has no ``__dlpack__``, or a dtype that tensors lack.

    >>> import numpy as np
    >>> zyx.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if is_tensor(data):
        return asarray(data, None, device, copy=copy)
    if not hasattr(data, "__dlpack__"):
        raise DTypeError(f"from_dlpack takes an object with __dlpack__, not {type(data).__name__}")
    runtime = current()
    node = sharing.from_device(data, runtime)
    if node is not None:
        place = node.device if device is None else runtime.device_name(device)
        if place != node.device and copy is False:
            raise SharingError(f"from_dlpack: data on {node.device} is copied to {place}; copy=False cannot be kept")
        if place != node.device:
            return Tensor.of(node, runtime).to(place)
        return Tensor.of(runtime.copy(node) if copy else node, runtime)
    if copy is False:
        return Tensor.of(sharing.from_host(data, None, device, runtime, "from_dlpack"), runtime)
    return Tensor(sharing.host_array(data), None, device)


# ---- one number everywhere


def _constant(value: Number, shape: Shape, dtype: DType, device: str | None) -> Tensor:
    runtime = current()
    place = runtime.default_device if device is None else runtime.device_name(device)
    return Tensor.of(runtime.graph.const(value, dtype, place, shape), runtime)


def full(
    shape: int | Sequence[int], fill_value: Number, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return `fill_value` everywhere; without a dtype, in that of the number.

    The result has the shape that is given.

    Raises:
        ShapeError: A size that is negative or no integer.
        DTypeError: `fill_value` is no number, or an integer that does not fit.

    >>> zyx.full((2, 2), 7.0).tolist()
    [[7.0, 7.0], [7.0, 7.0]]
    """
    if is_tensor(fill_value):
        fill_value = fill_value.item()
    if not isinstance(fill_value, bool | int | float | complex | np.generic):
        raise DTypeError(f"full takes a number, not {type(fill_value).__name__}")
    value: Any = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    target = as_dtype(value.__class__ if dtype is None else dtype)  # not its type: `zyx.jit` has stand-ins
    if target.is_integer and not isinstance(value, bool):
        if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
            raise DTypeError(f"{value} does not fit {target}")
        if not target.min <= value <= target.max:
            raise DTypeError(f"{value} does not fit {target} ({target.min} to {target.max})")
    return _constant(value, shapes.as_shape(shape), target, device)


def zeros(
    shape: int | Sequence[int] = (),
    *more: int | DTypeLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return 0 everywhere: ``zeros(2, 3)``, ``zeros((2, 3))``, ``zeros((2, 3), dtype)`` or ``zeros(shape=(2, 3))``.

    Raises:
        ShapeError: A negative size.

    >>> zyx.zeros(2, 3).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return _filled(0, (shape, *more), dtype, device)


def ones(
    shape: int | Sequence[int] = (),
    *more: int | DTypeLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return 1 everywhere; the shape is given as to `zeros`.

    Raises:
        ShapeError: A negative size.

    >>> zyx.ones((2, 2), dtype="int32").tolist()
    [[1, 1], [1, 1]]
    """
    return _filled(1, (shape, *more), dtype, device)


def empty(
    shape: int | Sequence[int] = (),
    *more: int | DTypeLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return any values, which are 0; the shape is given as to `zeros`.

    Raises:
        ShapeError: A negative size.

    >>> zyx.empty(2, 3).shape
    (2, 3)
    """
    return _filled(0, (shape, *more), dtype, device)


def _filled(value: Scalar, sizes: Sequence[Any], dtype: DTypeLike | None, device: str | None) -> Tensor:
    if dtype is None and len(sizes) == 2 and isinstance(sizes[-1], DType | str | type | np.dtype):
        *sizes, dtype = sizes
    return _constant(value, shape_of(sizes), dtypes.float32 if dtype is None else as_dtype(dtype), device)


def shape_of(given: Sequence[Any]) -> Shape:
    """Return the shape of ``f(2, 3)`` or ``f((2, 3))``."""
    if len(given) == 1:
        return shapes.as_shape(given[0])
    return shapes.as_shape(given)


def full_like(x: Tensor, fill_value: Number, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return `fill_value` everywhere, in the shape, dtype and place of `x`.

    Raises:
        DTypeError: `x` is no tensor, there is no such dtype, or `fill_value` does not fit it.
        NoDeviceError: There is no such device.

    >>> zyx.full_like(zyx.Tensor([1.0, 2.0]), 5).tolist()
    [5.0, 5.0]
    """
    node = require(x, "full_like").node
    return full(node.shape, fill_value, node.dtype if dtype is None else dtype, device or node.device)


def zeros_like(x: Tensor, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return 0 everywhere, in the shape, dtype and place of `x`.

    Raises:
        DTypeError: `x` is no tensor, or there is no such dtype.
        NoDeviceError: There is no such device.

    >>> zyx.zeros_like(zyx.Tensor([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    return full_like(x, 0, dtype, device)


def ones_like(x: Tensor, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return 1 everywhere, in the shape, dtype and place of `x`.

    Raises:
        DTypeError: `x` is no tensor, or there is no such dtype.
        NoDeviceError: There is no such device.

    >>> zyx.ones_like(zyx.Tensor([[1, 2]])).tolist()
    [[1, 1]]
    """
    return full_like(x, 1, dtype, device)


def empty_like(x: Tensor, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return any values, in the shape, dtype and place of `x`; they are 0.

    Raises:
        DTypeError: `x` is no tensor, or there is no such dtype.
        NoDeviceError: There is no such device.

    >>> zyx.empty_like(zyx.ones(2, 3)).shape
    (2, 3)
    """
    return zeros_like(x, dtype, device)


# ---- sequences


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return ``start, start + step, ...`` up to but without `stop`; with one number, ``0 .. start``.

    The result is a vector.

    There are ``ceil((stop - start) / step)`` of them; each is computed by itself, so that errors do not add up.
    Without a dtype, integers give int64, and a float among the arguments float32.

    Raises:
        ShapeError: `step` is 0, or a bound is not finite.
        DTypeError: A bool dtype, or integers that do not fit.

    >>> zyx.arange(2, 10, 3).tolist()
    [2, 5, 8]
    """
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange: step is not 0")
    if not all(isinstance(bound, int) or math.isfinite(bound) for bound in (first, end, step)):
        raise ShapeError(f"arange: {first}, {end} and {step} must be finite")
    if dtype is None:
        target = dtypes.int64 if all(isinstance(v, int) for v in (first, end, step)) else dtypes.float32
    else:
        target = as_dtype(dtype)
    if target.is_bool:
        raise DTypeError("arange makes numbers, not bools")
    if all(isinstance(v, int) for v in (first, end, step)):
        count: int = max(end - first if step == 1 else len(range(int(first), int(end), int(step))), 0)  # type: ignore[assignment]
    else:
        count = max(math.ceil((end - first) / step), 0)
    if target.is_integer and count:
        last = first + (count - 1) * step
        if not (target.min <= min(first, last) and max(first, last) <= target.max):
            raise DTypeError(f"arange: {first} .. {last} does not fit {target} ({target.min} to {target.max})")
    return _sequence(first, step, count, target, device)


def _sequence(first: float, step: float, count: int, target: DType, device: str | None) -> Tensor:
    """Return ``first + i * step``; integers are computed as such, and truncated first if they are floats."""
    runtime = current()
    place = runtime.default_device if device is None else runtime.device_name(device)
    wide = target if target.is_integer else dtypes.accumulator(target)
    counter = wide if wide.is_integer else dtypes.int32 if count < 1 << 31 else dtypes.int64
    if not count:
        return Tensor.of(runtime.graph.const(0, target, place, (0,)), runtime)
    term = Term(runtime.graph, runtime.graph.iota((count,), 0, counter, place)).cast(wide)
    if wide.is_integer:
        scale, offset = target.wrap(int(step)), target.wrap(int(first))
        if isinstance(step, float) and not step.is_integer():
            raise DTypeError(f"arange: a step of {step} does not fit {target}")
        term = term if scale == 1 else term * scale
        term = term + offset if offset else term
    else:
        term = term if step == 1 else term * float(step)
        term = term + float(first) if first else term
    return Tensor.of(term.cast(target).node, runtime)


def linspace(
    start: float,
    stop: float,
    num: int,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    *,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` numbers at equal distances from `start` to `stop`, the last being `stop` unless `endpoint` is false.

    The result is a vector.

    Raises:
        ShapeError: `num` is negative.
        DTypeError: A bool dtype.

    >>> zyx.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = as_index(num, "num")
    if count < 0:
        raise ShapeError(f"linspace: num is at least 0, not {count}")
    target = dtypes.float32 if dtype is None else as_dtype(dtype)
    if target.is_bool:
        raise DTypeError("linspace makes numbers, not bools")
    wide = dtypes.accumulator(target) if target.is_float else dtypes.float64
    steps = count - 1 if endpoint else count
    runtime = current()
    place = runtime.default_device if device is None else runtime.device_name(device)
    if count <= 1:
        return _constant(start, (count,), wide, device).astype(target)
    index = Term(runtime.graph, runtime.graph.iota((count,), 0, dtypes.int32, place))
    values = index.cast(wide) * ((stop - start) / steps) + float(start)
    if endpoint:
        values = (index == count - 1).where(float(stop), values)
    return Tensor.of(values.cast(target).node, runtime)


def eye(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return 1 on diagonal `k` of a matrix and 0 elsewhere; it is square unless `n_cols` is given.

    Raises:
        ShapeError: A negative size.

    >>> zyx.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    place = as_diagonal(k)
    return _by_diagonal(n_rows, n_cols, dtype, device, lambda distance: distance == place)


def tri(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return 1 on and below diagonal `k` of a matrix and 0 above; it is square unless `n_cols` is given.

    Raises:
        ShapeError: A negative size.

    >>> zyx.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    bound = as_diagonal(k)
    return _by_diagonal(n_rows, n_cols, dtype, device, lambda distance: distance <= bound)


def _by_diagonal(
    n_rows: int, n_cols: int | None, dtype: DTypeLike | None, device: str | None, holds: Callable[[Term], Term]
) -> Tensor:
    rows = shapes.as_size(n_rows, "n_rows")
    shape = shapes.as_shape((rows, rows if n_cols is None else shapes.as_size(n_cols, "n_cols")))
    target = dtypes.float32 if dtype is None else as_dtype(dtype)
    start = _constant(0, shape, target, device)
    if 0 in shape:
        return start
    term = Term(start.runtime.graph, start.node)
    distance = term.iota(1, dtypes.int32) - term.iota(0, dtypes.int32)
    return wrap(holds(distance).cast(target).node, start)


take_habits(globals(), __all__)
