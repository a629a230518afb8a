"""A device with nothing but what WebGPU always has: no 64-bit types, no float16, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.backend import Slot
from zyx.backend.device import Launch
from zyx.errors import UnsupportedError
from zyx.passes.narrow_indices import narrow_indices

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime


def test_rows_are_normalised_and_multiplied(least: Runtime):
    random = np.random.default_rng(1)
    x, w = random.normal(size=(9, 33)).astype(np.float32), random.normal(size=(33, 7)).astype(np.float32)
    actual = (zyx.nn.functional.softmax(zyx.Tensor(x), axis=-1) @ zyx.Tensor(w)).numpy()
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(actual, exponentials / exponentials.sum(-1, keepdims=True) @ w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_indices_of_every_type_pick_elements_also_from_the_end(least: Runtime, dtype: type):
    data = np.arange(120, dtype=np.float32)
    index = np.array([0, 1, 119, 64, 7], dtype)
    np.testing.assert_array_equal(zyx.take(zyx.Tensor(data), zyx.Tensor(index)).numpy(), data[index])
    if np.issubdtype(dtype, np.signedinteger):
        np.testing.assert_array_equal(zyx.take(zyx.Tensor(data), zyx.Tensor(-index - 1)).numpy(), data[-index - 1])


def test_16_bit_floats_are_rounded_after_every_operation(least: Runtime):
    values = np.linspace(-3, 3, 50)
    x = values.astype(np.float16)
    actual = (zyx.Tensor(x) * zyx.Tensor(x) + zyx.Tensor(x)).numpy()
    np.testing.assert_array_equal(actual, x * x + x)


def test_a_64_bit_type_is_refused_by_name(least: Runtime):
    with pytest.raises(UnsupportedError, match="int64"):
        (zyx.Tensor(np.arange(3, dtype=np.int64)) + 1).numpy()


def test_a_launch_is_timed_by_the_clock_of_the_host(least: Runtime, add: Callable[..., Kernel]):
    device = least.device()
    program = device.compile(narrow_indices(add(1)))
    buffer, _ = device.memory_pool.allocate(256)
    assert 0 < device.timed_launch(program, [buffer]) < 60
    sequence = device.capture([Launch(program, (Slot(0),))] * 3, 1)
    assert 0 < device.timed_launch(sequence, [buffer]) < 60
    for each in (sequence, program):
        device.release(each)
    device.memory_pool.deallocate(buffer)


def test_a_sum_of_more_tensors_than_a_kernel_binds_is_divided(least: Runtime, monkeypatch: pytest.MonkeyPatch):
    from zyx_backend_wgpu.driver import Session

    bound: list[int] = []
    build = Session.build

    def counting(self: Session, source: str, name: str, kinds: tuple[str, ...]) -> object:
        bound.append(sum(kind != "uniform" for kind in kinds))
        return build(self, source, name, kinds)

    monkeypatch.setattr(Session, "build", counting)
    arrays = [np.full(50, number, np.float32) for number in range(20)]
    tensors = [zyx.Tensor(array).realize() for array in arrays]
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total * 0.5 + tensor
    expected = arrays[0]
    for array in arrays[1:]:
        expected = expected * np.float32(0.5) + array
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-6)
    assert len(bound) >= 3
    assert max(bound) <= least.device().info.max_params == 8
