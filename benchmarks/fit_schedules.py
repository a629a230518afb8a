"""Say how well the estimates of `zyx.estimate` choose among schedules, and fit their weights.

    python benchmarks/fit_schedules.py --nests 300 --schedules 64 --save times.jsonl
    python benchmarks/fit_schedules.py --load times.jsonl --fit

Nests of programs that are drawn by seed are each compiled with many schedules (`drawn_schedules.py`) and timed on a
device: a few launches first, then rounds in which all schedules of a nest take turns, each for a millisecond at least;
the least median of a round counts. What takes four times as long as the best has no more turns. Buffers are the same in
all launches, so what fits a cache stays there, as it does between the kernels of a program. What is expected to take a
hundred times as long as another schedule is left out.

For each nest the schedule that is chosen, and the one with the shortest estimate, are compared with the
fastest that was measured. ``--fit`` changes the weights of every second nest's estimates one by one as long as that
makes the picks and the order of all schedules better, and prints them, with the result for the other nests.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import multiprocessing
import platform
import statistics
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drawn_schedules import Candidate, drawn_nests, drawn_schedules

import zyx
from zyx.backend.device import Launch, SupportsCapture, SupportsTiming
from zyx.backend.rates import rates_of
from zyx.drivers.rendered import SupportsRendering
from zyx.errors import BackendError
from zyx.estimate import CostWeights
from zyx.estimate.model import Facts, Level, facts_of, timed, weights_of
from zyx.estimate.work import KINDS, Work
from zyx.runtime.runtime import use
from zyx.testing.choices import Seeded
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zyx.backend import Device, DeviceInfo, Program
    from zyx.backend.rates import Rates
    from zyx.runtime.runtime import Runtime

ROUNDS: Final = 3
ROUND_S: Final = 1e-3
TOO_SLOW: Final = 4.0
#: What is expected to take so many times as long as another one is not compiled: it would be launched for seconds.
HOPELESS: Final = 100.0
FEW: Final = 5
#: Launches that a device makes one after the other, where one takes less than so many seconds.
IN_A_ROW: Final = 20
LONG_S: Final = 3e-4
FEW_S: Final = 2e-2
SHARPNESS: Final = 8.0
#: Weights of what the nests that are drawn do not do, or hardly ever: they stay.
KEPT: Final = frozenset({"swap", "atomic", "product", "passing", "start"})
INSTRUCTIONS: Final = tuple(kind for kind in KINDS if kind not in KEPT)
#: Factors that a weight is multiplied by, in turn.
FACTORS: Final = (0.5, 2.0, 0.8, 1.25, 0.93, 1.08)


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule of a nest: where it is from, a digest of its kernel, what was counted of it, and its seconds."""

    origin: str
    key: str
    facts: Facts
    seconds: float


@dataclass(frozen=True, slots=True)
class Case:
    """A nest with its schedules, what is chosen first."""

    family: str
    seed: int
    schedules: list[Timed]

    @property
    def best(self) -> float:
        """Seconds of the fastest schedule."""
        return min(each.seconds for each in self.schedules)


# ---- timing


class Timer:
    """Launches the schedules of one nest on buffers of its own."""

    def __init__(self, device: Device, sizes: Sequence[int]) -> None:
        self._device = device
        pool = device.memory_pool
        self._buffers = []
        self._rows: dict[Program, Program | None] = {}
        for size in sizes:
            buffer, event = pool.allocate(max(1, size))
            filled = memoryview(bytes(size))
            pool.sync_events([pool.host_to_pool(filled, buffer, [event])])
            self._buffers.append(buffer)

    def row(self, program: Program) -> Program | None:
        """Return a program that launches another several times, if the device makes one that its clock can time.

        Beside what a single launch of a few microseconds takes, its clock sees how long the host takes to queue it.
        """
        device = self._device
        if not isinstance(device, SupportsTiming) or not isinstance(device, SupportsCapture):
            return None
        try:
            return device.capture([Launch(program, tuple(self._buffers))] * IN_A_ROW, 0)
        except BackendError:
            return None

    def once(self, program: Program) -> float:
        """Return the seconds of one launch."""
        device = self._device
        if isinstance(device, SupportsTiming):
            row = self._rows.get(program)
            if row is not None:
                return device.timed_launch(row, ()) / IN_A_ROW
            seconds = device.timed_launch(program, self._buffers)
            if seconds < LONG_S:
                row = self._rows[program] = self.row(program)
                if row is not None:
                    device.timed_launch(row, ())  # what is recorded is recorded now
            return seconds
        started = time.perf_counter()
        device.memory_pool.sync_events([device.launch(program, self._buffers)])
        return time.perf_counter() - started

    def few(self, program: Program) -> float:
        """Return the least seconds of a few launches: one may have been interrupted."""
        times = [self.once(program)]
        while sum(times) < FEW_S and len(times) < FEW:
            times.append(self.once(program))
        return min(times)

    def round(self, program: Program) -> float:
        """Return the median seconds of some launches."""
        times = [self.once(program)]
        while sum(times) < ROUND_S:
            times.append(self.once(program))
        return statistics.median(times)

    def close(self) -> None:
        """Free the buffers."""
        for row in self._rows.values():
            if row is not None:
                self._device.release(row)
        for buffer in self._buffers:
            self._device.memory_pool.deallocate(buffer)


