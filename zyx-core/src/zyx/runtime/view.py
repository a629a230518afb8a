"""All that a profile knows of a program, as data for a page: its plans, kernels, time and memory.

kernels    a `KernelTime` each, and its source, the moves of its schedule, and the seconds of each part by the estimate
plans      steps in order; of each the kernel (its place in the list) and the buffers that it reads and writes
spans      kind, name, lane, start and length in seconds from the beginning, lines
memory     of each pool: samples, lives of buffers, and the peak with what held it
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zyx.runtime.host_step import HostStep
from zyx.runtime.kernel_times import estimates_of, scheduled
from zyx.runtime.steps import LaunchStep
from zyx.schedule import fallback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.backend import Program
    from zyx.graph.host_call import HostCall
    from zyx.runtime.kernel_times import Source
    from zyx.runtime.plan import Plan
    from zyx.runtime.profile import Profile
    from zyx.runtime.steps import Step

Json = dict[str, Any]


def view_of(profile: Profile, name: str) -> Json:
    """Return the data of a page about the program of that name; see the module."""
    rows, sources = profile.launched_programs(), profile.sources()
    place = {what: number for number, what in enumerate(rows)}
    began = profile.began
    ended = began + profile.wall_s
    samples: dict[str, list[tuple[float, int]]] = {}
    for sample in profile.holding.samples:
        samples.setdefault(sample.pool, []).append((max(0.0, sample.at - began), sample.bytes))
    lives: dict[str, list[Json]] = {}
    for life in profile.holding.all_lives(ended):
        said = {"what": life.what, "bytes": life.bytes, "start": max(0.0, life.start - began), "end": life.end - began}
        lives.setdefault(life.pool, []).append(said)
    whole = profile.as_json()
    return {
        "name": name,
        "wall_s": whole["wall_s"],
        "summary": profile.summary(),
        "left_out": profile.left_out,
        "kernels": [
            {**asdict(row), "source": getattr(what, "source", ""), **_schedule_of(sources.get(what))}  # type: ignore[arg-type]  # a call of the host has none
            for what, row in rows.items()
        ],
        "plans": [_plan(plan, place) for plan in profile.plans],
        "spans": [
            {"kind": span.kind, "name": span.name, "lane": span.lane, "start": max(0.0, span.start - began),
             "seconds": span.seconds, "lines": span.said.get("lines", "")}
            for span in profile.spans
        ],
        "memory": [
            {**peak, "samples": samples.get(peak["pool"], []), "lives": lives.get(peak["pool"], [])}
            for peak in whole["memory"]
        ],
    }  # fmt: skip


def _schedule_of(source: Source | None) -> Json:
    """Return the moves of a kernel, where they are from, and what its parts are expected to take."""
    if source is None:
        return {"schedule": "", "moves": [], "nests": [], "times": {}}
    winner = source.winner
    if winner is not None and winner.schedules is not None:
        why = f"found by measuring {winner.tried} others: {winner.gain:.2f} times as fast as what was chosen without"
    else:
        why = f"chosen without measuring: {fallback.SCHEDULES[source.schedule].name}"
    found = scheduled(source)
    times: dict[str, float] = {}
    for each in estimates_of(source):
        for part, seconds in each.times.items():
            times[part] = times.get(part, 0.0) + seconds
    return {
        "schedule": why,
        "moves": [str(move) for _, moves in found for move in moves],
        "nests": [str(nest) for nest, _ in found],
        "times": dict(sorted(times.items(), key=lambda pair: -pair[1])),
    }


def _plan(plan: Plan, place: Mapping[Program | HostCall, int]) -> Json:
    results = set(plan.results)
    first = plan.inputs + len(plan.outputs)
    buffers: list[Json] = [
        {"bytes": None, "role": "result" if number in results else "input"} for number in range(plan.inputs)
    ]
    for number, slice_ in enumerate((*plan.outputs, *plan.temporaries), plan.inputs):
        role = "temporary" if number >= first else "result" if number in results else "output"
        buffers.append({"bytes": slice_.nbytes, "role": role})
    return {"buffers": buffers, "steps": [_step(step, place) for step in plan.steps]}


def _step(step: Step, place: Mapping[Program | HostCall, int]) -> Json:
    if isinstance(step, LaunchStep):
        reads = [number for number in step.args if number not in step.written] + list(step.given)
        what = {"name": step.program.name, "kernel": place.get(step.program), "device": step.device.name}
        return {**what, "reads": reads, "writes": list(step.written), "lines": list(step.lines)}
    if isinstance(step, HostStep):
        reads, writes = ([each.buffer for each in places] for places in (step.reads, step.writes))
        what = {"name": f"{step.call!r}", "kernel": place.get(step.call), "device": step.device}
        return {**what, "reads": reads, "writes": writes, "lines": list(step.lines)}
    return {"name": "copy", "kernel": None, "device": "", "reads": [step.source], "writes": [step.target], "lines": []}
