"""What the tests of the kit share: the device, its pool, a runtime bound to it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from zyx.errors import NoDeviceError
from zyx.specialise.table import Table
from zyx.testing.graph_runs import GraphRunner
from zyx.testing.opening import open_runtime
from zyx_pytest import EXAMPLES, is_required, is_thorough

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping

    from zyx.backend import Device, MemoryPool
    from zyx.runtime.runtime import Runtime


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over modules and tests, which stay to the end: many tests call it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def runtime(device_name: str, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime whose default device is the one to test; closed at the end, with nothing left in use."""
    opened = _open(device_name, request.config)
    yield opened
    opened.close()


@pytest.fixture
def open_again(device_name: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Runtime]]:
    """A function that opens the device another time, with settings, for tests that close it or need several."""
    opened: list[Runtime] = []

    def open_one(settings: Mapping[str, Any] | None = None) -> Runtime:
        opened.append(_open(device_name, request.config, settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def _open(name: str, config: pytest.Config, settings: Mapping[str, Any] | None = None) -> Runtime:
    try:
        return open_runtime(name, config.getoption("--zyx-plugin"), settings)
    except NoDeviceError as error:
        if is_required(name):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names {name}: {error}", pytrace=False)
        pytest.skip(f"no device {name}: {str(error).splitlines()[0]}")


@pytest.fixture(scope="session")
def device(runtime: Runtime) -> Device:
    """The device to test."""
    return runtime.device(runtime.default_device)


@pytest.fixture(scope="session")
def pool(device: Device) -> MemoryPool:
    """Its pool."""
    return device.memory_pool


@pytest.fixture
def runner(runtime: Runtime, device: Device) -> GraphRunner:
    """What runs graphs on the device, and compares them with the oracle; it knows no lengths of other tests."""
    runtime.outlines = Table()
    return GraphRunner(runtime, device.name)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of everything random."""
    number: int = request.config.getoption("--zyx-seed")
    return number


@pytest.fixture(scope="session")
def examples(request: pytest.FixtureRequest) -> Counter[str]:
    """Counts of random examples, for the summary."""
    return request.config.stash[EXAMPLES]


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """A function that picks a number: of the quick run, or of the thorough one."""
    thorough = is_thorough(request.config)
    return lambda quick, much: much if thorough else quick


@pytest.fixture(scope="session")
def profile(request: pytest.FixtureRequest, effort: Callable[[int, int], int]) -> settings:
    """Settings of hypothesis: the same examples for the same seed."""
    return settings(
        max_examples=effort(15, 200),
        stateful_step_count=effort(30, 60),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture
def shares_lengths(device: Device) -> bool:
    """Whether lengths share kernels there: where these may be given less than all of an array."""
    return device.takes_fronts
