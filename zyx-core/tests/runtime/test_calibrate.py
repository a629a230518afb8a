"""The kernels that measure a device are right, and what they measure are rates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from zyx.autotune import calibrate
from zyx.autotune.calibrate import measure_rates
from zyx.backend.rates import assumed_rates
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.testing.paper import PAPER

GRIDS = [calibrate._Grid(1, 1, 1), calibrate._Grid(3, 1, 8), calibrate._Grid(2, 16, 4)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_sums_read_each_element_once_a_turn(grid):
    length = 2 * 16 * calibrate._length(grid)
    kernel = calibrate._sums(grid, turns=2, again=3)
    verify(kernel)
    buffer = np.arange(length, dtype=np.float32) % 7
    expected = 3 * buffer.sum(dtype=np.float64) + calibrate._length(grid) * sum(0.5 + n / 64 for n in range(16))
    interpreter.run(kernel, [buffer])
    assert buffer[: calibrate._length(grid)].sum(dtype=np.float64) == pytest.approx(expected)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("exponential", [False, True])
def test_chains_stay_finite(grid, exponential):
    kernel = calibrate._chains(grid, 5, exponential=exponential)
    verify(kernel)
    for info in PAPER.values():
        verify(run_passes(kernel, standard_passes(info)))
    buffer = np.zeros(calibrate._length(grid), np.float32)
    interpreter.run(kernel, [buffer])
    assert np.isfinite(buffer).all()
    assert (buffer > 0).all()


def test_threads_meet_as_often_as_they_should():
    kernel = calibrate._meetings(8, 5)
    verify(kernel)
    buffer = np.zeros(8, np.float32)
    interpreter.run(kernel, [buffer])
    assert (buffer == 1).all()


@pytest.mark.parametrize("threads", [False, True])
def test_a_device_has_rates_of_every_kind(interpreter, monkeypatch, threads):
    for name, value in {"_SECONDS": 0.0, "_FEWEST": 1, "_LAUNCH_S": 1e-4, "_LEAST_BYTES": 1 << 12, "_THREADS": 4,
                        "_BARRIERS": 3, "_MOST_TURNS": 2}.items():  # fmt: skip
        monkeypatch.setattr(calibrate, name, value)
    device = interpreter.device()
    info = dataclasses.replace(device.info, cache_bytes=(1 << 10, 1 << 12), units=2)
    if threads:
        info = dataclasses.replace(info, max_group_threads=64, max_group_shape=(64, 64, 64))
    else:
        info = dataclasses.replace(info, max_group_threads=1, max_group_shape=(1, 1, 1))
    monkeypatch.setattr(type(device), "info", property(lambda _: info))
    rates = measure_rates(device)
    assumed = assumed_rates(info)
    assert rates.is_measured
    assert len(rates.cache_bytes_per_s) == len(assumed.cache_bytes_per_s) == 2
    numbers = [rates.flops_per_s, rates.bytes_per_s, rates.unit_bytes_per_s, *rates.cache_bytes_per_s, rates.launch_s]
    assert all(number > 0 and np.isfinite(number) for number in numbers)
    assert rates.unit_bytes_per_s <= rates.bytes_per_s
    assert rates.transcendental >= 1
    assert (rates.wake_s == assumed.wake_s) == threads or rates.wake_s == 0
