"""`load` reads a network, `OnnxModel` computes it.

    model = zyx.io.onnx.load("model.onnx")
    model.inputs                            # (ValueInfo(name='x', dtype=zyx.float32, shape=('batch', 3, 224, 224)),)
    y = model(x)                            # by position or by name; arrays or tensors
    model.to("c").astype("float16")         # its weights, which are `model.parameters()`

One output is returned as it is, several as a tuple. What is computed of shapes and constants alone is computed on the
host; what remains is traced by the first call and replayed by others (`zyx.io.onnx.recording`).
"""

from __future__ import annotations

import math
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]  # where there are no stubs of it
from onnx import AttributeProto, ModelProto

from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError, StateError, TransferError, UnsupportedError
from zyx.functions.operands import is_tensor
from zyx.io.onnx.description import ValueInfo, describe_value
from zyx.io.onnx.evaluation import Scope, evaluate, expansion, only_read
from zyx.io.onnx.node import schema_of
from zyx.io.onnx.recording import Recording
from zyx.io.onnx.registry import domain_of, table
from zyx.io.onnx.values import device_dtype, from_caller, numpy_dtype, to_result
from zyx.io.onnx.weights import bytes_for, read_tensor
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from onnx import FunctionProto, NodeProto

    from zyx.dtype import DTypeLike
    from zyx.functions.operands import Array
    from zyx.io.onnx.values import Value

#: A protobuf message is no larger; weights beyond it are external data.
_MOST_BYTES: Final = 2**31
#: Integers up to this number stay on the host: they are shapes, axes and places.
_MOST_ON_HOST: Final = 1024
_OLDEST_OPSET: Final = 1

__all__ = ["OnnxModel", "ValueInfo", "load"]


def load(
    source: str | PathLike[str] | bytes | ModelProto,
    device: str | None = None,
    *,
    limit_bytes: int = _MOST_BYTES,
    max_iterations: int = 100_000,
) -> OnnxModel:
    """Return the network in a file, in the bytes of one, or in a message.

    Args:
        source: The path, whose folder may hold external data of the model; or bytes, or a message, which may not.
        device: Where it is computed; the default device if None.
        limit_bytes: Of the file and all its external data together. Larger ones are refused before they are read.
        max_iterations: How often a loop in it may run.

    Raises:
        FormatError: The file is none of ONNX, or its graph is not well formed.
        TransferError: A file cannot be read.
        UnsupportedError: There are operators that we lack; the text has each, with domain, version and names of nodes.
    """
    folder = Path(source).parent if isinstance(source, str | PathLike) else None
    proto = source if isinstance(source, ModelProto) else read_model(source, limit_bytes)
    return OnnxModel(proto, device, folder, max_iterations=max_iterations, limit_bytes=limit_bytes)


def read_model(source: str | PathLike[str] | bytes, limit_bytes: int = _MOST_BYTES) -> ModelProto:
    """Return the message in a file, or in the bytes of one; what lies beside the file is not read.

    Raises:
        FormatError: It is none of ONNX, or larger than `limit_bytes`.
        TransferError: The file cannot be read.
    """
    if isinstance(source, bytes):
        raw, what = source, "the bytes"
        _check_size(len(raw), limit_bytes, "the model")
    else:
        raw, what = _read_file(Path(source), limit_bytes), str(source)
    proto = ModelProto()
    try:
        proto.ParseFromString(raw)
    except DecodeError as error:
        raise FormatError(f"{what} holds no ONNX model: {error}") from error
    return proto


def _check_size(size_bytes: int, limit_bytes: int, what: str) -> None:
    if size_bytes > limit_bytes:
        raise FormatError(f"{what} has {size_bytes} bytes, more than limit_bytes={limit_bytes}")


def _read_file(path: Path, limit_bytes: int) -> bytes:
    try:
        if not path.is_file():
            raise TransferError(f"{path} is no file")
        _check_size(path.stat().st_size, limit_bytes, str(path))
        return path.read_bytes()
    except OSError as error:
        raise TransferError(f"{path} cannot be read: {error}") from error


