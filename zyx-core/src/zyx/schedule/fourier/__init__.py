"""Discrete Fourier transforms: choose how for a device.

whatever there is     each pass is a sum of products, as ordinary nodes    `composed`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.schedule.fourier.composed import composed

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph import node as n
    from zyx.graph.node import Node


def transformed(graph: Graph, node: n.Fourier, info: DeviceInfo, way: int = 0) -> Node:
    """Return nodes with the values of `node`.

    Args:
        graph: To make nodes with.
        node: What to transform.
        info: The device.
        way: 0 as the device is best at; others by ordinary nodes.
    """
    return composed(graph, node)
