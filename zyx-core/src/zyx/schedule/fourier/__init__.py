"""Discrete Fourier transforms: choose how for a device.

threads share memory     all passes over some lines in one kernel, or in two, of rows and columns    `stages`, `groups`
a thread with vectors    all passes over a row, or over columns side by side, in one kernel         `lanes`
whatever lacks these     each pass is a sum of products, as ordinary nodes                          `composed`
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.graph.fourier import offsets, parts
from zyx.schedule.fourier.composed import composed
from zyx.schedule.fourier.groups import stage_kernel
from zyx.schedule.fourier.lanes import Work, columns_kernel, rows_kernel, scratch_bytes, turned_kernel
from zyx.schedule.fourier.stages import stages_of

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph.node import Node


def transformed(graph: Graph, node: n.Fourier, info: DeviceInfo, way: int = 0) -> Node:
    """Return nodes with the values of `node`.

    Args:
        graph: To make nodes with.
        node: What to transform.
        info: The device.
        way: 0 as the device is best at; others by ordinary nodes.
    """
    if way or node.shape[1] < 2 or not info.can_compute(node.dtype):
        return composed(graph, node)
    if info.max_group_threads > 1:
        return _by_groups(graph, node, info) or composed(graph, node)
    if info.lanes(node.dtype) < 2:
        return composed(graph, node)
    lanes = min(info.lanes(node.dtype), _fitting(max(parts(node.shape[1])), node, info))
    return _by_lanes(graph, node, lanes) if lanes else composed(graph, node)


def _fitting(size: int, node: n.Fourier, info: DeviceInfo) -> int:
    """Return how many transforms of a part of that size fit local memory; a power of two, or 0."""
    lanes = 1 << 6
    while lanes and scratch_bytes(size, lanes, node.dtype) > info.local_bytes:
        lanes //= 2
    return lanes


def _by_groups(graph: Graph, node: n.Fourier, info: DeviceInfo) -> Node | None:
    stages = stages_of(node, info)
    if stages is None:
        return None
    x, table = _elements(node.sources[0]), node.sources[1]
    for stage, group in stages:
        (x,) = stage_kernel(stage, group).apply(graph, (x, table))
    return graph.reshape(x, node.shape)


def _elements(x: Node) -> Node:
    """Return what has the elements of `x` in their order: kernels read them so, of whatever shape."""
    while isinstance(x, n.Reshape) and x.storage is None:
        x = x.sources[0]
    return x


def _by_lanes(graph: Graph, node: n.Fourier, lanes: int) -> Node:
    table = node.sources[1]
    outer, size, inner, _ = node.shape
    x = _elements(node.sources[0])
    work = Work(node.dtype, size, table.shape[0], 0, node.is_inverse, node.scale, lanes)
    if len(parts(size)) == 1:
        kernel = rows_kernel(node.shape, work) if inner == 1 else columns_kernel(node.shape, work)
        return graph.reshape(kernel.apply(graph, (x, table))[0], node.shape)
    if inner > 1:
        lying = graph.reshape(graph.permute(node.sources[0], (0, 2, 1, 3)), (outer * inner, size, 1, 2))
        found = graph.fourier(lying, table, is_inverse=node.is_inverse, scale=node.scale)
        result = graph.reshape(_by_lanes(graph, found, lanes), (outer, inner, size, 2))  # type: ignore[arg-type]
        return graph.permute(result, (0, 2, 1, 3))
    rows, columns = parts(size)
    starts = offsets(size)
    first = replace(work, size=rows, scale=1.0, factors=starts[2])
    (between,) = columns_kernel((outer, rows, columns, 2), first).apply(graph, (x, table))
    second = replace(work, size=columns, start=starts[1])
    (found,) = turned_kernel((outer, rows, columns, 2), second).apply(graph, (between, table))
    return graph.reshape(found, node.shape)
