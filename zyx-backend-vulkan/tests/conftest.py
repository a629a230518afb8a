"""The device that the tests run on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zyx.errors import NoDeviceError
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by their paths; what they share is not


def open_or_skip(**section: object) -> Runtime:
    """Open the first device, with settings of this backend; skip the test if there is none, and say why."""
    try:
        return open_runtime("vulkan", settings={"backends": {"vulkan": section}})
    except NoDeviceError as error:
        reason = str(error).partition("\n")[0]
        if "vulkan" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names vulkan: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def runtime() -> Iterator[Runtime]:
    """A runtime whose default device is the first one of this backend."""
    opened = open_or_skip()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def device(runtime: Runtime) -> Device:
    """That device."""
    return runtime.device(runtime.default_device)
