"""Products with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import DTypeError, ShapeError
from zyx.functions.linalg import matmul, tensordot
from zyx.functions.movement import matrix_transpose
from zyx.functions.operands import lowered, require
from zyx.quantize import QuantizedTensor
from zyx.quantize import matmul as packed_product

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


def linear(
    x: Tensor, weight: Tensor | QuantizedTensor, bias: Tensor | None = None, *, activations: str | None = None
) -> Tensor:
    """Return ``x @ weight.T + bias``.

    Args:
        x: ``(..., n_in)``.
        weight: ``(n_out, n_in)``, or ``(n_in,)`` for one output without an axis. Packed ones are constants, and the
            product is `zyx.quantize.matmul`.
        bias: ``(n_out,)``, or ``()``.
        activations: What `x` is rounded to where the weights are packed: see `zyx.quantize.matmul`.

    Returns:
        ``(..., n_out)``, or ``(...)``.

    Raises:
        ShapeError: Sizes that do not fit.
        DTypeError: Activations are to be rounded, and the weights are not packed.

    >>> zyx.nn.functional.linear(zyx.ones(2, 3), zyx.ones(4, 3)).tolist()
    [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    data = require(x, "linear").node.shape
    filters = weight.shape if isinstance(weight, QuantizedTensor) else require(weight, "linear").node.shape
    if not data or len(filters) not in (1, 2) or data[-1] != filters[-1]:
        raise ShapeError(f"linear: input {data} does not fit weights {filters}: (..., n_in) and (n_out, n_in)")
    if bias is not None and require(bias, "linear").node.shape != filters[:-1]:
        raise ShapeError(f"linear: bias {bias.node.shape} does not fit weights {filters}")
    if isinstance(weight, QuantizedTensor):
        result = packed_product(x, weight, activations=activations)
    elif activations is not None:
        raise DTypeError(
            f"linear: activations are rounded for packed weights alone, not for {weight.dtype}: see zyx.quantize"
        )
    else:
        result = matmul(x, matrix_transpose(weight) if len(filters) == 2 else weight)
    return result if bias is None else result + _lowered(bias)


def _lowered(x: Tensor) -> Tensor:
    """Return `x` in the type that `zyx.autocast` has for products."""
    dtype = x.node.dtype
    low = lowered(dtype)
    return x if low is dtype else x.astype(low)


def bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``sum over i, j of x[i] * weight[k, i, j] * y[j] + bias[k]``.

    Args:
        x: ``(..., n_x)``.
        y: ``(..., n_y)``, with the same axes in front.
        weight: ``(n_out, n_x, n_y)``.
        bias: ``(n_out,)``.

    Returns:
        ``(..., n_out)``.

    Raises:
        ShapeError: Sizes that do not fit.

    >>> zyx.nn.functional.bilinear(zyx.ones(5, 2), zyx.ones(5, 3), zyx.ones(4, 2, 3)).shape
    (5, 4)
    """
    first, second, filters = (require(t, "bilinear").node.shape for t in (x, y, weight))
    if (
        len(filters) != 3
        or not first
        or not second
        or (first[-1], second[-1]) != filters[1:]
        or first[:-1] != second[:-1]
    ):
        raise ShapeError(f"bilinear: inputs {first} and {second} do not fit weights {filters}")
    by_x = tensordot(x, weight, axes=((-1,), (1,)))  # (..., n_out, n_y)
    result = _lowered((by_x * y.reshape((*second[:-1], 1, second[-1]))).sum(axis=-1))
    return result if bias is None else result + _lowered(bias)
