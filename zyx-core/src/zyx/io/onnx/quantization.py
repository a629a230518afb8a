"""Quantised numbers, exactly: integers are multiplied and added as int32, and rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from zyx.dtype import as_dtype
from zyx.functions import arithmetic, choosing, elementwise, linalg
from zyx.functions import conv as convolutions
from zyx.functions.joining import repeat
from zyx.functions.operands import is_tensor
from zyx.io.onnx.casting import cast_to
from zyx.io.onnx.margins import windows_of
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import device_dtype, dtype_of, numpy_dtype, to_tensor

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

_UINT8 = int(TensorProto.UINT8)
_BITS = {"uint2": (0, 3), "int2": (-2, 1), "uint4": (0, 15), "int4": (-8, 7)}


def _spread(x: Value, like: tuple[int, ...], axis: int, block: int) -> Value:
    """Return scales that broadcast against a shape: of all, of one axis, or of blocks along it."""
    shape = tuple(x.shape)
    if not shape or shape == (1,):
        return x.reshape(())
    axis %= len(like)
    if block:
        return repeat(x, block, axis)[tuple(slice(0, size) for size in like)]
    if len(shape) == 1:
        return x.reshape((1,) * axis + shape + (1,) * (len(like) - axis - 1))
    return x


def _wide(node: NodeCall, x: Value, dtype: str) -> Tensor:
    """Return a tensor of numbers that no device may have, as `dtype`."""
    return node.tensor(x).astype(dtype) if is_tensor(x) else to_tensor(x.astype(np.dtype(dtype)), node.device)


def _quantised(node: NodeCall, x: Tensor, zero: Value, target: np.dtype[Any], shape_of_zero: tuple[int, int]) -> Value:
    """Round `x`, which is divided by its scale, move it by the zero point, and limit it to the range of `target`."""
    if target.kind in "iu" or target.name in _BITS:
        low, high = _BITS.get(target.name) or (int(np.iinfo(target).min), int(np.iinfo(target).max))
        whole = elementwise.round(x)
        if zero is not None:
            whole = whole + _spread(_wide(node, zero, "float32"), x.shape, *shape_of_zero).astype(x.dtype)
        return cast_to(choosing.clip(whole, low, high).astype("int32"), target)
    return cast_to(x, target, saturate=bool(node.get("saturate", 1)))


@operator("QuantizeLinear", raw=True)
def quantize(node: NodeCall, x: Value, scale: Value, zero: Value = None) -> Value:
    """Divide by a scale, round to even, move by a zero point."""
    axis, block = node.get("axis", 1), node.get("block_size", 0) or 0
    number = node.get("output_dtype", 0)
    target = dtype_of(zero) if zero is not None else numpy_dtype(number or _UINT8, "QuantizeLinear")
    data = node.tensor(x)
    precision = node.get("precision", 0)
    steps = _spread(node.tensor(scale), data.shape, axis, block)
    if precision:
        kept = as_dtype(numpy_dtype(precision, "QuantizeLinear"))
        data, steps = data.astype(kept), steps.astype(kept)
    elif data.dtype.is_integer:
        data = data.astype(steps.dtype)
    return _quantised(node, data / steps.astype(data.dtype), zero, target, (axis, block))


@operator("DequantizeLinear", raw=True)
def dequantize(node: NodeCall, x: Value, scale: Value, zero: Value = None) -> Value:
    """Subtract the zero point, multiply by the scale."""
    axis, block = node.get("axis", 1), node.get("block_size", 0) or 0
    number = node.get("output_dtype", 0)
    is_whole = dtype_of(x).kind in "iu" or dtype_of(x).name in _BITS
    data = _wide(node, x, "int32" if is_whole else "float32")
    if zero is not None:
        data = data - _spread(_wide(node, zero, "int32" if is_whole else "float32"), data.shape, axis, block)
    steps = node.tensor(scale) if device_dtype(dtype_of(scale)) is not None else _wide(node, scale, "float32")
    result = data.astype("float32") * _spread(steps, data.shape, axis, block).astype("float32")
    return cast_to(result, numpy_dtype(number, "DequantizeLinear") if number else dtype_of(steps))


def _suited(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers from 0 to 255, their scale and their zero point, which suit `x`, all as floats."""
    high, low = arithmetic.maximum(x.max(), 0), arithmetic.minimum(x.min(), 0)
    scale = (high - low) / 255
    scale = choosing.where(scale == 0, 1, scale).astype("float32")
    zero = choosing.clip(elementwise.round(-low / scale), 0, 255)
    return choosing.clip(elementwise.round(x / scale) + zero, 0, 255), scale, zero


