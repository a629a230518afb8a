"""Run a plan for a greatest length on shorter values: they are as they are, and it is given their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.runtime.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from zyx.backend import Device
    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.runtime.buffer import Allocator
    from zyx.runtime.plan import Plan, Slice
    from zyx.runtime.trace import Trace
    from zyx.specialise.table import SymbolicSizes


@dataclass(slots=True, eq=False)
class BoundedPlan:
    """A plan for a greatest length, run at one length; stands for a `Plan`.

    Attributes:
        plan: The plan.
        given: What it is given behind the leaves: the length, and what follows from it.
        outputs: Those of the plan, as long as the results are.
        lengths: The lengths.
        points: How many points a run goes over.
        symbolic: What notes how often it is run.
        forget: Called when the length has settled: a plan of its own is made for the next run.
    """

    plan: Plan
    given: Sequence[Scalar]
    outputs: Sequence[Slice]
    lengths: tuple[int, ...]
    points: int
    symbolic: SymbolicSizes
    forget: Callable[[], object]

    #: As plans are asked; it is not one launch.
    is_single = False

    @property
    def steps(self) -> Sequence[object]:
        """Those of the plan."""
        return self.plan.steps

    def run(self, leaves: Sequence[Buffer | Scalar], memory: Allocator, trace: Trace) -> list[Buffer]:
        """Run the plan on the buffers of the leaves; return those of the results, when they are computed.

        Raises:
            BackendError: A step was refused, or failed.
        """
        results = self.plan.run([*leaves, *self.given], memory, trace, self.outputs)
        if self.symbolic.ran(self.lengths, self.points):
            self.forget()
        return results

    def close(self) -> None:
        """Do nothing: the plan is that of other lengths, too."""


def has_common_pool(devices: Collection[Device], leaves: Sequence[Node]) -> bool:
    """Whether all these devices have one pool, and what lies in all leaves is in that."""
    pool = next(iter(devices)).memory_pool
    is_common = all(type(leaf.storage) is Buffer and leaf.storage.pool is pool for leaf in leaves)
    return bool(leaves) and is_common and all(device.memory_pool is pool for device in devices)
