"""The device that a name means, and the default one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import DeviceLostError, NoDeviceError, UnsupportedError
from zyx.plugins.choose import SlowDeviceWarning, choose_device
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends, open_backends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    PackageMaker = Callable[..., Path]

NO_FILE = Path("/nonexistent/config.json")
TWO = '[DummyDevice("{name}:0", pools["{name} memory"])]'


def nothing_installed(environ: dict[str, str] | None = None, **given: object) -> OpenedBackends:
    return OpenedBackends(PluginManager(load_settings(given, environ or {}, NO_FILE), []))


def all_installed(environ: dict[str, str] | None = None, **given: object) -> OpenedBackends:
    others = {found.name for found in installed()[0] if not found.value.startswith("zyx_toy_")}
    given.setdefault("backends", {name: {"enabled": False} for name in others})
    return OpenedBackends(PluginManager(load_settings(given, environ or {}, NO_FILE)))


def install(package: PackageMaker, name: str, flops: float, devices: int = 1) -> None:
    """Install a backend whose devices have that many FLOP/s."""
    made = ", ".join(f'Toy("{name}:{number}", pools["{name} memory"])' for number in range(devices))
    toy = (
        "import dataclasses\n"
        "class Toy(DummyDevice):\n"
        "    def __init__(self, name, pool):\n"
        "        super().__init__(name, pool)\n"
        f"        self._info = dataclasses.replace(self._info, flops_per_s={flops})\n"
        "@hookimpl\ndef zyx_devices"
    )
    package(name, replace={TWO.replace("{name}", name): f"[{made}]", "@hookimpl\ndef zyx_devices": toy})


def test_the_fastest_device_is_the_default_and_the_reason_can_be_printed(package: PackageMaker) -> None:
    install(package, "slow", 1e9)
    install(package, "quick", 1.25e12)
    choice = choose_device(None, all_installed())
    assert choice.device.name == "quick:0"
    assert choice.reason == "it is the fastest of 3: about 1.25 TFLOP/s"


UNLIKELY = "@hookimpl\ndef zyx_may_have_devices():\n    return False\n\n@hookimpl\ndef zyx_memory_pools"


def test_what_sees_no_device_is_not_opened_for_a_guess(package: PackageMaker) -> None:
    install(package, "likely", 1e9)
    package("costly", replace={"@hookimpl\ndef zyx_memory_pools": UNLIKELY})
    opened = all_installed()
    choice = choose_device(None, opened)
    assert choice.device.name == "likely:0"
    assert choice.reason.endswith("; not opened, since they see none: costly")
    assert {report.name: report.state for report in opened.reports}["costly"] is BackendState.INSTALLED
    assert choose_device("costly", opened).device.name == "costly:0"
    assert "not opened" not in choose_device(None, opened).reason


def test_what_sees_no_device_is_opened_where_nothing_else_compiles(package: PackageMaker) -> None:
    package("costly", replace={"@hookimpl\ndef zyx_memory_pools": UNLIKELY})
    assert choose_device(None, all_installed()).device.name == "costly:0"


def test_a_look_that_fails_is_noted_and_the_backend_opened(package: PackageMaker) -> None:
    package("toy", replace={"@hookimpl\ndef zyx_memory_pools": UNLIKELY.replace("return False", "return 1 // 0")})
    opened = all_installed()
    assert choose_device(None, opened).device.name == "toy:0"
    report = next(report for report in opened.reports if report.name == "toy")
    assert report.faults[0].startswith("zyx_may_have_devices: ZeroDivisionError")


def test_a_preferred_device_is_found_without_opening_the_others(package: PackageMaker) -> None:
    install(package, "first", 1e9)
    install(package, "other", 1e12)
    opened = all_installed({"ZYX_DEVICE_ORDER": "first"})
    assert choose_device(None, opened).device.name == "first:0"
    assert {report.name: report.state for report in opened.reports}["other"] is BackendState.INSTALLED


def test_of_equally_fast_devices_the_first_by_name_is_the_default(package: PackageMaker) -> None:
    install(package, "bbb", 1e9, devices=2)
    install(package, "aaa", 1e9)
    assert choose_device(None, all_installed()).device.name == "aaa:0"


def test_the_preferred_order_beats_speed_and_passes_over_what_is_not_there(package: PackageMaker) -> None:
    install(package, "slow", 1e9, devices=2)
    install(package, "quick", 1e12)
    choice = choose_device(None, all_installed({"ZYX_DEVICE_ORDER": "cuda,slow:7,slow:1,quick"}))
    assert choice.device.name == "slow:1"
    assert choice.reason == "slow:1 is preferred (ZYX_DEVICE_ORDER)"


def test_the_setting_for_the_default_device_beats_everything_guessed(package: PackageMaker) -> None:
    install(package, "slow", 1e9)
    install(package, "quick", 1e12)
    choice = choose_device(None, all_installed({"ZYX_DEVICE": "slow", "ZYX_DEVICE_ORDER": "quick"}))
    assert (choice.device.name, choice.reason) == ("slow:0", "asked for by ZYX_DEVICE")


def test_an_argument_beats_the_setting(package: PackageMaker) -> None:
    install(package, "quick", 1e12)
    assert choose_device("quick", all_installed({"ZYX_DEVICE": "interpreter"})).device.name == "quick:0"


@pytest.mark.parametrize("name", ["toy", "toy:0", "TOY", " toy:0 "])
def test_a_backends_name_means_its_first_device(package: PackageMaker, name: str) -> None:
    install(package, "toy", 1e9, devices=2)
    assert choose_device(name, all_installed()).device.name == "toy:0"
    assert choose_device("toy:1", all_installed()).device.name == "toy:1"


@pytest.mark.parametrize("name", ["toy:SECOND", "toy:second ca", "Toy:1"])
def test_a_part_of_a_model_means_the_first_device_that_has_it(package: PackageMaker, name: str) -> None:
    install(package, "toy", 1e9, devices=3)
    opened = all_installed()
    opened.open("toy")
    for number, model in enumerate(("first card", "second card", "second card")):
        opened.infos[f"toy:{number}"] = replace(opened.infos[f"toy:{number}"], model=model)
    assert choose_device(name, opened).device.name == "toy:1"
    with pytest.raises(NoDeviceError, match=r"backend toy has toy:0 \(first card\), toy:1 \(second card\), toy:2"):
        choose_device("toy:third", opened)


def test_asking_for_a_device_opens_no_other_backend(package: PackageMaker) -> None:
    install(package, "toy", 1e9)
    install(package, "other", 1e9)
    opened = all_installed()
    choose_device("toy", opened)
    states = {report.name: report.state for report in opened.reports}
    assert states["toy"] is BackendState.READY
    assert states["other"] is BackendState.INSTALLED


def test_cpu_is_the_fastest_device_on_host_memory_and_not_a_faster_one_elsewhere(package: PackageMaker) -> None:
    install(package, "gpu", 1e15)
    on_host = {
        '"a toy"': '"a toy", works_on_host_memory=True',
        'return [DummyPool("simd memory")]': "return []",
        'return [DummyDevice("simd:0", pools["simd memory"])]': 'return [InterpreterDevice("simd:0", pools["host"])]',
        "from zyx.hookspecs": "from zyx.builtin.interpreter import InterpreterDevice\nfrom zyx.hookspecs",
    }
    package("simd", replace=on_host)
    opened = all_installed()
    choice = choose_device("cpu", opened)
    assert choice.device.name == "simd:0"
    assert choice.reason.startswith("cpu is asked for by an argument")
    assert {report.name: report.state for report in opened.reports}["gpu"] is BackendState.INSTALLED


def test_the_interpreter_is_taken_when_there_is_nothing_else_with_one_warning_that_says_what_to_install() -> None:
    with pytest.warns(
        SlowDeviceWarning, match="very slow; pip install zyx-backend-c brings a fast CPU backend"
    ) as caught:
        choice = choose_device(None, nothing_installed())
    assert choice.device.name == "interpreter:0"
    assert len(caught) == 1
    with pytest.warns(SlowDeviceWarning):
        assert choose_device("cpu", nothing_installed()).device.name == "interpreter:0"


def test_the_interpreter_asked_for_by_name_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice = choose_device("interpreter", nothing_installed())
        assert choice.reason == "asked for by an argument"
        assert (
            choose_device(None, nothing_installed({"ZYX_DEVICE": "interpreter:0"})).reason == "asked for by ZYX_DEVICE"
        )


def test_the_dummy_is_never_guessed() -> None:
    opened = nothing_installed({"ZYX_DUMMY_ENABLED": "1", "ZYX_DUMMY_COUNT": "2"})
    with pytest.warns(SlowDeviceWarning):
        assert choose_device(None, opened).device.name == "interpreter:0"
    assert choose_device("dummy:1", opened).device.name == "dummy:1"
    assert (
        choose_device("dummy:0", opened).device.memory_pool is not choose_device("dummy:1", opened).device.memory_pool
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cuda", "no device 'cuda' (from an argument): backend cuda: not installed; pip install zyx-backend-cuda"),
        ("cdua:0", "no device 'cdua:0' (from an argument): did you mean 'cuda'? there are "),
        ("interpreter:1", "no device 'interpreter:1' (from an argument): backend interpreter has interpreter:0"),
        ("host", "no device 'host' (from an argument): backend host has no devices"),
        ("dummy", "backend dummy: switched off: it is off unless it is asked for; set ZYX_DUMMY_ENABLED=1"),
        ("", "no device '' (from an argument): there are "),
        ("c:x", "no device 'c:x' (from an argument)"),
    ],
)
def test_a_name_that_means_nothing_here_is_an_error_with_all_devices_and_backends(name: str, text: str) -> None:
    with pytest.raises(NoDeviceError) as raised:
        choose_device(name, nothing_installed())
    assert text in str(raised.value)
    assert "devices: interpreter:0\nbackends:\n" in str(raised.value)
    for backend in ("c", "cuda", "hip", "opencl", "vulkan", "wgpu"):
        assert f"not installed  pip install zyx-backend-{backend}\n" in f"{raised.value}\n"


def test_what_was_asked_for_fails_with_the_reason_that_was_kept_and_its_cause(package: PackageMaker) -> None:
    package(
        "toy",
        replace={
            'return [DummyPool("toy memory")]': "from zyx import errors; raise errors.DriverNotFoundError('no libtoy')"
        },
    )
    for environ, name in (({}, "toy"), ({"ZYX_DEVICE": "toy:0"}, None)):
        with pytest.raises(NoDeviceError, match="backend toy: no driver: no libtoy") as raised:
            choose_device(name, all_installed(environ))
        assert "no libtoy" in str(raised.value.__cause__)
    with pytest.warns(SlowDeviceWarning):
        assert choose_device(None, all_installed()).device.name == "interpreter:0"  # a guess fails quietly


def test_with_no_device_at_all_the_error_lists_every_backend_and_what_would_help() -> None:
    opened = nothing_installed(backends={"interpreter": {"enabled": False}})
    with pytest.raises(NoDeviceError) as raised:
        choose_device(None, opened)
    assert str(raised.value).startswith("there is no device that zyx can use\ndevices: none\nbackends:\n")
    assert "interpreter  switched off   backends.interpreter.enabled is false; set it to true" in str(raised.value)
    assert "pip install zyx-backend-c\n" in str(raised.value)
    with pytest.raises(NoDeviceError, match="no device 'cpu'"):
        choose_device("cpu", opened)


def test_a_lost_device_is_reported_and_not_chosen_again(package: PackageMaker) -> None:
    install(package, "toy", 1e12, devices=2)
    opened = all_installed()
    opened.lost(choose_device("toy:0", opened).device, DeviceLostError("toy:0 fell off the bus"))
    report = next(report for report in opened.reports if report.name == "toy")
    assert report.state is BackendState.LOST
    assert report.reason == "toy:0 fell off the bus"
    assert report.devices == ("toy:1",)
    assert choose_device("toy", opened).device.name == "toy:1"
    with pytest.raises(NoDeviceError, match="backend toy: lost: toy:0 fell off the bus"):
        choose_device("toy:0", opened)


EXTRAS = """
from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import UnsupportedError
from zyx.hookspecs import KernelPass

