"""The device that the tests run on: the simulator, or nothing where that is not installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zyx.errors import NoDeviceError
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by their paths; what they share is not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime
    from zyx_backend_tenstorrent.device import TenstorrentDevice


def open_or_skip(**section: object) -> Runtime:
    """Open the simulator, with settings of this backend; skip the test if it is not installed, and say so."""
    try:
        return open_runtime("tenstorrent", settings={"backends": {"tenstorrent": {"serve": "simulator", **section}}})
    except NoDeviceError as error:
        reason = str(error).partition("\n")[0]
        if "tenstorrent" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names tenstorrent: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def fresh() -> Iterator[Callable[..., Runtime]]:
    """A function that opens the simulator another time, with settings of this backend."""
    opened: list[Runtime] = []

    def open_one(**section: object) -> Runtime:
        opened.append(open_or_skip(**section))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """A runtime in use, on the simulator."""
    opened = open_or_skip()
    with use(opened):
        yield opened
    opened.close()


@pytest.fixture
def device(runtime: Runtime) -> TenstorrentDevice:
    return runtime.device()  # type: ignore[return-value]  # devices of this backend are of this class
