"""Time Fourier transforms with zyx, SciPy and PyTorch, in one process, on the same arrays.

    python benchmarks/fourier.py --rounds 15

The libraries take turns in rounds; a line has medians, and the ratios of SciPy's and PyTorch's to that of zyx: above 1,
zyx is faster. Calls of zyx are eager ones, which wait for the result; with --jit they are traced. All have as many
threads. Every result is compared with SciPy's first. The last line has the geometric means of the ratios.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.fft
import torch

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable

#: Single powers of two, batches, images, other products of small primes, and primes.
SHAPES = [(256,), (1024,), (4096,), (1 << 14,), (1 << 16,), (1 << 18,), (1 << 20,)]
SHAPES += [(1024, 256), (256, 1024), (64, 4096), (1000,), (129600,), (1000, 1000), (1009,), (65537,)]
IMAGES = [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]


def medians(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the median time of each call, in seconds."""
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(rounds + 2):
        for taken, call in zip(times, calls, strict=True):
            started = time.perf_counter()
            call()
            if round_ >= 2:  # what is compiled and allocated at first does not count
                taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in times]


def compare(name: str, shape: tuple[int, ...], kind: type, args: argparse.Namespace) -> tuple[float, float]:
    """Print a line, and return the two ratios."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
    array = x.real.astype(kind) if name.startswith("r") else x.astype(np.result_type(kind, np.complex64))
    mine, tensor = zyx.Tensor(array), torch.from_numpy(array)
    function = getattr(zyx.fft, name)
    transform = zyx.jit(function) if args.jit else function

    def with_zyx() -> Any:
        found = transform(mine).realize()
        zyx.synchronize()
        return found

    wanted = getattr(scipy.fft, name)(array)
    difference = np.linalg.norm(with_zyx().numpy() - wanted) / np.linalg.norm(wanted)
    assert difference < (1e-5 if kind is np.float32 else 1e-13), f"{name} {shape}: off by {difference}"
    calls = [
        with_zyx,
        lambda: getattr(scipy.fft, name)(array, workers=args.threads),
        lambda: getattr(torch.fft, name)(tensor),
    ]
    own, scipys, torchs = medians(calls, args.rounds)
    ratios = scipys / own, torchs / own
    times = "  ".join(f"{taken * 1e6:9.1f}" for taken in (own, scipys, torchs))
    print(f"{name:6} {array.dtype!s:11} {shape!s:15} {times} us  {ratios[0]:6.2f} {ratios[1]:6.2f}", flush=True)
    return ratios


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of SciPy and PyTorch")
    parser.add_argument("--jit", action="store_true", help="trace the calls of zyx")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{'':34} {'zyx':>9}  {'SciPy':>9}  {'PyTorch':>9}      SciPy PyTorch")
    found = []
    for kind in (np.float32, np.float64):
        for names, shapes in ((("fft", "rfft"), SHAPES), (("fft2", "rfft2"), IMAGES)):
            found += [compare(name, shape, kind, args) for shape in shapes for name in names]
    means = [math.exp(statistics.fmean(math.log(ratio) for ratio in column)) for column in zip(*found, strict=True)]
    print(f"geometric means: {means[0]:.2f} beside SciPy, {means[1]:.2f} beside PyTorch")


if __name__ == "__main__":
    main()