@hookimpl
def zyx_library_kernels(device):
    return [LibraryKernel("toyblas", Gemm, None)]

@hookimpl
def zyx_kernel_passes(device):
    raise RuntimeError("no moves today")

@hookimpl
def zyx_collectives_identifier(devices):
    raise UnsupportedError("toyccl is missing")

@hookimpl
def zyx_collectives(devices):
    return "nothing of the kind"
"""


def test_extras_of_a_backend_are_given_and_one_that_raises_is_noted_and_left_out(package: PackageMaker) -> None:
    package("toy", replace={"@hookimpl\ndef zyx_devices": EXTRAS + "\n@hookimpl\ndef zyx_devices"})
    opened = all_installed()
    device = choose_device("toy", opened).device
    assert opened.library_kernels(device) == (LibraryKernel("toyblas", Gemm, None),)  # type: ignore[arg-type]
    assert opened.kernel_passes(device) == ()
    assert opened.kernel_passes(device) == ()
    with pytest.raises(UnsupportedError, match="toyccl is missing"):
        opened.collectives_identifier([device], is_first=True)
    with pytest.raises(UnsupportedError, match="backend toy has no collectives"):
        opened.collectives([device], [0], 2, b"1", 1.0)
    with pytest.raises(UnsupportedError, match="backend interpreter has no collectives"):
        opened.collectives_identifier([choose_device("interpreter", opened).device], is_first=True)
    report = next(report for report in opened.reports if report.name == "toy")
    assert report.state is BackendState.READY
    assert report.notes == ()
    assert len(report.faults) == 1
    assert report.faults[0].startswith("zyx_kernel_passes: RuntimeError: no moves today")
    assert opened.library_kernels(choose_device("interpreter", opened).device) == ()


def test_backends_can_be_opened_by_name() -> None:
    manager = PluginManager(load_settings({}, {"ZYX_DUMMY_ENABLED": "1"}, NO_FILE), [])
    assert list(open_backends(manager, ["dummy"]).devices) == ["dummy:0"]
    assert open_backends(manager, ["nobody"]).open("nobody") is None
