"""Drivers that are not there, refuse half of what they are asked, or give up: a stand-in for pyopencl, no device."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyopencl
import pytest
from every_driver.refusals import *  # noqa: F403
from refused import Refused

from zyx.drivers.faults import Cause
from zyx.errors import AllocationError, DeviceLostError, LaunchError
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings
from zyx_backend_opencl import driver, start
from zyx_backend_opencl.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from zyx.kernel.data import Kernel
    from zyx_backend_opencl.device import ClDevice
    from zyx_backend_opencl.memory import ClBuffer, ClPool

NO_PLATFORM, NO_DEVICE, NO_MEMORY, OUT_OF_RESOURCES, LOST = -1001, -1, -4, -5, -36


class FakeDevice:
    """A device of a platform that exists on paper."""

    type = pyopencl.device_type.GPU
    extensions = "cl_khr_fp64 cl_khr_int64_base_atomics cl_khr_int64_extended_atomics"
    profile = "FULL_PROFILE"
    version = "OpenCL 3.0 paper"
    driver_version = "1.0"
    max_work_item_sizes = (64, 64, 64)
    max_work_group_size = 64
    max_compute_units = 4
    max_clock_frequency = 1000
    global_mem_size = 1 << 30
    max_mem_alloc_size = 1 << 28
    local_mem_type = pyopencl.device_local_mem_type.LOCAL
    local_mem_size = 1 << 15
    single_fp_config = double_fp_config = 63
    queue_properties = pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    max_parameter_size = 1024
    address_bits = 64
    int_ptr = 0

    def __init__(self, name: str, **changes: object) -> None:
        self.name = name
        vars(self).update(changes)


class FakePlatform:
    """A platform with the devices given, or an error in their place."""

    int_ptr = 0

    def __init__(self, name: str, devices: Sequence[FakeDevice] | int, version: str = "OpenCL 3.0 paper") -> None:
        self.name = name
        self.version = version
        self._devices = devices
        for device in [] if isinstance(devices, int) else devices:
            device.platform = self  # type: ignore[attr-defined]

    def get_devices(self) -> Sequence[FakeDevice]:
        if isinstance(self._devices, int):
            raise Refused(self._devices)
        return self._devices


class FakeCl:
    """pyopencl, with platforms of our own and objects that can be refused.

    Attributes:
        alive: The contexts and queues that are open.
        refused: Names of devices, by what they refuse: ``Context`` or ``CommandQueue``.
    """

    def __init__(
        self, platforms: Sequence[FakePlatform] | int, refused: dict[str, Sequence[str]] | None = None
    ) -> None:
        self._platforms = platforms
        self.refused = refused or {}
        self.alive: weakref.WeakSet[object] = weakref.WeakSet()

    def __getattr__(self, name: str) -> object:
        return getattr(pyopencl, name)

    def get_platforms(self) -> Sequence[FakePlatform]:
        if isinstance(self._platforms, int):
            raise Refused(self._platforms)
        return self._platforms

    def Context(self, devices: Sequence[FakeDevice]) -> object:  # as pyopencl calls it
        return self._open("Context", devices[0])

    def CommandQueue(self, context: object, device: FakeDevice, properties: int = 0) -> object:
        del context, properties
        return self._open("CommandQueue", device)

    def _open(self, what: str, device: FakeDevice) -> object:
        if device.name in self.refused.get(what, ()):
            raise Refused(OUT_OF_RESOURCES)

        class Opened:
            def finish(self) -> None:
                pass

        opened = Opened()
        self.alive.add(opened)
        return opened


def open_with(monkeypatch: pytest.MonkeyPatch, fake: FakeCl) -> OpenedBackends:
    monkeypatch.setattr(driver, "cl", fake)
    own = [entry for entry in installed()[0] if entry.name == "opencl"]
    backends = OpenedBackends(PluginManager(load_settings(), own))
    backends.open("opencl")
    return backends


def report_of(backends: OpenedBackends) -> Any:
    gc.collect()
    return next(report for report in backends.reports if report.name == "opencl")


@pytest.mark.parametrize("platforms", [NO_PLATFORM, ()])
def test_without_a_platform_the_state_is_no_driver_and_the_reason_says_what_brings_one(
    monkeypatch: pytest.MonkeyPatch, platforms: Any
):
    report = report_of(open_with(monkeypatch, FakeCl(platforms)))
    assert report.state is BackendState.NO_DRIVER
    assert "no OpenCL driver is installed" in report.reason
    assert "pocl-opencl-icd" in report.reason or "OCL_ICD_VENDORS" in report.reason


def test_a_driver_that_the_loader_was_not_told_of_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libintelocl.so").touch()
    monkeypatch.setattr(driver.sys, "prefix", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(driver.ctypes, "CDLL", lambda path: None)
        report = report_of(open_with(monkeypatch, FakeCl(NO_PLATFORM)))
    assert "set the variable OCL_ICD_VENDORS to that path" in report.reason
    assert str(tmp_path / "lib" / "libintelocl.so") in report.reason


def test_of_a_driver_that_does_not_load_it_is_said_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libintelocl.so").touch()
    monkeypatch.setattr(driver.sys, "prefix", str(tmp_path))
    report = report_of(open_with(monkeypatch, FakeCl(NO_PLATFORM)))
    assert f"{tmp_path / 'lib' / 'libintelocl.so'} does not load: " in report.reason
    assert "file too short" in report.reason
    assert "pip install intel-cmplr-lib-rt" in report.reason


def test_a_loader_that_fails_is_a_driver_that_refused(monkeypatch: pytest.MonkeyPatch):
    report = report_of(open_with(monkeypatch, FakeCl(-6)))
    assert report.state is BackendState.DRIVER_REFUSED
    assert "CL_OUT_OF_HOST_MEMORY (-6)" in report.reason


@pytest.mark.parametrize("devices", [NO_DEVICE, ()])
def test_platforms_without_devices_are_no_device(monkeypatch: pytest.MonkeyPatch, devices: Any):
    report = report_of(open_with(monkeypatch, FakeCl([FakePlatform("Empty", devices)])))
    assert report.state is BackendState.NO_DEVICE
    assert "platforms" in report.reason


def test_a_platform_that_fails_to_list_leaves_the_others_usable(monkeypatch: pytest.MonkeyPatch):
    fake = FakeCl([FakePlatform("Broken", -6), FakePlatform("Sound", [FakeDevice("card")])])
    backends = open_with(monkeypatch, fake)
    report = report_of(backends)
    assert report.state is BackendState.READY
    assert backends.devices["opencl:0"].info.model == "card (Sound)"
    assert report.notes == ("left out: platform Broken lists no devices: CL_OUT_OF_HOST_MEMORY (-6)",)
    backends.close()


@pytest.mark.parametrize("what", ["Context", "CommandQueue"])
def test_a_device_that_does_not_start_is_left_out_and_noted(monkeypatch: pytest.MonkeyPatch, what: str):
    names = ("first", "second", "third")
    fake = FakeCl([FakePlatform("Paper", [FakeDevice(name) for name in names])], {what: ["second"]})
    backends = open_with(monkeypatch, fake)
    report = report_of(backends)
    assert report.state is BackendState.READY
    assert [backends.devices[name].info.model for name in report.devices] == ["first (Paper)", "third (Paper)"]
    assert report.devices == ("opencl:0", "opencl:1")
    assert report.notes == ("left out: second of Paper does not start: CL_OUT_OF_RESOURCES (-5)",)
    assert len(fake.alive) == 4  # a context and a queue each; nothing of the second
    del report
    backends.close()
    del backends
    gc.collect()
    assert not fake.alive


@pytest.mark.parametrize(
    ("device", "platform", "has"),
    [
        ("OpenCL 1.1 old", "OpenCL 1.2", "1.1"),
        ("OpenCL 1.2", "OpenCL 1.1 old", "1.1"),
        ("nonsense", "OpenCL 3.0", "0.0"),
    ],
)
def test_a_device_that_is_too_old_is_left_out_with_its_version_and_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, device: str, platform: str, has: str
):
    old = FakePlatform("Museum", [FakeDevice("relic", version=device)], platform)
    new = FakePlatform("Paper", [FakeDevice("card", version="OpenCL 1.2 paper")], "OpenCL 1.2 paper")
    reason = f"relic of Museum has OpenCL {has}, and at least 1.2 is needed: update its driver"
    fake = FakeCl([old, new])
    backends = open_with(monkeypatch, fake)
    report = report_of(backends)
    assert report.state is BackendState.READY
    assert [backends.devices[name].info.model for name in report.devices] == ["card (Paper)"]
    assert report.notes == (f"left out: {reason}",)
    assert len(fake.alive) == 2  # a context and a queue; nothing of the old one was opened
    backends.close()
    alone = report_of(open_with(monkeypatch, FakeCl([old])))
    assert alone.state is BackendState.DRIVER_REFUSED
    assert reason in alone.reason


def test_if_every_device_refuses_the_reasons_are_told_and_nothing_stays_open(monkeypatch: pytest.MonkeyPatch):
    devices = [FakeDevice("first"), FakeDevice("second")]
    fake = FakeCl([FakePlatform("Paper", devices)], {"Context": ["first"], "CommandQueue": ["second"]})
    report = report_of(open_with(monkeypatch, fake))
    assert report.state is BackendState.DRIVER_REFUSED
    for name in ("first", "second"):
        assert f"{name} of Paper does not start: CL_OUT_OF_RESOURCES (-5)" in report.reason
    report.error.__traceback__ = None
    gc.collect()
    assert not fake.alive


def test_command_buffers_that_are_claimed_and_not_there_are_noted_and_not_used(monkeypatch: pytest.MonkeyPatch):
    def broken(self: driver.Session) -> None:
        raise driver.RecordingError("card has cl_khr_command_buffer, but not its function clCreateCommandBufferKHR")

    monkeypatch.setattr(driver.Session, "command_buffers", broken)
    backends = open_with(monkeypatch, FakeCl([FakePlatform("Paper", [FakeDevice("card")])]))
    report = report_of(backends)
    assert report.state is BackendState.READY
    assert report.notes == (
        "opencl:0 does without command buffers: card has cl_khr_command_buffer, but not its function "
        "clCreateCommandBufferKHR",
    )
    backends.close()


def test_what_a_device_tells_becomes_its_info(monkeypatch: pytest.MonkeyPatch):
    small = FakeDevice(
        "small", extensions="", profile="EMBEDDED_PROFILE", single_fp_config=0, max_parameter_size=64, address_bits=32,
        local_mem_type=0,
    )  # fmt: skip
    large = FakeDevice("large", extensions=FakeDevice.extensions + " cl_khr_fp16", warp_size_nv=32)
    monkeypatch.setattr(start, "swap_in_order", lambda *given: True)  # paper computes nothing
    backends = open_with(monkeypatch, FakeCl([FakePlatform("Paper", [small, large])]))
    poor, rich = (backends.devices[f"opencl:{number}"].info for number in range(2))
    names = {dtype.short for dtype in poor.capabilities}
    assert names.isdisjoint({"f64", "i64", "u64"})
    assert {"f32", "i32", "f16", "bool"} <= names
    assert (poor.max_params, poor.local_bytes, poor.has_fma, poor.warp_size) == (16, 0, False, 1)
    assert (rich.max_params, rich.local_bytes, rich.has_fma, rich.warp_size) == (128, (1 << 15) - 64, True, 32)
    computes = {dtype.short for dtype, capability in rich.capabilities.items() if capability.computes}
    assert {"f16", "f64", "i64"} <= computes
    assert "bf16" not in computes
    orders = [backends.devices[f"opencl:{number}"].pool.session.is_out_of_order for number in range(2)]
    assert orders == [True, False]  # NVIDIA's queues keep an order, whatever the driver says
    assert rich.max_group_shape == (64, 64, 64)
    assert rich.max_buffer_bytes == 1 << 28
    assert (poor.subgroup_size, rich.subgroup_size, len(poor.swaps), len(rich.swaps)) == (0, 32, 0, 6)
    backends.close()


@pytest.mark.parametrize(("platform", "takes_threads"), [("Paper", True), ("Oclgrind", False)])
def test_a_driver_that_crashes_where_threads_call_it_at_once_is_called_by_one(
    monkeypatch: pytest.MonkeyPatch, platform: str, takes_threads: bool
):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    backends = open_with(monkeypatch, FakeCl([FakePlatform(platform, [FakeDevice("card")])]))
    device = backends.devices["opencl:0"]
    assert device.memory_pool.waits_apart is takes_threads
    assert device.compiles_at_once == (3 if takes_threads else 1)
    backends.close()


@pytest.fixture
def refusing(pool: ClPool, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Cause], AbstractContextManager[str]]:
    codes = {Cause.LOST: LOST, Cause.MEMORY: NO_MEMORY, Cause.REFUSED: OUT_OF_RESOURCES}
    names = {"launch": "launch", "upload": "write", "download": "read"}

    @contextmanager
    def refuse_one(call: str, cause: Cause) -> Iterator[str]:
        with monkeypatch.context() as patch:
            patch.setitem(vars(pool.session), names[call], refuse(codes[cause]))
            yield CODES.name(codes[cause])

    return refuse_one


@pytest.fixture
def scarce(pool: ClPool, monkeypatch: pytest.MonkeyPatch) -> tuple[ClPool, Callable[[int], None]]:
    pool.trim()
    allocate, left = pool.session.allocate, [0]

    def call(nbytes: int) -> object:
        left[0] -= 1
        if left[0] >= 0:
            raise Refused(NO_MEMORY)
        return allocate(nbytes)

    monkeypatch.setitem(vars(pool.session), "allocate", call)
    return pool, lambda count: left.__setitem__(0, count)


def refuse(code: int) -> Callable[..., object]:
    def call(*args: object) -> object:
        raise Refused(code)

    return call


@pytest.mark.parametrize(
    ("code", "queued", "allocated"),
    [
        (LOST, DeviceLostError, DeviceLostError),
        (-4, AllocationError, AllocationError),
        (OUT_OF_RESOURCES, LaunchError, AllocationError),
    ],
)
def test_a_driver_that_does_not_tell_the_state_of_work_fails_that_work_and_keeps_its_memory_from_others(
    device: ClDevice, pool: ClPool, add: Callable[..., Kernel], integers: Callable[[int], ClBuffer],
    values: Callable[[ClBuffer], set[int]], monkeypatch: pytest.MonkeyPatch, code: int,
    queued: type[Exception], allocated: type[Exception],
):  # fmt: skip
    pool.synchronize()
    program = device.compile(add(1, "untold"))
    other, dead = integers(5), integers(7)
    free = pool.free_bytes
    event = device.launch(program, [dead])
    pool.deallocate(dead, [event.again()])  # type: ignore[list-item]  # there is another
    with monkeypatch.context() as patch:
        patch.setitem(vars(pool.session), "status", refuse(code))
        with pytest.raises(queued, match=rf"kernel untold on opencl:0 did not run.*kernel untold.*\({code}\)"):
            device.launch(program, [other], [event])
        with pytest.raises(allocated, match=rf"looking at work on memory of {pool.name}.*\({code}\)"):
            pool.allocate(4 * 64)
    assert pool.free_bytes == free + dead.capacity
    pool.synchronize()
    assert values(other) == {5}
    pool.sync_events([device.launch(program, [other])])
    assert values(other) == {6}
    pool.deallocate(other)


def test_a_driver_that_cannot_wait_for_memory_that_was_given_back_has_none(
    pool: ClPool, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setitem(vars(pool.session), "allocate", refuse(-4))
        patch.setitem(vars(pool.session), "finish", refuse(OUT_OF_RESOURCES))
        with pytest.raises(AllocationError, match=rf"waiting for memory of {pool.name}.*\({OUT_OF_RESOURCES}\)"):
            pool.allocate(12345)
    buffer, _ = pool.allocate(12345)
    pool.deallocate(buffer)
