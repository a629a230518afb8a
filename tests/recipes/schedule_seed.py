"""A processor is asked for schedules that write out two points at a time; their kernels compute what they have to."""

from __future__ import annotations

import numpy as np

from zyx.nest.data import Kind
from zyx.schedule.apply import apply
from zyx.schedule.choose import space_of
from zyx.schedule.spec import Cut, Part, Spec
from zyx.testing.graph_runs import case_of
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import run_lowered

x = np.arange(35 * 6, dtype=np.float32).reshape(35, 6)
case = case_of("interpreter", [x], lambda graph, leaf: graph.contiguous(graph.permute(leaf, (1, 0))))
(kernel,) = kernels_of(case, MACHINES[0])[0]
space = space_of(kernel.nests[0], MACHINES[0])
specs = [spec for spec in space.seeds if isinstance(spec, Spec)]
(label,) = [range_.label for range_ in space.plan.nest.ranges if range_.size == 6]
pairs = Spec((Cut(label, (Part(2, Kind.UNROLL),)),))
assert pairs in specs
apply(space.plan, pairs, MACHINES[0])
kernel.check(run_lowered, [space.plan.nest])
