"""Hundreds of random programs over the public API agree with NumPy on the CPU."""

from __future__ import annotations

import pytest

from zyx.testing.fuzz.campaign import Campaign
from zyx.testing.opening import open_runtime


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_random_programs_agree_with_numpy(block):
    runtime = open_runtime("c")
    campaign = Campaign(runtime)
    campaign.run(range(block * 10_000_000, block * 10_000_000 + 60))
    runtime.close()
    assert campaign.programs == 60
    assert not campaign.failures, campaign.summary()
