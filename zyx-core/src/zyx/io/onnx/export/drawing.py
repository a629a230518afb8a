"""Random words, by the generator of `zyx.fusion.threefry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.fusion.threefry import random_word
from zyx.io.onnx.export.elementwise import combined
from zyx.io.onnx.export.sizes import dims_of, product

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.graph import node as n
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter
    from zyx.ops import BinaryOp


class _Written:
    """Arithmetic on values; see `zyx.fusion.threefry.Arithmetic`."""

    def __init__(self, w: GraphWriter) -> None:
        self._w = w

    def binary(self, op: BinaryOp, lhs: GraphValue, rhs: GraphValue) -> GraphValue:
        return combined(self._w, op, lhs, rhs)

    def literal(self, value: int, dtype: DType) -> GraphValue:
        return self._w.scalar(value, dtype)

    def convert(self, x: GraphValue, dtype: DType) -> GraphValue:
        return self._w.cast(x, dtype)

    def modulo(self, x: GraphValue, number: int) -> GraphValue:
        return self._w.like("Mod", x, self._w.scalar(number, x.dtype))

    def divide(self, x: GraphValue, number: int) -> GraphValue:
        return self._w.like("Div", x, self._w.scalar(number, x.dtype))


def write_random_bits(w: GraphWriter, node: n.RandomBits) -> GraphValue:
    """Write the words of a stream from a place on."""
    state = w.value(node.sources[0])
    count = product(dims_of(node))
    words = [w.op("Gather", [state, w.constant(np.array(i))], (), state.dtype, axis=0) for i in range(4)]
    ends = [w.scalar(0, dtypes.int64), w.whole_number(count), w.scalar(1, dtypes.int64)]
    places = w.like("Add", w.op("Range", ends, (count,), dtypes.int64), w.scalar(node.offset, dtypes.int64))
    return w.reshape(random_word(_Written(w), words, places, node.dtype), dims_of(node))
