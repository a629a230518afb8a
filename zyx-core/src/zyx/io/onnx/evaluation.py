"""Compute graphs: node by node, in the order of the file.

A node is computed by our function of its operator, by a function that the model defines, or by the nodes of which ONNX
itself defines the operator. Names in a graph inside of a node (branches, bodies of loops) hide those outside.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, helper

from zyx.errors import FormatError, UnsupportedError, ZyxError
from zyx.functions.operands import is_tensor
from zyx.io.onnx.lengths import looked_at, settled
from zyx.io.onnx.node import NodeCall, attributes_of, dense, schema_of
from zyx.io.onnx.registry import domain_of, table
from zyx.io.onnx.values import NUMBERS, dtype_of, to_host, to_tensor
from zyx.io.onnx.weights import read_tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from onnx import GraphProto, NodeProto

    from zyx.io.onnx.registry import Operator
    from zyx.io.onnx.values import Value


@dataclass(frozen=True)
class Scope:
    """Where nodes are computed.

    Attributes:
        opsets: Version of each domain.
        functions: Those of the model, by domain, name and overload.
        device: Where tensors are made; None is the default device.
        folder: Where the model lies, if it is a file.
        iterations: How often a loop may run.
        values: What the names stand for.
        attributes: Those of the function whose nodes are computed.
        depth: How many functions and graphs this one is in.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], FunctionProto]
    device: str | None
    folder: Path | None
    iterations: int
    values: dict[str, Value] = field(default_factory=dict)
    attributes: dict[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0

    def opset(self, domain: str) -> int:
        """Return the version of a domain; ours are those of ONNX where the model names none."""
        return self.opsets.get(domain_of(domain), 1 if domain_of(domain) else onnx.defs.onnx_opset_version())

    def inside(self, values: Mapping[str, Value]) -> Scope:
        """Return the scope of a graph in one of the nodes here, which starts with `values`."""
        return replace(self, values={**self.values, **values}, depth=self._deeper())

    def of_function(self, function: FunctionProto, values: Mapping[str, Value], given: Any) -> Scope:  # noqa: ANN401
        """Return the scope of a function, which sees its inputs only."""
        opsets = {domain_of(entry.domain): entry.version for entry in function.opset_import}
        return replace(
            self, opsets={**self.opsets, **opsets}, values=dict(values), attributes=given, depth=self._deeper()
        )

    def _deeper(self) -> int:
        if self.depth >= 100:
            raise FormatError("graphs and functions are nested more than 100 deep; one may hold itself")
        return self.depth + 1


def evaluate(graph: GraphProto, scope: Scope) -> list[Value]:
    """Return the outputs of a graph whose inputs and parameters are in `scope`; its other weights are read."""
    for tensor in graph.initializer:
        if tensor.name not in scope.values or scope.depth:
            scope.values[tensor.name] = read_tensor(tensor, scope.folder)
    for sparse in graph.sparse_initializer:
        scope.values[sparse.values.name] = dense(sparse, scope.folder)
    compute(graph.node, scope, keep={output.name for output in graph.output})
    return [_named(output.name, scope, "an output") for output in graph.output]


def compute(nodes: Sequence[NodeProto], scope: Scope, keep: set[str]) -> None:
    """Compute nodes, and note what they give in `scope`; values that nothing needs any more are dropped."""
    left = Counter(name for node in nodes for name in _reads(node))
    made: set[str] = set()
    for node in nodes:
        results = _outcome(node, scope)
        if len(results) < sum(1 for name in node.output if name):
            raise FormatError(f"{describe(node)} gives {len(results)} values, the model takes {len(node.output)}")
        for name, value in zip(node.output, results, strict=False):
            if name:
                scope.values[name] = value
                made.add(name)
        for name in _reads(node):
            left[name] -= 1
            if not left[name] and name in made and name not in keep:
                scope.values.pop(name, None)


def _reads(node: NodeProto) -> Iterator[str]:
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
            for inner in graph.node:
                yield from _reads(inner)
            yield from (output.name for output in graph.output)


def only_read(graph: GraphProto, functions: Mapping[tuple[str, str, str], FunctionProto]) -> frozenset[str]:
    """Return the names of a graph that operators take as arrays of the host alone, such as the scales of a `Resize`."""
    read: set[str] = set()
    computed = {output.name for output in graph.output}
    passed: list[tuple[str, str]] = []

    def look(nodes: Sequence[NodeProto]) -> None:
        for node in nodes:
            domain = domain_of(node.domain)
            own = None if (domain, node.op_type, node.overload) in functions else table().get((domain, node.op_type))
            for number, name in enumerate(node.input):
                if node.op_type == "Identity" and not domain:
                    passed.append((name, node.output[0]))
                else:
                    (computed if own is None or number not in own.reads else read).add(name)
            for attribute in node.attribute:
                for inner in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                    look(inner.node)
                    computed.update(output.name for output in inner.output)

    look(graph.node)
    for name, other in reversed(passed):  # those that are made last first
        read |= {name} if other in read else set()
        computed |= {name} if other in computed else set()
    return frozenset(read - computed)


def _named(name: str, scope: Scope, what: str) -> Value:
    try:
        return scope.values[name]
    except KeyError:
        raise FormatError(
            f"{name!r}, {what}, is made by no node before it: cyclic, misnamed, or out of order"
        ) from None


def describe(node: NodeProto) -> str:
    """Return what an error calls a node."""
    return f"node {node.name or '->'.join(node.output)!r} ({node.domain + ':' if node.domain else ''}{node.op_type})"


def _outcome(node: NodeProto, scope: Scope) -> tuple[Value, ...]:
    inputs = [None if not name else _named(name, scope, f"an input of {describe(node)}") for name in node.input]
    domain = domain_of(node.domain)
    try:
        local = scope.functions.get((domain, node.op_type, node.overload))
        if local is not None:
            return call_function(local, node, inputs, scope)
        schema = schema_of(node.op_type, domain, scope.opset(domain))
        own = table().get((domain, node.op_type))
        version = scope.opset(domain) if schema is None else schema.since_version
        if own is not None and version >= own.since:
            return call_operator(own, NodeCall(node, scope, version), inputs)
        expanded = None if schema is None else expansion(schema, node, inputs, scope.opset(domain), scope.attributes)
        if expanded is None:
            raise UnsupportedError(f"operator {domain or 'ai.onnx'}:{node.op_type}-{version} is not there")
        return call_function(expanded, node, inputs, scope)
    except ZyxError as error:
        _add_place(error, node)
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, MemoryError) as error:
        raise FormatError(
            f"{describe(node)} cannot be computed: {str(error) or type(error).__name__}; inputs {_shapes(inputs)}"
        ) from error


