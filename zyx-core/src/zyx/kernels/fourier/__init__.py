"""Discrete Fourier transforms: choose how for a device.

threads share memory     all passes over some lines in one kernel, or in two, of rows and columns    `stages`, `groups`
a thread with vectors    all passes over a row, or over columns side by side, in one kernel         `lanes`
whatever lacks these     each pass is a sum of products, as ordinary nodes                          `composed`

Real numbers are taken as pairs, or made of pairs, by the same kernels; by ordinary nodes beside where a transform takes
several of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.graph import node as n
from zyx.graph.fourier import offsets, parts, table_size
from zyx.kernels.fourier.composed import Composed, composed, scaled
from zyx.kernels.fourier.groups import stage_kernel
from zyx.kernels.fourier.lanes import FourierWork, columns_kernel, rows_kernel, scratch_bytes, turned_kernel
from zyx.kernels.fourier.problem import Problem
from zyx.kernels.fourier.stages import stages_of
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph.node import Node


def transformed(graph: Graph, node: n.Fourier, info: DeviceInfo, variant: int = 0) -> Node:
    """Return nodes with the values of `node`, which is of pairs.

    Args:
        graph: To make nodes with.
        node: What to transform.
        info: The device.
        variant: 0 as the device is best at; others by ordinary nodes.
    """
    return graph.reshape(_transformed(graph, Problem.of(node), info, has_kernels=not variant), node.shape)


def _transformed(graph: Graph, problem: Problem, info: DeviceInfo, *, has_kernels: bool) -> Node:
    found = _by_kernels(graph, problem, info) if has_kernels and info.can_compute(problem.dtype) else None
    if found is not None:
        return found
    if problem.kind is FourierKind.COMPLEX:
        return composed(graph, problem)
    writer = Composed(graph, problem.table, is_inverse=False)
    start = table_size(problem.size)
    is_forth = problem.kind is FourierKind.FROM_REAL
    pairs = writer.paired(problem.x) if is_forth else writer.together(problem.x, start)
    below = replace(problem, x=pairs, kind=FourierKind.COMPLEX)
    if below.size == 1:
        found = scaled(graph, pairs, below.scale)
    else:
        found = _transformed(graph, below, info, has_kernels=has_kernels)
    found = graph.reshape(found, below.shape)
    return writer.apart(found, start) if is_forth else writer.unpaired(found)


def _by_kernels(graph: Graph, problem: Problem, info: DeviceInfo) -> Node | None:
    """Return the results, in any shape; None if there are no kernels for that."""
    if problem.size < 2:
        return None
    if info.max_group_threads > 1:
        return _by_groups(graph, problem, info)
    if info.lanes(problem.dtype) < 2:
        return None
    lanes = min(info.lanes(problem.dtype), _fitting(max(parts(problem.size)), problem, info))
    return _by_lanes(graph, problem, lanes) if lanes else None


def _by_groups(graph: Graph, problem: Problem, info: DeviceInfo) -> Node | None:
    stages = stages_of(problem, info)
    if stages is None:
        return None
    x = _elements(problem.x)
    for stage, group in stages:
        (x,) = stage_kernel(stage, group).apply(graph, (x, problem.table))
    return x


def _elements(x: Node) -> Node:
    """Return what has the elements of `x` in their order: kernels read them so, of whatever shape."""
    while isinstance(x, n.Reshape) and x.storage is None:
        x = x.sources[0]
    return x


def _fitting(size: int, problem: Problem, info: DeviceInfo) -> int:
    """Return how many transforms of a part of that size fit local memory; a power of two, or 0."""
    lanes = 1 << 6
    while lanes and scratch_bytes(size, lanes, problem.dtype) > info.local_bytes:
        lanes //= 2
    return lanes


def _by_lanes(graph: Graph, problem: Problem, lanes: int) -> Node | None:
    x, table = _elements(problem.x), problem.table
    outer, size, inner, kind = problem.outer, problem.size, problem.inner, problem.kind
    work = FourierWork(problem.dtype, size, table.shape[0], 0, problem.is_inverse, problem.scale, lanes, kind=kind)
    if len(parts(size)) == 1:
        shape = (outer, size, inner, 2)
        kernel = rows_kernel(shape, work) if inner == 1 else columns_kernel(shape, work)
        return kernel.apply(graph, (x, table))[0]
    if kind is not FourierKind.COMPLEX:
        return None
    if inner > 1:
        lying = graph.reshape(graph.permute(problem.x, (0, 2, 1, 3)), (outer * inner, size, 1, 2))
        found = _by_lanes(graph, replace(problem, x=lying, outer=outer * inner, inner=1), lanes)
        assert found is not None
        return graph.permute(graph.reshape(found, (outer, inner, size, 2)), (0, 2, 1, 3))
    rows, columns = parts(size)
    starts = offsets(size)
    first = replace(work, size=rows, scale=1.0, factors=starts[2])
    (between,) = columns_kernel((outer, rows, columns, 2), first).apply(graph, (x, table))
    second = replace(work, size=columns, start=starts[1])
    return turned_kernel((outer, rows, columns, 2), second).apply(graph, (between, table))[0]
