"""The names of what was written, and what of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zyx.io.onnx.export.writer import GraphValue


def inputs_of(node: onnx.NodeProto) -> list[str]:
    """Return what a node reads, and what graphs in it do."""
    inner = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    below = [name for graph in inner for each in graph.node for name in inputs_of(each)]
    return [*node.input, *below, *[value.name for graph in inner for value in graph.output]]


def needed(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that outputs need, in order."""
    wanted, kept = {*outputs}, []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            kept.append(node)
            wanted.update(inputs_of(node))
    return kept[::-1]


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those of graphs in them before them."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g.node)
        yield node


def final_names(
    nodes: Sequence[onnx.NodeProto], constants: Iterable[str], outputs: Mapping[str, GraphValue], taken: set[str]
) -> dict[str, str]:
    """Return a name for each value: that of its operator, numbered."""
    names = {value.name: label for label, value in outputs.items()}
    used, counts = {*taken, *outputs}, dict[str, int]()

    def numbered(base: str) -> str:
        while True:
            counts[base] = counts.get(base, -1) + 1
            if (name := f"{base}_{counts[base]}") not in used:
                used.add(name)
                return name

    for name in constants:
        names[name] = numbered("constant")
    for node in all_nodes(nodes):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                for value in attribute.g.input:
                    names[value.name] = numbered("step")
        for name in node.output:
            if name not in names:
                names[name] = numbered(node.op_type.lower())
    return names


def name_nodes(nodes: Sequence[onnx.NodeProto]) -> None:
    """Name nodes by what they are and give."""
    for node in all_nodes(nodes):
        node.name = f"{node.op_type}:{node.output[0]}"


def renamed(nodes: Sequence[onnx.NodeProto], names: Mapping[str, str]) -> None:
    """Give values of nodes, and of graphs in them, their final names."""
    for node in nodes:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                for value in (*attribute.g.input, *attribute.g.output):
                    value.name = names.get(value.name, value.name)
                renamed(attribute.g.node, names)
