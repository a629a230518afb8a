"""Literals of numbers, which compilers have to take as they are."""

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.runtime.runtime import use
from zyx.testing.opening import open_runtime


@pytest.mark.parametrize("number", [0.001, -0.001, 0.1, 6.1e-5, 1e-6, 65504.0, 2.5])
def test_literals_of_16_bits_are_taken(number):
    runtime = open_runtime("wgpu")
    try:
        if not runtime.device(runtime.default_device).info.can_store(dtypes.float16):
            pytest.skip("the device has no float16")
        with use(runtime):
            x = zyx.Tensor(np.arange(3, dtype=np.float16))
            found = zyx.where(x > 1, x, number).numpy()
        np.testing.assert_array_equal(found, np.float16([number, number, 2]))
    finally:
        runtime.close()