@dataclass(frozen=True, slots=True)
class Prospect:
    """A nest to measure.

    Attributes:
        family, seed: Of its program.
        sizes: Bytes of its buffers.
        schedules: Where each is from, a digest of its kernel, what was counted of it, and the kernel, or what the
            device rendered of it.
    """

    family: str
    seed: int
    sizes: tuple[int, ...]
    schedules: list[tuple[str, str, Facts, object]]


def prospects(device: Device, options: argparse.Namespace, seed: int) -> list[Prospect]:
    """Return the nests of one program with their schedules, but for those that are expected to take far too long."""
    found: list[Prospect] = []
    rates, weights = rates_of(device.info), weights_of(device.info)
    for drawn in drawn_nests(seed, options.seed, options.points, Seeded(seed)):
        schedules: list[tuple[str, str, Facts, object]] = []
        shortest = math.inf
        for candidate in drawn_schedules(drawn.nest, device.info, Seeded(seed), options.schedules):
            facts = facts_of(candidate.nest, device.info)
            expected = timed(facts, rates, weights).seconds
            shortest = min(shortest, expected)
            if expected > HOPELESS * shortest:
                continue
            try:
                made = device.render(candidate.kernel) if isinstance(device, SupportsRendering) else candidate.kernel
            except BackendError:
                continue
            schedules.append((candidate.origin, key_of(candidate), facts, made))
        sizes = tuple(param.length * param.dtype.itemsize for param in drawn.nest.params)
        found.append(Prospect(drawn.family, seed, sizes, schedules))
    return found


def built(device: Device, made: object) -> Program | None:
    """Return the program of a schedule; None if the device refuses it."""
    try:
        return device.build(made) if isinstance(device, SupportsRendering) else device.compile(made)
    except BackendError:
        return None


def prospects_elsewhere(options: argparse.Namespace, settings: dict[str, Any], seed: int) -> list[Prospect]:
    """Do the same in a process of its own, and leave what the device compiles in the cache of programs."""
    if not _here:
        _here.append(open_runtime(options.device, settings=settings))
    with use(_here[0]):
        device = _here[0].device()
        found = prospects(device, options, seed)
        for prospect in found:
            for *_, made in prospect.schedules:
                program = built(device, made)
                if program is not None:
                    device.release(program)
        return found


#: The runtime of a process that prepares.
_here: list[Runtime] = []


def measured(device: Device, prospect: Prospect) -> list[Timed]:
    """Return the schedules of a nest that the device takes, timed."""
    every = [(origin, key, facts, built(device, made)) for origin, key, facts, made in prospect.schedules]
    programs = [(origin, key, facts, program) for origin, key, facts, program in every if program is not None]
    if not programs:
        return []
    timer = Timer(device, prospect.sizes)
    try:
        timer.once(programs[0][3])  # brings in the pages of the buffers
        least = [timer.few(program) for *_, program in programs]
        for _ in range(ROUNDS):
            best = min(least)
            for number, (*_, program) in enumerate(programs):
                if least[number] < TOO_SLOW * best:
                    least[number] = min(least[number], timer.round(program))
    finally:
        timer.close()
        for *_, program in programs:
            device.release(program)
    return [Timed(*about, seconds) for (*about, _), seconds in zip(programs, least, strict=True)]


def key_of(candidate: Candidate) -> str:
    """Return a digest of a schedule's kernel."""
    return hashlib.sha256(str(candidate.kernel).encode()).hexdigest()[:16]


