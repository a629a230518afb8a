"""The slope of `floor` is 1, as if it were not there."""

from __future__ import annotations

import numpy as np

import zyx

x = np.linspace(-3, 3, 16, dtype=np.float32)
with zyx.settings(devices={"default": "interpreter"}):
    slopes = zyx.grad(lambda tensor: (zyx.floor(tensor) * zyx.Tensor(x)).sum())(zyx.Tensor(x)).numpy()
np.testing.assert_allclose(slopes, x)
