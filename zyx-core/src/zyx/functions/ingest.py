"""From data on the host to nodes: nested lists, numbers, NumPy arrays, and whatever offers itself as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import as_dtype, promote_scalar
from zyx.errors import DTypeError, ShapeError
from zyx.functions import sharing
from zyx.functions.operands import Array, common_dtype, is_tensor
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx import semantics
    from zyx.dtype import DType, Number
    from zyx.graph import Node
    from zyx.runtime.runtime import Runtime
else:
    semantics = lazy_import("zyx.semantics", globals())


def node_from_data(data: object, dtype: DType | None, device: str | None, runtime: Runtime) -> Node:
    """Return a node with the values of `data`.

    Args:
        data: A tensor, a number, an array, an object with ``__array__`` or ``__dlpack__``, or nested sequences of
            these.
        dtype: Of the result. None keeps the dtype of arrays; Python's floats become float32, integers int64, bools
            bool, complex numbers complex64.
        device: Where; None means the device of a tensor, else the default one.
        runtime: What the node belongs to.

    Raises:
        ShapeError: Nested sequences of different lengths; the text names the rows.
        DTypeError: Values that are no numbers, integers beyond 64 bits, or complex ones for a `dtype` that is not.
    """
    if is_tensor(data):
        node = data.node if dtype is None else runtime.graph.cast(data.node, dtype)
        return node if device is None else runtime.graph.to_device(node, device)
    place = runtime.default_device if device is None else device
    if isinstance(data, bool | int | float | complex) and not isinstance(data, np.generic):
        target = dtypes.promote_scalar(dtypes.bool_, data) if dtype is None else dtype
        if target.is_integer and isinstance(data, int) and not target.min <= data <= target.max:
            raise DTypeError(f"{data} does not fit {target} ({target.min} to {target.max})")
        return runtime.graph.cast(_constant(data, runtime, place), target)
    array = host_array(data)
    own = as_dtype(array.dtype)
    if dtype is None and own.is_inexact and not has_dtype(data):
        dtype = dtypes.complex64 if own.is_complex else dtypes.float32
    if own.is_complex and dtype is not None and not dtype.is_complex:
        raise DTypeError(f"{own} values do not fit {dtype}: the imaginary part would be lost; pass .real or .imag")
    if dtype is not None:
        array = semantics.apply_cast(array, dtype)
    return runtime.upload(array, place)


def _constant(value: Number, runtime: Runtime, device: str) -> Node:
    """Return a number as a node of a type that holds it exactly."""
    if isinstance(value, bool):
        return runtime.graph.const(value, dtypes.bool_, device)
    if isinstance(value, float):
        return runtime.graph.const(value, dtypes.float64, device)
    if isinstance(value, complex):
        return runtime.graph.const(value, dtypes.complex128, device)
    return runtime.graph.const(value, dtypes.uint64 if value >= 1 << 63 else dtypes.int64, device)


def host_array(data: object) -> Array:
    """Return `data` as an array of one of our dtypes; Python's floats become float64. See `node_from_data`."""
    if isinstance(data, np.ndarray | np.generic):
        return _checked(np.asarray(data))
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        try:
            return _checked(np.asarray(data))
        except (TypeError, RuntimeError):  # PyTorch's words for bfloat16, and for what has a gradient
            if not hasattr(data, "__dlpack__"):
                raise
            return _checked(sharing.host_array(data))
    if hasattr(data, "__dlpack__"):
        return _checked(sharing.host_array(data))
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(_ragged(data) or f"cannot make a tensor of {type(data).__name__}: {error}") from error
    except OverflowError as error:
        raise DTypeError(f"cannot make a tensor of these numbers: {error}") from error
    return _checked(array, of=data)


def _checked(array: Array, of: object = None) -> Array:
    """Return `array` if its dtype is one of ours."""
    if array.dtype.kind in "OSUVMm" and array.dtype.name != "bfloat16":
        given = f"{type(of).__name__} of " if of is not None else ""
        raise DTypeError(f"a tensor holds numbers or bools, not {given}NumPy's {array.dtype}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    as_dtype(array.dtype)
    return array


def has_dtype(data: object) -> bool:
    """Tell whether `data`, or what nested sequences hold first, has a dtype of its own, unlike Python's numbers."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return not isinstance(data, list | tuple | bool | int | float | complex) or isinstance(data, np.generic)


def with_arrays(operands: Sequence[object], what: str) -> list[Any]:
    """Return `operands` with lists and tuples as arrays, whose Python numbers are weak as single ones are.

    Raises:
        ShapeError: Nested lists of different lengths.
        DTypeError: Something in them that is no number, or that does not fit.
    """
    if not any(isinstance(operand, list | tuple) for operand in operands):
        return list(operands)
    dtype = common_dtype([operand for operand in operands if not isinstance(operand, list | tuple)], what)
    result: list[Any] = []
    for operand in operands:
        if isinstance(operand, list | tuple):
            array = host_array(operand)
            if not has_dtype(operand):
                if array.dtype.kind == "c":
                    dtype = dtypes.complex_of(dtype)
                has_order = array.size and array.dtype.kind != "c"
                for extreme in (array.min().item(), array.max().item()) if has_order else ():
                    dtype = promote_scalar(dtype, extreme)
                array = array.astype(dtype.numpy)
            result.append(array)
        else:
            result.append(operand)
    return result


def _ragged(data: object, place: str = "") -> str | None:
    """Return a text that names the first two rows of different lengths, or None."""
    if not isinstance(data, list | tuple):
        return None
    lengths = [_extent(row) for row in data]
    for i, length in enumerate(lengths):
        if length != lengths[0]:
            first, this = f"{place}[0]", f"{place}[{i}]"
            return f"nested lists do not make a box: row {first} has {_say(lengths[0])}, row {this} has {_say(length)}"
    for i, row in enumerate(data):
        found = _ragged(row, f"{place}[{i}]")
        if found:
            return found
    return None


def _extent(row: object) -> int | None:
    """Return how many elements a row has; None for a number."""
    return len(row) if hasattr(row, "__len__") else None


def _say(length: int | None) -> str:
    return "no elements, being a number" if length is None else f"{length} elements"
