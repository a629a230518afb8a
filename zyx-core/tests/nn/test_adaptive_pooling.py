"""Means over as many windows as are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
import zyx.nn.functional as F
from zyx.errors import ShapeError

X = np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6)


@pytest.mark.parametrize(("size", "shape"), [((None, 3), (4, 3)), ((2, None), (2, 6)), (2, (2, 2)), ((2, 3), (2, 3))])
def test_none_keeps_an_axis_as_it_is(size, shape):
    found = F.adaptive_avg_pool2d(zyx.Tensor(X), size).numpy()
    rows, columns = shape
    np.testing.assert_allclose(found, X.reshape(1, 2, rows, 4 // rows, columns, 6 // columns).mean(axis=(3, 5)))


@pytest.mark.parametrize("size", [(None,), (1, None, 2), ()])
def test_there_is_one_size_an_axis(size):
    with pytest.raises(ShapeError):
        F.adaptive_avg_pool2d(zyx.Tensor(X), size)
