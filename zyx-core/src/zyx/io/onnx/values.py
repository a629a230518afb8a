"""What flows between the nodes of a network, and how it is told apart.

    a tensor        numbers that are computed on a device
    an array        NumPy's: constants, shapes and what is computed from them alone, on the host. Also what no device
                    has: texts (arrays of objects), and numbers of 2, 4 and 8 bits other than int8 and uint8
    a list          a sequence
    None            an input that is left out, or an optional without a value

An array becomes a tensor where it meets one, so arithmetic on shapes costs no kernel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ml_dtypes
import numpy as np
from onnx import TensorProto

from zyx.dtype import ALL, COMPLEX
from zyx.errors import FormatError
from zyx.functions.operands import Array, is_tensor
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.dtype import DType

Value: TypeAlias = Any

#: NumPy's types by ONNX's number of them, but for texts.
DTYPES: Final[dict[int, np.dtype[Any]]] = {
    number: np.dtype(dtype)
    for number, dtype in {
        TensorProto.FLOAT: np.float32,
        TensorProto.UINT8: np.uint8,
        TensorProto.INT8: np.int8,
        TensorProto.UINT16: np.uint16,
        TensorProto.INT16: np.int16,
        TensorProto.INT32: np.int32,
        TensorProto.INT64: np.int64,
        TensorProto.BOOL: np.bool_,
        TensorProto.FLOAT16: np.float16,
        TensorProto.DOUBLE: np.float64,
        TensorProto.UINT32: np.uint32,
        TensorProto.UINT64: np.uint64,
        TensorProto.COMPLEX64: np.complex64,
        TensorProto.COMPLEX128: np.complex128,
        TensorProto.BFLOAT16: ml_dtypes.bfloat16,
        TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
        TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
        TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
        TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
        TensorProto.UINT4: ml_dtypes.uint4,
        TensorProto.INT4: ml_dtypes.int4,
        **({TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn} if hasattr(ml_dtypes, "float4_e2m1fn") else {}),
        **({TensorProto.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu} if hasattr(ml_dtypes, "float8_e8m0fnu") else {}),
        **({TensorProto.UINT2: ml_dtypes.uint2} if hasattr(TensorProto, "UINT2") else {}),
        **({TensorProto.INT2: ml_dtypes.int2} if hasattr(TensorProto, "INT2") else {}),
    }.items()
}
#: ONNX's number of NumPy's types.
NUMBERS: Final = {dtype: number for number, dtype in DTYPES.items()} | {np.dtype(object): int(TensorProto.STRING)}
_OURS: Final = {dtype.numpy: dtype for dtype in (*ALL, *COMPLEX)}


def number_of(dtype: DType) -> int:
    """Return ONNX's number of a dtype."""
    return int(NUMBERS[dtype.numpy])


#: An array that is made on the host has no more numbers: what asks for more is no shape or constant.
_MOST_NUMBERS: Final = 2**28


def check_count(shape: Iterable[int], what: str) -> None:
    """Refuse to make an array on the host that is too large.

    Raises:
        FormatError: It would have more than 2^28 numbers, or a size is negative.
    """
    sizes = [int(size) for size in shape]
    if any(size < 0 for size in sizes) or math.prod(sizes) > _MOST_NUMBERS:
        raise FormatError(
            f"{what} asks for an array of shape {tuple(sizes)}; on the host there are at most 2^28 numbers"
        )


def numpy_dtype(number: int, what: str) -> np.dtype[Any]:
    """Return NumPy's type of an ONNX element type; texts are objects.

    Raises:
        FormatError: There is no such type.
    """
    if number == TensorProto.STRING:
        return np.dtype(object)
    try:
        return DTYPES[number]
    except KeyError:
        raise FormatError(f"{what}: element type {number} is unknown; there are {sorted(DTYPES)} and 8") from None


def device_dtype(dtype: np.dtype[Any]) -> DType | None:
    """Return our type of the layout of one of NumPy's, or None if no device has it."""
    return _OURS.get(dtype)


def dtype_of(value: Value) -> np.dtype[Any]:
    """Return NumPy's type of a tensor or an array."""
    dtype: np.dtype[Any] = value.dtype.numpy if is_tensor(value) else value.dtype
    return dtype


def to_host(value: Value) -> Array:
    """Return the values of a tensor, or an array as it is; this waits for the device."""
    if is_tensor(value):
        read: Array = value.numpy()
        return read
    array: Array = value
    return array


def to_tensor(value: Value, device: str | None) -> Tensor:
    """Return a tensor of an array, on `device` or the default one; a tensor as it is.

    Raises:
        FormatError: No device has the dtype of the array.
    """
    if is_tensor(value):
        return value
    if device_dtype(value.dtype) is None:
        raise FormatError(f"numbers of {value.dtype} are kept, cast and dequantised; nothing else is computed of them")
    return Tensor(value, device=device)


def to_result(value: Value, device: str | None) -> Value:
    """Return what a caller gets: a tensor of numbers that a device has, in sequences, too; an array of the rest."""
    if isinstance(value, list):
        return [to_result(item, device) for item in value]
    if isinstance(value, np.ndarray | np.generic) and device_dtype(value.dtype) is not None:
        return to_tensor(np.asarray(value), device)
    return value


def from_caller(value: object, dtype: np.dtype[Any] | None, device: str | None) -> Value:
    """Return a value of what a caller gives: a tensor, an array or what NumPy makes one of; a list is a sequence.

    A whole number without axes that is no tensor stays on the host: it says a rate, a count or which branch to take.
    """
    if value is None or is_tensor(value):
        return value
    if type(value) is np.ndarray and value.ndim and value.dtype in _OURS:  # as most are
        return Tensor(value, device=device)
    if isinstance(value, list) and dtype is None:
        return [from_caller(item, None, device) for item in value]
    array = np.asarray(value)
    if dtype is not None and not isinstance(value, np.ndarray | np.generic):
        array = array.astype(dtype)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if device_dtype(array.dtype) is None or (array.ndim == 0 and array.dtype.kind in "iub"):
        return array
    return to_tensor(array, device)
