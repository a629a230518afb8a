"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from every_driver.cards import *  # noqa: F403

import zyx
from zyx.plugins.choose import choose_device
from zyx.plugins.state import BackendState
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend import Device
    from zyx.plugins.opening import OpenedBackends
    from zyx.runtime.runtime import Runtime


def test_a_device_is_chosen_by_number_and_by_a_part_of_its_name(device: Device, runtime: Runtime):
    name = device.info.model.split()[0].upper()
    for text in ("opencl", "opencl:0", f"opencl:{name}"):
        assert choose_device(text, runtime.backends).device is device
    with use(runtime):
        assert zyx.Tensor([1.0, 2.0], device=f"opencl:{name}").device == "opencl:0"


def test_platforms_and_devices_can_be_left_out_by_name(device: Device, opened: Callable[..., OpenedBackends]):
    platform = device.pool.session.device.platform
    only = opened(ZYX_OPENCL_PLATFORMS=f"no such,{platform[:8].upper()}")
    assert "opencl:0" in only.open("opencl").devices
    only.close()
    report = opened(ZYX_OPENCL_DEVICES="abacus").open("opencl")
    assert report.state is BackendState.NO_DEVICE
    assert "abacus" in report.reason
    assert platform in report.reason


def test_a_tensor_is_computed(fresh: Callable[..., Runtime]):
    with use(fresh()):
        x = zyx.Tensor([1.0, 2.0, 4.0])
        assert ((x + 1).numpy() == [2.0, 3.0, 5.0]).all()
        assert x.device == "opencl:0"
        assert (x @ x).item() == 21.0


def test_every_device_computes_and_takes_what_the_others_have(fresh: Callable[..., Runtime]):
    with use(fresh()) as runtime:
        names = [device.name for device in runtime.devices if device.name.startswith("opencl:")]
        for name in names:
            x = zyx.Tensor([1.0, 2.0, 4.0], device=name) + 1
            for other in names:
                y = x.to(other) * 2
                assert y.device == other
                assert y.numpy().tolist() == [4.0, 6.0, 10.0]
