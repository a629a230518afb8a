"""Threads swap values where the driver is NVIDIA's, by its instruction: elsewhere nobody knows which ones would."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx_backend_opencl.info import features_of
from zyx_backend_opencl.render import Features, opencl_dialect, render

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.ir.kernel import Kernel


def swap(dtype: DType) -> Kernel:
    """Return a kernel in which each of 64 threads stores what the one at distance 5 has."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtype, 64)
    thread = b.index(k.Axis.LOCAL, 0, 64)
    b.store(x, thread, b.swap(b.load(x, thread), 5))
    return b.finish("swap")


def device(**numbers: int) -> SimpleNamespace:
    """Return what a driver says of a device that has no extensions."""
    return SimpleNamespace(
        extensions=frozenset(),
        fuses_multiply_add=True,
        text=lambda what: "FULL_PROFILE",
        query=lambda what, default=0: numbers.get(what, default),
    )


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (dtypes.float32, "float v2 = as_float(zyx_swap(as_uint(v1), 5));"),
        (dtypes.int32, "int v2 = as_int(zyx_swap(as_uint(v1), 5));"),
        (dtypes.uint32, "uint v2 = as_uint(zyx_swap(as_uint(v1), 5));"),
        (dtypes.float64, "double v2 = as_double(zyx_swap_64(as_ulong(v1), 5));"),
        (dtypes.int64, "long v2 = as_long(zyx_swap_64(as_ulong(v1), 5));"),
        (dtypes.uint64, "ulong v2 = as_ulong(zyx_swap_64(as_ulong(v1), 5));"),
    ],
    ids=str,
)
def test_values_are_swapped_as_their_bits(dtype: DType, text: str):
    source = render(swap(dtype), opencl_dialect(Features(subgroup_size=32)))
    assert text.replace("v2", "v3").replace("v1", "v2") in source
    assert source.count('"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"') == 1


def test_other_drivers_are_not_given_the_instruction():
    dialect = opencl_dialect(Features())
    assert "shfl" not in dialect.preamble
    with pytest.raises(UnsupportedError, match="kernel swap, operation %3: OpenCL C: threads do not swap float32"):
        render(swap(dtypes.float32), dialect)


def test_it_is_nvidias_driver_that_tells_of_warps():
    assert features_of(device(warp_size_nv=32)).subgroup_size == 32
    for others in ({}, {"warp_size_nv": 64}, {"wavefront_width_amd": 64}, {"preferred_work_group_size_multiple": 32}):
        assert features_of(device(**others)).subgroup_size == 0
