"""The parts that `record.py` measures: each a command or two with a limit of time, and the entries of what they print.

| part | what | seconds at most: processor, GPU |
|---|---|---|
| sweep-100, sweep-101 | two programs of each family, drawn by this seed, beside other libraries | 300, 170 each |
| rows | the fixed rows of ``run.py --quick``, beside other libraries | 330, 140 |
| cold | fresh processes: import, first results, memory | 90, 50 |
| fuzz | random programs beside NumPy, on every device | 180, 60 |

All but the last need the folder of the comparison, which has ``run.py`` and ``sweep.py``.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from record_entries import Entry
from record_means import OURS, control_of, failures_of, figure_of, times_of_rows, times_of_sweep
from record_process import PartError, output_of

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence

SEEDS: Final = (100, 101)
CASES: Final = 2
PEERS: Final = {"cpu": "numpy,torch_eager,jax,zyx", "cuda": "torch_eager,torch_compile,jax,zyx"}
FUZZED: Final = {"cpu": ("c", "interpreter", "opencl", "vulkan", "wgpu"), "cuda": ("cuda",)}
PROGRAMS: Final = 2000

ROOT: Final = Path(__file__).parents[1]
RANDOM_PROGRAMS: Final = ROOT / "tests" / "random_programs.py"

#: Programs that compare are told to begin nothing after this share of their time, and then report what they have.
SHARE: Final = 0.75

#: The same of random programs, one of which may take seconds on a driver for processors.
FUZZ_SHARE: Final = 0.6


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the parts run.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        bench: The folder of the comparison; None without one.
        python: The Python that has zyx, its backends and, for the comparison, its peers.
        commit: Of entries.
        model: The processor or GPU, for entries.
        date: Of entries.
    """

    kind: str
    bench: Path | None
    python: str
    commit: str
    model: str
    date: datetime.date

    def entry(self, claim: str, figure: str, command: Sequence[str], details: str = "") -> Entry:
        """Return an entry of what was measured here; the places of programs and of their output are left out."""
        words = ["python" if word == self.python else self.short(word) for word in command]
        return Entry(claim, figure, shlex.join(words), self.commit, self.model, self.date, details)

    def short(self, word: str) -> str:
        """Return a word of a command without the folder of the comparison, or that of this repository."""
        path = Path(word)
        if self.bench is not None and path.parent == self.bench:
            return path.name
        return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else word


@dataclass(frozen=True, slots=True)
class Part:
    """Something to measure.

    Attributes:
        name: What ``--parts`` calls it.
        needs_bench: Whether it runs the comparison.
        limit_s: Seconds at most, by kind of device.
        measure: Gives the entries, within so many seconds; raises `PartError`.
    """

    name: str
    needs_bench: bool
    limit_s: Mapping[str, float]
    measure: Callable[[Setting, float], list[Entry]]


def sweep(seed: int, setting: Setting, limit_s: float) -> list[Entry]:
    """Measure programs that are drawn by a seed."""
    command = ["--device", setting.kind, "--seed", str(seed), "--cases", str(CASES)]
    results, shown = compare(setting, "sweep.py", command, limit_s)
    cases = times_of_sweep(results)
    failed = sum(failures_of(case["peers"]) for case in results["cases"])
    left_out = results["meta"]["left_out"]
    claim = f"programs drawn by seed {seed}, {CASES} of each family, beside peers"
    return [setting.entry(claim, mean(cases, failed, left_out), shown, details(cases, results))]


def rows(setting: Setting, limit_s: float) -> list[Entry]:
    """Measure the fixed rows."""
    command = ["--device", setting.kind, "--quick", "--no-cold", "--peers", PEERS[setting.kind]]
    results, shown = compare(setting, "run.py", command, limit_s)
    cases = times_of_rows(results, of_processes=False)
    failed = sum(failures_of(results["results"][name]) for name in cases)
    left_out = len(results["meta"]["left_out"])
    figure = mean(list(cases.values()), failed, left_out)
    return [setting.entry("fixed rows beside peers", figure, shown, details(list(cases.values()), results))]


