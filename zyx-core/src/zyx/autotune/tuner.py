"""Tune the launches of a program: search each of them, keep what was found, and tell what it was."""

from __future__ import annotations

import time
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

from zyx.autotune.search import Means, Search
from zyx.autotune.store import Winner
from zyx.autotune.written import write_moves
from zyx.errors import AllocationError, DeviceLostError, ZyxError
from zyx.estimate import estimate
from zyx.estimate.model import facts_of
from zyx.kernel.digest import digest_of_kernel
from zyx.nest.digest import digest_of_nests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from zyx.autotune.passes import Guard
    from zyx.autotune.search import Candidate, SearchResult
    from zyx.autotune.store import TuningStore
    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.dtype import Scalar
    from zyx.hookspecs import KernelPass
    from zyx.nest.data import Nest
    from zyx.settings.record import Autotune

#: Moves that are named where it is said what is different.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning a launch gave.

    Attributes:
        kernel: Its name.
        device: Where.
        what: What it computes: the last statement of its last nest.
        launches: How many there were while the program ran; 0 if it was tuned before it ran.
        expected_s: What was expected of what is faster.
        before_s: What a launch took by what is chosen without measuring.
        seconds: What it takes by what was found.
        gain: How many times as fast; 1 if nothing is faster.
        why: What is different, and what bounded the launch before; or why nothing was looked for.
        tried: How many others were timed.
        wrong: Those that computed something else, and how.
    """

    kernel: str
    device: str
    what: str
    launches: int
    expected_s: float
    before_s: float
    seconds: float
    gain: float
    why: str
    tried: int = 0
    wrong: tuple[str, ...] = ()


class Tuner:
    """Tunes launches.

    Args:
        settings: How much is looked at.
        store: Where what was found is kept.
        passes: Moves of other packages for a device.
        libraries: Kernels of libraries for a device.
        prepared: Makes the program of a library's kernel.
        guard: Runs the code of other packages.

    Attributes:
        searches: How many launches were searched.
        measurements: What was timed, where a list is given: of each launch what `benchmarks/fit_schedules.py` reads.
    """

    def __init__(
        self,
        settings: Autotune,
        store: TuningStore,
        passes: Callable[[Device], Sequence[KernelPass]],
        libraries: Callable[[Device], Sequence[LibraryKernel]],
        prepared: Callable[[LibraryKernel, Problem, Device], Program],
        guard: Guard,
    ) -> None:
        self.searches = 0
        self.measurements: list[dict[str, Any]] | None = None
        self._settings = settings
        self._store = store
        self._passes = passes
        self._libraries = libraries
        self._prepared = prepared
        self._guard = guard

    def tune(
        self,
        nests: Sequence[Nest],
        name: str,
        device: Device,
        seconds: float,
        values: Mapping[int, Scalar | np.ndarray[Any, Any]] | None = None,
        *,
        launches: int = 0,
        in_use: str = "",
        progress: Callable[[int, float, float], None] = lambda tried, gain, left: None,
    ) -> Tuned:
        """Search the launch of some nests for so many seconds, keep what was found, and return what it was.

        Args:
            nests: What runs side by side.
            name: Of the kernel.
            device: Where.
            seconds: How long, more or less.
            values: What is known of its buffers and numbers; see `zyx.autotune.measure.Scratch`.
            launches: How many there were, for who reads the result.
            in_use: The name of the library's kernel that is taken without measuring; empty if it is a generated one.
            progress: Told of candidates timed, the gain of the best so far, and seconds left.

        Raises:
            DeviceLostError: A candidate does not come back, or the device does not answer.
        """
        what = str(nests[-1]).splitlines()[-1].partition("  |")[0].rstrip()
        digest = digest_of_nests(nests)
        means = Means(
            self._settings, self._passes(device), self._libraries(device), self._prepared, self._guard, progress
        )
        self.searches += 1
        try:
            found = Search(nests, name, device, means, values or {}, in_use).run(seconds)
        except DeviceLostError:
            raise
        except AllocationError as error:
            return Tuned(name, device.name, what, launches, 0.0, 0.0, 0.0, 1.0, f"no memory to time it: {error}")
        except ZyxError as error:
            return Tuned(name, device.name, what, launches, 0.0, 0.0, 0.0, 1.0, f"{type(error).__name__}: {error}")
        if found.tried and not found.note:
            self._store.put(device, digest, _winner(found, name, device, what))
        if self.measurements is not None:
            self.measurements.append(_measurements(found, name, device))
        base, best = found.base, found.best
        why = found.note or _why(found, nests, device)
        return Tuned(
            name, device.name, what, launches, best.expected_s, base.seconds, best.seconds, found.gain, why,
            found.tried, tuple(found.wrong),
        )  # fmt: skip


def _winner(found: SearchResult, name: str, device: Device, what: str) -> Winner:
    best = found.best
    moves = None if best is found.base or best.moves is None else [write_moves(each) for each in best.moves]
    return Winner(
        kernel=name,
        device=device.info.model,
        what=what,
        schedules=moves,
        library=best.library,
        expected_s=best.expected_s,
        before_s=found.base.seconds,
        seconds=best.seconds,
        tried=found.tried,
        found_at=int(time.time()),
    )


def _why(found: SearchResult, nests: Sequence[Nest], device: Device) -> str:
    """Say what is different in what is faster, and what bounded the launch before."""
    if not found.tried:
        return "the time was over before another was timed"
    if found.base.library:
        return (
            f"nothing is faster than {found.base.library}"
            if found.best is found.base
            else (f"the generated kernel for {found.base.library}")
        )
    bound = max((estimate(nest, device.info) for nest in found.base.nests), key=lambda each: each.seconds).bound
    if found.best is found.base:
        return f"nothing is faster; {bound} bounds it"
    if found.best.library:
        return f"{found.best.library}; {bound} bounded the generated kernel"
    gone, new = _differences(found.base, found.best)
    return f"{', '.join(new[:_NAMED]) or 'less'} for {', '.join(gone[:_NAMED]) or 'nothing'}; {bound} bounded it"


def _differences(base: Candidate, best: Candidate) -> tuple[list[str], list[str]]:
    before = [move for moves in base.moves or () for move in moves]
    after = [move for moves in best.moves or () for move in moves]
    return [str(move) for move in before if move not in after], [str(move) for move in after if move not in before]


def _measurements(found: SearchResult, name: str, device: Device) -> dict[str, Any]:
    """Return what was timed as a line of what `benchmarks/fit_schedules.py --load` reads."""
    rows = []
    for candidate in (found.base, *found.measured):
        if candidate.kernel is None or len(candidate.nests) != 1:  # of a library, or several that share a launch
            continue
        facts = facts_of(candidate.nests[0], device.info)
        rows.append(
            {
                "origin": candidate.origin,
                "key": digest_of_kernel(candidate.kernel).hex(),
                "seconds": candidate.seconds,
                "groups": facts.groups,
                "threads": facts.threads,
                "resident": facts.resident,
                "work": asdict(facts.work),
                "levels": [astuple(level) for level in facts.levels],
            }
        )
    return {"family": name, "seed": 0, "schedules": rows}
