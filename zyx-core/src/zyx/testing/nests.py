"""From random graphs to the loop nests of their kernels, and whether these compute what the graph means.

kernels = kernels_of(case, info)       prepared, divided into kernels, written as nests
kernels[0].check(run)                  `run` computes the nests on buffers; what they store is compared
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.fusion.arrange import arrange
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.fusion.prepare import VARIANTS, prepare
from zyx.fusion.split_scatters import split_scatter
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.kernel.run_memory import undefined
from zyx.ops import reduce_ops
from zyx.testing.compare import assert_within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.fusion.partition import KernelPart
    from zyx.graph import Node
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.testing.graphs import GraphCase, Reference
    from zyx.testing.values import Array

    #: Computes nests on flat arrays, one for each param.
    Run = Callable[[Sequence[Nest], Mapping[Param, Array]], None]


def _info(model: str, **fields: object) -> DeviceInfo:
    lanes = (2, 4, 8, 16)
    capabilities = {dtype: full_capability(dtype, lanes, reduce_ops(dtype)) for dtype in dtypes.ALL}
    return DeviceInfo(model, "none", capabilities, **fields)  # type: ignore[arg-type]  # the fields of the record


#: Machines that graphs are divided for: a processor, one with little of everything, a graphics card, a plain one.
MACHINES = (
    _info(
        "processor", vector_bytes=64, units=8, registers=32, cache_bytes=(32768, 1 << 20, 1 << 25), has_streaming=True
    ),
    _info("small processor", vector_bytes=16, units=1, cache_bytes=(128, 256), local_bytes=512),
    _info(
        "card", units=100, max_group_threads=1024, max_group_shape=(1024, 1024, 64), warp_size=32, vector_bytes=16,
        subgroup_size=32, swaps=frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64)),
    ),
    _info("plain", units=2),
)  # fmt: skip


@dataclass(slots=True)
class KernelCase:
    """The nests of one kernel.

    Attributes:
        parts: What each nest is made from.
        nests: In the order of `parts`.
        params: The params of all nests, with the node whose values each holds before the kernel runs, or after it.
        references: What each node has to be.
        before: What the kernels before it have stored already in the buffer of a node that this one adds to.
    """

    parts: list[KernelPart]
    nests: list[Nest]
    params: dict[Node, Param]
    references: Mapping[Node, Reference]
    before: Mapping[Node, Reference] = field(default_factory=dict)

    def buffers(self) -> dict[Param, Array]:
        """Return flat arrays for all params: inputs with their values, others with undefined ones."""
        stored = {node for part in self.parts for node in part.stored}
        result: dict[Param, Array] = {}
        for node, param in self.params.items():
            if node not in stored:
                result[param] = self.references[node].value.ravel().copy()
        for node, reference in self.before.items():
            result[self.params[node]] = reference.value.ravel().copy()
        for param in self.params.values():
            if param not in result:
                result[param] = np.full(param.length, undefined(param.dtype))
        return result

    def check(self, run: Run, nests: Sequence[Nest] | None = None, what: str = "") -> None:
        """Assert that `run` of the nests stores what the oracle says, and writes to nothing else."""
        buffers = self.buffers()
        before = {param: array.copy() for param, array in buffers.items()}
        run(self.nests if nests is None else nests, buffers)
        written = set()
        for part in self.parts:
            for node in part.stored:
                param = self.params[node]
                written.add(param)
                reference = self.references[node]
                assert_within(buffers[param].reshape(node.shape), reference, f"{what} {node!r}")
        for param, array in buffers.items():
            if param not in written:
                assert_within(array, before[param], f"{what}: {param!r}, which is only read,")


def kernels_of(
    case: GraphCase, info: DeviceInfo, *, together: bool = True
) -> tuple[list[KernelCase], Mapping[Node, Reference]]:
    """Return the kernels that compute a graph on a machine, and what every node of the rewritten graph has to be.

    Args:
        case: The graph.
        info: The machine.
        together: Whether kernels may share a launch; if not, each has one nest.
    """
    outputs = [node for node in case.outputs if 0 not in node.shape]  # those without elements need no kernel
    # Sorts become nests, too: what is written by hand has none.
    prepared = prepare(Graph(), topological(outputs), outputs, info, variant=VARIANTS - 1)
    references = dict(case.references(topological(prepared)))
    computed = [node for node in dict.fromkeys(prepared) if not isinstance(node, n.Leaf)]
    parts = partition(topological(computed), computed, info)
    launches = arrange(parts, info) if together else [[part] for part in parts]
    kernels = []
    available: set[Node] = {node for node in references if isinstance(node, n.Leaf)}
    for launch in launches:
        params: dict[Node, Param] = {}
        for part in launch:
            read = {node for node in part.reads if not isinstance(node, n.Const | n.Iota)}
            assert read <= available, f"a kernel reads {read - available} before they are computed, in\n{case}"
        nests = [build_nest(part, params) for part in launch]
        scatter = split_scatter(nests[0], info, deterministic=False) if len(nests) == 1 else []
        if len(scatter) > 1:  # the base, then the updates on top of it
            root = launch[0].root
            base = references[root.sources[0]]
            kernels.append(KernelCase(list(launch), scatter[:1], params, {**references, root: base}))
            kernels.append(KernelCase(list(launch), scatter[1:], params, references, {root: base}))
        else:
            kernels.append(KernelCase(list(launch), scatter or nests, params, references))
        available.update(node for part in launch for node in part.stored)
    assert set(computed) <= available, f"{set(computed) - available} are never computed, in\n{case}"
    return kernels, references
