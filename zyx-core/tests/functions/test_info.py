"""What dtypes hold and how they convert."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import DTypeError, NoDeviceError
from zyx.runtime.runtime import Runtime, use


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_limits_of_floats(dtype):
    wanted = ml_dtypes.finfo(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for found in (zyx.finfo(dtype), zyx.finfo(zyx.ones(1, dtype=dtype))):
        assert found.bits == wanted.bits
        assert found.eps == float(wanted.eps)
        assert found.max == float(wanted.max)
        assert found.min == float(wanted.min)
        assert found.smallest_normal == float(wanted.smallest_normal)
        assert found.dtype.name == dtype
    with pytest.raises(DTypeError, match="not int8; see iinfo"):
        zyx.finfo("int8")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_limits_of_integers(dtype):
    found, wanted = zyx.iinfo(dtype), np.iinfo(dtype)
    assert (found.bits, found.min, found.max) == (wanted.bits, wanted.min, wanted.max)
    with pytest.raises(DTypeError, match="not float32; see finfo"):
        zyx.iinfo(zyx.float32)


def test_families_of_dtypes():
    assert zyx.isdtype(zyx.float32, "real floating")
    assert zyx.isdtype(zyx.bfloat16, ("integral", "real floating"))
    assert zyx.isdtype("uint8", "unsigned integer")
    assert zyx.isdtype("int8", "signed integer")
    assert zyx.isdtype("int8", "numeric")
    assert zyx.isdtype("bool", "bool")
    assert not zyx.isdtype("bool", "numeric")
    assert not zyx.isdtype("float32", "complex floating")
    assert zyx.isdtype(zyx.int8, zyx.int8)
    assert zyx.isdtype(zyx.int8, "int8")
    assert not zyx.isdtype(zyx.int8, zyx.int16)
    with pytest.raises(DTypeError, match="no family of dtypes 'floating'"):
        zyx.isdtype(zyx.int8, "floating")


def test_common_dtypes():
    assert zyx.result_type(zyx.int8, zyx.uint8) is zyx.int16
    assert zyx.result_type(zyx.ones(2), 5) is zyx.float32
    assert zyx.result_type("int8", 2.5) is zyx.float32
    assert zyx.result_type(np.ones(2, np.int8), zyx.int32) is zyx.int32
    with pytest.raises(DTypeError, match="at least one dtype"):
        zyx.result_type(1, 2.0)


def test_casts_that_keep_values():
    assert zyx.can_cast("int8", "int32")
    assert zyx.can_cast(zyx.ones(1, dtype="uint8"), "int16")
    assert zyx.can_cast("int64", "float32")
    assert not zyx.can_cast("int32", "int8")
    assert not zyx.can_cast("float32", "int64")
    assert not zyx.can_cast("uint64", "int64")


def test_casts_truncate_and_saturate():
    x = zyx.Tensor([1.9, -1.9, 1e10, float("nan")])
    assert x.astype("int8").tolist() == [1, -1, 127, 0]
    assert x.astype(zyx.uint8).tolist() == [1, 0, 255, 0]
    assert zyx.astype(x, bool).tolist() == [True, True, True, True]
    assert x.cast(float).dtype is zyx.float32
    assert x.astype("float32").node is x.node
    assert x.astype("int32", device="other:0").device == "other:0"
    assert zyx.Tensor([300, -1]).astype("uint8").tolist() == [44, 255]


def test_the_dtypes_are_those_of_the_device():
    runtime = Runtime({"backends": {"dummy": {"enabled": True}}})
    small = runtime.device("dummy:0")
    few = {dtype: small.info.capabilities[dtype] for dtype in (zyx.bool, zyx.int32, zyx.float32)}
    small._info = replace(small.info, capabilities=few)
    info = zyx.__array_namespace_info__()
    with use(runtime):
        assert info.dtypes(device="dummy:0").keys() == {"bool", "int32", "float32", "complex64"}
        assert info.dtypes(device="dummy:0", kind="real floating").keys() == {"float32"}
        assert info.dtypes(device="dummy:0|interpreter:0").keys() == {"bool", "int32", "float32", "complex64"}
        assert "float64" in info.dtypes(device="interpreter")
        with zyx.device("dummy"):
            assert info.dtypes().keys() == {"bool", "int32", "float32", "complex64"}
        with pytest.raises(NoDeviceError):
            info.dtypes(device="nowhere")
    runtime.close()


def test_the_dummy_is_the_last_device_and_never_number_0():
    runtime = Runtime({"backends": {"dummy": {"enabled": True}}, "devices": {"backends": ["interpreter", "dummy"]}})
    with use(runtime), runtime.default("interpreter"):
        assert zyx.devices() == ["interpreter:0", "dummy:0"]
        with zyx.device(0) as name:
            assert name == "interpreter:0"
    runtime.close()


def test_what_the_namespace_offers():
    info = zyx.__array_namespace_info__()
    assert info.default_device() == "oracle:0"
    assert info.default_dtypes()["indexing"] is zyx.int64
    assert set(info.dtypes(kind="unsigned integer")) == {"uint8", "uint16", "uint32", "uint64"}
    assert info.dtypes(kind=("bool", "real floating")).keys() == {"bool", "float16", "bfloat16", "float32", "float64"}
    assert info.dtypes().keys() == set(dtypes.BY_NAME)
    assert info.capabilities()["boolean indexing"] is True
    assert zyx.__array_api_version__ == "2025.12"
