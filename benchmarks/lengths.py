"""Count what lengths compile, and time a length beside a program of its own.

    python benchmarks/lengths.py --device c --device opencl
    python benchmarks/lengths.py --device cuda --times 40 --json

Each program is run at lengths from 1 to `--longest`, on arrays whose greatest has `--bytes`: eagerly, each operation by
itself computed; and traced. The columns are the compilations of all these runs, the traces, the largest difference from
NumPy in float64, relative to the largest value, and, for lengths between powers of two, how many times as long a run
takes as that of a program which was compiled for the length alone: the median over lengths, and the most. The times are
the least of `--times` runs, taken in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Lengths that are timed: none of them is near the power of two above it.
TIMED: Final = (700, 1300, 2100, 3000)
#: Compilations of a program at all lengths, at most.
MOST: Final = 14


def softmax(x: Any) -> Any:  # a tensor, or an array
    """Return the softmax of rows."""
    exponents = (
        (x - x.max(-1, keepdims=True)).exp() if isinstance(x, zyx.Tensor) else np.exp(x - x.max(-1, keepdims=True))
    )
    return exponents / exponents.sum(-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Return what a step of a decoder attends to."""
    return softmax((q @ k.swapaxes(-1, -2)) * 0.125) @ v


#: What is computed, and the shapes of its operands at a length; `w` makes the greatest as large as is asked for.
PROGRAMS: Final[dict[str, tuple[Callable[..., Any], Callable[[int, int], Sequence[tuple[int, ...]]]]]] = {
    "x * 2 + 1, x[n, w]": (lambda x: x * 2 + 1, lambda n, w: [(n, w)]),
    "x * 2 + 1, x[w, n]": (lambda x: x * 2 + 1, lambda n, w: [(w, n)]),
    "sum, x[n, w] down": (lambda x: x.sum(0), lambda n, w: [(n, w)]),
    "sum, x[w, n] along": (lambda x: x.sum(1), lambda n, w: [(w, n)]),
    "softmax, x[w, n]": (softmax, lambda n, w: [(w, n)]),
    "x @ y, x[n, w]": (lambda x, y: x @ y, lambda n, w: [(n, min(w, 512)), (min(w, 512), 64)]),
    "x @ y, x[64, n]": (lambda x, y: x @ y, lambda n, w: [(64, n), (n, min(w, 512))]),
    "x - y, x[n, m]": (lambda x, y: x - y, lambda n, w: [(n, 2 * n + 1), (n, 2 * n + 1)]),
    "attention of a step": (attention, lambda n, w: [(8, 1, 64), (8, n, 64), (8, n, 64)]),
}


def operands(shapes: Sequence[tuple[int, ...]], seed: int) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    """Return random operands."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, np.float32) for shape in shapes]


def lengths_up_to(longest: int, *, grows: bool) -> list[int]:
    """Return lengths, in no order unless it `grows`: all powers of two, what is beside them, and others."""
    found = {1, longest, *TIMED}
    for power in range(1, longest.bit_length()):
        found |= {(1 << power) - 1, 1 << power, (1 << power) + 1, 3 << (power - 1)}
    chosen = [length for length in sorted(found) if 1 <= length <= longest]
    return chosen if grows else [int(length) for length in np.random.default_rng(1).permutation(chosen)]


def timed(runs: Sequence[Callable[[], zyx.Tensor]], times: int) -> list[float]:
    """Return the least time of each, in seconds; they take turns."""
    least = [float("inf")] * len(runs)
    for _ in range(times):
        for number, run in enumerate(runs):
            zyx.synchronize()
            started = time.perf_counter()
            run().realize()
            zyx.synchronize()
            least[number] = min(least[number], time.perf_counter() - started)
    return least


def measured(name: str, device: str, nbytes: int, longest: int, times: int) -> dict[str, Any]:
    """Return a row: one program on one device."""
    function, shapes_at = PROGRAMS[name]
    width = max(1, nbytes // (4 * longest))
    runtime = zyx.runtime.runtime.current()
    row: dict[str, Any] = {"program": name, "device": device, "bytes": nbytes}
    jitted = zyx.jit(function)
    worst = 0.0
    for kind, run in (("eager", function), ("jitted", jitted)):
        before = runtime.compiler.compiled
        for length in lengths_up_to(longest, grows="step" in name):
            arrays = operands(shapes_at(length, width), length)
            result = run(*(zyx.Tensor(array, device=device) for array in arrays))
            if length <= 65 or length in TIMED[:1]:
                wanted = function(*(array.astype(np.float64) for array in arrays))
                worst = max(worst, float(abs(result.numpy() - wanted).max() / max(abs(wanted).max(), 1e-30)))
            else:
                result.realize()
        row[kind] = runtime.compiler.compiled - before
    row["traces"], row["difference"] = len(jitted.traces), worst
    ratios = []
    for length in [length for length in TIMED if length <= longest] if times else ():
        tensors = [zyx.Tensor(array, device=device).realize() for array in operands(shapes_at(length, width), length)]
        alone = zyx.jit(function)
        for _ in range(3):
            alone(*tensors).realize()
        shared, own = timed(
            (lambda tensors=tensors: jitted(*tensors), lambda tensors=tensors, f=alone: f(*tensors)), times
        )
        ratios.append(shared / own)
    if ratios:
        row["ratio"], row["most"] = statistics.median(ratios), max(ratios)
    return row


def main() -> int:
    """Print a table; the status is 1 if a program compiles more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", default=[])
    parser.add_argument("--bytes", type=int, action="append", default=[], help="of the greatest array; 1 KiB, 64 MiB")
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--times", type=int, default=15, help="runs that are timed; 0 for none")
    parser.add_argument("--program", action="append", default=[], help="part of its name")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for device in given.device or [zyx.default_device()]:
        for nbytes in given.bytes or (16 << 10, 64 << 20):
            for name in PROGRAMS:
                if given.program and not any(part in name for part in given.program):
                    continue
                row = measured(name, str(device), nbytes, given.longest, given.times)
                rows.append(row)
                if not given.json:
                    ratio = f"{row['ratio']:.2f}, {row['most']:.2f}" if "ratio" in row else ""
                    cells = [
                        row["program"],
                        row["device"],
                        f"{nbytes >> 10} KiB",
                        row["eager"],
                        row["jitted"],
                        row["traces"],
                    ]
                    print("|", " | ".join(map(str, [*cells, f"{row['difference']:.1e}", ratio])), "|", flush=True)
    if given.json:
        print(json.dumps(rows))
    return int(any(max(row["eager"], row["jitted"]) > MOST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
