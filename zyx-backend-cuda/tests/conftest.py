"""The device that the tests run on: a paper one, and each driver's real one where there is a GPU."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from every_driver.fixtures import Card, add  # noqa: F401

from zyx.drivers.faults import Cause
from zyx.errors import NoDeviceError
from zyx.testing.opening import open_runtime
from zyx_backend_cuda.errors import CODES

sys.path.insert(0, str(Path(__file__).parent))  # for `fake_driver`, which is no test

from fake_driver import BAD_ADDRESS, BAD_IMAGE, NO_MEMORY, FakeCompiler, FakeSession, fake_cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.memory import CudaBuffer, CudaPool

#: Elements of the arrays of these tests.
COUNT = 64


def open_or_skip(**section: object) -> Runtime:
    """Open the first GPU, with settings of this backend; skip the test if there is none, and say why."""
    try:
        return open_runtime("cuda", settings={"backends": {"cuda": section}})
    except NoDeviceError as error:
        reason = str(error).partition("\n")[0]
        if "cuda" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(",") and section.get("driver") != "pycuda":
            pytest.fail(f"ZYX_REQUIRE_DEVICES names cuda: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session", params=["pycuda", "cuda-bindings"])
def gpu(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime on the first GPU, through each of the packages."""
    opened = open_or_skip(driver=request.param)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def open_gpu() -> Callable[..., Runtime]:
    """``open_gpu(setting=...)`` opens a runtime on the first GPU, with settings of this backend."""
    return open_or_skip


@pytest.fixture
def session() -> FakeSession:
    """The paper device."""
    return FakeSession()


@pytest.fixture
def compiler() -> FakeCompiler:
    """Its compiler."""
    return FakeCompiler()


@pytest.fixture
def runtime(session: FakeSession, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A runtime on the paper device."""
    with fake_cuda(monkeypatch, [session], compiler):
        opened = open_runtime("cuda")
        yield opened
        opened.close()


@pytest.fixture
def device(runtime: Runtime) -> CudaDevice:
    return runtime.device()  # type: ignore[return-value]  # devices of this backend are of this class


@pytest.fixture
def pool(device: CudaDevice) -> CudaPool:
    return device.pool


@pytest.fixture(scope="session")
def integers() -> Callable[[CudaPool, int], CudaBuffer]:
    """``integers(pool, value)`` is a buffer of 64 integers, all the same."""

    def make(pool: CudaPool, value: int) -> CudaBuffer:
        buffer, event = pool.allocate(4 * COUNT)
        data = np.full(COUNT, value, np.int32)
        pool.sync_events([pool.host_to_pool(memoryview(data).cast("B"), buffer, [event])])
        return buffer

    return make


@pytest.fixture(scope="session")
def values() -> Callable[[CudaBuffer], set[int]]:
    """``values(buffer)`` are the different integers in it."""

    def read(buffer: CudaBuffer) -> set[int]:
        result = np.empty(buffer.nbytes // 4, np.int32)
        buffer.pool.pool_to_host(buffer, memoryview(result).cast("B"))
        return set(result.tolist())

    return read


@pytest.fixture
def refusing(session: FakeSession) -> Callable[[str, Cause], AbstractContextManager[str]]:
    codes = {Cause.LOST: BAD_ADDRESS, Cause.MEMORY: NO_MEMORY, Cause.REFUSED: BAD_IMAGE}

    @contextmanager
    def refuse(call: str, cause: Cause) -> Iterator[str]:
        session.refusals[call] = [codes[cause]]
        yield CODES.name(codes[cause])

    return refuse


@pytest.fixture
def scarce(session: FakeSession, pool: CudaPool) -> tuple[CudaPool, Callable[[int], None]]:
    return pool, lambda count: session.refusals.update(allocate=[NO_MEMORY] * count)


@pytest.fixture(scope="session")
def card() -> Card:
    return Card("cuda", "cuda", "pip install cuda-bindings")
