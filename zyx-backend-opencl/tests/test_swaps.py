"""Threads swap values by NVIDIA's instruction, or by OpenCL's functions, where they are found to do it right."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx_backend_opencl import start
from zyx_backend_opencl.driver import BuildError
from zyx_backend_opencl.info import features_of
from zyx_backend_opencl.render import Features, opencl_dialect, render
from zyx_backend_opencl.subgroups import swap_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array


def swap(dtype: DType) -> Kernel:
    """Return a kernel in which each of 64 threads stores what the one at distance 5 has."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtype, 64)
    thread = b.index(k.Axis.LOCAL, 0, 64)
    b.store(x, thread, b.swap(b.load(x, thread), 5))
    return b.finish("swap")


def device(extensions: tuple[str, ...] = (), **numbers: int) -> SimpleNamespace:
    """Return what a driver says of a device."""
    return SimpleNamespace(
        extensions=frozenset(extensions),
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
    source = render(swap(dtype), opencl_dialect(Features(subgroups="nvidia")))
    assert text.replace("v2", "v3").replace("v1", "v2") in source
    assert source.count('"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"') == 1


def test_a_function_of_opencl_swaps_any_type_in_subgroups_of_a_size_that_the_kernel_says():
    dialect = opencl_dialect(Features(subgroups="khr"))
    source = render(swap(dtypes.float64), dialect)
    assert "double v3 = sub_group_shuffle_xor(v2, 5u);" in source
    assert source.count("__attribute__((intel_reqd_sub_group_size(16))) __kernel") == 1
    b = Builder()
    x, at = b.define(k.Memory.GLOBAL, dtypes.int32, 1), b.const(0, dtypes.int64)
    b.store(x, at, b.load(x, at))
    assert "sub_group_size" not in render(b.finish("plain"), dialect)


def test_other_drivers_are_given_neither():
    dialect = opencl_dialect(Features())
    assert "shfl" not in dialect.preamble
    assert "subgroup" not in dialect.preamble
    with pytest.raises(UnsupportedError, match="kernel swap, operation %3: OpenCL C: threads do not swap float32"):
        render(swap(dtypes.float32), dialect)


@pytest.mark.parametrize(
    ("listed", "size"),
    [
        (device(warp_size_nv=32), 32),
        (device(("cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size", "cl_khr_fp64")), 16),
        (device(), 0),
        (device(warp_size_nv=64), 0),
        (device(wavefront_width_amd=64), 0),
        (device(("cl_khr_subgroup_shuffle",), preferred_work_group_size_multiple=32), 0),  # of any size
        (device(("cl_intel_required_subgroup_size",)), 0),
    ],
)
def test_extensions_and_nvidias_driver_tell_of_subgroups(listed: SimpleNamespace, size: int):
    assert features_of(listed).subgroup_size == size


class Driver:
    """A session that computes what `swapped` makes of the numbers of threads and a distance; None is not compiled.

    Where swaps are `sunk` into a branch, the threads that do not take it have nothing to give.
    """

    def __init__(self, swapped: Callable[[Array, int], Array] | None, *, sunk: bool = False) -> None:
        self.swapped = swapped
        self.sunk = sunk
        self.reads = self.bits = 0
        self.shape: tuple[int, ...] = ()

    def build(self, source: str, options: str) -> str:
        assert "swap" in source
        assert options == "-cl-std=CL1.2"
        if self.swapped is None:
            raise BuildError("unknown instruction")
        return source

    def kernel(self, built: str, name: str) -> SimpleNamespace:
        assert name in built
        return SimpleNamespace(set_arg=lambda place, memory: None)

    def allocate(self, nbytes: int) -> int:
        return nbytes

    def launch(self, kernel: object, threads: tuple[int, ...], group: tuple[int, ...], waits: Sequence[object]) -> str:
        self.shape = threads
        return "launched"

    def flush(self) -> None:
        pass

    def read(self, memory: int, target: memoryview, offset: int, waits: Sequence[str]) -> None:
        assert (waits, offset, memory) == (("launched",), 0, target.nbytes)
        numbers = np.arange(math.prod(self.shape))
        self.reads += 1
        if self.reads % 2:  # the numbers after each swap, and then a sum
            self.bits = target.nbytes // 4 // len(numbers)
            rows = [self.swapped(numbers, 1 << bit) for bit in range(self.bits)]
        else:
            total = numbers * numbers
            for bit in range(self.bits):
                there = self.swapped(numbers, 1 << bit)
                total = total + (0 if self.sunk else total[there % len(numbers)])
            rows = [total[:1]]
        target[:] = np.concatenate(rows).astype(np.int32).view(np.uint8).data


@pytest.mark.parametrize(
    ("swapped", "is_right"),
    [
        (lambda numbers, distance: numbers ^ distance, True),
        (lambda numbers, distance: numbers, False),  # nothing is swapped
        (lambda numbers, distance: numbers ^ (distance if distance < 16 else 0), False),  # subgroups of 16
        (lambda numbers, distance: (numbers + 1 ^ distance) - 1, False),  # that start with the last thread
        (None, False),
    ],
    ids=["right", "no swaps", "short subgroups", "shifted subgroups", "no such instruction"],
)
def test_a_driver_that_does_something_else_is_found_out(swapped: Callable[[Array, int], Array] | None, is_right: bool):
    features = Features(subgroups="nvidia")
    assert swap_in_order(Driver(swapped), opencl_dialect(features), "-cl-std=CL1.2", features) is is_right


def test_a_compiler_that_sinks_swaps_into_branches_is_found_out():
    features = Features(subgroups="nvidia")
    driver = Driver(lambda numbers, distance: numbers ^ distance, sunk=True)
    assert not swap_in_order(driver, opencl_dialect(features), "-cl-std=CL1.2", features)


def test_without_it_the_device_opens_and_nothing_swaps(runtime: Runtime, monkeypatch: pytest.MonkeyPatch):
    """PoCL 3.1 has neither; whatever the device has, it is taken for one that does it wrongly."""
    session = runtime.device().pool.session
    monkeypatch.setattr(start, "features_of", lambda listed: replace(features_of(listed), subgroups="khr"))
    monkeypatch.setattr(start, "swap_in_order", lambda *given: given[0] is session and False)
    config = SimpleNamespace(
        note=print, cache_directory=None, cache_bytes=0, section=SimpleNamespace(command_buffers=False)
    )
    (device,) = start.open_devices(config, {"opencl:0 memory": runtime.device().pool})
    assert (device.info.subgroup_size, device.info.swaps) == (0, frozenset())