def cold(setting: Setting, limit_s: float) -> list[Entry]:
    """Measure fresh processes: an entry each measure, seconds or MiB, with the peers' beside zyx's."""
    command = ["--device", setting.kind, "--quick", "--only", "process", "--peers", PEERS[setting.kind]]
    results, shown = compare(setting, "run.py", command, limit_s)
    entries = []
    for name, found in times_of_rows(results, of_processes=True).items():
        if OURS not in found:
            raise PartError(f"{name}: zyx has no result; {results['results'][name].get(OURS)}")
        unit = results["workloads"][name]["unit"]
        beside = ", ".join(f"{peer} {value:.3g}" for peer, value in found.items() if peer != OURS)
        claim = f"{name}: {results['workloads'][name]['note']}"
        entries.append(setting.entry(claim, f"{found[OURS]:.3g} {unit}; {beside or 'no peer'}", shown))
    return entries


def fuzz(setting: Setting, limit_s: float) -> list[Entry]:
    """Run random programs on each device that is there, an equal share of the time each."""
    deadline = time.monotonic() + limit_s
    listing = "import zyx; print('devices:', *{str(device).partition(':')[0] for device in zyx.devices()})"
    there = output_of([setting.python, "-c", listing], limit_s).rpartition("devices:")[2].split()
    devices = [device for device in FUZZED[setting.kind] if device in there]
    if not devices:
        raise PartError(f"none of {', '.join(FUZZED[setting.kind])} has a device here; there are {', '.join(there)}")
    entries = []
    for number, device in enumerate(devices):
        share_s = (deadline - time.monotonic()) / (len(devices) - number)
        fixed = [str(RANDOM_PROGRAMS), "--device", device, "--seed", str(SEEDS[0]), "--programs", str(PROGRAMS)]
        command = [setting.python, *fixed, "--deadline", f"{FUZZ_SHARE * share_s:.0f}"]
        printed = output_of(command, share_s)
        found = re.search(rf"^{device}: (\d+ programs, \d+ failed)", printed, re.MULTILINE)
        if found is None:
            raise PartError(f"{shlex.join(command)} printed no count of programs:\n{printed[-1000:]}")
        entries.append(setting.entry(f"random programs on {device}, beside NumPy", found[1], command))
    return entries


PARTS: Final = (
    *(
        Part(f"sweep-{seed}", True, {"cpu": 300, "cuda": 170}, functools.partial(sweep, seed))  # a line a seed
        for seed in SEEDS
    ),
    Part("rows", True, {"cpu": 330, "cuda": 140}, rows),
    Part("cold", True, {"cpu": 90, "cuda": 50}, cold),
    Part("fuzz", False, {"cpu": 180, "cuda": 60}, fuzz),
)


def compare(
    setting: Setting, script: str, options: Sequence[str], limit_s: float
) -> tuple[dict[str, Any], Sequence[str]]:
    """Run a script of the comparison; return its ``results.json``, and the command as entries show it.

    Raises:
        PartError: It failed, took too long, or wrote no results.
    """
    assert setting.bench is not None, "parts that need the comparison run with its folder only"
    shown = [setting.python, str(setting.bench / script), *options, "--deadline", f"{SHARE * limit_s:.0f}"]
    with tempfile.TemporaryDirectory(prefix="zyx-record-") as folder:
        output_of([*shown, "--out", folder], limit_s)
        path = Path(folder) / "results.json"
        if not path.exists():
            raise PartError(f"{script} wrote no results.json")
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results, shown


def mean(cases: Sequence[Mapping[str, float]], failed: int, left_out: int) -> str:
    """Return the figure of cases; raise `PartError` if there is none."""
    try:
        figure = figure_of(cases, failed)
    except ValueError as error:
        raise PartError(str(error)) from error
    return f"{figure}; {left_out} left out when the time was over" if left_out else figure


def details(cases: Sequence[Mapping[str, float]], results: Mapping[str, Any]) -> str:
    """Return the control, the versions of the libraries, and how busy the machine was."""
    meta = results["meta"]
    versions = ", ".join(dict.fromkeys(meta["versions"][peer] for peer in results["peers"]))
    busy = f" Other programs took {meta['foreign_median']:.0%} of the processors (median)." * bool(
        meta.get("foreign_median")
    )
    return f"{control_of(cases)}\n\n{meta['threads']} threads; {versions}.{busy}"
