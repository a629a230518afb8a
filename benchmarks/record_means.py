"""Geometric means of what the comparison with other libraries measured: of zyx, and of its peers as control.

A change of zyx's mean is one of zyx only if the peers' means stay: all were timed on the same cases in the same run.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Times = Mapping[str, float]
    """Of one case: the seconds of a step, by the names of the libraries that were right."""

OURS = "zyx"


def times_of_sweep(results: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the times of each case in the ``results.json`` of ``sweep.py``."""
    return [{peer: told["s"] for peer, told in case["peers"].items() if "s" in told} for case in results["cases"]]


def times_of_rows(results: Mapping[str, Any], *, of_processes: bool) -> dict[str, dict[str, float]]:
    """Return the times of each row in the ``results.json`` of ``run.py``: of fresh processes, or of all others."""
    return {
        name: {peer: told["s"] for peer, told in row.items() if peer != "limit" and "s" in told}
        for name, row in results["results"].items()
        if (results["workloads"][name]["group"] == "process") == of_processes
    }


def failures_of(told: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether zyx was wrong, raised, died or took too long, in what is told of a case by libraries."""
    return told.get(OURS, {}).get("status") in {"wrong", "error", "timeout", "crash"}


def ratios(cases: Sequence[Times], peer: str = "") -> list[float]:
    """Return a peer's time over zyx's for each case that both have; the fastest peer's, if none is named."""
    found = []
    for times in cases:
        others = [s for name, s in times.items() if name != OURS and peer in {"", name}]
        if OURS in times and others:
            found.append(min(others) / times[OURS])
    return found


def figure_of(cases: Sequence[Times], failed: int) -> str:
    """Return the mean over all cases, in one line.

    Raises:
        ValueError: No case has times of zyx and of a peer.
    """
    found = sorted(ratios(cases))
    if not found:
        raise ValueError("no case has times of zyx and of a peer")
    tenth = found[int(0.1 * (len(found) - 1))]
    return (
        f"fastest peer's time over zyx's: geometric mean {statistics.geometric_mean(found):.3f}, "
        f"10th percentile {tenth:.2f}, least {found[0]:.2f}, of {len(found)} of {len(cases)} cases; "
        f"zyx failed in {failed}"
    )


def control_of(cases: Sequence[Times]) -> str:
    """Return a table of the libraries, their mean times where all have one, and their times over zyx's."""
    names = sorted({name for times in cases for name in times}, key=lambda name: (name != OURS, name))
    common = [times for times in cases if len(times) == len(names)]
    lines = [
        f"| library | geometric mean of the {len(common)} cases that all have, ms | its time over zyx's |",
        "|---|---|---|",
    ]
    for name in names:
        mean = f"{1e3 * statistics.geometric_mean([times[name] for times in common]):.4g}" if common else "-"
        over = ratios(cases, name) if name != OURS else []
        lines.append(f"| {name} | {mean} | {f'{statistics.geometric_mean(over):.3f} ({len(over)})' if over else ''} |")
    return "\n".join(lines)
