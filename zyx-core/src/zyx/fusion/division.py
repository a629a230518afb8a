"""What of a graph is stored other than by rule: what was found by measuring, and where a device refuses a launch.

Launches that a device refuses in every schedule are divided:

    p0 = sum(exp(x - max(x)))  =>  max, exp and sum by themselves: none of them keeps an array of exp(x) a thread

Kernels that share a launch get launches of their own; then what a kernel computes though it could be stored, such as
reductions that others need, is stored; then what is one expression is stored half way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.fusion.cost import is_source
from zyx.fusion.elsewhere import is_elsewhere
from zyx.fusion.materialise import contraction_operands
from zyx.fusion.movement import MOVEMENT
from zyx.graph import node as n

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node


class Division:
    """What has been divided so far.

    Attributes:
        apart: Nodes that no kernel is to take in.
        recomputed: Nodes that are not to be stored because of what they cost.
        served: Hand-written kernels that are a library's where they would not be, or the other way round.
        elsewhere: Roots of kernels that the host computes, since a device of tiles cannot.
    """

    def __init__(self, apart: set[Node], recomputed: set[Node], served: set[Node]) -> None:
        self.apart, self.recomputed, self.served = apart, recomputed, served
        self.elsewhere: set[Node] = set()
        self._alone: set[Node] = set()

    def launches(self, launches: Sequence[Sequence[KernelPart]]) -> list[Sequence[KernelPart]]:
        """Return `launches`, those that did not do in parts."""
        divided: list[Sequence[KernelPart]] = []
        for launch in launches:
            is_whole = len(launch) == 1 or self._alone.isdisjoint(part.root for part in launch)
            divided += [launch] if is_whole else [[part] for part in launch]
        return divided

    def divide(self, launch: Sequence[KernelPart], info: DeviceInfo) -> bool:
        """Note how to divide `launch`; return whether that can be, and may help."""
        if any(isinstance(part.root, n.Custom) for part in launch):
            return False
        if not all(info.can_store(node.dtype) for part in launch for node in part.region.order):
            return False
        if len(launch) > 1:
            self._alone.update(part.root for part in launch)
            return True
        (part,) = launch
        if info.tiles is not None and is_elsewhere(part.root, info):
            return False  # what is left of it is none of the device's, either
        if info.tiles is not None and not part.taken and contraction_operands(part.root) is not None:
            return False  # half way there is an array of all products, and no part of a sum of them is a tile program
        more = set(part.taken) - self.apart or set(self._half_way(part))
        self.apart |= more
        return bool(more)

    def send_elsewhere(self, launch: Sequence[KernelPart], info: DeviceInfo) -> bool:
        """Note that the host is to compute `launch`; return whether it may for such a device, and was not to before."""
        if info.tiles is None or self.is_elsewhere(launch):
            return False
        self.elsewhere.update(part.root for part in launch)
        return True

    def is_elsewhere(self, launch: Sequence[KernelPart]) -> bool:
        """Whether the host is to compute `launch`."""
        return not self.elsewhere.isdisjoint(part.root for part in launch)

    def _half_way(self, part: KernelPart) -> list[Node]:
        computed = [
            node
            for node in part.region.order
            if node is not part.root
            and node not in part.region.inputs
            and not is_source(node)
            and not isinstance(node, MOVEMENT)
        ]
        return computed[len(computed) // 2 :][:1]
