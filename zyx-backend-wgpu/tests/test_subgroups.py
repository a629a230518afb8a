"""Threads swap values where the driver says how many run in step, and where that is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use
from zyx.testing.suite import test_swaps as kit
from zyx_backend_wgpu import subgroups
from zyx_backend_wgpu.subgroups import FEATURE, SWAPS, subgroup_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.runtime.runtime import Runtime

#: Any driver's subgroups are at least as large, and groups of as many threads within them swap as well.
EIGHT = 8


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """``told(least, most)``: the driver says so of its subgroups."""
    return lambda *sizes: monkeypatch.setattr(subgroups, "sizes_of", lambda adapter: sizes)


@pytest.fixture
def eights(told: Callable[[int, int], None], open_device: Callable[..., Runtime]) -> Iterator[Runtime]:
    """A runtime in use, on a device with subgroups of eight threads."""
    told(EIGHT, EIGHT)
    runtime = open_device()
    if FEATURE not in runtime.device().pool.session.features:
        runtime.close()
        pytest.skip("the adapter has no subgroups")
    with use(runtime):
        yield runtime
    runtime.close()


@pytest.mark.parametrize("dtype", sorted(SWAPS, key=str), ids=str)
@pytest.mark.parametrize(
    "test",
    [
        kit.test_threads_get_the_value_of_the_thread_that_they_swap_with,
        kit.test_threads_swap_vectors_lane_by_lane,
        kit.test_all_threads_of_a_subgroup_get_its_sum,
    ],
)
def test_threads_of_a_subgroup_swap(eights: Runtime, test: Callable[..., None], dtype: zyx.DType):
    device = eights.device()
    assert (device.info.subgroup_size, device.info.swaps) == (EIGHT, SWAPS)
    test(device, dtype)


def test_swaps_and_local_memory_go_together(eights: Runtime):
    kit.test_what_a_device_claims_is_a_number_of_threads(eights.device())
    kit.test_threads_swap_between_writes_to_local_memory(eights.device())
    kit.test_threads_that_do_not_run_in_step_are_refused_to_swap(eights.device())


def test_rows_are_reduced(eights: Runtime):
    x = np.random.default_rng(1).normal(size=(33, 1000)).astype(np.float32)
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    softmax = zyx.nn.functional.softmax(zyx.Tensor(x), axis=-1).numpy()
    np.testing.assert_allclose(softmax, exponentials / exponentials.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(zyx.sum(zyx.Tensor(x), axis=1).numpy(), x.sum(1), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(
        zyx.max(zyx.Tensor(x.astype(np.float16)), axis=1).numpy(), x.astype(np.float16).max(1)
    )
    np.testing.assert_array_equal(zyx.any(zyx.Tensor(x > 3), axis=1).numpy(), (x > 3).any(1))


@pytest.mark.parametrize("sizes", [(0, 0), (8, 32), (1, 1), (12, 12), (256, 256)], ids=str)
def test_nothing_swaps_where_sizes_differ_or_are_not_so(
    told: Callable[[int, int], None], open_device: Callable[..., Runtime], sizes: tuple[int, int]
):
    """No driver's subgroups have 256 threads: that is found out."""
    told(*sizes)
    runtime = open_device()
    device = runtime.device()
    assert subgroup_size(device.pool.session) == device.info.subgroup_size == len(device.info.swaps) == 0
    runtime.close()


def test_sizes_are_asked_for_of_vulkan(runtime: Runtime):
    adapter = runtime.device().pool.session.adapter
    if adapter.road != "Vulkan":
        pytest.skip("the adapter is not one of Vulkan's")
    least, most = subgroups.sizes_of(adapter)
    assert 1 <= least <= most <= 128
    assert runtime.device().info.subgroup_size in ((0, least) if least == most else (0,))
    if "llvmpipe" in adapter.name:  # has subgroups of as many threads as a vector has lanes
        assert least == most == runtime.device().info.subgroup_size


def test_nothing_swaps_on_a_device_without_the_feature(
    told: Callable[[int, int], None], open_device: Callable[..., Runtime]
):
    told(EIGHT, EIGHT)
    runtime = open_device(extensions=False)
    assert runtime.device().info.subgroup_size == 0
    runtime.close()