@operator("DynamicQuantizeLinear")
def dynamic_quantize(_: NodeCall, x: Tensor) -> Value:
    """Quantise to uint8, by a scale and zero point that suit the numbers."""
    y, scale, zero = _suited(x)
    return y.astype("uint8"), scale, zero.astype("uint8")


def dynamic_product(x: Tensor, weight: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return ``x @ weight``: `x` is quantised to uint8 as suits it, a weight ``(n_in, n_out)`` is already.

    Args:
        x: ``(..., n_in)``, floats.
        weight: Integers.
        scale: Of `weight`: one number, or ``(n_out,)``.
        zero: Its zero point, likewise; None is 0.
    """
    y, x_scale, x_zero = _suited(x)
    product = linalg.matmul((y - x_zero).astype("int32"), _centred(weight, zero, -1))
    return product.astype("float32") * (x_scale * scale)


def _centred(x: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """Return integers less their zero point, one for all or one for each place of an axis."""
    whole = x.astype("int32")
    if zero is None:
        return whole
    point = zero.astype("int32")
    if point.ndim == 1 and axis is not None and point.shape[0] > 1:
        point = point.reshape((1,) * (axis % x.ndim) + point.shape + (1,) * (x.ndim - axis % x.ndim - 1))
    elif point.ndim == 1 and point.shape[0] == 1:
        point = point.reshape(())
    return whole - point


@operator("MatMulInteger")
def matmul_integer(
    _: NodeCall, x: Tensor, y: Tensor, x_zero: Tensor | None = None, y_zero: Tensor | None = None
) -> Tensor:
    """Multiply matrices of small integers as int32."""
    return linalg.matmul(_centred(x, x_zero, -2), _centred(y, y_zero, -1))


@operator("ConvInteger")
def conv_integer(
    node: NodeCall, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, weight_zero: Tensor | None = None
) -> Tensor:
    """Cross-correlate small integers as int32; margins are zero points."""
    return _convolved(node, _centred(x, x_zero), _centred(weight, weight_zero, 0))


def _convolved(node: NodeCall, x: Tensor, weight: Tensor) -> Tensor:
    windows = windows_of(node, x.shape[2:], weight.shape[2:])
    return convolutions.conv(x, weight, None, windows.stride, windows.margins, windows.dilation, node["group"])


@operator("QLinearMatMul")
def qlinear_matmul(
    node: NodeCall, x: Tensor, x_scale: Tensor, x_zero: Tensor, y: Tensor, y_scale: Tensor, y_zero: Tensor,
    scale: Tensor, zero: Tensor,
) -> Value:  # fmt: skip
    """Multiply quantised matrices, and quantise the product."""
    product = linalg.matmul(_centred(x, x_zero, -2), _centred(y, y_zero, -1))
    rows = x_scale.reshape((-1, 1)) if x_scale.ndim == 1 and x_scale.shape[0] > 1 else x_scale
    factor = rows.astype("float32") * y_scale.astype("float32") / scale.astype("float32")
    return _quantised(node, product.astype("float32") * factor, zero, dtype_of(zero), (-1, 0))


@operator("QLinearConv")
def qlinear_conv(
    node: NodeCall, x: Tensor, x_scale: Tensor, x_zero: Tensor, weight: Tensor, weight_scale: Tensor,
    weight_zero: Tensor, scale: Tensor, zero: Tensor, bias: Tensor | None = None,
) -> Value:  # fmt: skip
    """Cross-correlate quantised numbers, and quantise the sums."""
    total = _convolved(node, _centred(x, x_zero), _centred(weight, weight_zero, 0))
    channels = (1, -1) + (1,) * (x.ndim - 2)
    if bias is not None:
        total = total + bias.reshape(channels)
    factor = x_scale * (weight_scale.reshape(channels) if weight_scale.ndim else weight_scale) / scale
    return _quantised(node, total.astype("float32") * factor, zero, dtype_of(zero), (-1, 0))
