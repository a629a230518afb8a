"""Threads have several windows that overlap, and load what these have in common once."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nn import functional as F
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.runtime.runtime import use
from zyx.schedule import fallback
from zyx.schedule.choose import choose_schedule
from zyx.testing.paper import open_paper, paper_info

CARD = paper_info(
    "card", units=1, warp_size=32, max_group_threads=256, max_group_shape=(256, 256, 64), local_bytes=49152,
    vector_bytes=16, lanes=(2, 4), registers=255, cache_bytes=(1 << 16, 1 << 20), subgroup_size=32,
    swaps=frozenset({dtypes.float32}),
)  # fmt: skip


def loads(kernel, length):
    """Return how many loads there are of buffers of that length."""
    arrays = {i for i, op in enumerate(kernel.ops) if isinstance(op, k.Define) and op.length == length}
    return sum(isinstance(op, k.Load) and op.source in arrays for op in kernel.ops)


@pytest.mark.parametrize(("height", "window", "pad", "expected"), [(34, 3, 0, 18), (32, 3, 1, 18), (66, 2, 0, 14)])
def test_what_windows_have_in_common_is_loaded_once(monkeypatch, height, window, pad, expected):
    kernels = []

    def noting(nest, info, **given):
        found = choose_schedule(nest, info, **given)
        kernel = lower(found[0], "test")
        verify(kernel)
        kernels.append(run_passes(kernel, standard_passes(info)))
        return found

    monkeypatch.setattr(fallback, "choose_schedule", noting)
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (2, 3, height, 29)).astype(np.float32)
    w = random.integers(-3, 4, (3, 1, window, window)).astype(np.float32)
    with open_paper(CARD) as runtime, use(runtime):
        found = F.conv2d(zyx.Tensor(x), zyx.Tensor(w), None, 1, pad, 1, 3).numpy()
        largest = F.max_pool2d(zyx.Tensor(x), window, 1, pad).numpy()
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    np.testing.assert_array_equal(found, np.einsum("nchwij,cij->nchw", windows, w[:, 0]))
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    np.testing.assert_array_equal(largest, windows.max((4, 5)))
    convolution, pooling = kernels[:2]
    for kernel in (convolution, pooling):
        windows_of_a_thread = sum(isinstance(op, k.Store) for op in kernel.ops)
        assert loads(kernel, x.size) <= expected / 4 * windows_of_a_thread
