"""Random graphs: whatever the schedule makes of them, their outputs are what the oracle says."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from zyx import dtype as dtypes
from zyx.testing.graph_runs import GraphRunner
from zyx.testing.graphs import GraphOptions
from zyx.testing.launching import claimed_dtypes

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime

#: Graphs in a test; a thorough run has `BLOCKS` of these.
BLOCK: Final = 120
BLOCKS: Final = 18
#: How many of a block are computed alone. The others are computed by fours: that takes half the time, and puts
#: kernels of independent graphs into one launch.
ALONE: Final = 24
TOGETHER: Final = 4
#: Devices of a thorough run, each in a thread: where compilers run apart from Python, two need hardly longer than one.
_DEVICES: Final = min(2, os.cpu_count() or 1)

_FLOATS: Final = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64, dtypes.int32)
_OTHERS: Final = (*dtypes.INTEGERS, dtypes.bool_)


def options_of(device: Device, number: int) -> GraphOptions:
    """Return what graphs of a kind may be like; kinds take turns."""
    kinds = (
        GraphOptions(),
        GraphOptions(dtypes=_FLOATS, most_nodes=8, with_special=False),
        GraphOptions(most_nodes=5, most_elements=20_000),
        GraphOptions(dtypes=_OTHERS, most_nodes=8),
    )
    options = kinds[number % len(kinds)]
    claimed = claimed_dtypes(device)
    return GraphOptions(
        tuple(dtype for dtype in options.dtypes if dtype in claimed),
        options.most_nodes,
        options.most_elements,
        options.most_outputs,
        options.with_special,
    )


def groups_of(first: int) -> Iterator[list[int]]:
    """Yield the seeds of a block, by what is computed together."""
    yield from ([seed] for seed in range(first, first + ALONE))
    for start in range(first + ALONE, first + BLOCK, TOGETHER):
        yield list(range(start, start + TOGETHER))


def run_groups(runtime: Runtime, groups: Sequence[list[int]]) -> int:
    """Run the graphs of some groups of seeds; return how many they were."""
    device = runtime.device(runtime.default_device)
    runner = GraphRunner(runtime, device.name)
    for seeds in groups:
        runner.run(seeds, options_of(device, seeds[0] // TOGETHER))
    return runner.graphs


@pytest.mark.parametrize(
    "block",
    [0, *(pytest.param(number, marks=pytest.mark.thorough) for number in range(1, BLOCKS))],
)
def test_random_graphs_agree_with_the_oracle(
    open_again: Callable[[], Runtime],
    block: int,
    seed: int,
    effort: Callable[[int, int], int],
    examples: Counter[str],
) -> None:
    groups = list(groups_of(seed + block * BLOCK))
    devices = effort(1, _DEVICES)
    runtimes = [open_again() for _ in range(devices)]
    with ThreadPoolExecutor(devices) as threads:
        counts = threads.map(run_groups, runtimes, [groups[number::devices] for number in range(devices)])
        examples["random graphs"] += sum(counts)
