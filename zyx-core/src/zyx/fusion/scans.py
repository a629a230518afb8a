"""Long scans in blocks, which run side by side.

    y = running sum of x[L]       totals[B - 1]    the sum of each block but the last
                             =>   offsets[B]       0, then the running sum of totals
                                  y[b, i]          offsets[b] + running sum over i of x[b, i]

Memory is gone over three times: `x` is read for the totals, read again for the scans, and `y` is written; the totals
are few. One scan alone goes over it only twice, but if there are too few of them to keep a device busy, most of it
waits. What is added after the last element to make all blocks equally long is behind all that is needed: it may be
anything.

The kernel of the blocks has a range for the blocks and one for the elements of each, while what it stores has one axis
for both; see `zyx.fusion.partition`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.dtype import accumulator
from zyx.ops import ReduceOp, identity
from zyx.shape import size_of

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph import node as n
    from zyx.graph.node import Node

#: Scans of fewer elements than this, all together, are done in one go.
_SPLIT_SIZE: Final = 1 << 16
#: Bytes between neighbours below which threads that scan together read memory well: one of its sectors.
_SECTOR_BYTES: Final = 32
#: Groups of threads for each unit that keep it busy; elements that the threads of a group scan, at least, and what they
#: are a multiple of; and the fewest blocks, since what is gained must outweigh reading everything again.
_GROUPS_OF_A_UNIT: Final = 8
_GROUP_BLOCK: Final = 4096
_GROUP_STEP: Final = 1024
_FEWEST_GROUP_BLOCKS: Final = 3
#: The same for a thread that scans a block by itself.
_THREAD_BLOCK: Final = 32
_THREAD_STEP: Final = 8
_FEWEST_THREAD_BLOCKS: Final = 4
#: Elements of a lane of the vectors of a processor, and the narrowest of these: rows that fill one run side by side.
_LANE_BLOCK: Final = 4096
_NARROWEST_BYTES: Final = 16
#: Columns for each lane of vectors along them.
_COLUMNS_OF_A_LANE: Final = 1


def split_scan(graph: Graph, node: n.Scan, info: DeviceInfo) -> Node:
    """Return the scan as it is to be computed: in blocks, if there are too few scans for the device; else as it is."""
    (x,) = node.sources
    axis, size = node.axis, node.shape[node.axis]
    per_block = _elements_of_a_block(node, info)
    blocks = -(-size // per_block)
    if blocks < 2:
        return node
    wide = accumulator(node.dtype) if node.op in (ReduceOp.SUM, ReduceOp.PROD) else node.dtype
    x = graph.cast(x, wide)
    neutral = identity(node.op, wide)
    outer, inner = node.shape[:axis], node.shape[axis + 1 :]
    whole = graph.shrink(x, [(0, length) for length in (*outer, (blocks - 1) * per_block, *inner)])
    parts = graph.reshape(whole, (*outer, blocks - 1, per_block, *inner))
    totals = graph.reshape(graph.reduce(node.op, parts, (axis + 1,)), (*outer, blocks - 1, *inner))
    offsets = graph.pad(totals, [(int(i == axis), 0) for i in range(node.ndim)], neutral)
    if blocks > 2:  # the first one is stored, too: a mask in the kernel of the blocks would be there for every element
        offsets = graph.scan(node.op, offsets, axis)
    shape = (*outer, blocks, per_block, *inner)
    spread = graph.expand(graph.reshape(offsets, (*outer, blocks, 1, *inner)), shape)
    missing = blocks * per_block - size
    padded = graph.pad(x, [(0, missing if i == axis else 0) for i in range(node.ndim)])
    inside = graph.scan(node.op, graph.reshape(padded, shape), axis + 1)
    both = graph.reshape(graph.binary(node.op.binary, spread, inside), (*outer, blocks * per_block, *inner))
    result = graph.shrink(both, [(0, length) for length in node.shape])
    return graph.cast(result, node.dtype)


def _elements_of_a_block(node: n.Scan, info: DeviceInfo) -> int:
    """Return how long the blocks of a scan should be; its length if it should be left as it is."""
    size = node.shape[node.axis]
    rows = size_of(node.shape) // size
    columns = size_of(node.shape[node.axis + 1 :])
    if size_of(node.shape) < _SPLIT_SIZE:
        return size
    if info.max_group_threads == 1:
        lanes = info.lanes(node.dtype)
        side_by_side = min(lanes, _NARROWEST_BYTES // node.dtype.itemsize) if columns == 1 else 1
        if rows >= max(info.units, side_by_side):
            return size
        wanted, most, step, least = lanes * max(info.units, rows), size // _LANE_BLOCK, lanes, 2
    elif columns * node.dtype.itemsize < _SECTOR_BYTES:
        wanted, most, step = info.units * _GROUPS_OF_A_UNIT, size // _GROUP_BLOCK, _GROUP_STEP
        least = _FEWEST_GROUP_BLOCKS
    else:
        wanted, most, step = info.units * info.max_group_threads, size // _THREAD_BLOCK, _THREAD_STEP
        least = _FEWEST_THREAD_BLOCKS
    blocks = -(-wanted // rows)
    if min(blocks, most) < 2 or blocks < least:
        return size
    return -(-size // min(blocks, most) // step) * step


def may_be_followed(node: n.Scan, info: DeviceInfo) -> bool:
    """Whether what is computed from each element of a scan as it is may follow in its kernel, also backwards.

    It may where threads scan, and where scans lie side by side along the vectors of a processor: along one scan these
    would wait for each other.
    """
    columns = size_of(node.shape[node.axis + 1 :])
    return info.max_group_threads > 1 or columns >= _COLUMNS_OF_A_LANE * info.lanes(node.dtype)
