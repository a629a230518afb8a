"""Schedules next to one: whatever applies keeps the values."""

from collections import Counter

import pytest

from zyx.autotune.neighbours import MOST_OPERATIONS, neighbours, scheduled, written_out
from zyx.errors import ScheduleError
from zyx.nest.data import Kind
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Split
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import run_lowered

#: Those for which anything is chosen: one without vectors, threads and caches runs nests as they are.
SCHEDULED = [machine for machine in MACHINES if machine.model != "plain"]


@pytest.mark.parametrize("machine", SCHEDULED, ids=lambda info: info.model)
def test_neighbours_of_what_is_chosen_keep_the_values(machine):
    counts = Counter()
    for seed in range(30):
        choices = Seeded(seed)
        for kernel in kernels_of(random_case(choices, GraphOptions(most_nodes=5, most_elements=100)), machine)[0]:
            if len(kernel.nests) > 1:
                continue
            (nest,) = kernel.nests
            _, moves = choose_schedule(nest, machine)
            around = list(neighbours(moves))
            for other in [choices.pick(around) for _ in range(4 if around else 0)]:
                try:
                    plan = scheduled(nest, other, machine)
                    kernel.check(run_lowered, [plan.nest], "a neighbour")
                    lanes = [r.size for r in plan.nest.ranges if plan.nest.kind(r) is Kind.VECTOR]
                    assert machine.max_group_threads == 1 or all(size & (size - 1) == 0 for size in lanes)
                    counts["applied"] += 1
                except ScheduleError:
                    counts["refused"] += 1
    assert counts["applied"] > 20, counts


def test_what_would_be_written_out_too_far_is_refused():
    machine = SCHEDULED[0]
    for seed in range(20):
        choices = Seeded(seed)
        for kernel in kernels_of(random_case(choices, GraphOptions(most_nodes=5, most_elements=200)), machine)[0]:
            for nest in kernel.nests:
                _, moves = choose_schedule(nest, machine)
                for number, move in enumerate(moves):
                    if isinstance(move, Split):
                        huge = [*moves[:number], Split(move.range, 1 << 20), *moves[number + 1 :]]
                        try:
                            plan = scheduled(nest, huge, machine)
                        except ScheduleError:
                            return
                        assert written_out(plan.nest) <= MOST_OPERATIONS
    raise AssertionError("nothing was refused")
