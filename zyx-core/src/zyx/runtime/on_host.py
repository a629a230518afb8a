"""Kernels that the host computes for a device which cannot, and the copies that this takes.

copy x to x'        of the host, unless an earlier kernel of the host left it there
x', y' -> z'        the kernel, on the host's device
copy z' to z        unless nothing on the device needs it
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.graph.given import Number
from zyx.nest.accesses import expressions_of
from zyx.nest.data import Store
from zyx.nest.expr import Read
from zyx.plugins.choose import CPU
from zyx.runtime.drawing import Started
from zyx.runtime.memory_planning import Copy, Launched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device
    from zyx.fusion.division import Division
    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.runtime.drawing import Drawn
    from zyx.runtime.memory_planning import Action, Hosted


class OnHost:
    """The launches of one plan, some of which the host makes in place of a device.

    Args:
        graph: To make the nodes of buffers with.
        device_of: From a device's name to the device.
        division: Which they are.
    """

    def __init__(self, graph: Graph, device_of: Callable[[str], Device], division: Division) -> None:
        self._graph = graph
        self._device_of = device_of
        self._division = division
        self._copies: dict[Node, Node] = {}  # of nodes whose values the host has, too

    def started(
        self, drawn: Drawn, device: Device, start: Callable[[Device], Sequence[Started | Hosted | Launched]]
    ) -> Sequence[Started | Action]:
        """Return what computes a launch: on `device`, or on the host, with the copies around it that this takes.

        Args:
            drawn: The launch.
            device: For which.
            start: Begins to compile it for a device.

        A call of the host is one as it is: its inputs are copied for it.
        """
        if not self._division.is_elsewhere(drawn.parts):
            return start(device)
        host = self._device_of(CPU)
        needed = _needed(drawn)
        steps: list[Started | Action] = []
        for launch in start(host):
            if not isinstance(launch, Started | Launched):
                steps.append(launch)
                continue
            for node in dict.fromkeys(launch.buffers):
                if isinstance(node, Number):
                    continue
                is_new = node not in self._copies
                if is_new:
                    self._copies[node] = self._graph.leaf(node.shape, node.dtype, host.name)
                if is_new and (node not in launch.stored or node in needed):
                    steps.append(Copy(node, self._copies[node]))
            buffers, stored = (
                tuple(self._copies.get(node, node) for node in nodes) for nodes in (launch.buffers, launch.stored)
            )
            steps.append(replace(launch, device=host, buffers=buffers, stored=stored))
            steps += [Copy(self._copies[node], node) for node in dict.fromkeys(launch.stored)]
        return steps


def _needed(drawn: Drawn) -> set[Node]:
    """Return what a launch stores to and needs the old contents of: it reads them, or does not store all of it."""
    found: set[Node] = set()
    for statement in (statement for nest in drawn.nests for statement in nest.statements):
        for expr in expressions_of(statement):
            if isinstance(expr, Read):
                found.add(drawn.node_of[expr.param])
        if isinstance(statement, Store):
            points = 1
            for range_ in statement.order:
                points *= range_.size
            is_part = statement.mask is not None or points < statement.param.length
            if statement.combine is not None or statement.atomic or is_part:
                found.add(drawn.node_of[statement.param])
    return found


def needed_copies(actions: Sequence[Action], outputs: Sequence[Node]) -> list[Action]:
    """Return `actions` without the copies to buffers that nothing reads any more."""
    wanted = set(outputs)
    kept: list[Action] = []
    for action in reversed(actions):
        if isinstance(action, Copy):
            if action.target in wanted:
                kept.append(action)
                wanted.discard(action.target)  # whatever was copied there before is overwritten
                wanted.add(action.source)
        else:
            kept.append(action)
            wanted.update(action.buffers)
    return kept[::-1]
