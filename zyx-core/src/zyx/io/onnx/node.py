"""One call of an operator: its attributes, by the version of the operator that the model asks for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from zyx.errors import FormatError
from zyx.io.onnx.values import to_host, to_tensor
from zyx.io.onnx.weights import read_tensor

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import NodeProto

    from zyx.io.onnx.evaluation import Scope
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


class NodeCall:
    """What the function of an operator gets besides its inputs.

    Attributes:
        proto: The node.
        scope: The names that are visible where it stands, and what the run is allowed.
        version: The version of the operator: the opset in which it last changed, up to that of the model.
        computing: NumPy where all inputs are arrays of the host, else None.
        inputs: Names of what it takes, "" for what is left out.
        outputs: Names of what it gives.
    """

    def __init__(self, proto: NodeProto, scope: Scope, version: int) -> None:
        self.proto, self.scope, self.version = proto, scope, version
        self.inputs, self.outputs = tuple(proto.input), tuple(proto.output)
        expected = types_of(proto.op_type, proto.domain, version)
        for attribute in proto.attribute:
            if attribute.type not in (expected.get(attribute.name, attribute.type), AttributeProto.UNDEFINED):
                raise FormatError(
                    f"attribute {attribute.name!r} of {proto.op_type} has another type than its version says"
                )
        self.attributes = attributes_of(proto, scope.folder, scope.attributes)

    @property
    def device(self) -> str | None:
        """Where tensors are made; None is the default device."""
        return self.scope.device

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # attributes are of many types
        """Return an attribute, or its default in this version."""
        if name in self.attributes:
            return self.attributes[name]
        return defaults_of(self.proto.op_type, self.proto.domain, self.version).get(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as above
        """Return an attribute, its default in this version, or `default` if there is none."""
        value = self[name]
        return default if value is None else value

    def tensor(self, value: Value) -> Tensor:
        """Return a tensor of an array, or a tensor as it is."""
        return to_tensor(value, self.device)

    def ints(self, value: Value) -> list[int]:
        """Return integers of an array or tensor, or of a list."""
        return [int(item) for item in np.asarray(to_host(value)).reshape(-1)]

    def gives(self, number: int) -> bool:
        """Return whether the model uses output `number`."""
        return number < len(self.outputs) and self.outputs[number] != ""


def attributes_of(proto: NodeProto, folder: Path | None, given: dict[str, AttributeProto]) -> dict[str, Any]:
    """Return the attributes of a node: numbers, texts, arrays, graphs, or lists of them.

    Args:
        proto: The node.
        folder: Where the model lies.
        given: Attributes of the function that the node is in, for those that refer to them.
    """
    values: dict[str, Any] = {}
    for attribute in proto.attribute:
        source = attribute
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in given:
                continue
            source = given[attribute.ref_attr_name]
        values[attribute.name] = _value_of(source, folder)
    return values


def _value_of(attribute: AttributeProto, folder: Path | None) -> Any:  # noqa: ANN401  # attributes are of many types
    match attribute.type:
        case AttributeProto.TENSOR:
            return read_tensor(attribute.t, folder)
        case AttributeProto.TENSORS:
            return [read_tensor(tensor, folder) for tensor in attribute.tensors]
        case AttributeProto.STRING:
            return attribute.s.decode("utf-8", "replace")
        case AttributeProto.STRINGS:
            return [text.decode("utf-8", "replace") for text in attribute.strings]
        case AttributeProto.SPARSE_TENSOR:
            return dense(attribute.sparse_tensor, folder)
        case AttributeProto.UNDEFINED:
            raise FormatError(f"attribute {attribute.name!r} has no type")
        case _:
            value = helper.get_attribute_value(attribute)
            return list(value) if isinstance(attribute.type, int) and hasattr(value, "append") else value


def dense(sparse: onnx.SparseTensorProto, folder: Path | None) -> np.ndarray[Any, Any]:
    """Return a sparse tensor with all its zeros.

    Raises:
        FormatError: Its indices are none of its shape.
    """
    values, places = read_tensor(sparse.values, folder), read_tensor(sparse.indices, folder)
    shape = tuple(sparse.dims)
    if any(size < 0 for size in shape) or int(np.prod(shape, dtype=object)) > 2**31:
        raise FormatError(f"a sparse tensor of shape {shape} is larger than 2^31 numbers")
    full = np.zeros(shape, values.dtype)
    try:
        if places.ndim == 2:
            full[tuple(places.T)] = values
        else:
            full.reshape(-1)[places] = values
    except (IndexError, ValueError) as error:
        raise FormatError(f"a sparse tensor of shape {shape} has indices that do not fit: {error}") from error
    return full


@cache
def schema_of(name: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return what ONNX says of an operator in an opset, or None if it knows none."""
    try:
        return onnx.defs.get_schema(name, max_inclusive_version=opset, domain=domain)
    except onnx.defs.SchemaError:
        return None


@cache
def types_of(name: str, domain: str, version: int) -> dict[str, int]:
    """Return the types of the attributes, as `AttributeProto` numbers them."""
    schema = schema_of(name, domain, version)
    if schema is None:
        return {}
    types: dict[str, Any] = {key: entry.type for key, entry in schema.attributes.items()}
    return {key: int(kind.value) for key, kind in types.items()}


@cache
def defaults_of(name: str, domain: str, version: int) -> dict[str, Any]:
    """Return the attributes that have a default, with it."""
    schema = schema_of(name, domain, version)
    if schema is None:
        return {}
    return {
        key: _value_of(attribute.default_value, None)
        for key, attribute in schema.attributes.items()
        if attribute.default_value.type != AttributeProto.UNDEFINED
    }
