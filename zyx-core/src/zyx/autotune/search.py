"""Search the schedules of one launch by measuring: those of every family, and the ones next to the best so far.

1. What is chosen without measuring is the one to beat. Its results are what others have to give; those of small kernels
   are the interpreter's as well.
2. Of the schedules of all families, those with the least estimates are timed (`n_seeds`), and a library's kernel.
3. Then, as long as time is left and fewer than `n_total_opts` were timed: schedules next to those known, of which a
   tournament of two picks one by its time, `n_added_per_step` of them, the least estimates first; the slowest
   `n_removed_per_step` are left aside.
4. The best few are timed again beside the one to beat, in turns. One that is faster each time takes its place.

What differs is dropped, and said to be wrong. The same seed gives the same order of candidates.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zyx.autotune.measure import Scratch, differs
from zyx.autotune.neighbours import neighbours, scheduled
from zyx.autotune.passes import PassMove, moves_of
from zyx.errors import BackendError, DeviceLostError, ScheduleError, VerifyError
from zyx.estimate import estimate
from zyx.kernel.digest import digest_of_kernel
from zyx.kernel.verify import verify
from zyx.libraries.match import match_problem
from zyx.lowering.lower import lower_together
from zyx.nest.data import params_of
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule import fallback
from zyx.schedule.choose import space_of
from zyx.schedule.search import applied
from zyx.schedule.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np

    from zyx.autotune.passes import Guard
    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.dtype import Scalar
    from zyx.hookspecs import KernelPass
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.schedule.moves import Move
    from zyx.schedule.plan import Plan
    from zyx.settings.record import Autotune

#: The part of the time that is left for the last comparison.
_LAST: Final = 0.2
#: Rounds of it, and how many candidates take part.
_ROUNDS: Final = 5
_FINALISTS: Final = 3
#: What has to be gained for a schedule to take the place of the one chosen: runs differ by less than that.
_LEAST_GAIN: Final = 1.03
#: What has an estimate so many times the least is not timed.
_HOPELESS: Final = 8.0
#: What takes so many times the best in one launch is launched once.
_TOO_SLOW: Final = 1.5
#: Neighbours that are estimated for each one that is timed.
_ESTIMATED: Final = 4
#: The part of neighbours that are two steps away: what takes two changes may be worse after each of them alone.
_TWO_STEPS: Final = 0.3
#: Where candidates are from whose moves core has chosen.
_CHOSEN: Final = "chosen"
_FAMILY: Final = "family"
#: Schedules of families that are estimated: each takes about a millisecond.
_MOST_SEEDS: Final = 256


@dataclass(slots=True, eq=False)
class Candidate:
    """A way to compute the nests of a launch.

    Attributes:
        origin: Where it is from, for people.
        moves: Of each nest; None of a library's kernel.
        nests: As they are scheduled.
        expected_s: Its estimate; 0 of a library's kernel.
        library: The name of a library's kernel.
        kernel: What it is lowered to.
        program: What it is compiled to.
        order: The places of its arguments among the params of the nests.
        seconds: What a launch was measured to take.
    """

    origin: str
    moves: tuple[tuple[Move, ...], ...] | None
    nests: tuple[Nest, ...]
    expected_s: float
    library: str = ""
    kernel: Kernel | None = None
    program: Program | None = None
    order: tuple[int, ...] = ()
    seconds: float = float("inf")


@dataclass(slots=True)
class SearchResult:
    """What a search has found.

    Attributes:
        base: What is chosen without measuring.
        best: What is faster; the same if nothing is.
        tried: How many others were timed.
        wrong: What was wrong, and how.
        gain: How many times as fast the best one is.
        measured: All that was timed.
        note: Why there was no search; empty if there was one.
    """

    base: Candidate
    best: Candidate
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    gain: float = 1.0
    measured: list[Candidate] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Means:
    """What a search is done with.

    Attributes:
        settings: How much is looked at.
        passes: Moves of other packages.
        libraries: Kernels of libraries.
        prepared: Makes the program of a library's kernel.
        guard: Runs the code of other packages.
        progress: Told of the best so far: candidates timed, gain, seconds left.
    """

    settings: Autotune
    passes: Sequence[KernelPass]
    libraries: Sequence[LibraryKernel]
    prepared: Callable[[LibraryKernel, Problem, Device], Program]
    guard: Guard
    progress: Callable[[int, float, float], None]


class Search:
    """The search of one launch.

    Args:
        nests: What runs side by side.
        name: Of the kernel.
        device: Where.
        means: What it is done with.
        values: As `Scratch` takes them.
        in_use: The name of the library's kernel that is taken without measuring: it is the one to beat.
    """

    def __init__(
        self,
        nests: Sequence[Nest],
        name: str,
        device: Device,
        means: Means,
        values: Mapping[int, Scalar | np.ndarray[Any, Any]],
        in_use: str = "",
    ) -> None:
        self._nests = tuple(nests)
        self._in_use = in_use
        self._params = params_of(nests)
        self._name = name
        self._device = device
        self._means = means
        self._values = values
        self._random = random.Random(means.settings.seed)  # what is drawn is no secret
        self._is_alone = len(nests) == 1
        self._spaces = [space_of(nest, device.info, is_alone=self._is_alone) for nest in nests]
        self._seen: set[bytes] = set()
        self._programs: list[Program] = []

    def run(self, seconds: float) -> SearchResult:
        """Search for so many seconds, more or less, and return what was found. Programs made for it are released.

        Raises:
            BackendError: What is chosen without measuring does not run.
            DeviceLostError: A candidate does not come back.
        """
        started = time.monotonic()
        base = self._base()
        found = SearchResult(base, base)
        try:
            assert base.program is not None  # or this were not reached
            scratch = Scratch(self._device, self._nests, self._params, self._values, self._means.settings.seed)
        except BaseException:
            self._release()
            raise
        try:
            self._search(scratch, found, started, seconds)
        finally:
            scratch.close()
            self._release()
        return found

    def _search(self, scratch: Scratch, found: SearchResult, started: float, seconds: float) -> None:
        base, settings = found.base, self._means.settings
        assert base.program is not None  # as in `run`
        wanted = scratch.reference(base.program)
        right = scratch.interpreted()
        if right is not None and (how := differs(wanted, right)):
            found.note = f"the kernel that is chosen differs from the interpreter: {how}"
            return
        base.seconds = scratch.seconds(base.program, settings.n_launches)
        ends = started + seconds
        searched = ends - _LAST * seconds
        known = [base]
        self._time(scratch, found, known, self._seeds(base), wanted, searched)
        found.base = found.best = next((each for each in known if each.library and each.library == self._in_use), base)
        while time.monotonic() < searched and found.tried < settings.n_total_opts:
            children = self._children(known)
            if not children:
                break
            self._time(scratch, found, known, children, wanted, searched)
            known.sort(key=lambda each: each.seconds)
            for slowest in known[: -1 - settings.n_removed_per_step : -1]:
                if len(known) > _FINALISTS and slowest is not found.base:
                    known.remove(slowest)
                    self._drop(scratch, slowest, found)
        self._confirm(scratch, found, known, ends)

    # ---- what is looked at

    def _base(self) -> Candidate:
        """Return what is chosen without measuring, compiled."""
        for number, schedule in enumerate(fallback.SCHEDULES):
            try:
                plans = [schedule.choose(nest, self._device.info, self._is_alone) for nest in self._nests]
                moves = tuple(tuple(chosen) for _, chosen in plans)
                found = self._candidate(_CHOSEN, moves, tuple(nest for nest, _ in plans))
                self._lower(found)
                self._compile([found])
                if found.program is None:
                    raise ScheduleError("it does not compile")
            except Exception:  # whatever is there for speed raises
                if number + 1 == len(fallback.SCHEDULES):
                    raise
            else:
                return found
        raise AssertionError("the last schedule returns or raises")

    def _candidate(self, origin: str, moves: tuple[tuple[Move, ...], ...], nests: tuple[Nest, ...]) -> Candidate:
        expected = sum(estimate(nest, self._device.info).seconds for nest in nests)
        return Candidate(origin, moves, nests, expected, order=tuple(range(len(self._params))))

    def _seeds(self, base: Candidate) -> list[Candidate]:
        """Return the schedules of all families with the least estimates, and those of libraries and other packages."""
        found: list[Candidate] = []
        for number, space in enumerate(self._spaces):
            best: tuple[Candidate, Spec] | None = None
            for spec in itertools.islice(space.seeds, _MOST_SEEDS):
                with suppress(ScheduleError):
                    found.append(self._of_spec(base, number, spec))
                    if isinstance(spec, Spec) and (best is None or found[-1].expected_s < best[0].expected_s):
                        best = found[-1], spec
            for spec in space.variants(best[1]) if space.variants is not None and best is not None else ():
                with suppress(ScheduleError):
                    found.append(self._of_spec(base, number, spec))
        found.sort(key=lambda each: each.expected_s)
        least = min((each.expected_s for each in (base, *found)), default=0.0)
        likely = [each for each in found if each.expected_s <= _HOPELESS * least]
        return [*self._of_libraries(), *self._of_passes(base), *self._new(likely, self._means.settings.n_seeds)]

    def _of_spec(self, base: Candidate, number: int, spec: Spec | Plan) -> Candidate:
        space = self._spaces[number]
        return self._with(base, number, _FAMILY, applied(space.plan, spec, self._device.info, space.most_threads))

    def _with(self, base: Candidate, number: int, origin: str, plan: Plan) -> Candidate:
        """Return `base` with another schedule of one nest."""
        assert base.moves is not None  # a library's kernel has no neighbours
        moves = (*base.moves[:number], tuple(plan.moves), *base.moves[number + 1 :])
        return self._candidate(origin, moves, (*base.nests[:number], plan.nest, *base.nests[number + 1 :]))

    def _of_libraries(self) -> list[Candidate]:
        matched = match_problem(self._nests[0]) if self._is_alone else None
        if matched is None or self._means.settings.library_kernels == "off":
            return []
        problem, params = matched
        found: list[Candidate] = []
        for kernel in self._means.libraries:
            if isinstance(problem, kernel.serves):
                try:
                    program = self._means.prepared(kernel, problem, self._device)
                except BackendError:
                    continue
                order = tuple(self._params.index(param) for param in params)
                found.append(Candidate(kernel.name, None, (), 0.0, kernel.name, None, program, order))
        return found

    def _of_passes(self, base: Candidate) -> list[Candidate]:
        """Return `base` after a move of another package."""
        assert base.moves is not None  # it is generated
        found: list[Candidate] = []
        for number, nest in enumerate(base.nests):
            for move in moves_of(nest, self._means.passes, self._means.guard):
                moves = [*base.moves[number], move]
                with suppress(ScheduleError):
                    plan = scheduled(self._nests[number], moves, self._device.info, self._spaces[number].most_threads)
                    found.append(self._with(base, number, f"kernel pass {move.name}", plan))
        return self._new(found, len(found))

    def _children(self, known: Sequence[Candidate]) -> list[Candidate]:
        """Return schedules next to those known, those with the least estimates first."""
        wanted = self._means.settings.n_added_per_step
        generated = [each for each in known if each.moves is not None]
        found: list[Candidate] = []
        for _ in range(_ESTIMATED * wanted):
            parent = min(self._random.choices(generated, k=2), key=lambda each: each.seconds)
            assert parent.moves is not None  # as above
            number = self._random.randrange(len(self._nests))
            around = list(neighbours(parent.moves[number]))
            if not around:
                continue
            moves = self._random.choice(around)
            if self._random.random() < _TWO_STEPS:
                moves = self._random.choice(list(neighbours(moves)) or [moves])
            with suppress(ScheduleError):
                plan = scheduled(self._nests[number], moves, self._device.info, self._spaces[number].most_threads)
                found.append(self._with(parent, number, "neighbour", plan))
        found.sort(key=lambda each: each.expected_s)
        return self._new(found, wanted)

    def _new(self, candidates: Iterable[Candidate], most: int) -> list[Candidate]:
        """Return the first of them that lower to kernels that were not looked at, at most so many."""
        found: list[Candidate] = []
        for candidate in candidates:
            if len(found) >= most:
                break
            with suppress(ScheduleError, VerifyError):
                if self._lower(candidate):
                    found.append(candidate)
        return found

    # ---- compiling and timing

    def _lower(self, candidate: Candidate) -> bool:
        """Lower a candidate; return whether its kernel is a new one.

        Raises:
            ScheduleError: There is none.
            VerifyError: It is not proved to stay inside its buffers, as what is chosen without measuring need not be.
        """
        kernel = lower_together(list(candidate.nests), self._name)
        if candidate.origin not in (_CHOSEN, _FAMILY):
            verify(kernel)
        candidate.kernel = run_passes(kernel, standard_passes(self._device.info))
        digest = digest_of_kernel(candidate.kernel)
        is_new = digest not in self._seen
        self._seen.add(digest)
        return is_new

    def _compile(self, candidates: Sequence[Candidate]) -> None:
        """Compile those that are not, side by side where the driver can; what it refuses has no program."""
        todo = [each for each in candidates if each.kernel is not None and each.program is None]
        at_once = max(1, self._device.compiles_at_once)
        with ThreadPoolExecutor(at_once, "zyx-tune") as pool:
            futures = [pool.submit(self._device.compile, each.kernel) for each in todo]  # type: ignore[arg-type]  # it has one
            for candidate, future in zip(todo, futures, strict=True):
                with suppress(BackendError):
                    candidate.program = future.result()
                    self._programs.append(candidate.program)

    def _time(
        self,
        scratch: Scratch,
        found: SearchResult,
        known: list[Candidate],
        candidates: Sequence[Candidate],
        wanted: Sequence[np.ndarray[Any, Any]],
        until: float,
    ) -> None:
        """Time candidates, some at a time, and put those that are right to what is `known`."""
        at_once = max(2, self._device.compiles_at_once)
        for first in range(0, len(candidates), at_once):
            if time.monotonic() >= until or found.tried >= self._means.settings.n_total_opts:
                return
            some = candidates[first : first + at_once]
            self._compile(some)
            for candidate in some:
                if candidate.program is not None:
                    self._time_one(scratch, found, known, candidate, wanted)
                    best = min(known, key=lambda each: each.seconds)
                    left = max(0.0, until - time.monotonic())
                    self._means.progress(found.tried, found.base.seconds / best.seconds, left)

    def _time_one(
        self,
        scratch: Scratch,
        found: SearchResult,
        known: list[Candidate],
        candidate: Candidate,
        wanted: Sequence[np.ndarray[Any, Any]],
    ) -> None:
        program, best = candidate.program, min(each.seconds for each in known)
        assert program is not None  # whoever calls this has looked

        def measured() -> tuple[str, float]:
            how = differs(scratch.results(program, candidate.order), wanted)
            launches = self._means.settings.n_launches
            return how, 0.0 if how else scratch.seconds(
                program, launches, order=candidate.order, hopeless_s=_TOO_SLOW * best
            )

        found.tried += 1
        try:
            is_others = candidate.library or any(
                isinstance(m, PassMove) for moves in candidate.moves or () for m in moves
            )
            how, seconds = self._means.guard(measured, candidate.origin) if is_others else measured()
        except DeviceLostError:
            raise
        except TimeoutError as error:
            scratch.abandon()
            raise DeviceLostError(f"{error}: it was measured on {self._device.name}, which does not answer") from error
        except (BackendError, ScheduleError):
            self._drop(scratch, candidate, found)
            return
        if how:
            found.wrong.append(f"{candidate.origin}: {how}")
            self._drop(scratch, candidate, found)
            return
        candidate.seconds = seconds
        found.measured.append(candidate)
        known.append(candidate)

    def _confirm(self, scratch: Scratch, found: SearchResult, known: Sequence[Candidate], ends: float) -> None:
        """Time the best again beside what is chosen, in turns, with what they read far away and near."""
        base = found.base
        best = sorted(
            (each for each in known if each is not base and each.seconds < base.seconds), key=lambda each: each.seconds
        )
        finalists = [base, *best[:_FINALISTS]]
        if len(finalists) < 2:
            return
        launches = self._means.settings.n_launches
        times: dict[bool, list[list[float]]] = {True: [[] for _ in finalists], False: [[] for _ in finalists]}
        for round_ in range(_ROUNDS):
            if round_ and time.monotonic() > ends:
                break
            for in_turns, rows in times.items():
                for row, each in zip(rows, finalists, strict=True):
                    assert each.program is not None  # it was timed
                    row.append(scratch.seconds(each.program, launches, order=each.order, in_turns=in_turns))
        gains = []
        for number in range(1, len(finalists)):
            ratios = {
                in_turns: [before / after for before, after in zip(rows[0], rows[number], strict=True)]
                for in_turns, rows in times.items()
            }
            far, near = (statistics.median(ratios[in_turns]) for in_turns in (True, False))
            gains.append(far if far >= _LEAST_GAIN and near >= 1.0 and min(ratios[True]) > 1.0 else 0.0)
        if max(gains) > 0.0:
            number = gains.index(max(gains)) + 1
            found.best, found.gain = finalists[number], gains[number - 1]
            found.best.seconds = statistics.median(times[True][number])
            base.seconds = statistics.median(times[True][0])

    def _drop(self, scratch: Scratch, candidate: Candidate, found: SearchResult) -> None:
        """Release what is not looked at again, but for what is chosen without measuring."""
        program = candidate.program
        if program is not None and candidate is not found.base and not candidate.library:
            scratch.forget(program)
            self._programs.remove(program)
            self._device.release(program)
            candidate.program = None

    def _release(self) -> None:
        for program in self._programs:
            with suppress(BackendError):  # a lost device
                self._device.release(program)
        self._programs.clear()