def measure(
    device: Device, options: argparse.Namespace, prepared: Callable[[int], Iterable[list[Prospect]]]
) -> list[Case]:
    """Draw nests and time their schedules, until there are as many as wanted or time is up."""
    cases: list[Case] = []
    started = time.monotonic()
    for prospect in itertools.chain.from_iterable(prepared(options.seed)):
        schedules = measured(device, prospect)
        if len(schedules) > 1 and schedules[0].origin == "chosen":
            cases.append(Case(prospect.family, prospect.seed, schedules))
            if options.save:
                with Path(options.save).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(_as_json(cases[-1])) + "\n")
        if len(cases) >= options.nests or time.monotonic() - started > options.seconds:
            break
    return cases


def in_processes(
    options: argparse.Namespace, settings: dict[str, Any], pool: ProcessPoolExecutor, first: int
) -> Iterator[list[Prospect]]:
    """Yield the nests of programs from seed `first` on, as they are prepared in other processes: those of one together.

    Some kernels take a minute to compile; the others do not wait for these.
    """
    seeds = itertools.count(first)
    ahead = {pool.submit(prospects_elsewhere, options, settings, next(seeds)) for _ in range(2 * options.processes)}
    while True:
        done, ahead = wait(ahead, return_when=FIRST_COMPLETED)
        for each in done:
            ahead.add(pool.submit(prospects_elsewhere, options, settings, next(seeds)))
            yield each.result()


def _as_json(case: Case) -> dict[str, Any]:
    rows = []
    for each in case.schedules:
        facts = {name: getattr(each.facts, name) for name in ("groups", "threads", "resident", "streams")}
        facts["work"] = dataclasses.asdict(each.facts.work)
        facts["levels"] = [dataclasses.astuple(level) for level in each.facts.levels]
        rows.append({"origin": each.origin, "key": each.key, "seconds": each.seconds, **facts})
    return {"family": case.family, "seed": case.seed, "schedules": rows}


def load(path: str, info: DeviceInfo) -> list[Case]:
    """Return what an earlier run has saved."""
    cases = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        rows = []
        for row in case["schedules"]:
            levels = tuple(Level(*level) for level in row["levels"])
            counts = (row[name] for name in ("groups", "threads", "resident", "streams"))
            facts = Facts(info, Work(**row["work"]), levels, *counts)
            rows.append(Timed(row["origin"], row["key"], facts, row["seconds"]))
        cases.append(Case(case["family"], case["seed"], rows))
    return cases


# ---- how good the estimates are


@dataclass(frozen=True, slots=True)
class Quality:
    """How estimates compare with what was measured.

    Attributes:
        chosen, model: For each nest, what the pick of either took over the best that was measured.
        correlation: Of the logarithms of all times with those of all estimates.
        rank: The median over nests of the correlation of ranks.
        error: The median factor between a time and its estimate.
        loss: What the fit makes small.
    """

    chosen: list[float]
    model: list[float]
    correlation: float
    rank: float
    error: float
    loss: float


def quality(cases: Sequence[Case], rates: Rates, weights: CostWeights) -> Quality:
    """Compare."""
    chosen, model, ranks, loss = [], [], [], 0.0
    logs: list[tuple[float, float]] = []
    for case in cases:
        times = [each.seconds for each in case.schedules]
        found = [timed(each.facts, rates, weights).seconds for each in case.schedules]
        pick = min(range(len(found)), key=found.__getitem__)
        chosen.append(times[0] / case.best)
        model.append(times[pick] / case.best)
        ranks.append(_correlation(_ranks(times), _ranks(found)))
        pairs = [(math.log(a), math.log(b)) for a, b in zip(times, found, strict=True)]
        logs += pairs
        # Near the best the order matters most.
        near = [case.best / seconds for seconds in times]
        offset = sum(w * (b - a) for w, (a, b) in zip(near, pairs, strict=True)) / sum(near)
        spread = sum(w * (b - a - offset) ** 2 for w, (a, b) in zip(near, pairs, strict=True)) / sum(near)
        # What would be lost if picks were as likely as they are near the shortest estimate: a small change of a weight
        # changes this a little, which a pick does not.
        shares = [(found[pick] / seconds) ** SHARPNESS for seconds in found]
        lost = sum(s * math.log(seconds / case.best) for s, seconds in zip(shares, times, strict=True)) / sum(shares)
        loss += lost + 0.3 * math.sqrt(spread) + 0.1 * abs(offset)
    error = math.exp(statistics.median(abs(a - b) for a, b in logs))
    correlation = _correlation(*zip(*logs, strict=True))
    return Quality(chosen, model, correlation, statistics.median(ranks), error, loss / len(cases))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for rank, number in enumerate(order):
        ranks[number] = float(rank)
    return ranks


