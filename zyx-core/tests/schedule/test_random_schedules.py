"""Any schedule computes what the graph means: random nests of random graphs, after random moves."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zyx.errors import ScheduleError
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower_together
from zyx.nest.data import Kind
from zyx.passes.fuse_multiply_add import fuse_multiply_add
from zyx.passes.pipeline import ALL_PASSES, run_passes, standard_passes
from zyx.schedule import moves as m
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Inline, Mark, Merge, Peel, Split, apply_moves
from zyx.testing.choices import Drawn, Seeded
from zyx.testing.graph_runs import case_of
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import (
    MOST_WRITTEN_OUT,
    random_schedule,
    run_kernel,
    run_lowered,
    run_nests,
    written_out,
)

OPTIONS = GraphOptions(most_nodes=6, most_elements=200)
BLOCK = 150
#: Moves that only nests of a kind take, which random graphs hardly ever have: tested by themselves.
RARE = {m.TensorCore}


def check_schedules(choices, kernel, counts, most_moves=8):
    """Run the nests of a kernel after random moves, by both interpreters."""
    schedules = [random_schedule(choices, nest, most_moves) for nest in kernel.nests]
    nests = [schedule.nest for schedule in schedules]
    try:
        kernel.check(run_nests, nests, "as nests")
        counts["schedules"] += 1
        counts.update(type(move) for schedule in schedules for move in schedule.moves)
        if max(map(written_out, nests)) > MOST_WRITTEN_OUT:
            counts["written out too far"] += 1
            return
        proofs = []
        kernel.check(lambda nests, buffers: proofs.append(run_lowered(nests, buffers)), nests, "lowered")
        counts["lowered"] += 1
        counts["not proved"] += not all(proofs)
    except ScheduleError:
        counts["kinds that do not go together"] += 1
    except BaseException as error:
        error.add_note("\n".join(map(str, schedules)))
        raise


def check_seed(seed, counts):
    choices = Seeded(seed)
    case = random_case(choices, OPTIONS)
    try:
        for kernel in kernels_of(case, choices.pick(MACHINES), together=choices.chance(30))[0]:
            check_schedules(choices, kernel, counts)
    except BaseException as error:
        error.add_note(f"seed {seed}:\n{case}")
        raise


@pytest.mark.parametrize("block", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 24))])
def test_random_schedules_keep_the_values(block):
    counts = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        check_seed(seed, counts)
    assert counts["schedules"] >= BLOCK
    assert counts["lowered"] >= counts["schedules"] / 2
    assert counts["not proved"] <= 0.02 * counts["lowered"]


def test_every_kind_of_move_is_made():
    counts = Counter()
    for seed in range(400):
        choices = Seeded(seed)
        for kernel in kernels_of(random_case(choices, OPTIONS), choices.pick(MACHINES))[0]:
            for nest in kernel.nests:
                counts.update(map(type, random_schedule(choices, nest).moves))
    kinds = {*m.MOVES.values()}
    assert kinds - counts.keys() == RARE


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_schedule_of_any_graph_keeps_the_values(data):
    """Fewer examples than by seeds, but made smaller when one fails."""
    choices = Drawn(data.draw)
    case = random_case(choices, GraphOptions(most_nodes=4, most_elements=60, most_outputs=2))
    for kernel in kernels_of(case, choices.pick(MACHINES), together=False)[0]:
        check_schedules(choices, kernel, Counter(), most_moves=5)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda info: info.model)
def test_chosen_schedules_and_any_passes_keep_the_values(machine):
    for seed in range(60):
        choices = Seeded(1000 + seed)
        case = random_case(choices, OPTIONS)
        for kernel in kernels_of(case, machine)[0]:
            nests = [choose_schedule(nest, machine)[0] for nest in kernel.nests]
            lowered = lower_together(nests, "chosen")
            verify(lowered)
            chosen = [choices.pick(ALL_PASSES) for _ in range(choices.integer(0, 8))]
            passes = [p for p in (*chosen, *standard_passes(machine)) if p is not fuse_multiply_add]
            changed = run_passes(lowered, passes, check=True)
            try:
                kernel.check(lambda nests, buffers, changed=changed: run_kernel(changed, nests, buffers), nests)
            except AssertionError as error:
                error.add_note(f"seed {seed} on {machine.model}, {passes}:\n{case}\n{changed}")
                raise


# ---- flips of what was reshaped: maps of indices that run backwards through quotients and remainders


def flipped(graph, x):
    """Return flips of reshapes of `x`, of 24 elements, and reshapes of flips, deeper and deeper."""
    once = graph.flip(graph.reshape(x, (4, 6)), (0,))
    twice = graph.flip(graph.reshape(once, (3, 8)), (0, 1))
    flat = graph.flip(graph.reshape(twice, (24,)), (0,))
    padded = graph.flip(graph.reshape(graph.pad(flat, [(1, 2)], 7), (9, 3)), (1,))
    swapped = graph.flip(graph.permute(graph.reshape(padded, (3, 9)), (1, 0)), (0,))
    return [
        once,
        twice,
        flat,
        padded,
        graph.reshape(swapped, (27,)),
        graph.flip(graph.shrink(graph.reshape(swapped, (27,)), [(2, 25)]), (0,)),
    ]


def flips_in_numpy(x):
    once = x.reshape(4, 6)[::-1]
    twice = once.reshape(3, 8)[::-1, ::-1]
    flat = twice.reshape(24)[::-1]
    padded = np.pad(flat, (1, 2), constant_values=7).reshape(9, 3)[:, ::-1]
    swapped = padded.reshape(3, 9).T[::-1]
    return [once, twice, flat, padded, swapped.reshape(27), swapped.reshape(27)[2:25][::-1]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda info: info.model)
@pytest.mark.parametrize("shape", [(24,), (2, 12), (6, 1, 4)], ids=str)
def test_flips_of_reshapes_are_right_under_any_schedule(machine, shape):
    x = np.arange(24, dtype=np.int32).reshape(shape)
    case = case_of("test:0", [x], flipped)
    for reference, wanted in zip(case.reference(), flips_in_numpy(x), strict=True):
        np.testing.assert_array_equal(reference.value, wanted)
    counts = Counter()
    for seed in range(8):
        choices = Seeded(seed)
        for kernel in kernels_of(case, machine, together=choices.chance(50))[0]:
            check_schedules(choices, kernel, counts)
    assert counts["lowered"] >= 12


def there_and_back(graph, x):
    """Return a graph whose index is a quotient of what runs backwards: rounded down, and not towards zero."""
    return graph.flip(graph.reshape(graph.flip(graph.reshape(x, (3, 7)), (1,)), (7, 3)), (0, 1))


@pytest.mark.parametrize(
    "schedule",
    [
        [],
        [Merge("r0", "r1")],
        [Split("r0", 4), Peel("r0.0"), Mark("r0.1", Kind.VECTOR)],
        [Split("r0", 4), Mark("r0.1", Kind.UNROLL), Split("r1", 2), Mark("r1.1", Kind.VECTOR)],
        [Mark("r1", Kind.GROUP), Split("r0", 2), Mark("r0.1", Kind.LOCAL)],
    ],
    ids=["none", "merged", "vectors", "written out", "threads"],
)
def test_a_flip_of_a_reshaped_flip_is_right_as_written(schedule):
    case = case_of("test:0", [np.arange(21, dtype=np.int32)], there_and_back)
    (kernel,) = kernels_of(case, MACHINES[0])[0]
    nests = [apply_moves(kernel.nests[0], schedule)]
    kernel.check(run_nests, nests)
    kernel.check(run_lowered, nests)


@pytest.mark.parametrize(
    "move", [Split("missing", 2), Split("r0", 0), Merge("r0", "r0"), Inline("missing"), Inline("s0")], ids=str
)
def test_a_move_that_does_not_apply_says_so(move):
    case = case_of("test:0", [np.arange(6, dtype=np.int32)], lambda graph, x: graph.flip(x, (0,)))
    (kernel,) = kernels_of(case, MACHINES[0])[0]
    with pytest.raises(ScheduleError, match=r"\w"):
        move.apply(kernel.nests[0])
