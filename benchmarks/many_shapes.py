"""Say how much memory a process takes that computes with ever new shapes.

    python benchmarks/many_shapes.py                     # 10,000 shapes on the default device
    python benchmarks/many_shapes.py --shapes 1000 --device c

Each shape is of exponentials, products and a sum, one kernel or more that no other shape has. Programs and plans are
kept as long as there is room for them, so the memory has to grow at first, and then no more.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

import zyx
from zyx.runtime.runtime import Runtime, use

ROWS: Final = 10
_STATUS: Final = Path("/proc/self/status")


def resident_bytes() -> int:
    """Return the memory that the process has; where the system does not tell, the most that it ever had."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def compute(size: int) -> None:
    """Compute with arrays of a size, and look at what comes out."""
    x = np.linspace(-1, 1, size, dtype=np.float32)
    tensor = zyx.Tensor(x)
    exponentials = zyx.exp(tensor)
    total = (exponentials * tensor).sum()
    np.testing.assert_allclose(exponentials.numpy(), np.exp(x), rtol=1e-5)
    np.testing.assert_allclose(total.item(), (np.exp(x.astype(np.float64)) * x).sum(), rtol=1e-4, atol=1e-4)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=10_000)
    parser.add_argument("--device", default="", help="where to compute; by default, where zyx does")
    options = parser.parse_args()
    with use(Runtime({"devices": {"default": options.device}} if options.device else None)):
        print(f"{zyx.device_info().model}\n\n| shapes | memory, MB | seconds |\n|---|---|---|")
        started = time.perf_counter()
        for number in range(1, options.shapes + 1):
            compute(number + 1)
            if number % max(1, options.shapes // ROWS) == 0:
                print(f"| {number} | {resident_bytes() / 1e6:.0f} | {time.perf_counter() - started:.0f} |", flush=True)


if __name__ == "__main__":
    main()
