"""Which device tensors are made on where none is named."""

from __future__ import annotations

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

    thread = threading.Thread(target=other)
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
