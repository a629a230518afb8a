"""Export of a profile to the Trace Event Format of Chrome, which Perfetto reads.

    host        a lane for each thread: plans, launches as the host sees them, copies, calls; compilations in theirs
    c:0 ...     a lane for each device: its kernels
    memory      a counter for each pool: bytes that tensors hold

Times are in microseconds from the beginning of the profile, whole nanoseconds. The format is described in "Trace Event
Format" by Nat Duca and Dan Sinclair (Google, 2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zyx.runtime.profile import Profile

Json = dict[str, Any]

#: Number of the process that stands for the host; devices have those behind it.
_HOST: Final = 1
#: Name of the span around all others, in the lane of the thread that profiled.
WHOLE: Final = "profile"
_NS: Final = 1e9


def chrome_trace(profile: Profile) -> Json:
    """Return what is to be written as JSON into a file for a viewer; see the module."""
    devices = list(dict.fromkeys(span.lane for span in profile.spans if span.kind == "kernel"))
    threads = list(dict.fromkeys([profile.thread, *(span.lane for span in profile.spans if span.kind != "kernel")]))
    process_of = {device: number for number, device in enumerate(devices, _HOST + 1)}
    thread_of = {thread: number for number, thread in enumerate(threads, 1)}
    events: list[Json] = [_named("process", _HOST, 0, "host")]
    events += [_named("thread", _HOST, number, thread) for thread, number in thread_of.items()]
    events += [_named("process", number, 0, device) for device, number in process_of.items()]
    events += [_named("thread", number, 1, "kernels") for number in process_of.values()]
    events += [
        {"ph": "M", "name": "process_sort_index", "pid": number, "tid": 0, "args": {"sort_index": number}}
        for number in (_HOST, *process_of.values())
    ]

    timed: list[Json] = [_complete(WHOLE, "profile", 0, _ns(profile.wall_s), _HOST, thread_of[profile.thread], {})]
    ended: dict[str, int] = dict.fromkeys(devices, 0)
    for span in profile.spans:
        start = max(0, _ns(span.start - profile.began))
        end = max(start, _ns(span.start + span.seconds - profile.began))
        if span.kind == "kernel":  # clocks of devices are their own: none begins before the one before it is over
            lasts, start = _ns(span.seconds), max(start, ended[span.lane])
            ended[span.lane] = start + lasts
            place = process_of[span.lane], 1
        else:
            lasts, place = end - start, (_HOST, thread_of[span.lane])
        timed.append(_complete(span.name, span.kind, start, lasts, *place, span.said))
    for sample in profile.holding.samples:
        at = max(0, _ns(sample.at - profile.began)) / 1e3
        said = {"bytes": sample.bytes}
        timed.append({"ph": "C", "name": f"memory of {sample.pool}", "pid": _HOST, "tid": 0, "ts": at, "args": said})
    # What contains something comes before it, also where both begin at once.
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    return {"traceEvents": events + timed, "displayTimeUnit": "ns", "otherData": {"left out": profile.left_out}}


def _ns(seconds: float) -> int:
    return round(seconds * _NS)


def _named(what: str, process: int, thread: int, name: str) -> Json:
    return {"ph": "M", "name": f"{what}_name", "pid": process, "tid": thread, "args": {"name": name}}


def _complete(name: str, kind: str, start: int, lasts: int, process: int, thread: int, said: Json) -> Json:
    return {
        "ph": "X", "name": name, "cat": kind, "ts": start / 1e3, "dur": lasts / 1e3, "pid": process, "tid": thread,
        "args": said,
    }  # fmt: skip
