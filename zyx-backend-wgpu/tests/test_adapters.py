"""Several adapters, of which some do not start: the real one listed again and again, by a driver that fails as told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from every_driver.devices import *  # noqa: F403
from every_driver.memory import (  # noqa: F401
    test_a_plan_that_runs_out_of_memory_names_the_device_and_gives_back_what_it_took,
)

from zyx.drivers.faults import Cause, Fault
from zyx.errors import InitializationError
from zyx.plugins.state import BackendState

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.plugins.opening import OpenedBackends
    from zyx.runtime.runtime import Runtime


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``starting(True, False)`` makes the driver list as many adapters, of which those that are False refuse."""
    from zyx_backend_wgpu import driver

    def make(*starts: bool) -> None:
        listed = [driver.list_adapters()[0] for _ in starts]
        refusing = {id(adapter) for adapter, does_start in zip(listed, starts, strict=True) if not does_start}
        good = driver.Session

        def session(adapter: driver.ListedAdapter, *args: object) -> driver.Session:
            if id(adapter) in refusing:
                raise InitializationError(f"{adapter} does not start: half-way through")
            return good(adapter, *args)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(driver, "list_adapters", lambda **_: listed)
        monkeypatch.setattr(driver, "Session", session)

    return make


@pytest.mark.parametrize(("told", "taken"), [(0, 32), (16, 16), (64, 64)])
def test_threads_in_step_are_as_many_as_the_driver_tells_or_else_32(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, told: int, taken: int
):
    fresh()  # skips where there is no device
    from zyx_backend_wgpu import driver

    ask = driver.libf.wgpuAdapterGetInfo

    def tell(adapter: object, info: Any) -> object:
        status = ask(adapter, info)
        info.subgroupMinSize = told
        return status

    monkeypatch.setattr(driver.libf, "wgpuAdapterGetInfo", tell)
    assert fresh().device().info.warp_size == taken


def test_a_driver_that_does_not_run_the_first_kernel_is_an_initialization_error(
    backends: OpenedBackends, monkeypatch: pytest.MonkeyPatch
):
    from zyx_backend_wgpu import driver

    def refuse(*_: object) -> None:
        raise Fault(Cause.REFUSED, "no shaders today")

    monkeypatch.setattr(driver.Session, "build", refuse)
    report = backends.open("wgpu")
    assert report is not None
    assert report.state is BackendState.DRIVER_REFUSED
    assert "does not work: no shaders today" in report.reason
