"""Plans as data, for the cache on disk: a later process neither prepares, divides nor draws the graph of one again.

A plan follows from the structure of its graph (`key_of`), from what its devices are and what libraries they have, and
from what was found by measuring. The programs that it launches are named by the digests of their kernels, which the
same cache has rendered (`zyx.runtime.kernel_cache`). What only this process has stays out: functions of the host,
bodies of loops, and programs that a library made.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from zyx.graph.node import Custom
from zyx.graph.signature import signature
from zyx.kernel.digest import digest_of_kernel
from zyx.kernels.custom import CustomKernel
from zyx.runtime.plan import Plan, Slice
from zyx.runtime.steps import CopyStep, LaunchStep, Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, Program
    from zyx.graph.node import Node

#: Nodes of a graph from which on its plan is kept. A smaller one is planned in a few milliseconds, which its entry, of
#: a file that all programs share, is not worth: most that compute each tensor by itself have thousands of such graphs.
LEAST_NODES: Final = 64


class KeptSlice(msgspec.Struct, frozen=True, array_like=True):
    """A buffer; see `zyx.runtime.plan.Slice`.

    Attributes:
        device: The name of the device in whose pool it lies.
        nbytes: Its size.
    """

    device: str
    nbytes: int


class KeptProgram(msgspec.Struct, frozen=True, array_like=True):
    """A program.

    Attributes:
        device: The name of the device that launches it.
        kernel: The digest of its kernel.
    """

    device: str
    kernel: bytes


class KeptLaunch(msgspec.Struct, frozen=True, array_like=True, tag="launch"):
    """A launch; see `zyx.runtime.steps.LaunchStep`. The `program` is the place of one in the plan."""

    program: int
    args: tuple[int, ...]
    bytes_moved: int
    written: tuple[int, ...]
    given: tuple[int, ...]
    starts: tuple[int, ...]


class KeptCopy(msgspec.Struct, frozen=True, array_like=True, tag="copy"):
    """A copy; see `zyx.runtime.steps.CopyStep`."""

    source: int
    target: int


class KeptPlan(msgspec.Struct, frozen=True, array_like=True):
    """A plan; see `zyx.runtime.plan.Plan`."""

    inputs: int
    outputs: tuple[KeptSlice, ...]
    results: tuple[int, ...]
    temporaries: tuple[KeptSlice, ...]
    programs: tuple[KeptProgram, ...]
    steps: tuple[KeptLaunch | KeptCopy, ...]

    def plan(self, devices: Mapping[str, Device], programs: Sequence[Program]) -> Plan:
        """Return the plan that launches `programs`, in the order of those that it names, on devices by name."""
        steps: list[Step] = []
        for step in self.steps:
            if isinstance(step, KeptCopy):
                steps.append(CopyStep(step.source, step.target))
                continue
            device, program = devices[self.programs[step.program].device], programs[step.program]
            steps.append(
                LaunchStep(device, program, step.args, step.bytes_moved, step.written, step.given, step.starts)
            )
        outputs, temporaries = (
            tuple(Slice(devices[each.device].memory_pool, each.nbytes) for each in slices)
            for slices in (self.outputs, self.temporaries)
        )
        return Plan(self.inputs, outputs, self.results, temporaries, tuple(steps))


def kept_of(plan: Plan, devices: Mapping[str, Device], kernels: Mapping[Program, bytes]) -> KeptPlan | None:
    """Return a plan as data; None if it has what only this process has.

    Args:
        plan: The plan.
        devices: Those of its graph, by name.
        kernels: The digests of the kernels of programs.
    """
    places: dict[KeptProgram, int] = {}
    steps: list[KeptLaunch | KeptCopy] = []
    for step in plan.steps:
        if isinstance(step, CopyStep):
            steps.append(KeptCopy(step.source, step.target))
            continue
        if not isinstance(step, LaunchStep) or step.call is not None or step.lines:
            return None
        kernel = kernels.get(step.program)
        if kernel is None or devices.get(step.device.name) is not step.device:
            return None
        place = places.setdefault(KeptProgram(step.device.name, kernel), len(places))
        steps.append(KeptLaunch(place, step.args, step.bytes_moved, step.written, step.given, step.starts))
    name_of = {device.memory_pool: name for name, device in devices.items()}
    if not all(slice_.pool in name_of for slice_ in (*plan.outputs, *plan.temporaries)):
        return None
    outputs, temporaries = (
        tuple(KeptSlice(name_of[slice_.pool], slice_.nbytes) for slice_ in slices)
        for slices in (plan.outputs, plan.temporaries)
    )
    return KeptPlan(plan.inputs, outputs, plan.results, temporaries, tuple(places), tuple(steps))


def key_of(
    outputs: Sequence[Node], leaves: Sequence[Node], donations: Mapping[Node, Node]
) -> tuple[bytes, list[str]] | None:
    """Return the digest of a graph with all that its plan depends on beside devices, and the names of the graph's.

    None is of a graph that is small, or has what only this process has. Arguments are those of
    `zyx.runtime.planner.Planner.make`.
    """
    key, _, nodes = signature(outputs)
    if len(nodes) < LEAST_NODES:
        return None
    entries: tuple[object, ...] = key.structure  # type: ignore[assignment]  # a tuple, with an entry for each node
    kernels: dict[int, str] = {}  # by identity: to hash one goes through its kernel
    written: list[object] = []
    for node, entry in zip(nodes, entries, strict=False):  # the last one has the places of outputs
        if not isinstance(node, Custom) or node.storage is not None:
            written.append(entry)
            continue
        custom = node.kernel
        if not isinstance(custom, CustomKernel):
            return None
        if id(custom) not in kernels:
            kernels[id(custom)] = f"{digest_of_kernel(custom.kernel).hex()} {custom.outputs} {custom.problem}"
        place_of = entry[5:]  # type: ignore[index]  # behind class, attributes, shape, dtype and device
        written.append((kernels[id(custom)], node.output, node.device, place_of))
    place = {node: number for number, node in enumerate(nodes)}
    given = [place.get(leaf, -1) for leaf in leaves]
    over = [(place.get(node, -1), place.get(old, -1)) for node, old in donations.items()]
    text = repr((written, entries[-1], key.constants, given, over))
    devices = [*dict.fromkeys(node.device for node in nodes)]
    return hashlib.sha256(text.encode()).digest(), devices