def _correlation(x: Sequence[float], y: Sequence[float]) -> float:
    if len(set(x)) < 2 or len(set(y)) < 2:
        return 1.0
    return statistics.correlation(x, y)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that so large a part of all is not above."""
    return sorted(values)[min(len(values) - 1, math.ceil(part * len(values)) - 1)]


def show(name: str, cases: Sequence[Case], found: Quality) -> None:
    """Print how good the picks and the estimates are."""
    count = statistics.median(len(case.schedules) for case in cases)
    print(f"\n{name}: {len(cases)} nests, {count:.0f} schedules each (median)\n")
    print("| pick | median | 90th percentile | 95th percentile | worst |\n|---|---|---|---|---|")
    for what, values in (("chosen", found.chosen), ("model", found.model)):
        cells = [statistics.median(values), percentile(values, 0.9), percentile(values, 0.95), max(values)]
        print(f"| {what} over the best | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    print("\n| family | nests | chosen, median | 95th | model, median | 95th |\n|---|---|---|---|---|---|")
    for family in dict.fromkeys(case.family for case in cases):
        mine = [number for number, case in enumerate(cases) if case.family == family]
        cells = []
        for values in (found.chosen, found.model):
            own = [values[number] for number in mine]
            cells += [f"{statistics.median(own):.2f}", f"{percentile(own, 0.95):.2f}"]
        print(f"| {family} | {len(mine)} | " + " | ".join(cells) + " |")
    print(
        f"\ncorrelation of logarithms {found.correlation:.3f}, of ranks in a nest {found.rank:.3f} (median), "
        f"a time is off by {found.error:.2f} (median factor), loss {found.loss:.4f}"
    )


# ---- the fit


def fit(cases: Sequence[Case], rates: Rates, weights: CostWeights, say: Callable[[str], None]) -> CostWeights:
    """Return weights that make the loss of `cases` small: all instructions together are changed first, then each."""
    loss = quality(cases, rates, weights).loss
    names = [field.name for field in dataclasses.fields(CostWeights) if field.name not in KEPT]
    for factor in FACTORS:
        improved = True
        while improved:
            improved = False
            for changed in [(*INSTRUCTIONS, "latency"), *((name,) for name in names)]:
                values = {name: getattr(weights, name) * factor for name in changed}
                if values.get("rest", 0.0) > 1:
                    continue
                other = dataclasses.replace(weights, **values)
                found = quality(cases, rates, other).loss
                if found < loss - 1e-5:
                    loss, weights, improved = found, other, True
            say(f"times {factor}: loss {loss:.4f}")
    return weights


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="c", help="where to time; the processor by default")
    parser.add_argument("--threads", type=int, default=None, help="host threads of the processor")
    parser.add_argument("--nests", type=int, default=300)
    parser.add_argument("--schedules", type=int, default=64, help="of each nest, at most")
    parser.add_argument("--points", type=int, default=10_000_000, help="of the largest tensor of a program, at most")
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--seconds", type=float, default=3600, help="after which no new nest is begun")
    parser.add_argument("--save", default="", help="a file to append what was measured to")
    parser.add_argument("--load", default="", help="such a file, to measure nothing")
    parser.add_argument("--fit", action="store_true", help="fit the weights, and print them")
    parser.add_argument("--processes", type=int, default=1, help="that draw and compile, beside the one that times")
    options = parser.parse_args()
    settings: dict[str, Any] = {} if options.threads is None else {"threads": options.threads}
    with tempfile.TemporaryDirectory() as cache, ExitStack() as ends:
        if options.processes > 1:
            settings["cache"] = {"enabled": True, "directory": cache}
        runtime = open_runtime(options.device, settings=settings)
        ends.callback(runtime.close)
        ends.enter_context(use(runtime))
        device = runtime.device()
        info = device.info
        print(f"{info.model}, {info.units} units; {platform.platform()}; zyx-core {zyx.__version__}", flush=True)
        if options.load:
            cases = load(options.load, info)
        elif options.processes > 1:
            pool = ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn"))
            ends.callback(pool.shutdown, cancel_futures=True)
            cases = measure(device, options, functools.partial(in_processes, options, settings, pool))
        else:
            cases = measure(
                device, options, lambda first: (prospects(device, options, s) for s in itertools.count(first))
            )
        rates, weights = rates_of(info), weights_of(info)
        show("as installed", cases, quality(cases, rates, weights))
        if options.fit:
            weights = fit(cases[::2], rates, CostWeights(), lambda text: print(text, flush=True))
            show("fitted to every second nest, the others", cases[1::2], quality(cases[1::2], rates, weights))
            show("fitted, all", cases, quality(cases, rates, weights))
            print(f"\n{weights}")


if __name__ == "__main__":
    main()
