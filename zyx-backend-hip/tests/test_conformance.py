"""The conformance kit, on the fake libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from fake_hip import DEVICES, run_kit

if TYPE_CHECKING:
    from fake_hip import Fake, Runs


@pytest.mark.parametrize("device", DEVICES)
def test_devices_do_what_the_interface_says(fake: Fake, device: str):
    """The part about memory, events, launches and sequences; the whole kit is run with the slow tests."""
    printed = run_kit(
        fake,
        device,
        "-k",
        "test_events or test_pool or test_launches or test_limits or test_swaps or test_threads_compute",
    )
    assert " passed" in printed


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_the_kit_passes_and_networks_have_the_losses_of_the_interpreter(
    device: str, runs: Runs, capsys: pytest.CaptureFixture[str]
):
    for summary, least in ((runs.kit[device], 300), (runs.losses[device], 3)):
        (passed,) = re.findall(r"(\d+) passed", summary)
        assert int(passed) >= least
        assert "failed" not in summary
    with capsys.disabled():
        print(f"\n{device} of the fake libraries: the kit: {runs.kit[device]}; losses: {runs.losses[device]}")
