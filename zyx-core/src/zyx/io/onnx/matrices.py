"""Products of matrices, and what else is linear algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import linalg as decompositions
from zyx.functions import einsum as einsums
from zyx.functions import linalg
from zyx.io.onnx.arithmetic import aligned
from zyx.io.onnx.registry import operator

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.tensor.tensor import Tensor


@operator("MatMul")
def matmul(_: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Multiply matrices, the last two axes."""
    return linalg.matmul(x, y)


@operator("Gemm")
def gemm(node: NodeCall, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply two matrices, transposed or not, and add a third."""
    product = linalg.matmul(x.T if node["transA"] else x, y.T if node["transB"] else y)
    if node["alpha"] != 1:
        product = (product * node["alpha"]).astype(x.dtype)
    if bias is None or node["beta"] == 0:
        return product
    bias = aligned(node, product, bias)
    return product + (bias if node["beta"] == 1 else (bias * node["beta"]).astype(x.dtype))


@operator("Einsum")
def einsum(node: NodeCall, *values: Tensor) -> Tensor:
    """Sum products by labels of axes."""
    return einsums.einsum(node["equation"].replace(" ", ""), *values)


@operator("Det")
def determinant(_: NodeCall, x: Tensor) -> Tensor:
    """Return determinants of the last two axes."""
    return decompositions.det(x)
