"""What does not fit a device is refused with the operation, the limit, and the nearest way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zyx import dtype as dtypes
from zyx.backend import Capability, DeviceInfo
from zyx.drivers.limits import check_compiled, check_limits
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder


@pytest.fixture
def info():
    capabilities = {dtype: Capability() for dtype in dtypes.ALL if dtype.bits <= 32}
    return DeviceInfo("small", "paper", capabilities, flops_per_s=1e9, bytes_per_s=1e9)


def copy(dtype: dtypes.DType) -> k.Kernel:
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtype, 4)
    at = b.index(k.Axis.GROUP, 0, 4, dtypes.int32)
    b.store(x, at, b.load(x, at))
    return b.finish("copy")


@pytest.mark.parametrize(
    ("dtype", "nearest"), [(dtypes.float64, "float32"), (dtypes.int64, "int32"), (dtypes.uint64, "uint32")]
)
def test_a_dtype_that_is_not_there_is_refused_with_the_nearest_that_is(info, dtype, nearest):
    way_out = rf"kernel copy does not fit small: .*{dtype} cannot be stored; cast to {nearest} \(`astype`\), or use a"
    with pytest.raises(UnsupportedError, match=way_out):
        check_limits(copy(dtype), info)
    check_limits(copy(dtypes.BY_NAME[nearest]), info)


def test_without_any_dtype_of_the_kind_another_device_is_the_way_out(info):
    integers = {dtype: capability for dtype, capability in info.capabilities.items() if not dtype.is_float}
    with pytest.raises(UnsupportedError, match="float32 cannot be stored; use a device that has it"):
        check_limits(copy(dtypes.float32), replace(info, capabilities=integers))


def test_a_dtype_that_only_values_have_is_refused_as_well(info):
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.float32, 4)
    at = b.index(k.Axis.GROUP, 0, 4, dtypes.int32)
    b.store(x, at, b.cast(b.cast(b.load(x, at), dtypes.float64), dtypes.float32))
    with pytest.raises(UnsupportedError, match="there is no float64; cast to float32"):
        check_limits(b.finish("detour"), info)


@pytest.mark.parametrize(("groups", "most"), [((9,), (8, 8)), ((2, 9), (8, 8)), ((2, 2, 2), (8, 8))])
def test_more_groups_along_an_axis_than_there_may_be_are_refused(info, groups, most):
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    zero = b.const(0, dtypes.int32)
    for number, size in enumerate(groups):
        b.index(k.Axis.GROUP, number, size, dtypes.int32)
    b.store(x, zero, zero)
    with pytest.raises(UnsupportedError, match=r"kernel many does not fit small: the grid has .* groups, at most"):
        check_limits(b.finish("many"), replace(info, max_groups=most))


@pytest.mark.parametrize(("lengths", "lanes"), [((65,), 1), ((40, 25), 1), ((9,), 8)])
def test_more_bytes_of_arrays_of_a_thread_than_there_may_be_are_refused(info, lengths, lanes):
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.float32, 1)
    zero = b.const(0, dtypes.int32)
    loaded = b.load(x, zero)
    value = loaded if lanes == 1 else b.vectorize((loaded,) * lanes)
    arrays = [b.define(k.Memory.REGISTER, dtypes.float32, length, lanes=lanes) for length in lengths]
    for array, length in zip(arrays, lengths, strict=True):
        at = b.loop(length, dtypes.int32)
        b.store(array, at, value)
        b.end_loop()
    kernel = b.finish("arrays")
    nbytes = sum(lengths) * lanes * 4
    check_limits(kernel, info)
    check_limits(kernel, replace(info, private_bytes=nbytes))
    with pytest.raises(UnsupportedError, match=rf"{nbytes} bytes of arrays a thread, at most 256 can be"):
        check_limits(kernel, replace(info, private_bytes=256))


def test_arrays_whose_indices_are_constant_are_registers(info):
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.float32, 1)
    array = b.define(k.Memory.REGISTER, dtypes.float32, 100)
    zero = b.const(0, dtypes.int32)
    b.store(array, zero, b.load(x, zero))
    b.store(x, zero, b.load(array, zero))
    check_limits(b.finish("registers"), replace(info, private_bytes=0))


def test_what_a_compiler_makes_too_large_is_refused():
    b = Builder()
    array = b.define(k.Memory.GLOBAL, dtypes.float32, 64)
    for axis, size in ((0, 8), (1, 4)):
        at = b.index(k.Axis.LOCAL, axis, size)
    b.store(array, at, b.const(0, dtypes.float32))
    kernel = b.finish("fill")
    check_compiled(kernel, "acme:0", 32)
    check_compiled(kernel, "acme:0", 32, 100, 100)
    with pytest.raises(
        UnsupportedError, match="fill has groups of 32 threads; as it is compiled for acme:0, at most 31"
    ):
        check_compiled(kernel, "acme:0", 31)
    with pytest.raises(UnsupportedError, match="kernel fill takes 101 bytes of local memory; acme:0 has 100"):
        check_compiled(kernel, "acme:0", 32, 101, 100)
