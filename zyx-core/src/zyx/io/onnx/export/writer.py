"""An ONNX graph that is being written: its nodes, its constants, and what each node of ours has become.

A value is kept *lean*: it has size 1 along axes in which all elements are alike since they were repeated. Most
operators of ONNX repeat such axes by themselves; `GraphWriter.value` does it for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import helper

from zyx import dtype as dtypes
from zyx.io.onnx.export.sizes import dims_of
from zyx.io.onnx.values import number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zyx.dtype import DType, Scalar
    from zyx.graph.node import Node
    from zyx.io.onnx.export.sizes import Dim, Dims
    from zyx.specialise.length import Length

Array: TypeAlias = "npt.NDArray[Any]"
Attribute: TypeAlias = Any  # whatever `onnx.helper.make_attribute` takes

#: The version of the operators, and the versions of those that came later.
_OPSET: Final = 21
_SINCE: Final = {"BitCast": 26}


class GraphValue(NamedTuple):
    """A value of the graph that is written: its name there, its sizes and its dtype."""

    name: str
    dims: Dims
    dtype: DType


class CannotWriteError(Exception):
    """A node has no counterpart; the text says why. It is caught, and becomes part of an `UnsupportedError`."""


class ExportState:
    """What a graph and those inside of it have in common.

    Attributes:
        constants: Arrays, by the names of their values.
        opset: The least version that has all operators.
        lengths: Of each length that a call gives, the input and the axis where it is found.
        refused: By the values that stand in for them, why nodes could not be written.
    """

    def __init__(self, lengths: Sequence[tuple[GraphValue, int]] = ()) -> None:
        self.constants: dict[str, Array] = {}
        self.opset = _OPSET
        self.lengths = tuple(lengths)
        self.refused: dict[str, str] = {}
        self._known: dict[object, GraphValue] = {}
        self._count = 0

    def new_name(self) -> str:
        """Return a name that no value has yet; `zyx.io.onnx.export.naming` gives others in the end."""
        self._count += 1
        return f"%{self._count}"

    def constant(self, array: Array, dtype: DType) -> GraphValue:
        """Return the value of an array, the same one for equal ones."""
        array = np.asarray(array, dtype.numpy)
        key = (dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = GraphValue(self.new_name(), array.shape, dtype)
            self.constants[self._known[key].name] = array
        return self._known[key]


class GraphWriter:
    """A graph that is being written; `outer` is the one that it is inside of, of which it may use all values.

    Attributes:
        shared: What it has in common with others.
        outer: The one around it, if there is one.
        nodes: Those written so far.
        loops: The outputs of loops that are written, of which each is a node of ours.
    """

    def __init__(self, shared: ExportState, outer: GraphWriter | None = None) -> None:
        self.shared = shared
        self.outer = outer
        self.nodes: list[onnx.NodeProto] = []
        self._values: dict[Node, GraphValue] = {}
        self._made: dict[str, tuple[str, GraphValue, object]] = {}
        self._whole: dict[tuple[str, Dims], GraphValue] = {}
        self._sizes: dict[object, GraphValue] = {}
        self.loops: dict[object, list[GraphValue]] = {}

    # ---- nodes of ours

    def set(self, node: Node, value: GraphValue) -> None:
        """Let `value`, which may be lean, be what has become of `node`."""
        self._values[node] = value

    def has(self, node: Node) -> bool:
        """Whether `node` is written already, here or in the graph around."""
        return node in self._values or (self.outer is not None and self.outer.has(node))

    def lean(self, node: Node) -> GraphValue:
        """Return what has become of `node`, with size 1 where it is repeated."""
        found = self._values.get(node)
        if found is None and self.outer is not None:
            return self.outer.lean(node)
        assert found is not None, node
        return found

    def value(self, node: Node) -> GraphValue:
        """Return what has become of `node`, in its shape."""
        return self.expand(self.lean(node), dims_of(node))

    # ---- operators

    def op(
        self, kind: str, inputs: Sequence[GraphValue | None], dims: Dims, dtype: DType, **attributes: Attribute
    ) -> GraphValue:
        """Return the output of a new node."""
        return self.several(kind, inputs, [(dims, dtype)], **attributes)[0]

    def several(
        self,
        kind: str,
        inputs: Sequence[GraphValue | None],
        outputs: Sequence[tuple[Dims, DType]],
        **attributes: Attribute,
    ) -> list[GraphValue]:
        """Return the outputs of a new node."""
        self.shared.opset = max(self.shared.opset, _SINCE.get(kind, 0))
        made = [GraphValue(self.shared.new_name(), dims, dtype) for dims, dtype in outputs]
        names = ["" if value is None else value.name for value in inputs]
        self.nodes.append(helper.make_node(kind, names, [value.name for value in made], **attributes))
        return made

    def like(self, kind: str, *inputs: GraphValue, dtype: DType | None = None, **attributes: Attribute) -> GraphValue:
        """Return the output of an operator that works element by element, of the first input's dtype."""
        dims = broadcast([value.dims for value in inputs])
        return self.op(kind, inputs, dims, dtype or inputs[0].dtype, **attributes)

    def constant(self, array: Array | Sequence[float], dtype: DType = dtypes.int64) -> GraphValue:
        """Return the value of an array."""
        return self.shared.constant(np.asarray(array), dtype)

    def scalar(self, number: Scalar, dtype: DType) -> GraphValue:
        """Return the value of a number, without axes."""
        return self.shared.constant(np.asarray(number, dtype.numpy), dtype)

    def cast(self, x: GraphValue, dtype: DType) -> GraphValue:
        """Return `x` converted as ONNX does: what fits is exact, integers wrap."""
        if x.dtype is dtype:
            return x
        return self.op("Cast", [x], x.dims, dtype, to=number_of(dtype))

    # ---- shapes

    def reshape(self, x: GraphValue, dims: Dims) -> GraphValue:
        """Return the elements of `x` in row-major order; a shape in between is left out."""
        kind, source, _ = self._made.get(x.name, ("", x, None))
        if kind == "Reshape":
            x = source
        if x.dims == dims:
            return x
        made = self.op("Reshape", [x, self._target(dims)], dims, x.dtype)
        self._made[made.name] = ("Reshape", x, None)
        return made

    def trimmed(self, x: GraphValue) -> GraphValue:
        """Return `x` without axes of size 1 in front that a reshape has put there: operators broadcast without them."""
        kind, source, _ = self._made.get(x.name, ("", x, None))
        extra = len(x.dims) - len(source.dims)
        if kind == "Reshape" and extra > 0 and x.dims == (*[1] * extra, *source.dims):
            return source
        return x

    def whole_number(self, size: Dim) -> GraphValue:
        """Return a size as an int64 without axes."""
        return self.scalar(size, dtypes.int64) if isinstance(size, int) else self.reshape(self.sizes((size,)), ())

    def _target(self, dims: Dims) -> GraphValue:
        """Return a shape to reshape to; -1 stands for the one size that varies, if all others are there."""
        if sum([not isinstance(size, int) for size in dims]) == 1 and 0 not in dims:
            return self.constant([size if isinstance(size, int) else -1 for size in dims])
        return self.sizes(dims)

    def transpose(self, x: GraphValue, order: Sequence[int]) -> GraphValue:
        """Return `x` with axis ``order[i]`` at position i; two of these in a row become one."""
        order = tuple(order)
        kind, source, before = self._made.get(x.name, ("", x, None))
        if kind == "Transpose":
            assert isinstance(before, tuple)
            x, order = source, tuple([before[axis] for axis in order])
        if order == tuple(range(len(order))):
            return x
        dims = tuple([x.dims[axis] for axis in order])
        if [axis for axis in order if x.dims[axis] != 1] == [axis for axis in range(len(order)) if x.dims[axis] != 1]:
            return self.reshape(x, dims)
        made = self.op("Transpose", [x], dims, x.dtype, perm=order)
        self._made[made.name] = ("Transpose", x, order)
        return made

    def expand(self, x: GraphValue, dims: Dims) -> GraphValue:
        """Return `x` with axes of size 1 repeated."""
        if x.dims == dims:
            return x
        key = (x.name, dims)
        if key not in self._whole:
            self._whole[key] = self.op("Expand", [x, self.sizes(dims)], dims, x.dtype)
        return self._whole[key]

    def sizes(self, dims: Dims) -> GraphValue:
        """Return sizes as a vector of int64."""
        if self.outer is not None:
            return self.outer.sizes(dims)
        if all([isinstance(size, int) for size in dims]):
            return self.constant(np.array(dims, np.int64))
        if dims not in self._sizes:
            parts = [self.constant([size]) if isinstance(size, int) else self._length(size) for size in dims]
            self._sizes[dims] = self._joined(parts)
        return self._sizes[dims]

    def _joined(self, parts: Sequence[GraphValue]) -> GraphValue:
        return parts[0] if len(parts) == 1 else self.op("Concat", parts, (len(parts),), dtypes.int64, axis=0)

    def _length(self, size: Length) -> GraphValue:
        """Return a size that a call gives, as a vector of one int64."""
        if size not in self._sizes:
            total: GraphValue | None = None
            for lengths, factor in sorted(size.terms.items(), reverse=True):
                term = None if factor == 1 and lengths else self.constant([factor])
                for number in lengths:
                    found = self._given(number)
                    term = found if term is None else self.like("Mul", term, found)
                assert term is not None
                total = term if total is None else self.like("Add", total, term)
            assert total is not None
            self._sizes[size] = total
        return self._sizes[size]

    def length(self, number: int) -> GraphValue:
        """Return a length that a call gives, as an int64 without axes."""
        return self.reshape(self._given(number), ())

    def _given(self, number: int) -> GraphValue:
        if number not in self._sizes:
            value, axis = self.shared.lengths[number]
            self._sizes[number] = self.op("Shape", [value], (1,), dtypes.int64, start=axis, end=axis + 1)
        return self._sizes[number]


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Return the shape of operands of one element-wise operator."""
    rank = max([len(dims) for dims in shapes])
    padded = [(1,) * (rank - len(dims)) + dims for dims in shapes]
    return tuple([next((dims[axis] for dims in padded if dims[axis] != 1), 1) for axis in range(rank)])
