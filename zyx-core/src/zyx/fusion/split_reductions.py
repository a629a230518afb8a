"""Split reductions that have too few results to keep a device busy: split-K, where they are products of matrices.

    sum over both axes of x[4096, 5000]                    one result
    =>  sum over axis 1 of x as [2048, 10000]              so many that all units have groups to run
    =>  sum of 2048                                        one group

So many of the neighbouring axes are cut as one as make enough blocks whatever the shape is, and no more: where an
element lies is found by dividing its number then, unless all elements lie side by side. Where the axes lie apart, the
last ones come first: theirs are the elements side by side.

Of products of matrices with few results and great depth, as gradients of weights are, the depth is cut:

    a.T @ b of f32[485436, 20], f32[485436, 93]    =>  264 products of depth 1839;  sum of 264
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.fusion.materialise import below_movement, contraction_operands
from zyx.fusion.movement import runs_along
from zyx.graph import node as n
from zyx.ops import identity
from zyx.schedule.seeds.skinny_products import COLUMNS_OF_A_UNIT, FEW_ROWS
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Node

#: Fewer elements than this are reduced in one go, however few results there are.
_SPLIT_SIZE: Final = 1 << 16
#: Elements of the smallest block.
_SHORTEST_BLOCK: Final = 1 << 10
#: Elements of a block that takes a thread long enough to be worth a round of its own, and how many times as many such
#: blocks there may be as even out the work of threads that are equally fast: others finish sooner in smaller steps.
_LONG_BLOCK: Final = 1 << 18
_MOST_ROUNDS: Final = 8
#: Points for each block of what is cut: of so many rows or more, whole ones make nearly as many blocks as are wanted.
_WHOLE_ROWS: Final = 2
#: Rows that a unit with one thread should have, and groups that one with many should: some wait while others load.
_ROWS_OF_A_THREAD: Final = 4
_GROUPS_OF_A_UNIT: Final = 16
#: Neighbouring columns that the threads of a group combine together, at least: whole parts of lines of memory.
_COLUMNS_OF_A_GROUP: Final = 8
#: Results of a product of matrices that a group has, about, and how deep the shortest part of a product is.
_RESULTS_OF_A_GROUP: Final = 1 << 12
_SHORTEST_DEPTH: Final = 1 << 9
#: Groups that a unit should have of products of matrices.
_PRODUCTS_OF_A_UNIT: Final = 2


def rows_wanted(info: DeviceInfo) -> int:
    """Return how many rows keep a device busy, each run over by a thread, or by the threads of a group."""
    return info.units if info.max_group_threads > 1 else info.units * _ROWS_OF_A_THREAD


def rows_of(results: int, info: DeviceInfo, *, are_columns: bool) -> int:
    """Return how many rows, in the sense of `rows_wanted`, so many results are: of columns, groups combine several."""
    return max(1, results // _COLUMNS_OF_A_GROUP) if are_columns and info.max_group_threads > 1 else results


def split_reduction(graph: Graph, node: n.Reduce, info: DeviceInfo) -> Node:
    """Return the reduction in several steps if it has too few results for the device and enough to do."""
    (source,) = node.sources
    results = size_of(node.shape)
    if contraction_operands(node) is not None:
        return _in_depth(graph, node, info)
    rows = rows_of(results, info, are_columns=node.shape[-1] > 1)
    if size_of(source.shape) < _SPLIT_SIZE or rows >= rows_wanted(info):
        return node
    count = size_of(source.shape) // max(results, 1)
    blocks = min(_blocks_wanted(rows, count, info), count // _SHORTEST_BLOCK)
    if blocks < 2:
        return node
    first, *rest = runs = _runs(node)
    start, stop = max(runs, key=lambda run: (math.prod(source.shape[slice(*run)]), -run[0]))
    size = math.prod(source.shape[start:stop])
    if size < blocks and rest:  # no run is long enough to be cut into so many: the runs are done one by one
        inner = graph.reduce(node.op, source, tuple(axis for run in rest for axis in range(*run)))
        assert isinstance(inner, n.Reduce)
        return graph.reduce(node.op, split_reduction(graph, inner, info), tuple(range(*first)))
    stop = next((i for i in range(start + 1, stop) if math.prod(source.shape[start:i]) >= _WHOLE_ROWS * blocks), stop)
    size = math.prod(source.shape[start:stop])
    blocks = _near_divisor(size, blocks)
    per_block = -(-size // blocks)
    blocks = -(-size // per_block)
    merged = graph.reshape(source, (*source.shape[:start], size, *source.shape[stop:]))
    if missing := blocks * per_block - size:
        widths = [(0, missing if axis == start else 0) for axis in range(merged.ndim)]
        merged = graph.pad(merged, widths, identity(node.op, node.dtype))
    after = stop - start - 2  # what axes behind those are moved by: two axes take their place
    others = [axis for run in runs for axis in range(*run) if not start <= axis < stop]
    within = [axis if axis < start else axis - after for axis in others]
    shape = (*source.shape[:start], blocks, per_block, *source.shape[stop:])
    partial = graph.reduce(node.op, graph.reshape(merged, shape), (*within, start + 1))
    return graph.reshape(graph.reduce(node.op, partial, (start,)), node.shape)


def _blocks_wanted(rows: int, count: int, info: DeviceInfo) -> int:
    """Return into how many blocks the `count` elements of each result are to be cut, where there are `rows` of them."""
    if info.max_group_threads > 1:
        return -(-info.units * _GROUPS_OF_A_UNIT // rows)
    wanted = info.units * _ROWS_OF_A_THREAD
    return max(wanted, min(_MOST_ROUNDS * wanted, count // _LONG_BLOCK))


def _runs(node: n.Reduce) -> list[tuple[int, int]]:
    """Return the reduced axes as runs (first, behind the last) of neighbours, with those of size 1 between them."""
    shape = node.sources[0].shape
    runs: list[tuple[int, int]] = []
    for axis in node.axes:
        if runs and all(size == 1 for size in shape[runs[-1][1] : axis]):
            runs[-1] = (runs[-1][0], axis + 1)
        else:
            runs.append((axis, axis + 1))
    return runs


def _near_divisor(size: int, wanted: int) -> int:
    """Return a divisor of `size` between half and twice `wanted` if there is one, the nearest first; else `wanted`."""
    for distance in range(wanted):
        for candidate in (wanted + distance, wanted - distance):
            if wanted // 2 <= candidate <= 2 * wanted and candidate > 1 and size % candidate == 0:
                return candidate
    return wanted


# ---- products of matrices


def _in_depth(graph: Graph, node: n.Reduce, info: DeviceInfo) -> Node:
    """Return a product of matrices as the sum of several of less depth, if it has too few results for the device."""
    shape = node.sources[0].shape
    depth = math.prod(shape[axis] for axis in node.axes)
    groups = -(-size_of(node.shape) // _RESULTS_OF_A_GROUP)
    blocks = min(info.units * _PRODUCTS_OF_A_UNIT // groups, depth // _SHORTEST_DEPTH)
    if info.max_group_threads == 1 or blocks < 2 or _has_few_rows(node, info):
        return node
    axis = max(node.axes, key=lambda axis: (shape[axis], -axis))
    whole = next((axis for axis in node.axes if blocks <= 2 * shape[axis] <= 8 * blocks), None)
    if whole is None and shape[axis] < 2 * blocks:
        whole = axis
    if whole is not None and len(node.axes) > 1:  # as the images of a batch: nothing has to be cut
        partial = graph.reduce(node.op, node.sources[0], tuple(axis for axis in node.axes if axis != whole))
        return graph.reduce(node.op, partial, (whole,))
    blocks = _near_divisor(shape[axis], blocks)
    length = shape[axis] // blocks
    cut = (*shape[:axis], blocks, length, *shape[axis + 1 :])
    within = tuple(a if a < axis else a + 1 for a in node.axes)
    main = graph.reduce(node.op, _of_factors(graph, node, lambda x: _blocks(graph, x, axis, cut)), within)
    total = graph.reshape(graph.reduce(node.op, main, (axis,)), node.shape)
    if blocks * length == shape[axis]:
        return total
    bounds = [(blocks * length if a == axis else 0, size) for a, size in enumerate(shape)]
    rest = graph.reduce(node.op, _of_factors(graph, node, lambda x: graph.shrink(x, bounds)), node.axes)
    return graph.binary(node.op.binary, total, rest)


def _has_few_rows(node: n.Reduce, info: DeviceInfo) -> bool:
    """Whether the columns are lines of memory, enough for all units, and the rows few: threads share each line then."""
    rows = min((size for size in node.shape if size > 1), default=1)
    operands = contraction_operands(node)
    if operands is None or len(node.axes) > 1 or not 1 < rows <= FEW_ROWS:
        return False
    columns = max(operands, key=lambda operand: size_of(below_movement(operand).shape))
    return size_of(node.shape) // rows >= COLUMNS_OF_A_UNIT * info.units and runs_along(columns, node.axes[0])


def _blocks(graph: Graph, x: Node, axis: int, shape: Sequence[int]) -> Node:
    """Return `x` with `axis` cut into the two axes of `shape` there, without what is left over."""
    length = shape[axis] * shape[axis + 1]
    bounds = [(0, length if a == axis else size) for a, size in enumerate(x.shape)]
    return graph.reshape(graph.shrink(x, bounds), tuple(shape))


def _of_factors(graph: Graph, node: n.Reduce, change: Callable[[Node], Node]) -> Node:
    """Return the product that `node` sums up, of factors that are changed."""
    product = node.sources[0]
    casts: list[DType] = []
    while isinstance(product, n.Cast):
        casts.append(product.dtype)
        (product,) = product.sources
    assert isinstance(product, n.Binary)
    result = graph.binary(product.op, *map(change, product.sources))
    for dtype in reversed(casts):
        result = graph.cast(result, dtype)
    return result
