"""Shapes as values: always known on the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.io.onnx.lengths import size_array, varies, whole, wholes
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import check_count, numpy_dtype
from zyx.tensor import creation

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value

#: Arrays of up to this many equal numbers are made on the host.
_MOST_ON_HOST = 1024


@operator("Shape", raw=True, sizes=True)
def shape(node: NodeCall, x: Value) -> Value:
    """Return the sizes, of some axes if ``start`` or ``end`` are there."""
    return size_array(x.shape)[slice(node.get("start", 0), node.get("end"))]


@operator("Size", raw=True, sizes=True)
def size(_: NodeCall, x: Value) -> Value:
    """Return the number of elements."""
    return size_array((math.prod(x.shape),)).reshape(())


@operator("Constant", raw=True)
def constant(node: NodeCall) -> Value:
    """Return what is written in the node."""
    for name, dtype in (
        ("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64), ("value_ints", np.int64),
        ("value_string", object), ("value_strings", object),
    ):  # fmt: skip
        if name in node:
            return np.array(node[name], dtype)
    return node["value"] if "value" in node else node["sparse_value"]


@operator("ConstantOfShape", reads=(0,), sizes=True)
def constant_of_shape(node: NodeCall, sizes: Value) -> Value:
    """Return a tensor of one number."""
    value = node.get("value", np.zeros(1, np.float32)).reshape(())
    target = wholes(sizes)
    is_small = not varies(sizes) and math.prod(target) <= _MOST_ON_HOST
    if value.dtype.kind not in "iufb" or is_small:
        return np.full(target, value, value.dtype)
    return creation.full(target, value.item(), value.dtype, node.device)


@operator("Range", reads=(0, 1, 2), sizes=True)
def numbers(node: NodeCall, start: Value, limit: Value, step: Value) -> Value:
    """Return evenly spaced numbers, without the limit."""
    if any(map(varies, (start, limit, step))):
        first, last, each = [whole(value.reshape(()).item()) for value in (start, limit, step)]
        return creation.arange(first, last, each, dtype="int64", device=node.device)
    count = max(int(np.ceil((limit.item() - start.item()) / step.item())), 0)
    check_count((count,), "Range")
    return (start + np.arange(count).astype(start.dtype) * step).astype(start.dtype).reshape(count)


@operator("EyeLike", raw=True)
def eye_like(node: NodeCall, x: Value) -> Value:
    """Return a matrix with ones on a diagonal, of the shape of another one."""
    number = node.get("dtype")
    dtype = (
        (x.dtype.numpy if hasattr(x.dtype, "numpy") else x.dtype) if number is None else numpy_dtype(number, "EyeLike")
    )
    rows, columns = x.shape
    check_count(x.shape, "EyeLike")
    return np.eye(rows, columns, node["k"], dtype)
