r"""Draw a graph in the language DOT of Graphviz: an ellipse an operation, a box what has its values, an arrow a use.

    digraph graph_of_tensors {
      n0 [shape=box, label="leaf\nf32[4, 3]\nc:0"];
      n1 [shape=ellipse, label="reduce, op=max, axes=(1,)\nf32[4, 1]"];
      n0 -> n1;
      ...
    }

Equal graphs give equal text. What a value in memory was computed from is not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.graph.printer import format_node
from zyx.graph.walk import topological

if TYPE_CHECKING:
    from collections.abc import Sequence


def dot_of_graph(outputs: Sequence[n.Node]) -> str:
    """Return the drawing of all nodes that `outputs` need; `outputs` have a double line."""
    order = topological(outputs)
    names = {node: f"n{number}" for number, node in enumerate(order)}
    asked = set(outputs)
    lines = []
    for node in order:
        is_stored = node.storage is not None
        what = format_node(node, {}).partition(" = ")[2].partition(" on ")[0].replace("%?, ", "").replace("%?", "")
        place = [node.device] if is_stored or not node.sources or isinstance(node, n.ToDevice) else []
        shape = "box" if is_stored or isinstance(node, n.Leaf) else "ellipse"
        label = quoted([what.strip(), f"{node.dtype.short}{list(node.shape)}", *place])
        double = ", peripheries=2" if node in asked else ""
        lines.append(f"  {names[node]} [shape={shape}, label={label}{double}];")
        if not is_stored:
            lines += [f"  {names[source]} -> {names[node]};" for source in node.sources]
    return "\n".join(["digraph graph_of_tensors {", *lines, "}"])


def quoted(lines: Sequence[str]) -> str:
    """Return lines of a label as a string of DOT."""
    text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return f'"{text}"'
