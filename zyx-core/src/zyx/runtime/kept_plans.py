"""Takes plans from the cache on disk in place of making them, and puts those that were made there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.drivers.rendered import identity
from zyx.runtime.compiler import REFUSALS
from zyx.runtime.kept_plan import kept_of, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.backend import Device
    from zyx.graph.node import Node
    from zyx.runtime.candidates import Candidates
    from zyx.runtime.compiler import Compiler
    from zyx.runtime.kept_plan import KeptPlan
    from zyx.runtime.plan import Plan


class KeptPlans:
    """Plans on disk; see `zyx.runtime.kept_plan`.

    Args:
        device_of: From a device's name to the device.
        compiler: Has the programs, and the cache.
        candidates: Libraries beside it.
        is_deterministic: Whether floats are combined in an order that is always the same.

    Attributes:
        restored: Number of plans that were not made.
    """

    def __init__(
        self,
        device_of: Callable[[str], Device],
        compiler: Compiler,
        candidates: Candidates,
        *,
        is_deterministic: bool,
    ) -> None:
        self.restored = 0
        self._device_of = device_of
        self._compiler = compiler
        self._candidates = candidates
        self._is_deterministic = is_deterministic

    def plan(
        self,
        outputs: Sequence[Node],
        leaves: Sequence[Node],
        donations: Mapping[Node, Node],
        make: Callable[[], Plan],
    ) -> Plan:
        """Return the plan that an earlier process made of an equal graph, or else what `make` gives, and keep it.

        Arguments are those of `zyx.runtime.planner.Planner.make`. Where somebody follows how programs are made, or
        schedules are searched, plans are made.
        """
        trace, measured = self._compiler.trace, self._compiler.store.state
        if trace.is_followed or trace.makes_kernels or self._candidates.is_searching or measured is None:
            return make()
        found = key_of(outputs, leaves, donations)
        devices = {} if found is None else {name: self._device_of(name) for name in found[1]}
        cache = self._compiler.kept
        if found is None or not cache.keeps_plans_of([*devices.values()]):
            return make()
        libraries = [self._candidates.described(device) for device in devices.values()]
        key = identity(found[0], libraries, self._is_deterministic, measured)
        kept = cache.plan([*devices.values()], key)
        plan = None if kept is None else self._restored(kept, devices)
        if plan is not None:
            self.restored += 1
            return plan
        plan = make()
        made = kept_of(plan, devices, self._compiler.kernels_of(plan))
        if made is not None:
            self._compiler.keep_plan([*devices.values()], key, made)
        return plan

    def _restored(self, kept: KeptPlan, devices: Mapping[str, Device]) -> Plan | None:
        """Return a plan with its programs; None if one of them is not kept any more, or cannot be built."""
        try:
            programs = self._compiler.programs_of([(devices[each.device], each.kernel) for each in kept.programs])
        except REFUSALS:  # it is planned anew, by other kernels if the device refuses these
            return None
        plan = None if programs is None else kept.plan(devices, programs)
        if plan is not None:
            self._compiler.hold(plan)
        return plan
