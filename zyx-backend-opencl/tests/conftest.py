"""The device that the tests run on, and kernels to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from every_driver.fixtures import *  # noqa: F403
from every_driver.fixtures import Card, open_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by their paths; what they share is not


@pytest.fixture(scope="session")
def card() -> Card:
    return Card("opencl", "pyopencl", "pip install pyopencl", setting=("out_of_order", "perhaps"))


@pytest.fixture(scope="session", params=["out of order", "in order"])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime on the first device: with one queue that keeps no order, and with two that do."""
    opened = open_or_skip("opencl", out_of_order=request.param == "out of order")
    yield opened
    opened.close()
