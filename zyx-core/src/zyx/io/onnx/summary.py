"""What is in an ONNX file, for people: its weights, what it takes and gives, and which operators it has."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from zyx.io.header import TensorEntry
from zyx.io.onnx.description import describe_value
from zyx.io.onnx.model import read_model
from zyx.io.onnx.values import numpy_dtype
from zyx.io.onnx.weights import bytes_for

if TYPE_CHECKING:
    from os import PathLike

    from onnx import TensorProto, ValueInfoProto


def describe_onnx(path: str | PathLike[str]) -> tuple[dict[str, TensorEntry], dict[str, Any]]:
    """Return the weights of a network by name, and what else its file says.

    Where weights begin in the file is not known, and 0.

    Raises:
        FormatError: It is not well formed.
        TransferError: It cannot be read.
    """
    proto = read_model(path)
    graph = proto.graph
    said = {
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "opsets": [f"{each.domain or 'ai.onnx'} {each.version}" for each in proto.opset_import],
        "inputs": [_shown(each) for each in graph.input],
        "outputs": [_shown(each) for each in graph.output],
        "operators": [f"{name} x{count}" for name, count in Counter(node.op_type for node in graph.node).most_common()],
        **{each.key: each.value for each in proto.metadata_props},
    }
    return {each.name: _entry(each) for each in graph.initializer}, said


def _entry(tensor: TensorProto) -> TensorEntry:
    dtype, shape = numpy_dtype(tensor.data_type, f"tensor {tensor.name!r}"), tuple(tensor.dims)
    return TensorEntry(dtype.name, shape, 0, bytes_for(math.prod(shape), dtype))


def _shown(value: ValueInfoProto) -> str:
    info = describe_value(value)
    dtype = info.kind if info.numpy_dtype is None else info.numpy_dtype.name
    shape = "?" if info.shape is None else ", ".join("?" if size is None else str(size) for size in info.shape)
    return f"{info.name}: {dtype}[{shape}]"
