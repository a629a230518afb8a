"""Replay how programs are scheduled for recorded devices, and show where that differs from what is committed.

    python tests/replay/replay.py               compare; the status is 1 where something differs
    python tests/replay/replay.py --write       write what there is now to expected/

No device is needed, and nothing is computed: for each record of a device (`recorded.py`, and those on paper of
`zyx.testing.paper`) each program of `workloads.py`, and those that `benchmarks/drawn_schedules.py` draws by seed, are
planned, scheduled and lowered. A line a kernel says what came of it:

    softmax | sum_max_4096x4096 | 12 moves 5c0f1e6a2b | 91ab4f0c3d | 14/52/880

the moves' digest, that of the kernel's text, and operations by the depth of the loops that they are in. The moves
themselves are in ``moves/``, one file a device, where ``--moves`` is given; they are not committed.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import multiprocessing
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "benchmarks")]  # scripts, not packages

from drawn_schedules import FAMILIES  # noqa: E402
from recorded import recorded  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

import zyx  # noqa: E402
from zyx.backend import Event, Program  # noqa: E402
from zyx.drivers.limits import check_limits  # noqa: E402
from zyx.kernel import data as k  # noqa: E402
from zyx.runtime.runtime import use  # noqa: E402
from zyx.testing.choices import Seeded  # noqa: E402
from zyx.testing.opening import open_runtime  # noqa: E402
from zyx.testing.paper import PAPER, PaperBackend, PaperDevice  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, DeviceInfo, MemoryPool
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime

#: Programs that are drawn, of these seeds, for recorded devices alone; and points of their largest tensors.
DRAWN: Final = range(700, 900)
MOST_POINTS: Final = 1_000_000
EXPECTED: Final = HERE / "expected"


class SilentDevice(PaperDevice):
    """A device that takes what its record takes, and computes nothing."""

    def __init__(self, name: str, pool: MemoryPool, info: DeviceInfo) -> None:
        super().__init__(name, pool, info)
        self.kernels: list[Kernel] = []

    def compile(self, kernel: Kernel) -> Program:
        if self.info.max_group_threads > 1:  # what a thread keeps to itself may lie anywhere in a processor's memory
            check_limits(kernel, self.info)
        self.kernels.append(kernel)
        return Program(kernel.name, "")

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        return Event()

    def capture(self, launches: Sequence[Any], slots: int) -> Program:
        return Program("sequence", "")


class Recorder:
    """Notes the schedules of a runtime's kernels."""

    def __init__(self, runtime: Runtime) -> None:
        self.moves: dict[str, list[str]] = {}
        self.notes: list[str] = []
        trace = runtime.trace
        trace.scheduled = self._scheduled  # type: ignore[method-assign]  # in place of printing it
        trace.fell_back = self._fell_back  # type: ignore[method-assign]

    def _scheduled(self, name: str, before: object, after: object, moves: Sequence[object]) -> None:
        self.moves.setdefault(name, []).extend(map(str, moves))

    def _fell_back(self, name: str, tried: str, following: str, error: Exception) -> None:
        self.notes.append(f"{name}: {tried} to {following}: {type(error).__name__}")


def depths(kernel: Kernel) -> str:
    """Return how many operations there are at each depth of loops."""
    counts, depth = [0], 0
    for op in kernel.ops:
        if isinstance(op, k.Loop):
            depth += 1
            counts += [0] * (depth + 1 - len(counts))
        elif isinstance(op, k.EndLoop):
            depth -= 1
        else:
            counts[depth] += 1
    return "/".join(map(str, counts))


def digest(text: str) -> str:
    """Return a few digits that tell texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def lines_of(name: str, info: DeviceInfo, *, draws: bool) -> tuple[str, list[str], list[str]]:
    """Return the lines of a device, and the moves."""
    lines: list[str] = []
    listed: list[str] = []
    runtime = open_runtime("paper:0", [PaperBackend(info, SilentDevice)], {"threads": 1})
    device = runtime.device("paper:0")
    assert isinstance(device, SilentDevice)
    recorder = Recorder(runtime)
    drawn = {f"drawn {seed}": seed for seed in DRAWN} if draws else {}
    with use(runtime):
        for title in (*WORKLOADS, *drawn):
            device.kernels.clear()
            recorder.moves.clear()
            recorder.notes.clear()
            try:
                if title in drawn:
                    seed = drawn[title]
                    family = list(FAMILIES)[seed % len(FAMILIES)]
                    zyx.realize(FAMILIES[family](Seeded(seed), MOST_POINTS))
                else:
                    found = WORKLOADS[title]()
                    zyx.realize(*(found if isinstance(found, list) else [found]))
            except zyx.errors.ZyxError as error:
                lines.append(f"{title} | {type(error).__name__}")
            for kernel in sorted(device.kernels, key=lambda kernel: (kernel.name, str(kernel))):
                moves = recorder.moves.get(kernel.name, [])
                text = "\n".join(moves)
                lines.append(
                    f"{title} | {kernel.name} | {len(moves)} moves {digest(text)} | {digest(str(kernel))} | "
                    f"{depths(kernel)}"
                )
                listed += [f"{title} | {kernel.name}", *(f"    {move}" for move in moves)]
            lines += [f"{title} | {note}" for note in sorted(recorder.notes)]
    runtime.close()
    return name, lines, listed


def _lines_of(job: tuple[str, DeviceInfo, bool]) -> tuple[str, list[str], list[str]]:
    warnings.simplefilter("ignore")
    name, info, draws = job
    return lines_of(name, info, draws=draws)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write what there is to expected/")
    parser.add_argument("--moves", action="store_true", help="write the moves to moves/, to compare them")
    parser.add_argument("--only", help="a device")
    asked = parser.parse_args(arguments)
    real = recorded()
    jobs = [(name, info, True) for name, info in real.items()]
    jobs += [(name.replace(" ", "-"), info, False) for name, info in PAPER.items()]
    jobs = [job for job in jobs if asked.only in (None, job[0])]
    changed = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for name, lines, listed in pool.imap_unordered(_lines_of, jobs, chunksize=1):
            path = EXPECTED / f"{name}.txt"
            before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            if asked.moves:
                (HERE / "moves").mkdir(exist_ok=True)
                (HERE / "moves" / f"{name}.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")
            differences = [*difflib.unified_diff(before, lines, f"{name}, committed", f"{name}, now", lineterm="", n=0)]
            if differences:
                changed += 1
                print("\n".join(differences))
            if asked.write:
                EXPECTED.mkdir(exist_ok=True)
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    count = f"{changed} of {len(jobs)} devices are scheduled for in another way"
    print(f"{count}; written to {EXPECTED.relative_to(ROOT)}" if asked.write else count)
    return 1 if changed and not asked.write else 0


if __name__ == "__main__":
    sys.exit(main())
