"""Run a plan for a greatest length on shorter values.

Where the host may copy, they are copied to the front of buffers of that length, which kernels read best:

    x[3, 20] of a plan for x[3, 32]     its rows are the first 20 elements of those of a buffer for 3 times 32

Elsewhere the plan is one for packed values: it reads x[3, 20] as it is, and results have more memory than they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zyx.runtime.buffer import Buffer
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.runtime.buffer import Memory
    from zyx.runtime.lengths import Way
    from zyx.runtime.plan import Plan
    from zyx.runtime.trace import Trace
    from zyx.shape import Shape


@dataclass(frozen=True, slots=True)
class Front:
    """The elements in front of a longer value.

    Attributes:
        place: Which of the leaves or results it is.
        pool: Where it lies: memory of the host.
        shape: The shape of what is in front.
        longer: That of all.
        itemsize: Bytes of an element.
    """

    place: int
    pool: MemoryPool
    shape: Shape
    longer: Shape
    itemsize: int

    def spread(self, source: Buffer, memory: Memory) -> Buffer:
        """Return a longer buffer with `source` in front; what is behind is undefined."""
        source.wait()
        target = memory.allocate(self.pool, size_of(self.longer) * self.itemsize)
        self._copy(source, target, is_spread=True)
        return target

    def gathered(self, source: Buffer, memory: Memory) -> Buffer:
        """Return a buffer with what is in front of a longer one."""
        source.wait()
        target = memory.allocate(self.pool, size_of(self.shape) * self.itemsize)
        self._copy(source, target, is_spread=False)
        return target

    def _copy(self, source: Buffer, target: Buffer, *, is_spread: bool) -> None:
        target.wait()
        assert source.raw is not None and target.raw is not None
        read, written = source.raw.host_bytes, target.raw.host_bytes
        assert read is not None and written is not None
        if self.shape[1:] == self.longer[1:]:
            nbytes = size_of(self.shape) * self.itemsize
            written[:nbytes] = read[:nbytes]
            return
        item = f"V{self.itemsize}"
        shapes = (self.shape, self.longer) if is_spread else (self.longer, self.shape)
        values, places = (
            np.frombuffer(raw, item).reshape(shape) for raw, shape in zip((read, written), shapes, strict=True)
        )
        front = tuple(map(slice, self.shape))
        if is_spread:
            places[front] = values
        else:
            places[...] = values[front]


@dataclass(slots=True, eq=False)
class BoundedPlan:
    """A plan for a greatest length, run at one length; stands for a `Plan`.

    Attributes:
        plan: The plan.
        given: What it is given behind the leaves: the length, and what follows from it.
        leaves: Those of the leaves that are longer there, and are to be copied.
        results: Those of the results.
        nbytes: Bytes of the results, where they are packed.
        length: The length.
        way: What notes how often it is run.
        forget: Called when the length has settled: a plan of its own is made for the next run.
    """

    plan: Plan | BoundedPlan
    given: Sequence[Scalar]
    leaves: Sequence[Front]
    results: Sequence[Front]
    nbytes: Sequence[int]
    length: int
    way: Way
    forget: Callable[[], object]

    #: As plans are asked; it is not one launch.
    is_single = False

    @property
    def steps(self) -> Sequence[object]:
        """Those of the plan."""
        return self.plan.steps

    def run(self, leaves: Sequence[Buffer | Scalar], memory: Memory, trace: Trace) -> list[Buffer]:
        """Run the plan on the buffers of the leaves; return those of the results, when they are computed.

        Raises:
            BackendError: A step was refused, or failed.
        """
        buffers = [*leaves, *self.given]
        for front in self.leaves:
            buffers[front.place] = front.spread(leaves[front.place], memory)  # type: ignore[arg-type]  # no number
        results = self.plan.run(buffers, memory, trace)
        for front in self.results:
            results[front.place] = front.gathered(results[front.place], memory)
        for result, nbytes in zip(results, self.nbytes, strict=False):  # none where they are copied
            result.nbytes = nbytes
        if self.way.ran(self.length):
            self.forget()
        return results

    def close(self) -> None:
        """Do nothing: the plan is that of other lengths, too."""


def fronts(nodes: Sequence[Node], longer: Sequence[Shape], pool: MemoryPool) -> list[Front]:
    """Return what of some nodes is in front of longer ones, of which `longer` has the shapes."""
    return [
        Front(place, pool, node.shape, shape, node.dtype.itemsize)
        for place, (node, shape) in enumerate(zip(nodes, longer, strict=True))
        if node.shape != shape
    ]


def packed(nodes: Sequence[Node]) -> list[int]:
    """Return how many bytes each node takes."""
    return [size_of(node.shape) * node.dtype.itemsize for node in nodes]


def common_pool(devices: Collection[Device], leaves: Sequence[Node]) -> MemoryPool | None:
    """Return the pool of all these devices and of what lies in all leaves, None if there are several."""
    pool = next(iter(devices)).memory_pool
    is_common = all(type(leaf.storage) is Buffer and leaf.storage.pool is pool for leaf in leaves)
    return pool if leaves and is_common and all(device.memory_pool is pool for device in devices) else None


def host_copies_in(pool: MemoryPool, leaves: Sequence[Node]) -> bool:
    """Whether the host can copy the values of leaves and of results, and waits for nothing."""
    return pool.completed().complete_when_made and all(
        leaf.storage.raw is not None and leaf.storage.raw.host_bytes is not None and leaf.storage.pending is None
        for leaf in leaves
        if type(leaf.storage) is Buffer
    )
