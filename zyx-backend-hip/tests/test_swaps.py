"""Threads of a wave swap values, in waves of 64 threads and of 32: the code for it, and what the fakes do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import amd_toolchains
import numpy as np
import pytest
from batches import OPTIONS, compile_batches
from fake_hip import DEVICES

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.testing.launching import launch
from zyx_backend_hip import device as devices
from zyx_backend_hip.render import SWAPS, render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_hip import Fake

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime

WAVES = dict(zip(DEVICES, (64, 32), strict=True))
THREADS = 128

#: What is written for a swap of int32 at distance 1.
SWAP = "v3 = zyx_swap(v2, 1);"
WHOLE = f"const int {SWAP}"


def swap(dtype: DType, distance: int) -> Kernel:
    """Return a kernel in which each of 128 threads stores what the thread at a distance has."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtype, THREADS)
    thread = b.index(k.Axis.LOCAL, 0, THREADS)
    b.store(x, thread, b.swap(b.load(x, thread), distance))
    return b.finish(f"swap_{dtype.short}_{distance}")


def test_swaps_compile_for_every_architecture(tmp_path: Path):
    clangs = amd_toolchains.clangs()
    if not clangs:
        amd_toolchains.skip_or_fail("there is no clang")
    kernels = [swap(dtype, distance) for dtype in SWAPS for distance in (1, 31, 32, 63)]
    sources = {kernel.name: render(kernel) for kernel in kernels}
    for clang in clangs.values():
        assert "96 compiled kernels" in compile_batches(clang, sources, tmp_path, OPTIONS)


@pytest.mark.parametrize("name", DEVICES)
def test_as_many_threads_swap_as_a_wave_has(fresh: Callable[..., Runtime], name: str):
    device = fresh(name).device()
    wave = WAVES[name]
    assert (device.info.subgroup_size, device.info.swaps) == (wave, SWAPS)
    data = np.arange(THREADS, dtype=np.float64)
    (result,) = launch(device, device.compile(swap(dtypes.float64, wave - 1)), [data])
    assert np.array_equal(result, data.reshape(-1, wave)[:, ::-1].ravel())
    with pytest.raises(UnsupportedError, match=f"{2 * wave} threads cannot swap int32; {wave} swap"):
        device.compile(swap(dtypes.int32, wave))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("<< 2", "<< 3", "takes the value of lane"),
        (WHOLE, f"int v3 = v2; if (v1 < 64) {SWAP}", "of 128 threads of a group meet"),
        (WHOLE, f"int v3 = v2; if (v1 < 64) {SWAP} else zyx_barrier();", "meet at different places"),
    ],
    ids=["no such lane", "half of the threads", "swaps and barriers"],
)
def test_the_fake_notices(
    fresh: Callable[..., Runtime], fake: Fake, monkeypatch: pytest.MonkeyPatch, old: str, new: str, text: str
):
    def wrong(kernel: Kernel) -> str:
        assert old in render(kernel)
        return render(kernel).replace(old, new)

    monkeypatch.setattr(devices, "render", wrong)
    device = fresh().device()
    launch(device, device.compile(swap(dtypes.int32, 1)), [np.arange(THREADS, dtype=np.int32)])
    assert text in fake.violations()
