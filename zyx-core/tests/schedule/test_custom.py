"""Kernels that users write: they run, are differentiated by what they say, and refuse where they say nothing."""

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import GradientError
from zyx.kernel.parse import parse_kernel
from zyx.kernels.custom import CustomKernel

pytestmark = pytest.mark.usefixtures("interpreter")

DOUBLE = """
kernel double
%0 = global f32[4]
%1 = global f32[4] readonly
%2 = group 0 < 4 : i64
%3 = load %1[%2] : f32
%4 = add %3, %3 : f32
store %0[%2] = %4
"""


def doubled(x, gradient=None):
    kernel = CustomKernel(parse_kernel(DOUBLE), (((4,), dtypes.float32),), gradient)
    (node,) = kernel.apply(x.runtime.graph, (x.node,))
    return type(x).of(node, x.runtime)


def test_a_kernel_without_a_gradient_says_so_when_it_is_on_the_way():
    x = zyx.Tensor(np.arange(4, dtype=np.float32))
    with zyx.Tape() as tape:
        y = doubled(x)
        loss = (y + x).sum()
    assert y.tolist() == [0, 2, 4, 6]
    with pytest.raises(GradientError, match="kernel double was made without a gradient"):
        tape.gradient(loss, x)


def test_a_kernel_with_a_gradient_passes_it_on():
    x = zyx.Tensor(np.arange(4, dtype=np.float32))
    with zyx.Tape() as tape:
        loss = (doubled(x, lambda graph, node, upstream: [upstream]) * x).sum()
    assert tape.gradient(loss, x).tolist() == [0, 3, 6, 9]
