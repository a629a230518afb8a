"""Which device tensors are made on where none is named."""

from __future__ import annotations

import contextvars
import pickle
import re
import threading

import pytest

import zyx
from zyx.errors import NoDeviceError
from zyx.runtime.runtime import Runtime, use


def test_a_block_sets_the_device_for_everything_that_names_none(lab):
    assert lab.default_device == lab.device_name(None) == lab.device(None).name == zyx.default_device() == "lab:0"
    with zyx.device("lab:1") as name:
        assert name == lab.default_device == lab.device_name(None) == lab.device().name == "lab:1"
        assert zyx.ones(2).device == zyx.Tensor([1.0]).device == zyx.rand(2).device == "lab:1"
    assert lab.device(None).name == zyx.ones(2).device == "lab:0"


def test_blocks_nest_and_none_stands_for_the_innermost(lab):
    with zyx.device("lab:1"):
        with zyx.device(None) as name:
            assert name == "lab:1"
        with zyx.device("interpreter"), zyx.device(None) as name:
            assert name == lab.device(None).name == "interpreter:0"
        assert lab.device(None).name == "lab:1"
    with zyx.device(None) as name:
        assert name == "lab:0"


def test_names_numbers_and_devices_stand_for_the_same(lab):
    second = lab.device("lab:1")
    number = zyx.devices().index("lab:1")
    for which in ("lab:1", "LAB:1", number, second, ["lab:1"], ("lab:1", second), "lab:1|lab:1"):
        with zyx.device(which) as name:
            assert name == zyx.default_device() == zyx.ones(2).device == "lab:1"
        assert zyx.ones(2).to(which).device == "lab:1"
    with zyx.device() as name:
        assert name == "lab:0"


@pytest.mark.parametrize("order", [("lab:0", "lab:1"), ("lab:1", "lab:0"), ("lab:1|lab", "lab:1")])
def test_several_are_a_group_in_whatever_order(lab, order):
    with zyx.device(*order) as name:
        assert name == zyx.default_device() == zyx.ones(2).device == "lab:0|lab:1"
        with zyx.device(None, "interpreter") as larger:
            assert larger == "interpreter:0|lab:0|lab:1"
    assert zyx.ones(2, device=name).device == zyx.ones(2, device="lab:1|lab:0").device == name
    assert zyx.ones(2).to(order).device == name


def test_what_is_not_there_lists_what_is(lab):
    listed = ", ".join(f"{number}: {name}" for number, name in enumerate(zyx.devices()))
    assert "0: " in listed
    for which in (len(zyx.devices()), -1):
        with pytest.raises(NoDeviceError, match=f"no device number {which}: there are {listed}"):
            zyx.device(which).__enter__()
    with pytest.raises(NoDeviceError, match=f"group of no devices is asked for; there are {listed}"):
        zyx.device([]).__enter__()
    for which in ("nowhere", ["lab:1", "nowhere"], "lab:1|nowhere"):
        with pytest.raises(NoDeviceError, match=r"no device 'nowhere'[^\n]*\ndevices: .*lab:0, lab:1"):
            zyx.device(which).__enter__()
    other = Runtime({"devices": {"default": "interpreter"}})
    with pytest.raises(NoDeviceError, match="device interpreter:0 is closed, or of another runtime"):
        lab.device_name(other.device())
    other.close()


def test_the_default_is_explained(lab):
    assert zyx.explain_device() == "lab:0, since asked for by code"
    with zyx.device("lab:1"):
        assert zyx.explain_device() == "lab:1, since it is asked for by a with block"
    with use(Runtime()) as fresh, pytest.MonkeyPatch.context() as patch:
        patch.delenv("ZYX_DEVICE", raising=False)
        name, _, reason = zyx.explain_device().partition(", since ")
        assert name == zyx.default_device() == zyx.devices()[0]
        if name.startswith("interpreter"):
            assert reason.startswith("there is nothing else"), reason
        else:  # of those that were opened for it
            found = re.match(r"it is the fastest of (\d+): about ", reason)
            assert found is not None, reason
            assert 1 <= int(found[1]) <= len(zyx.devices())
        fresh.close()


def test_a_block_ends_with_an_error_too(lab):
    with pytest.raises(KeyError), zyx.device("lab:1"):
        raise KeyError
    assert zyx.default_device() == "lab:0"


def test_a_device_that_is_not_there_changes_nothing(lab):
    with pytest.raises(NoDeviceError, match=r"no device 'lab:7'.*backend lab has lab:0.*, lab:1"):
        zyx.device("lab:7").__enter__()
    assert zyx.default_device() == "lab:0"


def test_a_block_is_of_one_thread(lab):
    inside, done, found = threading.Event(), threading.Event(), []

    def other() -> None:
        with zyx.device("lab:1"):
            inside.set()
            done.wait(30)
            found.append(zyx.ones(1).device)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(other,))
    thread.start()
    inside.wait(30)
    assert zyx.ones(1).device == "lab:0"
    with zyx.device("interpreter"):
        done.set()
        thread.join()
        assert zyx.ones(1).device == "interpreter:0"
    assert found == ["lab:1"]


def test_a_block_is_of_one_runtime(lab):
    other = Runtime({"devices": {"default": "interpreter"}})
    with zyx.device("lab:1"):
        with use(other):
            assert zyx.default_device() == "interpreter:0"
            with zyx.device("interpreter"):
                assert lab.default_device == "lab:1"
        assert zyx.default_device() == "lab:1"
    other.close()


def test_a_device_is_a_name_with_a_type_and_an_index(interpreter):
    place = zyx.device("cpu")
    assert (place, place.type, place.index) == ("cpu", "cpu", None)
    assert (zyx.device("cuda:3").type, zyx.device("cuda:3").index) == ("cuda", 3)
    here = zyx.device("interpreter")
    for made in (
        zyx.ones(2, device=here),
        zyx.ones(2).to(here),
        zyx.tensor([1.0], device=here),
        zyx.nn.Linear(2, 2).to(here).weight,
    ):
        assert made.device == "interpreter:0"
    with here as outer, here as inner:
        assert outer == inner == zyx.default_device() == "interpreter:0"
    assert pickle.loads(pickle.dumps(here)) == here
    with pytest.raises(NoDeviceError, match="nowhere"):
        zyx.ones(2).to(zyx.device("nowhere"))


def test_cuda_is_asked_as_in_pytorch(interpreter):
    assert zyx.cuda.is_available() is any(name.startswith("cuda:") for name in zyx.devices())
    assert zyx.cuda.device_count() == sum(name.startswith("cuda:") for name in zyx.devices())
    if zyx.cuda.is_available():
        assert zyx.cuda.get_device_name(0) == zyx.device_info("cuda:0").model
    else:
        with pytest.raises(NoDeviceError):
            zyx.cuda.get_device_name()
    zyx.cuda.synchronize()
    zyx.cuda.empty_cache()
    zyx.cuda.manual_seed_all(3)
    first = zyx.rand(3).tolist()
    zyx.manual_seed(3)
    assert zyx.rand(3).tolist() == first
