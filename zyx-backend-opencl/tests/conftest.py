"""The device that the tests run on, and kernels to run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import NoDeviceError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl.device import ClDevice
    from zyx_backend_opencl.memory import ClBuffer, ClPool

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by their paths; what they share is not

#: Elements of the arrays of these tests.
COUNT = 64


def open_or_skip(**section: object) -> Runtime:
    """Open the first device, with settings of this backend; skip the test if there is none, and say why."""
    try:
        return open_runtime("opencl", settings={"backends": {"opencl": section}})
    except NoDeviceError as error:
        reason = str(error).partition("\n")[0]
        if "opencl" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names opencl: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session", params=["out of order", "in order"])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime on the first device: with one queue that keeps no order, and with two that do."""
    opened = open_or_skip(out_of_order=request.param == "out of order")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def device(runtime: Runtime) -> ClDevice:
    return runtime.device()  # type: ignore[return-value]  # devices of this backend are of this class


@pytest.fixture(scope="session")
def pool(device: ClDevice) -> ClPool:
    return device.pool


@pytest.fixture
def fresh() -> Iterator[Callable[..., Runtime]]:
    """A function that opens the device another time, with settings of this backend."""
    opened: list[Runtime] = []

    def open_one(**section: object) -> Runtime:
        opened.append(open_or_skip(**section))
        return opened[-1]

    yield open_one
    for runtime in opened:
        runtime.close()


@pytest.fixture(scope="session")
def add() -> Callable[..., Kernel]:
    """``add(constant, name)`` is a kernel that adds a constant to each of 64 integers."""

    def make(constant: int, name: str = "") -> Kernel:
        b = Builder()
        x = b.define(k.Memory.GLOBAL, dtypes.int32, COUNT)
        at = b.index(k.Axis.GROUP, 0, COUNT)
        b.store(x, at, b.binary(BinaryOp.ADD, b.load(x, at), b.const(constant, dtypes.int32)))
        return b.finish(name or f"add_{constant}")

    return make


@pytest.fixture
def integers(pool: ClPool) -> Callable[[int], ClBuffer]:
    """``integers(value)`` is a buffer of 64 integers, all the same."""

    def make(value: int) -> ClBuffer:
        buffer, event = pool.allocate(4 * COUNT)
        data = np.full(COUNT, value, np.int32)
        pool.sync_events([pool.host_to_pool(memoryview(data).cast("B"), buffer, [event])])
        return buffer

    return make


@pytest.fixture
def values(pool: ClPool) -> Callable[[ClBuffer], set[int]]:
    """``values(buffer)`` are the different integers in it."""

    def read(buffer: ClBuffer) -> set[int]:
        result = np.empty(buffer.nbytes // 4, np.int32)
        pool.pool_to_host(buffer, memoryview(result).cast("B"))
        return set(result.tolist())

    return read
