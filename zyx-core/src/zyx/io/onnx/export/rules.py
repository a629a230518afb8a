"""Which function writes down which kind of node, and a graph by these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.graph import node as n
from zyx.graph.printer import format_node
from zyx.graph.walk import topological
from zyx.io.onnx.export import combining, drawing, elementwise, indexing, loops, movement, transforms
from zyx.io.onnx.export.sizes import dims_of
from zyx.io.onnx.export.writer import CannotWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.graph.node import Node
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter

Rule: TypeAlias = "Callable[[GraphWriter, Any], GraphValue]"

RULES: Final[dict[type[Node], Rule]] = {
    n.Const: elementwise.write_const,
    n.Iota: movement.write_iota,
    n.Reshape: movement.write_reshape,
    n.Expand: movement.write_same,
    n.Permute: movement.write_permute,
    n.Pad: movement.write_pad,
    n.Shrink: movement.write_shrink,
    n.Flip: movement.write_flip,
    n.Slide: movement.write_slide,
    n.Unslide: movement.write_unslide,
    n.Unary: elementwise.write_unary,
    n.Binary: elementwise.write_binary,
    n.Where: elementwise.write_where,
    n.Cast: elementwise.write_cast,
    n.Bitcast: elementwise.write_bitcast,
    n.Reduce: combining.write_reduce,
    n.Scan: combining.write_scan,
    n.Gather: indexing.write_gather,
    n.Scatter: indexing.write_scatter,
    n.Sort: indexing.write_sort,
    n.Fourier: transforms.write_fourier,
    n.RandomBits: drawing.write_random_bits,
    n.Custom: lambda w, node: loops.write_custom(w, node, write_graph),
    n.Contiguous: movement.write_same,
    n.ToDevice: movement.write_same,
    n.Alias: movement.write_same,
}


def write_graph(w: GraphWriter, outputs: Sequence[Node]) -> None:
    """Write all nodes that `outputs` need and that are not written yet; note those that have no counterpart.

    That of a convolution, for one, is no matter: what it is made of is not needed.
    """
    order = topological(outputs)
    names = {node: f"%{number}" for number, node in enumerate(order)}
    for node in order:
        if w.has(node):
            continue
        try:
            rule = RULES.get(type(node))
            if rule is None:
                raise CannotWriteError("ONNX has nothing of this kind")
            made = rule(w, node)
        except CannotWriteError as error:
            made = w.op("Identity", [], dims_of(node), node.dtype)
            w.shared.refused[made.name] = f"{format_node(node, names)}: {error}"
        w.set(node, made)
