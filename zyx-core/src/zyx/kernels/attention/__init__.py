"""Attention as one kernel: two products of matrices around a softmax, whose scores never lie in memory.

A graph has it as what it is made of: a product, whatever is done with each score, a softmax, and a product with that.
`zyx.kernels.attention.find` recognises these, and `zyx.kernels.attention.kernel` writes the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernels.attention.find import find_attention
from zyx.kernels.attention.kernel import attention_kernel
from zyx.kernels.attention.problem import DIMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph.node import Cast, Node
    from zyx.kernels.attention.problem import Sizes

#: The widest heads; those of more columns leave too few registers.
_WIDEST: Final = 128
#: Elements that a thread copies at a time: rows have whole pieces.
_PIECE: Final = 8
#: Of fewer queries or keys, groups would have little to do.
_LEAST: Final = 64
#: Groups that do not keep a processor in two busy may go over so many keys; other ways use the whole device.
_KEYS_OF_FEW: Final = 512


def attended(
    graph: Graph, node: Cast, new: Mapping[Node, Node], users: Mapping[Node, int], info: DeviceInfo
) -> Node | None:
    """Return `node` as one kernel, if it is the result of attention, of which nobody needs anything else.

    Args:
        graph: To make nodes with.
        node: A conversion to float16 or bfloat16.
        new: What stands for the nodes below it in `graph`.
        users: How many nodes and callers need each node.
        info: The device.
    """
    if (DIMS, node.dtype) not in info.wmma or dtypes.float32 not in info.swaps:
        return None
    found = find_attention(graph, node, new, users)
    if found is None or not _suits(found.sizes, info):
        return None
    sizes = found.sizes
    if sizes.groups < info.units:  # smaller ones are slower, but more
        sizes = replace(sizes, rows=sizes.rows // 2)
    kernel = attention_kernel(sizes, node.shape, node.dtype, found.change)
    read = found.change.inputs if found.change else ()
    (result,) = kernel.apply(graph, (found.query, found.key, found.value, *read))
    return result


def _suits(sizes: Sizes, info: DeviceInfo) -> bool:
    """Whether the kernel can do that, and has enough to do."""
    widths = sizes.width, sizes.width_out
    if any(width % _PIECE or width > _WIDEST for width in widths) or sizes.local_bytes > info.local_bytes:
        return False
    if sizes.threads > info.max_group_threads or min(sizes.queries, sizes.keys) < _LEAST:
        return False
    return 2 * sizes.groups >= info.units or sizes.keys <= _KEYS_OF_FEW