class OnnxModel:
    """A network as a function of tensors.

    Attributes:
        inputs: What it takes: name, dtype and shape, in which names stand for sizes that may differ between calls.
        outputs: What it gives.
        opsets: The version of each domain of operators, "" for ONNX's own.
        metadata: Texts that the exporter wrote.
    """

    def __init__(
        self,
        proto: ModelProto,
        device: str | None = None,
        folder: Path | None = None,
        *,
        max_iterations: int = 100_000,
        limit_bytes: int = _MOST_BYTES,
    ) -> None:
        """Check a network and read its weights; `load` says what may be wrong."""
        self._graph = graph = onnx.GraphProto()
        graph.CopyFrom(proto.graph)
        self._functions = {(domain_of(f.domain), f.name, f.overload): f for f in proto.functions}
        self.opsets = {domain_of(entry.domain): entry.version for entry in proto.opset_import}
        if not proto.HasField("graph") or not self.opsets:
            raise FormatError("this is no ONNX model: it has no graph, or names no version of its operators")
        self.metadata = {entry.key: entry.value for entry in proto.metadata_props}
        self._device, self._folder, self._iterations = device, folder, max_iterations
        _check_names(graph)
        _check_operators(graph, self._functions, self.opsets)
        self._recordings: dict[tuple[str, ...], Recording] = {}
        self._weights: dict[str, Tensor] = {}
        self._constants: dict[str, Value] = {}
        self._read_weights(limit_bytes)
        known = self._weights.keys() | self._constants.keys()
        self._all_inputs = tuple(describe_value(value) for value in graph.input)
        self.inputs = tuple(value for value in self._all_inputs if value.name not in known)
        self.outputs = tuple(describe_value(value) for value in graph.output)

    def _read_weights(self, limit_bytes: int) -> None:
        graph = self._graph
        total = sum(
            bytes_for(math.prod(tensor.dims), numpy_dtype(tensor.data_type, f"tensor {tensor.name!r}"))
            for tensor in graph.initializer
            if tensor.data_location == onnx.TensorProto.EXTERNAL
        )
        _check_size(total, limit_bytes, "external data")
        read = only_read(graph, self._functions)
        for tensor in graph.initializer:
            self._take(tensor.name, read_tensor(tensor, self._folder), on_host=tensor.name in read)
        left = []
        for node in graph.node:
            value = _constant(node)
            if value is None:
                left.append(node)
            else:
                array = read_tensor(value, self._folder)
                self._take(node.output[0], array, on_host=array.size == 1 or node.output[0] in read)
        del graph.initializer[:]
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in left]
        del graph.node[:]
        graph.node.extend(kept)

    def _take(self, name: str, array: Array, *, on_host: bool) -> None:
        dtype = device_dtype(array.dtype)
        if dtype is None or (dtype.is_inexact and not (array.ndim and array.size)):
            on_host = True
        elif not dtype.is_inexact:
            on_host = array.size <= _MOST_ON_HOST
        if on_host:
            self._constants[name] = array
        else:
            self._weights[name] = Tensor(array, device=self._device)

    def __call__(self, *args: object, **named: object) -> Any:  # noqa: ANN401  # what the network gives
        """Compute the outputs: one as it is, several as a tuple, in the order of `outputs`.

        Args:
            *args: Tensors or arrays, in the order of `inputs`; lists of them for sequences.
            **named: The same by name.

        Raises:
            FormatError: A node gets what it does not take.
            ShapeError: An input has another shape than `inputs` says, or names of sizes stand for different ones.
            DTypeError: An input has another dtype, or inputs are missing, given twice or unknown.
        """
        results = tuple(self.run(self._bind(args, named)).values())
        return results[0] if len(results) == 1 else results

    def run(self, inputs: Mapping[str, object]) -> dict[str, Any]:
        """Compute the outputs by name; `inputs` by name, as for a call."""
        given: dict[str, Value] = {}
        for described in self._all_inputs:
            name = described.name
            if name in inputs:
                dtype = described.numpy_dtype if described.kind == "tensor" else None
                given[name] = from_caller(inputs[name], dtype, self._device)
            elif name not in self._constants and name not in self._weights:
                if described.kind != "optional":
                    raise DTypeError(f"input {name!r} is missing; there are {self._names()}")
                given[name] = None
        names, values = tuple(given), tuple(given.values())
        recording = self._recordings.get(names)
        if recording is None:
            recording = self._recordings[names] = Recording(self._compute, names)
        if not recording.knows(values):
            sizes: dict[str, int] = {}
            for described in self._all_inputs:
                if described.name in inputs:
                    described.check(given[described.name], sizes)
            recording.learn(values)
        results = recording(self, values, self._weights.values())
        return dict(zip([described.name for described in self.outputs], results, strict=True))

    def _compute(self, names: Sequence[str], inputs: Sequence[Value]) -> tuple[Value, ...]:
        """Compute the outputs in order, node by node."""
        values: dict[str, Value] = {**self._constants, **self._weights, **dict(zip(names, inputs, strict=True))}
        scope = Scope(self.opsets, self._functions, self._device, self._folder, self._iterations, values, {})
        return tuple(to_result(value, self._device) for value in evaluate(self._graph, scope))

    def _names(self) -> str:
        return ", ".join(repr(described.name) for described in self.inputs) or "none"

    def _bind(self, args: tuple[object, ...], named: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(self.inputs):
            raise DTypeError(f"{len(args)} inputs are given; there are {len(self.inputs)}: {self._names()}")
        bound = {described.name: value for described, value in zip(self.inputs, args, strict=False)}
        for name, value in named.items():
            if name in bound or name not in {described.name for described in self._all_inputs}:
                raise DTypeError(f"input {name!r} is unknown or given twice; there are {self._names()}")
            bound[name] = value
        return bound

    # ---- weights

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Give the weights that can be trained, by the names in the file: floats, but for single numbers."""
        return ((name, tensor) for name, tensor in self._weights.items() if tensor.dtype.is_inexact)

    def parameters(self) -> list[Tensor]:
        """Return the weights that can be trained."""
        return [tensor for _, tensor in self.named_parameters()]

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let all parameters require gradients, or none; return this model."""
        for tensor in self.parameters():
            tensor.requires_grad_(requires_grad)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return the weights now, by name; `zyx.save` writes them."""
        return {name: tensor.detach() for name, tensor in self._weights.items()}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take over weights, converted to the dtype and device of those that are there.

        Raises:
            StateError: Names or shapes differ; then nothing was changed.
        """
        if state.keys() != self._weights.keys():
            raise StateError(f"the weights differ in {sorted(state.keys() ^ self._weights.keys())}")
        given = {name: value if is_tensor(value) else Tensor(value) for name, value in state.items()}
        wrong = [name for name, value in given.items() if value.shape != self._weights[name].shape]
        if wrong:
            raise StateError(f"weights have other shapes than saved ones: {wrong}")
        for name, value in given.items():
            old = self._weights[name]
            old.assign(value.to(old.device).astype(old.dtype))

    def to(self, device: str) -> Self:
        """Move the weights, and what is computed from now on, to another device; return this model."""
        self._weights = {name: tensor.detach().to(device) for name, tensor in self._weights.items()}
        self._device = device
        self._recordings.clear()
        return self

    def astype(self, dtype: DTypeLike) -> Self:
        """Convert the parameters; inputs are converted by the caller. Return this model.

        Raises:
            DTypeError: That is no float type.
        """
        target = as_dtype(dtype)
        if not target.is_float:
            raise DTypeError(f"weights are floats, not {target}")
        for name, tensor in self._weights.items():
            if tensor.dtype.is_float:
                self._weights[name] = tensor.detach().astype(target)
        self._recordings.clear()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies are made of; they are traced by themselves."""
        return {**self.__dict__, "_recordings": {}}

    def __repr__(self) -> str:
        inputs = ", ".join(str(value) for value in self.inputs)
        outputs = ", ".join(str(value) for value in self.outputs)
        return f"OnnxModel({inputs} -> {outputs}; {len(self._graph.node)} nodes)"


def _constant(node: NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or domain_of(node.domain) or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    return attribute.t if attribute.type == AttributeProto.TENSOR and attribute.name == "value" else None


def _check_names(graph: onnx.GraphProto) -> None:
    """Refuse names that are made twice or are no texts, and inputs without a name."""
    named = (*graph.input, *graph.output, *graph.initializer)
    if not all(isinstance(value.name, str) for value in named):
        raise FormatError("the names of inputs, outputs or weights are no texts")
    made = Counter(name for node in graph.node for name in node.output if name)
    made.update(value.name for value in graph.input)
    made.update({tensor.name for tensor in graph.initializer} - {value.name for value in graph.input})
    twice = [name for name, count in made.items() if count > 1]
    if twice:
        raise FormatError(f"names are given twice: {twice[:10]}")
    listed = Counter(tensor.name for tensor in graph.initializer)
    twice = [name for name, count in listed.items() if count > 1]
    if twice:
        raise FormatError(f"weights are given twice: {twice[:10]}")
    if any(not value.name for value in (*graph.input, *graph.output)):
        raise FormatError("an input or output has no name")


def _check_operators(
    graph: onnx.GraphProto, functions: Mapping[tuple[str, str, str], FunctionProto], opsets: Mapping[str, int]
) -> None:
    """List all nodes that nothing computes, in one error."""
    missing: dict[str, list[str]] = {}

    def look(nodes: Iterable[NodeProto], opsets: Mapping[str, int], depth: int) -> None:
        if depth > 100:
            raise FormatError("graphs and functions are nested more than 100 deep; one may hold itself")
        for node in nodes:
            texts = (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            if not all(isinstance(text, str) for text in (*texts, *(attribute.name for attribute in node.attribute))):
                raise FormatError(f"the names of a node are no texts: {texts}")
            domain = domain_of(node.domain)
            if (domain, node.op_type, node.overload) not in functions:
                default = 1 if domain else onnx.defs.onnx_opset_version()
                schema = schema_of(node.op_type, domain, opsets.get(domain, default))
                own = table().get((domain, node.op_type))
                version = schema.since_version if schema is not None else opsets.get(domain, default)
                if own is None or version < own.since:
                    if schema is None or expansion(schema, node, None, opsets.get(domain, default), {}) is None:
                        kind = f"{domain or 'ai.onnx'}:{node.op_type} of opset {opsets.get(domain, default)}"
                        missing.setdefault(kind, []).append(node.name or "->".join(node.output))
            for attribute in node.attribute:
                for inner in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                    look(inner.node, opsets, depth + 1)

    look(graph.node, opsets, 0)
    for function in functions.values():
        inner = {domain_of(entry.domain): entry.version for entry in function.opset_import}
        look(function.node, {**opsets, **inner}, 0)
    if missing:
        lines = [
            f"{kind}: {', '.join(map(repr, names[:5]))}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
            for kind, names in sorted(missing.items())
        ]
        raise UnsupportedError("operators that are not there:\n  " + "\n  ".join(lines))
