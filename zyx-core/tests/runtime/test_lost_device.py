"""A device stops answering in the middle of work: it is taken out of use, and the others go on."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import zyx
from zyx.errors import DeviceLostError, NoDeviceError
from zyx.plugins.state import BackendState


def values(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def assert_lost(lab, name, other):
    report = next(report for report in lab.backends.reports if report.name == "lab")
    assert report.state is BackendState.LOST
    assert name in report.reason
    assert report.devices == (other,)
    assert name not in zyx.devices()
    with pytest.raises(NoDeviceError, match=f"no device '{name}'.*backend lab: lost: .*on {name}"):
        zyx.ones(3, device=name)
    x = zyx.Tensor(values(4), device=other)
    np.testing.assert_allclose((x + 1.0).numpy(), values(4) + 1, 1e-6)


def refused(device):
    device.error, device.fails_in_launch = DeviceLostError, ""
    return "refused"


def failing(device):
    device.error, device.fails_while_running = DeviceLostError, ""
    return "failed while running"


@pytest.mark.parametrize("fail", [refused, failing])
@pytest.mark.parametrize("name", ["lab:0", "lab:1"])
def test_it_is_known_from_the_first_call_that_fails(lab, fail, name):
    words = fail(lab.device(name))
    x = zyx.Tensor(values(8), device=name)
    with pytest.raises(DeviceLostError, match=f"on {name}: {words}"):
        (x * 2.0).numpy()
    assert_lost(lab, name, "lab:1" if name == "lab:0" else "lab:0")


def test_it_is_known_from_synchronize(lab):
    failing(lab.device("lab:1"))
    y = (zyx.Tensor(values(8), device="lab:1") * 2.0).realize()
    with pytest.raises(DeviceLostError, match="on lab:1: failed while running"):
        zyx.synchronize()
    assert_lost(lab, "lab:1", "lab:0")
    with pytest.raises(DeviceLostError):
        y.numpy()


def test_it_is_known_from_a_traced_function(lab):
    step = zyx.jit(lambda x: (x * 2.0).sum())
    x = zyx.Tensor(values(8), device="lab:1")
    np.testing.assert_allclose(step(x).item(), 2 * values(8).sum(), 1e-5)
    refused(lab.device("lab:1"))
    with pytest.raises(DeviceLostError, match="on lab:1: refused"):
        step(x)
    assert_lost(lab, "lab:1", "lab:0")


@pytest.mark.parametrize("name", ["lab:0", "lab:1"])
def test_of_two_in_one_plan_it_is_the_one_that_the_error_names(lab, name):
    refused(lab.device(name))
    x = zyx.Tensor(values(8), device="lab:0")
    with pytest.raises(DeviceLostError, match=f"on {name}: refused"):
        ((x * 2.0).contiguous().to("lab:1") + 1.0).realize()
    assert_lost(lab, name, "lab:1" if name == "lab:0" else "lab:0")


class Confusing(DeviceLostError):
    """An error whose text has more names than that of the device."""

    def __init__(self, text, place=""):
        super().__init__(f"on lab:0, not on lab:1: {text}", place)


@pytest.mark.parametrize("fail", [refused, failing])
@pytest.mark.parametrize("name", ["lab:0", "lab:1"])
def test_names_in_the_text_do_not_matter(lab, fail, name):
    fail(lab.device(name))
    lab.device(name).error = Confusing
    x = zyx.Tensor(values(8), device=name)
    with pytest.raises(DeviceLostError) as lost:
        (x * 2.0).numpy()
    assert lost.value.place == name
    assert_lost(lab, name, "lab:1" if name == "lab:0" else "lab:0")


class Telling(Confusing):
    """An error of a backend that says which device it is."""

    def __init__(self, text):
        super().__init__(text, "lab:0")


@pytest.mark.parametrize("has_direct_path", [False, True])
def test_of_two_that_a_copy_concerns_it_is_the_one_that_failed(lab, has_direct_path):
    failing(lab.device("lab:0"))
    # Of a copy that waits for work of another device, only the backend knows on which of them it failed.
    lab.device("lab:0").error = Telling if has_direct_path else Confusing
    lab.device("lab:1").memory_pool.has_direct_path = has_direct_path
    x = zyx.Tensor(values(8), device="lab:0")
    with pytest.raises(DeviceLostError):
        ((x * 2.0).contiguous().to("lab:1") + 1.0).numpy()
    assert_lost(lab, "lab:0", "lab:1")


@pytest.mark.parametrize("name", ["lab:0", "lab:1"])
def test_of_two_that_a_copy_concerns_it_is_the_one_that_does_not_answer(lab, monkeypatch, name):
    def fail(*args):
        raise Confusing("lost")

    source, target = (lab.device(device).memory_pool for device in ("lab:0", "lab:1"))
    x = (zyx.Tensor(values(8), device="lab:0") * 2.0).realize()
    zyx.synchronize()
    monkeypatch.setattr(target, "pool_to_pool", fail)
    monkeypatch.setattr(source if name == "lab:0" else target, "synchronize", fail)
    with pytest.raises(DeviceLostError) as lost:
        (x.to("lab:1") + 1.0).realize()
    assert lost.value.place == name
    assert_lost(lab, name, "lab:1" if name == "lab:0" else "lab:0")


def test_it_is_known_from_an_upload(lab, monkeypatch):
    def fail(*args):
        raise Confusing("no answer")

    monkeypatch.setattr(lab.device("lab:1").memory_pool, "host_to_pool", fail)
    with pytest.raises(DeviceLostError, match="no answer"):
        zyx.Tensor(values(8), device="lab:1")
    assert_lost(lab, "lab:1", "lab:0")


def test_it_is_known_from_an_allocation(lab, monkeypatch):
    def fail(nbytes):
        raise Confusing("no answer")

    x = zyx.Tensor(values(8), device="lab:1").realize()
    monkeypatch.setattr(lab.device("lab:1").memory_pool, "allocate", fail)
    with pytest.raises(DeviceLostError, match="no answer"):
        (x * 2.0).realize()
    assert_lost(lab, "lab:1", "lab:0")


def test_the_default_is_chosen_anew(lab, monkeypatch):
    settings = lab.settings
    devices = msgspec.structs.replace(settings.devices, default=None, order=["lab:0", "lab:1"])
    monkeypatch.setattr(lab.backends.manager, "settings", msgspec.structs.replace(settings, devices=devices))
    lab._default = None
    assert zyx.default_device() == "lab:0"
    refused(lab.device("lab:0"))
    with pytest.raises(DeviceLostError):
        (zyx.Tensor(values(8)) + 1.0).realize()
    assert zyx.default_device() == "lab:1"
    np.testing.assert_allclose((zyx.Tensor(values(8)) + 1.0).numpy(), values(8) + 1, 1e-6)


def test_synchronize_waits_for_the_rest_raises_once_and_then_no_more(lab):
    failing(lab.device("lab:0"))
    lost = (zyx.Tensor(values(8), device="lab:0") * 2.0).realize()
    sound = (zyx.Tensor(values(8), device="lab:1") * 2.0).realize()
    with pytest.raises(DeviceLostError, match="on lab:0: failed while running"):
        zyx.synchronize()
    assert not lab.device("lab:1").memory_pool.in_flight
    zyx.synchronize()
    np.testing.assert_allclose((sound + 1.0).numpy(), 2 * values(8) + 1, 1e-6)
    zyx.synchronize()
    with pytest.raises(DeviceLostError):
        lost.numpy()


def test_synchronize_tells_of_every_device_that_is_lost(lab):
    for name in ("lab:0", "lab:1"):
        failing(lab.device(name))
        (zyx.Tensor(values(8), device=name) * 2.0).realize()
    with pytest.raises(DeviceLostError, match="on lab:0: failed while running") as caught:
        zyx.synchronize()
    assert "on lab:1: failed while running" in "".join(caught.value.__notes__)
    zyx.synchronize()
