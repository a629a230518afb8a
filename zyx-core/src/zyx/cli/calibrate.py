"""``zyx calibrate``: measure how fast devices are, in a few seconds each, and keep it for all programs of this user.

zyx calibrate                     the device that is used where none is named
zyx calibrate --device cuda:0     that one; give it again for several
zyx calibrate --forget            remove what was kept, of all devices

Schedules are estimated by these rates from then on (``zyx profile``), and ``zyx devices`` lists them. They are kept in
the cache folder, for the model of a device, its driver and the versions of its backend; where the cache is switched off
(``ZYX_CACHE``), or ``ZYX_CACHE_CALIBRATION`` is false, rates are what backends assume.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from zyx.autotune.calibrate import measure_rates
from zyx.drivers.disk_cache import DiskCache
from zyx.errors import SettingsError, UnsupportedError
from zyx.plugins.describe import columns, rate
from zyx.plugins.measured import NAME, keep_rates
from zyx.runtime.profile import duration
from zyx.runtime.runtime import Runtime
from zyx.settings.paths import cache_directory

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from zyx.backend import Device
    from zyx.backend.rates import Rates
    from zyx.runtime.bars import Bar


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--device", action="append", metavar="NAME", help="what to measure, by name or backend")
    parser.add_argument("--forget", action="store_true", help="remove what was kept instead")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measure, print and keep; 1 if nothing can be kept."""
    # What was measured before must not stand in for what the backend says: the record is the key.
    runtime = Runtime({"cache": {"calibration": False}})
    try:
        directory = cache_directory(runtime.settings)
        if directory is None:
            raise SettingsError("nothing can be kept: the cache is switched off, or there is no home folder")
        if arguments.forget:
            cache = DiskCache(directory, NAME, executable=False)
            cache.clear()
            cache.close()
            console.print("nothing that was measured is kept")
            return 0
        status = 0
        for name in arguments.device or [None]:
            device = runtime.device(name)
            started = time.perf_counter()
            try:
                rates = _measured(runtime, device)
            except UnsupportedError as error:
                console.print(f"{device.name}: not measured: {error}")
                status = 1
                continue
            console.print(f"{device.name}, {device.info.model}: measured in {time.perf_counter() - started:.1f} s\n")
            for line in columns(rows(rates)):
                console.print(line)
            is_kept = keep_rates(directory, device.info, rates)
            console.print(f"\n{'kept' if is_kept else 'NOT kept: zyx doctor says why'}\n")
            status = status if is_kept else 1
        return status
    finally:
        runtime.close()


def _measured(runtime: Runtime, device: Device) -> Rates:
    with ExitStack() as stack:
        bar: Bar | None = None

        def told(name: str, total: int) -> None:
            nonlocal bar
            bar = bar or stack.enter_context(runtime.trace.bar(f"measuring {device.name}", total, after_s=0.0))
            bar.advance(said=name)

        return measure_rates(device, told)


def rows(rates: Rates) -> list[tuple[str, str]]:
    """Return what was measured, in words."""
    caches = enumerate(rates.cache_bytes_per_s, 1)
    return [
        ("float32 operations", rate(rates.flops_per_s, "FLOP/s")),
        ("an exponential", f"{rates.transcendental:.1f} multiply-adds"),
        *((f"cache {level}, one unit", rate(value, "B/s")) for level, value in caches),
        ("main memory, one unit", rate(rates.unit_bytes_per_s, "B/s")),
        ("main memory, all units", rate(rates.bytes_per_s, "B/s")),
        ("a launch", duration(rates.launch_s)),
        ("until all units work", duration(rates.wake_s)),
        ("a meeting of threads", duration(rates.barrier_s)),
    ]
