"""Conversion between dtypes. What no device has is converted on the host, which reads the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
from onnx import numpy_helper

from zyx.errors import FormatError
from zyx.functions.info import bitcast
from zyx.functions.operands import is_tensor
from zyx.io.onnx.lengths import looked_at, varies
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import device_dtype, dtype_of, numpy_dtype, to_host

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value

_SATURATING: Final = {
    np.dtype(dtype)
    for dtype in (
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
    )
}  # fmt: skip
_SCALE: Final = "float8_e8m0fnu"


def cast_to(x: Value, dtype: np.dtype[Any], *, saturate: bool = True, round_mode: str = "up") -> Value:
    """Return a tensor or array in another dtype.

    Args:
        x: What is converted.
        dtype: NumPy's type; objects are texts.
        saturate: Whether numbers beyond the range of 8-bit floats become the largest one.
        round_mode: How scales of 8 bits are rounded: "up", "down" or "nearest".
    """
    if is_tensor(x):
        ours = device_dtype(dtype)
        if ours is not None:
            return x.astype(ours)
        x = to_host(x)
    if dtype.hasobject:
        return _texts(x)
    if x.dtype.hasobject:
        return _numbers(x).astype(dtype)
    if dtype.name == _SCALE and x.dtype != dtype:
        return numpy_helper.to_float8e8m0(x.astype(np.float32), saturate, round_mode).astype(dtype)
    if dtype in _SATURATING and saturate:
        return numpy_helper.saturate_cast(x.astype(np.float32) if x.dtype.kind != "f" else x, dtype)
    if dtype.kind == "V" or x.dtype.kind == "V":  # NumPy's types that ml_dtypes brings convert through float32
        x = x.astype(np.float32) if dtype.name.startswith("float") and x.dtype != dtype else x
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(dtype)


def _texts(x: Array) -> Array:
    if x.dtype.hasobject:
        return x
    texts = np.empty(x.size, object)
    texts[:] = [_text(number) for number in x.reshape(-1)]
    return texts.reshape(x.shape)


def _text(number: Any) -> str:  # noqa: ANN401  # any of NumPy's numbers
    if isinstance(number, np.bool_):
        return "True" if number else "False"
    return str(number)


def _numbers(x: Array) -> Array:
    try:
        return np.array([float(text) for text in x.reshape(-1)], np.float64).reshape(x.shape)
    except ValueError as error:
        raise FormatError(f"Cast: {error}") from error


def _options(node: NodeCall) -> dict[str, Any]:
    return {"saturate": bool(node.get("saturate", 1)), "round_mode": node.get("round_mode", "up")}


@operator("Cast", raw=True, sizes=True)
def cast(node: NodeCall, x: Value) -> Value:
    """Convert to a dtype."""
    number = node["to"]
    if isinstance(number, str):  # before opset 6
        from onnx import TensorProto

        number = TensorProto.DataType.Value(number)
    dtype = numpy_dtype(number, "Cast")
    if varies(x) and dtype in (np.int64, np.int32):
        return x
    return cast_to(looked_at(x), dtype, **_options(node))


@operator("CastLike", raw=True)
def cast_like(node: NodeCall, x: Value, like: Value) -> Value:
    """Convert to the dtype of another tensor."""
    return cast_to(x, dtype_of(like), **_options(node))


@operator("BitCast", raw=True)
def bit_cast(node: NodeCall, x: Value) -> Value:
    """Take the bits for numbers of another dtype."""
    dtype = numpy_dtype(node["to"], "BitCast")
    ours = device_dtype(dtype)
    if is_tensor(x) and ours is not None and "bool" not in (x.dtype, ours):
        return bitcast(x, ours)
    return to_host(x).view(dtype)