def _add_place(error: ZyxError, node: NodeProto) -> None:
    if not getattr(error, "__notes__", None):
        error.add_note(f"in {describe(node)}")


def _shapes(inputs: Sequence[Value]) -> str:
    return ", ".join(f"{value.dtype}{tuple(value.shape)}" if hasattr(value, "shape") else "-" for value in inputs)


def call_operator(operator: Operator, call: NodeCall, inputs: list[Value]) -> tuple[Value, ...]:
    """Compute a node by our function of its operator; see `zyx.io.onnx.registry`."""
    for name, (version, number) in operator.moved.items():
        if call.version < version and name in call.attributes:
            inputs += [None] * (number + 1 - len(inputs))
            inputs[number] = np.asarray(call.attributes[name])
    if not operator.sizes:
        inputs = [looked_at(value) for value in inputs]
    if not operator.raw:
        data = [number for number, value in enumerate(inputs) if number not in operator.reads and value is not None]
        for number in operator.reads:
            if number < len(inputs) and inputs[number] is not None:
                inputs[number] = to_host(inputs[number])
        if not operator.folds or any(is_tensor(inputs[number]) for number in data):
            for number in data:
                inputs[number] = to_tensor(inputs[number], call.device)
    result = operator.function(call, *inputs)
    results = result if isinstance(result, tuple) else (result,)
    return tuple([settled(value) for value in results]) if operator.sizes else results


def call_function(function: FunctionProto, node: NodeProto, inputs: Sequence[Value], scope: Scope) -> tuple[Value, ...]:
    """Compute a node by the nodes of a function."""
    given = {attribute.name: attribute for attribute in function.attribute_proto}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            given[attribute.name] = attribute
        elif attribute.ref_attr_name in scope.attributes:
            given[attribute.name] = scope.attributes[attribute.ref_attr_name]
    schema = schema_of(node.op_type, domain_of(node.domain), scope.opset(node.domain))
    if schema is not None:
        for name, described in schema.attributes.items():
            if name not in given and described.default_value.type != AttributeProto.UNDEFINED:
                given[name] = described.default_value
    filled = [*inputs, *[None] * (len(function.input) - len(inputs))]
    inner = scope.of_function(function, dict(zip(function.input, filled, strict=False)), given)
    compute(function.node, inner, keep=set(function.output))
    wanted = len(node.output)
    return tuple(
        _named(name, inner, "an output of a function") if place < wanted and node.output[place] else None
        for place, name in enumerate(function.output)
    )


def expansion(
    schema: Any,  # noqa: ANN401  # an OpSchema, of which the package declares some methods only
    node: NodeProto,
    inputs: Sequence[Value] | None,
    opset: int,
    given: Mapping[str, AttributeProto],
) -> FunctionProto | None:
    """Return the nodes of which ONNX defines an operator, or None if it does not.

    Args:
        schema: Of the operator.
        node: The node; its attributes may decide.
        inputs: Whose dtypes and shapes may decide; None where only whether there is a function is asked.
        opset: Of the model.
        given: Attributes of the function that the node is in.
    """
    if schema.has_context_dependent_function:
        if inputs is None:
            return FunctionProto()
        types = [_type_of(value).SerializeToString() for value in inputs]
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        del plain.attribute[:]
        for attribute in node.attribute:
            source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if source is not None:
                copied = plain.attribute.add()
                copied.CopyFrom(source)
                copied.name = attribute.name
        body = FunctionProto()
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions, default=schema.since_version), plain.SerializeToString(), types
        )
        body.ParseFromString(text)
        return body if body.node else None
    if not schema.has_function:
        return None
    versions = [version for version in schema.function_opset_versions if version <= opset]
    if not versions:
        return None
    body = FunctionProto()
    body.ParseFromString(schema.get_function_with_opset_version(max(versions)))
    return body


def _type_of(value: Value) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0]) if value else onnx.TypeProto())
    return helper.make_tensor_type_proto(NUMBERS[dtype_of(value)], tuple(value.shape))


def attributes_in(node: NodeProto, scope: Scope) -> dict[str, Any]:
    """Return the attributes of a node in a scope."""
    return attributes_of(node, scope.folder, scope.attributes)
