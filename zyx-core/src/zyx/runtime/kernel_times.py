"""What the launches of one program took, beside what its nests are expected to take on the device."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.autotune.written import read_moves
from zyx.errors import FormatError, ScheduleError, UnsupportedError
from zyx.estimate import estimate
from zyx.kernel.count import count
from zyx.lowering.lower import lower_together
from zyx.runtime.steps import LaunchStep
from zyx.schedule import fallback
from zyx.schedule.moves import apply_moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.autotune.store import Winner
    from zyx.backend import Device
    from zyx.estimate import Estimate
    from zyx.nest.data import Nest
    from zyx.runtime.host_step import HostStep
    from zyx.schedule.moves import Move

#: Launches of a program whose times are kept, for the median.
_MOST_TIMES: Final = 1001


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What the launches of one program took.

    Attributes:
        name: The program's name.
        device: Where it ran.
        what: What it computes: the last statement of its nest, or empty where there is none, as of a library's.
        launches: How many there were.
        seconds: All of them together.
        measured_s: The median of them.
        expected_s: What one was expected to take; None of what has no nest, or was compiled before.
        ratio: `measured_s` over `expected_s`.
        bound: What it was expected to wait for most; see `zyx.estimate.Estimate`.
        bytes: What one moves from and to main memory by the estimate, or the size of its buffers where there is none.
        levels: Bytes by level of memory, by the estimate.
        instructions: By kind, by the estimate.
        groups: Of one launch, by the estimate.
        flops: Operations on floats of one launch, counted in its nests; 0 where there are none.
        bytes_per_s: `bytes` over `measured_s`.
        flops_per_s: `flops` over `measured_s`.
        of_limit: The part of the device's greatest rate that it reaches, of bytes or of float32 operations, whichever
            is more; above 1 where data comes from caches, or a device has faster units. None for what the host does.
        host_s: All launches together as the host sees them: until each is known to be over.
        lines: The lines of the program that it computes, where ``ZYX_DEBUG=lines`` has them noted.
        is_generated: Whether it is a kernel of ours, not a library's.
        is_host: Whether it is a function of the host, such as NumPy's LAPACK; its copies are in the time.
    """

    name: str
    device: str
    what: str
    launches: int
    seconds: float
    measured_s: float
    expected_s: float | None
    ratio: float | None
    bound: str
    bytes: float
    levels: dict[str, float]
    instructions: dict[str, float]
    groups: int
    flops: int
    bytes_per_s: float
    flops_per_s: float
    of_limit: float | None
    host_s: float
    lines: tuple[str, ...]
    is_generated: bool
    is_host: bool


@dataclass(slots=True)
class Launches:
    """The launches of one program, or the calls of a function of the host."""

    step: LaunchStep | HostStep
    count: int = 0
    seconds: float = 0.0
    host_s: float = 0.0
    lines: dict[str, None] = field(default_factory=dict)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))


@dataclass(frozen=True, slots=True)
class Source:
    """Where a program came from: nests that run side by side, what was found for them, the number of their schedule."""

    nests: tuple[Nest, ...]
    device: Device
    schedule: int
    winner: Winner | None = None


def kernel_time(launches: Launches, source: Source | None, flops: int) -> KernelTime:
    """Return what there is to say of launches; `flops` are those of one."""
    step = launches.step
    found = estimates_of(source) if source is not None else []
    measured = statistics.median(launches.times)
    expected = _together(found)
    moved = sum(each.bytes.get("main memory", 0.0) for each in found) if found else float(step.bytes_moved)
    least = max(measured, 1e-9)  # no clock tells less
    of_limit: float | None = None
    if isinstance(step, LaunchStep):
        info = step.device.info
        of_limit = max(moved / info.bytes_per_s, flops / info.flops_per_s) / least
    return KernelTime(
        name=step.program.name if isinstance(step, LaunchStep) else f"{step.call!r}",
        device=step.device.name if isinstance(step, LaunchStep) else step.device,
        what="" if source is None else _last_statement(source.nests[-1]),
        launches=launches.count,
        seconds=launches.seconds,
        measured_s=measured,
        expected_s=expected,
        ratio=measured / expected if expected else None,
        bound=max(found, key=lambda each: each.seconds).bound if found else "",
        bytes=moved,
        levels=_added([each.bytes for each in found]),
        instructions=_added([each.instructions for each in found]),
        groups=sum(each.groups for each in found),
        flops=flops,
        bytes_per_s=moved / least,
        flops_per_s=flops / least,
        of_limit=of_limit,
        host_s=launches.host_s,
        lines=tuple(launches.lines),
        is_generated=isinstance(step, LaunchStep) and (source is not None or bool(step.program.source)),
        is_host=not isinstance(step, LaunchStep),
    )


def flops_of(nests: Sequence[Nest]) -> int:
    """Return the operations on floats of nests, without what a schedule adds to them; 0 if there is no telling."""
    try:
        return count(lower_together(nests, "counted")).flops if nests else 0
    except (ScheduleError, UnsupportedError):  # what cannot be lowered as it is has no count
        return 0


def scheduled(source: Source) -> list[tuple[Nest, list[Move]]]:
    """Return each nest of a program as it is run, and the moves that make it so; nothing if there is no telling."""
    choose = fallback.SCHEDULES[source.schedule].choose
    info = source.device.info
    try:
        if source.winner is not None and source.winner.schedules is not None:
            found = [read_moves(moves) for moves in source.winner.schedules]
            return [(apply_moves(nest, moves), moves) for nest, moves in zip(source.nests, found, strict=True)]
        return [choose(nest, info, len(source.nests) == 1) for nest in source.nests]
    except (ScheduleError, FormatError):  # such as of a move of another package
        return []


def estimates_of(source: Source) -> list[Estimate]:
    """Return what the nests of a program are expected to take; nothing if there is no telling."""
    try:
        return [estimate(nest, source.device.info) for nest, _ in scheduled(source)]
    except ScheduleError:
        return []


def _together(found: Sequence[Estimate]) -> float | None:
    """Return the seconds of nests that share a launch."""
    if not found:
        return None
    launch = max(each.times["launch"] for each in found)
    return launch + sum(each.seconds - each.times["launch"] for each in found)


def _added(found: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in found for name in each)
    return {name: sum(each.get(name, 0.0) for each in found) for name in names}


def _last_statement(nest: Nest) -> str:
    return str(nest).splitlines()[-1].partition("  |")[0].rstrip()
