"""Put kernels in the order they are launched in, and let independent ones share a launch.

Kernels that only go over elements and rows (no product of matrices, scan or scatter) may share a launch with others
of their kind that are ready at the same time, as long as what they compute early, and what waits for its users already,
fits into the device's caches: a matrix is best unpacked right before it is multiplied, and never all of a network's at
once. Those that nothing else in the plan waits for, such as the updates of an optimiser, are put off to the end, where
all of them are ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.fusion.cost import is_source
from zyx.fusion.materialise import contraction_operands
from zyx.fusion.region import is_turned
from zyx.graph import node as n
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node

#: Most kernels that share a launch, and most nodes they have together: their code is compiled as one.
_MOST_PARTS: Final = 16
_MOST_NODES: Final = 1200
#: Bytes of results that may wait for their users where a device does not say what its caches hold.
_MOST_WAITING: Final = 1 << 22
#: Reductions over so many points take about as long as a launch.
_SHORT_REDUCTION: Final = 1 << 20
#: Points of a result that one thread combines in any case.
_POINTS_OF_A_THREAD: Final = 8
#: The same, where each result is reduced to by one thread: points of one result.
_SHORT_FOR_A_THREAD: Final = 1 << 12


def arrange(parts: Sequence[KernelPart], info: DeviceInfo) -> list[list[KernelPart]]:
    """Group `parts`, which are in topological order, into launches, which are as well."""
    producer = {node: part for part in parts for node in part.stored}
    needs = {part: {producer[read] for read in part.reads if read in producer} for part in parts}
    users: dict[KernelPart, set[KernelPart]] = {}
    for part in parts:
        for needed in needs[part]:
            users.setdefault(needed, set()).add(part)
    waiting_bytes = {part: _stored_bytes(part) for part in users}
    sharing = {part for part in parts if info.tiles is None and _may_share(part, info)}  # a tile program is of one
    last = [part for part in parts if part not in users and part in sharing]
    put_off = set(last)
    early = [part for part in parts if part not in put_off]
    done: set[KernelPart] = set()
    ahead: list[KernelPart] = []  # computed early, and not yet used by all that need it
    launches: list[list[KernelPart]] = []
    for group in (early, last):
        waiting = dict.fromkeys(group)
        while waiting:
            first = next(iter(waiting))
            launch = [first]
            if isinstance(first.root, n.Custom):
                launch += [part for part in waiting if part is not first and _same_custom(part, first)]
            elif first in sharing:
                ready = [part for part in waiting if part in sharing and part is not first and needs[part] <= done]
                ahead = [part for part in ahead if not users[part] <= done]
                room = max(info.cache_bytes, default=_MOST_WAITING) - sum(waiting_bytes[part] for part in ahead)
                launch += _companions(first, ready, info, waiting_bytes, room)
                ahead += [part for part in launch[1:] if part in users]
            for part in launch:
                del waiting[part]
            launches.append(launch)
            done.update(launch)
    return launches


def _companions(
    first: KernelPart, ready: Iterable[KernelPart], info: DeviceInfo, waiting_bytes: Mapping[KernelPart, int], room: int
) -> list[KernelPart]:
    """Return the ready parts that share the launch of `first`, and whose results fit into `room`."""
    found: list[KernelPart] = []
    nodes = len(first.region.views)
    params = len(first.stored) + len(first.reads)
    for part in ready:
        if len(found) + 1 >= _MOST_PARTS:
            break
        size = len(part.region.views)
        count = len(part.stored) + len(part.reads)
        held = waiting_bytes.get(part, 0)
        if nodes + size <= _MOST_NODES and params + count <= info.max_params and held <= room:
            found.append(part)
            nodes += size
            params += count
            room -= held
    return found


def _stored_bytes(part: KernelPart) -> int:
    return sum(size_of(node.shape) * node.dtype.itemsize for node in part.stored)


def _same_custom(part: KernelPart, other: KernelPart) -> bool:
    """Whether two parts are outputs of one hand-written kernel on the same inputs."""
    a, b = part.root, other.root
    if not isinstance(a, n.Custom) or not isinstance(b, n.Custom):
        return False
    return a.kernel == b.kernel and a.sources == b.sources


def _may_share(part: KernelPart, info: DeviceInfo) -> bool:
    if isinstance(part.root, n.Scan | n.Scatter | n.Custom):
        return False
    computed = [node for node in part.region.views if node not in part.region.inputs]
    if any(contraction_operands(node) is not None for node in computed):
        return False
    reduced = [node for node in computed if isinstance(node, n.Reduce)]
    if not reduced:  # elements that are far apart take tiles of local memory, of a schedule for these alone
        return info.max_group_threads == 1 or not any(is_turned(part.region, node) for node in part.region.inputs)
    points = size_of(reduced[0].sources[0].shape)
    results = size_of(part.root.shape)
    if info.max_group_threads > 1 and info.meets_in_branches and points >= results * _POINTS_OF_A_THREAD:
        return points <= _SHORT_REDUCTION  # longer ones have a schedule, and groups, that suit nothing beside them
    if info.max_group_threads > 1 and points <= _SHORT_REDUCTION:
        return points <= results * _SHORT_FOR_A_THREAD
    return results >= points // 64


def donate(launches: Sequence[Sequence[KernelPart]], donations: dict[Node, Node], kept: set[Node]) -> dict[Node, Node]:
    """Donate buffers that are not needed any more to nodes computed from them; return the donations that hold.

    A node may be stored over a buffer if its kernel reads that buffer, if at all, at the same element only, before the
    store; and nothing reads it in the same launch elsewhere, or later.

    Args:
        launches: In order.
        donations: For a node, the one whose buffer it may take.
        kept: Nodes whose buffers must stay as they are.
    """
    accepted: dict[Node, Node] = {}
    for number, launch in enumerate(launches):
        for part in launch:
            for node in part.stored:
                old = donations.get(node)
                if old is None or old in kept or old in accepted.values():
                    continue
                if not is_source(old) and old not in accepted:
                    continue  # what was written to before is elsewhere
                later = [p for after in launches[number + 1 :] for p in after]
                beside = [p for p in launch if p is not part]
                if any(old in p.region.inputs for p in (*later, *beside)) or not _reads_same_element(part, node, old):
                    continue
                part.in_place[node] = old
                accepted[node] = old
    return accepted


def link_by_link(offers: Mapping[Node, Node]) -> dict[Node, Node]:
    """Return `offers`, where a buffer is written to in several places each of these over the one before.

    q = p with y at 3;  r = q with z at 5       r may be stored over p: so may q, and r over q
    """
    linked = dict(offers)
    for node, old in offers.items():
        links: dict[Node, Node] = {}
        current = node
        while isinstance(current, n.Scatter) and current.storage is None:
            base = current.sources[0]
            while isinstance(base, n.Reshape) and base.storage is None:
                base = base.sources[0]
            links[current] = base
            current = base
        if current is old:
            linked.update(links)
    return linked


def _reads_same_element(part: KernelPart, node: Node, old: Node) -> bool:
    """Whether `part` reads `old` only where it stores `node`, and only to compute `node`."""
    views, pool = part.region.views, part.region.pool
    if old not in views:
        return True
    elements = {pool.flatten(view.point, node.shape) for view in views[node]}
    if len(elements) != 1 or any(
        pool.flatten(view.point, old.shape) not in elements or view.mask is not None for view in views[old]
    ):
        return False
    # Every way from the old value to what is stored must lead through the new one.
    users = [n_ for n_ in views if n_ not in part.region.inputs and old in n_.sources]
    seen: set[Node] = set()
    stack = [user for user in users if user is not node]
    stored = {other for other in part.stored if other is not node}
    while stack:
        current = stack.pop()
        if current in seen or current is node:
            continue
        if current in stored or current is part.root:
            return False
        seen.add(current)
        stack += [above for above in views if above not in part.region.inputs and current in above.sources]
    return True
