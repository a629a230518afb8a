"""The device that the tests run on, and kernels to run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import NoDeviceError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_wgpu.device import WgpuDevice
    from zyx_backend_wgpu.memory import WgpuBuffer, WgpuPool

#: Elements of the arrays of these tests.
COUNT = 64


def open_or_skip(**section: object) -> Runtime:
    """Open the first device, with settings of this backend; skip the test if there is none, and say why."""
    try:
        return open_runtime("wgpu", settings={"backends": {"wgpu": section}})
    except NoDeviceError as error:
        reason = str(error).partition("\n")[0]
        if "wgpu" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names wgpu: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def open_device() -> Callable[..., Runtime]:
    """A function that opens the first device, with settings of this backend."""
    return open_or_skip


@pytest.fixture(scope="session")
def runtime() -> Iterator[Runtime]:
    """A runtime on the first device."""
    opened = open_or_skip()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def least() -> Iterator[Runtime]:
    """A runtime in use, on the first device without what WebGPU leaves optional."""
    opened = open_or_skip(extensions=False)
    with use(opened):
        yield opened
    opened.close()


@pytest.fixture(scope="session")
def device(runtime: Runtime) -> WgpuDevice:
    return runtime.device()  # type: ignore[return-value]  # devices of this backend are of this class


@pytest.fixture(scope="session")
def pool(device: WgpuDevice) -> WgpuPool:
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
def integers(pool: WgpuPool) -> Callable[[int], WgpuBuffer]:
    """``integers(value)`` is a buffer of 64 integers, all the same."""

    def make(value: int) -> WgpuBuffer:
        buffer, event = pool.allocate(4 * COUNT)
        data = np.full(COUNT, value, np.int32)
        pool.sync_events([pool.host_to_pool(memoryview(data).cast("B"), buffer, [event])])
        return buffer

    return make


@pytest.fixture
def values(pool: WgpuPool) -> Callable[[WgpuBuffer], set[int]]:
    """``values(buffer)`` are the different integers in it."""

    def read(buffer: WgpuBuffer) -> set[int]:
        result = np.empty(buffer.nbytes // 4, np.int32)
        pool.pool_to_host(buffer, memoryview(result).cast("B"))
        return set(result.tolist())

    return read
