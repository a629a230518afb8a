"""Random programs over the public API agree with NumPy: as they stand, under jit, with gradients, in threads."""

from __future__ import annotations

import pytest
from fuzz.campaign import Campaign

#: Seeds of two blocks of programs lie so far apart.
BETWEEN = 1_000_000


def run(campaign, first, count):
    """Run the programs of so many seeds."""
    campaign.run(range(first, first + count))
    assert campaign.programs == count
    assert not campaign.failures, campaign.summary()


@pytest.mark.parametrize("block", range(4))
def test_small_random_programs_agree_with_numpy(runtime, request, block):
    first = request.config.getoption("--zyx-seed") + block * BETWEEN
    run(Campaign(runtime, most_elements=600, most_calls=8), first, 10)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_random_programs_agree_with_numpy(runtime, block):
    run(Campaign(runtime), 10 * block * BETWEEN, 60)
