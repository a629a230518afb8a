"""``zyx bench``: ten programs in zyx, and in NumPy, PyTorch and JAX as far as they are installed.

zyx bench                                     on the default device, two minutes
zyx bench --devices c opencl --json out.json  on two devices, and everything as data
zyx bench --seconds 20                        less time for each program, and less certain figures

What each library computes is compared with NumPy in float64 before it is timed; one that gives other values is named,
and not timed. All run in one process, in turns: in each round every library runs a block of calls, in an order that
turns from round to round, after a pause in which the threads of the one before go to sleep. Reported are the medians
over the rounds. BEST/ZYX is the time of the fastest of the other libraries, of those on the same kind of device where
there are such, over zyx's: above 1, zyx is faster.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.cli.bench_peers import Numpy, Peer, Zyx, others
from zyx.cli.bench_programs import PROGRAMS
from zyx.errors import InvalidArgumentError
from zyx.plugins.describe import columns
from zyx.plugins.words import text_of
from zyx.runtime.profile import duration
from zyx.runtime.runtime import current
from zyx.settings.paths import thread_count
from zyx.version import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from zyx.cli.bench_programs import Benchmark

    Array = np.ndarray[Any, np.dtype[Any]]

#: Seconds of timing, all programs together: with what has to be compiled, two minutes on two cores.
SECONDS: Final = 90.0
#: Seconds before a block: longer than threads of OpenBLAS (0.4 ms, as zyx imports it) and OpenMP look for work.
_PAUSE_S: Final = 0.05
#: Seconds of a block, a call at least.
_BLOCK_S: Final = 0.03
_LEAST_ROUNDS: Final = 2
#: Norm of the error over that of the result. Sums of some thousand products in float32 stay below 1e-5; products of
#: shorter floats, such as TF32 with 10 bits, are off by 3e-4.
_TOLERANCE: Final = 1e-4


@dataclass(slots=True)
class Row:
    """One library at one program.

    Attributes:
        program: Name of the program.
        library: Name of the library, or of zyx's device.
        seconds: Of one call, the mean of each block.
        fault: Why it was not timed; empty if it was.
        ratio: Of zyx's devices, the time of the best of the other libraries over its own; None if there is no such.
        best: Which library that is.
    """

    program: str
    library: str
    seconds: list[float] = field(default_factory=list)
    fault: str = ""
    ratio: float | None = None
    best: str = ""

    @property
    def median_s(self) -> float:
        """Median over the rounds; only of what was timed."""
        return statistics.median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return it as data."""
        found: dict[str, Any] = {"program": self.program, "library": self.library}
        if self.fault:
            return found | {"fault": self.fault}
        low, middle, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        found |= {"median_s": middle, "quartiles_s": [low, high], "rounds": len(self.seconds)}
        return found if self.ratio is None else found | {"ratio": self.ratio, "best": self.best}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--devices", nargs="+", metavar="DEVICE", help="where zyx computes; by default on one device")
    parser.add_argument("--json", metavar="FILE", help="write everything as data, too")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"how long all programs are timed in all, without what is compiled before; {SECONDS:g} if not given",
    )
    parser.add_argument("--small", action="store_true", help="small arrays, for slow devices and to try it out")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Time all programs and print the table; 1 if zyx fails at one or gives other values."""
    if not arguments.seconds > 0:
        raise InvalidArgumentError(f"--seconds {arguments.seconds:g}: it is more than 0")
    _check_writable(arguments.json)
    ours = [Zyx(name) for name in dict.fromkeys(current().device(name).name for name in arguments.devices or [None])]
    peers = [*ours, *others(accelerator=not all(each.on_host for each in ours))]
    for line in columns(machine(ours, peers)):
        console.print(line)
    rows: list[Row] = []
    with current().trace.bar("timing", len(PROGRAMS), after_s=0.0) as bar:
        for program in PROGRAMS:
            bar.advance(0, program.name)
            rows += rows_of(program, peers, arguments.seconds / len(PROGRAMS), small=arguments.small)
            bar.advance(1)
    console.print("")
    for line in columns(table(rows, ours, peers)):
        console.print(line)
    for line in summary(rows, ours):
        console.print(line)
    if arguments.json:
        data = {
            "machine": dict(machine(ours, peers)),
            "seconds": arguments.seconds,
            "small": arguments.small,
            "rows": [row.as_json() for row in rows],
        }
        Path(arguments.json).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        console.print(f"\nwritten to {arguments.json}")
    names = {each.name for each in ours}
    return 1 if any(row.fault and row.library in names for row in rows) else 0


def _check_writable(file: str | None) -> None:
    """Refuse a file before everything is timed for it."""
    if file is not None:
        try:
            with Path(file).open("a", encoding="utf-8"):
                pass
        except OSError as error:
            raise InvalidArgumentError(f"--json {file} cannot be written: {error.strerror}") from error


def machine(ours: Sequence[Peer], peers: Sequence[Peer]) -> list[tuple[str, str]]:
    """Return pairs of a name and a text: what the figures depend on."""
    others_of = ", ".join(f"{each.name} {each.version}" for each in peers if each not in ours)
    runtime = current()
    return [
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"),
        ("python", platform.python_version()),
        ("zyx", f"{__version__}, {thread_count(runtime.settings)} threads"),
        *((each.name, runtime.device(each.name).info.model) for each in ours),
        ("beside", others_of),
    ]


# ---- timing


def rows_of(program: Benchmark, peers: Sequence[Peer], budget_s: float, *, small: bool) -> list[Row]:
    """Return a row for each library, timed for so long together."""
    arrays = program.draw(small=small)
    exact_arrays = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
    exact = Numpy()
    wanted = exact.read(getattr(exact, program.method)(*exact_arrays))
    rows, calls = [Row(program.name, peer.name) for peer in peers], []
    for peer, row in zip(peers, rows, strict=True):
        try:
            call = peer.prepare(program.method, [peer.load(array) for array in arrays])
            call()  # which compiles
            row.fault = fault_of(peer.read(call()), wanted)
        except Exception as error:  # noqa: BLE001  # the border to other libraries, and to drivers
            row.fault = f"{type(error).__name__}: {text_of(error)}"
        if not row.fault:
            calls.append((row, call))
    _measure(calls, budget_s)
    _compare(rows, peers)
    return rows


def fault_of(found: Sequence[Array], wanted: Sequence[Array]) -> str:
    """Return how a result differs from the exact one; empty if it does not, but for rounding."""
    if [array.shape for array in found] != [array.shape for array in wanted]:
        return f"shapes {[array.shape for array in found]}, not {[array.shape for array in wanted]}"
    errors = [
        float(np.linalg.norm(one.astype(np.float64) - other) / np.linalg.norm(other))
        for one, other in zip(found, wanted, strict=True)
    ]
    if all(error <= _TOLERANCE for error in errors):  # what is no number is not
        return ""
    return f"other values than NumPy in float64: off by {np.max(errors):.2g} in norm, {_TOLERANCE:g} is allowed"


def _measure(calls: Sequence[tuple[Row, Callable[[], Any]]], budget_s: float) -> None:
    """Append the seconds of one call in each round."""
    counts = [max(1, round(_BLOCK_S / max(_block(call, 1), 1e-9))) for _, call in calls]
    ends = time.perf_counter() + budget_s
    number = 0
    while calls and (number < _LEAST_ROUNDS or time.perf_counter() < ends):
        for step in range(len(calls)):
            which = (number + step) % len(calls)
            row, call = calls[which]
            time.sleep(_PAUSE_S)
            call()  # which wakes the threads
            row.seconds.append(_block(call, counts[which]))
        number += 1


def _block(call: Callable[[], Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


def _compare(rows: Sequence[Row], peers: Sequence[Peer]) -> None:
    """Hold the rows of zyx against the best of the others on the same kind of device, or of all where none is."""
    timed = [(row, peer) for row, peer in zip(rows, peers, strict=True) if not row.fault]
    for row, peer in timed:
        if isinstance(peer, Zyx):
            rivals = [(other, rival) for other, rival in timed if not isinstance(rival, Zyx)]
            alike = [other for other, rival in rivals if rival.on_host == peer.on_host]
            best = min(alike or [other for other, _ in rivals], key=lambda other: other.median_s, default=None)
            if best is not None:
                row.ratio, row.best = best.median_s / row.median_s, best.library


# ---- words


def table(rows: Sequence[Row], ours: Sequence[Peer], peers: Sequence[Peer]) -> list[tuple[str, ...]]:
    """Return a heading and a row of text for each program: the time of each library, then the ratio of each device."""
    names = [each.name for each in peers]
    ratios = ["BEST/ZYX"] if len(ours) == 1 else [f"BEST/{each.name}" for each in ours]
    found: list[tuple[str, ...]] = [("PROGRAM", *names, *ratios)]
    for start in range(0, len(rows), len(peers)):
        of_program = rows[start : start + len(peers)]
        cells = ["see below" if row.fault else duration(row.median_s) for row in of_program]
        compared = ["" if row.ratio is None else f"{row.ratio:.3g}" for row in of_program[: len(ours)]]
        found.append((of_program[0].program, *cells, *compared))
    return found


def summary(rows: Sequence[Row], ours: Sequence[Peer]) -> list[str]:
    """Return what is to be said below the table: the mean ratio of each device, and what was not timed."""
    lines = [""]
    for each in ours:
        ratios = [row.ratio for row in rows if row.library == each.name and row.ratio is not None]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            faster = sum(ratio > 1 for ratio in ratios)
            lines.append(f"{each.name}: geometric mean {mean:.3g}, faster in {faster} of {len(ratios)}")
    return lines + [f"{row.library}, {row.program}: {row.fault}" for row in rows if row.fault]
