"""What is looked at where schedules are searched by measuring computes what the interpreter does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.testing.launching import needs_kernels
from zyx.testing.tuned import search_kernels

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from zyx.backend import Device


def test_every_candidate_of_a_search_computes_the_same(
    device: Device, seed: int, effort: Callable[[int, int], int], examples: Counter[str]
) -> None:
    needs_kernels(device)
    count = effort(3, 60)
    found = search_kernels(device, seed, count)
    info = device.info
    has_choice = info.max_group_threads > 1 or bool(info.cache_bytes) or info.vector_bytes > 0
    assert found["kernels"] == count
    assert found["candidates"] >= count or not has_choice, found  # one core without vectors runs nests as they are
    examples["candidates of searches"] += found["candidates"]
