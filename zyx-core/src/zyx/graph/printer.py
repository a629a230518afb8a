"""Write a graph as text, one line a node, sources first.

    %0: f32[4, 3] = leaf on c:0
    %1: f32[4, 1] = reduce %0, op=max, axes=(1,)
    %2: f32[4, 3] = expand %1
    %3: f32[4, 3] = sub %0, %2
    return %3

Equal graphs give equal text. A node whose values lie in memory is a line of its own kind without sources, marked
``stored``: what it was computed from is not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def format_graph(outputs: Sequence[n.Node]) -> str:
    """Return the text of all nodes that `outputs` need, ending with ``return`` and the names of `outputs`."""
    order = topological(outputs)
    names = {node: f"%{number}" for number, node in enumerate(order)}
    lines = [format_node(node, names) for node in order]
    lines.append(f"return {', '.join(names[node] for node in outputs)}")
    return "\n".join(lines)


def format_node(node: n.Node, names: Mapping[n.Node, str]) -> str:
    """Return the line of one node; a node that `names` lacks is called ``%?``."""
    name, fields = _name_and_fields(node)
    words = [] if node.storage is not None else [names.get(source, "%?") for source in node.sources]
    words += [f"{key}={value}" for key, value in fields]
    if node.storage is not None and not isinstance(node, n.Leaf):
        words.append("stored")
    text = f"{names.get(node, '%?')}: {node.dtype.short}{list(node.shape)} = {name}"
    if words:
        text += f" {', '.join(words)}"
    if not node.sources or isinstance(node, n.ToDevice):
        text += f" on {node.device}"
    return text


def _name_and_fields(node: n.Node) -> tuple[str, list[tuple[str, object]]]:
    """Return what the node does, and its attributes by name."""
    match node:
        case n.Unary() | n.Binary():
            return node.op.value, []
        case n.Const():
            return "const", [("value", node.value)]
        case n.Iota():
            return "iota", [("axis", node.axis)]
        case n.Leaf() if type(node) is not n.Leaf:  # what only plans have
            return type(node).__name__.lower(), []
        case n.Leaf():
            bound = [] if node.storage is not None else [("bound", "later")]
            return "leaf", [*bound, *([("history", "lost")] if node.history_lost else [])]
        case n.Permute():
            return "permute", [("order", node.order)]
        case n.Pad():
            return "pad", [("widths", node.widths), ("value", node.value)]
        case n.Shrink():
            return "shrink", [("bounds", node.bounds)]
        case n.Flip():
            return "flip", [("axes", node.axes)]
        case n.Slide() | n.Unslide():
            axes = [("axis", node.axis), ("window", node.window)]
            return type(node).__name__.lower(), [*axes, ("stride", node.stride), ("dilation", node.dilation)]
        case n.Component():
            return "imag" if node.is_imaginary else "real", []
        case n.Reduce():
            return "reduce", [("op", node.op.value), ("axes", node.axes)]
        case n.Scan():
            return "scan", [("op", node.op.value), ("axis", node.axis)]
        case n.Gather():
            return "gather", [("axis", node.axis)]
        case n.Scatter():
            return "scatter", [("axis", node.axis), ("op", node.op.value if node.op else "replace")]
        case n.Sort():
            return "sort", [("axis", node.axis), ("bits", node.bits)]
        case n.Fourier():
            kind = [] if node.kind is FourierKind.COMPLEX else [("kind", node.kind.value)]
            return "fourier", [("axis", node.axis), ("is_inverse", node.is_inverse), ("scale", node.scale), *kind]
        case n.RandomBits():
            return "random_bits", [("offset", node.offset)]
        case n.Alias():
            return "detach" if node.detached else "alias", []
        case n.Custom():
            return "custom", [("kernel", node.kernel), ("output", node.output)]
        case n.ToDevice():
            return "to_device", []
        case _:  # kinds that have no attributes
            return type(node).__name__.lower(), []
