"""Sorting: rows of every length that is treated differently, along every axis, with equal elements; the first few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.testing.graph_runs import case_of

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.testing.graph_runs import GraphRunner
    from zyx.testing.values import Array


def keys(dtype: DType, shape: tuple[int, ...], bits: int) -> Array:
    """Return keys of so many bits, many of them equal."""
    found = np.random.default_rng(bits).integers(0, 1 << min(bits, 63), shape, dtype=np.uint64)
    flat = found.reshape(-1)
    flat[1::3] = flat[0]
    flat[-1] = (1 << bits) - 1
    return found.astype(dtype.numpy)


def check(device: Device, runner: GraphRunner, array: Array, axis: int, bits: int, count: int | None = None) -> None:
    """Compare with the oracle what sorting `array` gives."""
    dtype = dtypes.as_dtype(array.dtype)
    if not device.info.can_compute(dtype):
        pytest.skip(f"{device.name} does not claim to compute with {dtype}")
    wanted = array.shape[axis] if count is None else count
    runner.check(case_of(runner.device, [array], lambda graph, x: graph.sort(x, axis, bits, wanted)))


@pytest.mark.parametrize("size", [2, 3, 16, 17, 31, 32, 33, 65, 257])
def test_rows_of_every_length_are_sorted(device: Device, runner: GraphRunner, size: int) -> None:
    check(device, runner, keys(dtypes.uint32, (3, size), 32), 1, 32)


@pytest.mark.parametrize("bits", [1, 8, 19, 32, 64])
def test_keys_of_any_bits_are_sorted(device: Device, runner: GraphRunner, bits: int) -> None:
    check(device, runner, keys(dtypes.uint64 if bits > 32 else dtypes.uint32, (100,), bits), 0, bits)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [7, 20])
def test_rows_along_any_axis_are_sorted(device: Device, runner: GraphRunner, axis: int, size: int) -> None:
    shape = [3, 2, 5]
    shape[axis] = size
    check(device, runner, keys(dtypes.uint32, tuple(shape), 5), axis, 5)


@pytest.mark.parametrize("bits", [20, 64])
def test_long_rows_are_sorted(device: Device, runner: GraphRunner, bits: int) -> None:
    size = 9001 if device.info.max_group_threads > 1 else 40001  # more than one group sorts
    check(device, runner, keys(dtypes.uint64 if bits > 32 else dtypes.uint32, (1, size), bits), 1, bits)


@pytest.mark.parametrize(("size", "count"), [(9, 2), (40, 1), (5000, 3)])
def test_the_first_few_are_found(device: Device, runner: GraphRunner, size: int, count: int) -> None:
    check(device, runner, keys(dtypes.uint32, (2, size), 10), 1, 10, count)
