"""The gradient of every kind of node.

A rule is given a node and the gradient at it, `upstream`, and returns one node a source: the gradient at that source,
as far as it flows through this node. At a complex number the gradient g says that the target changes by ``re(g * dz)``,
so that rules of holomorphic functions are those of real ones; `zyx.autograd.gradient` gives users the conjugate. None
means that nothing flows. All are ordinary nodes: gradients have gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.autograd.rules import indexing, movement, others
from zyx.autograd.rules.binary import binary
from zyx.autograd.rules.others import SupportsBackward
from zyx.autograd.rules.reduce import reduce
from zyx.autograd.rules.scan import scan
from zyx.autograd.rules.unary import unary
from zyx.graph import node as n

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node

__all__ = ["RULES", "Rule", "SupportsBackward"]

# Any: each rule takes the class that it is listed under, which the type of a dict cannot say.
Rule: TypeAlias = "Callable[[Graph, Any, Node], tuple[Node | None, ...]]"

RULES: Final[dict[type[Node], Rule]] = {
    n.Reshape: movement.reshape,
    n.Expand: movement.expand,
    n.Permute: movement.permute,
    n.Pad: movement.pad,
    n.Shrink: movement.shrink,
    n.Flip: movement.flip,
    n.Slide: movement.slide,
    n.Unslide: movement.unslide,
    n.Unary: unary,
    n.Binary: binary,
    n.Where: others.where,
    n.Cast: others.cast,
    n.Complex: others.complex_of_parts,
    n.Component: others.component,
    n.Reduce: reduce,
    n.Scan: scan,
    n.Gather: indexing.gather,
    n.Scatter: indexing.scatter,
    n.Fourier: others.fourier,
    n.Contiguous: others.same_values,
    n.ToDevice: others.to_device,
    n.Alias: others.same_values,
    n.Custom: others.custom,
}
"""The rule of each class through which gradients flow."""
