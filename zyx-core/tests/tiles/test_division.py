"""What a device of tiles refuses is divided where a part of it is a tile program, and else is the host's as a whole."""

from __future__ import annotations

import numpy as np

import zyx
from zyx.runtime.runtime import use
from zyx.testing.tiles import open_tiles

RNG = np.random.default_rng(0)


def test_a_convolution_is_never_an_array_of_all_its_products():
    x = RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    w = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
    with open_tiles() as runtime, use(runtime):
        found = zyx.relu(zyx.nn.functional.conv2d(zyx.Tensor(x), zyx.Tensor(w), padding=1) * 2.0)
        launches = [step for step in zyx.explain_plan(found)["steps"] if step["kind"] == "launch"]
        wanted = np.zeros((1, 4, 8, 8), np.float32)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        for row in range(3):
            for column in range(3):
                part = padded[:, :, row : row + 8, column : column + 8]
                wanted += np.einsum("nchw,oc->nohw", part, w[:, :, row, column])
        np.testing.assert_allclose(found.numpy(), np.maximum(wanted * 2, 0), rtol=1e-4, atol=1e-4)
    assert len(launches) == 2  # the convolution, and what follows it
    assert launches[-1]["device"] == "tiles:0"
