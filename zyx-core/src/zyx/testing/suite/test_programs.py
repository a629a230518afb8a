"""Random programs over the public API: as they stand, under jit, with gradients, in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zyx.testing.fuzz.campaign import Campaign

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime


@pytest.mark.parametrize("block", range(4))
def test_random_programs_agree_with_numpy(
    runtime: Runtime, block: int, seed: int, effort: Callable[[int, int], int], examples: Counter[str]
) -> None:
    count = effort(10, 500)
    first = seed + block * 1_000_000
    campaign = Campaign(runtime, most_elements=effort(600, 20_000), most_calls=effort(8, 12))
    campaign.run(range(first, first + count))
    examples["random programs"] += campaign.programs
    assert not campaign.failures, campaign.summary()
