"""The conformance kit, on the fake libraries."""

from __future__ import annotations

import pytest
from fake_hip import Fake, run_kit


@pytest.mark.parametrize("device", ["hip:0", "hip:1"])
def test_devices_do_what_the_interface_says(fake: Fake, device: str):
    """The part about memory, events, launches and sequences; the whole kit is run with the slow tests."""
    printed = run_kit(fake, device, "-k", "test_events or test_pool or test_launches or test_limits")
    assert " passed" in printed
