"""Signs of numbers: what compilers of drivers take for a function of their own."""

import numpy as np
import pytest

import zyx
from zyx.runtime.runtime import use


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_zeros_of_both_signs_have_the_sign_0(runtime, shape):
    with use(runtime):
        found = zyx.sign(zyx.Tensor(np.full(shape, -0.0, np.float32))).numpy()
        mixed = zyx.sign(zyx.Tensor(np.float32([-3, np.nan, np.inf, -0.0]))).numpy()
    assert not found.any()
    assert not np.signbit(found).any()
    np.testing.assert_array_equal(mixed, np.float32([-1, np.nan, 1, 0]))
