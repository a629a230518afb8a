"""A profile by time: the rules of the trace event format, and what viewers rely on besides."""

from __future__ import annotations

import itertools
import json
import threading

import numpy as np
import pytest

import zyx
from zyx.runtime import profile as profiles


@pytest.fixture
def seen(interpreter):
    """Return a profile that has every kind of span, of two threads that compute."""
    x = zyx.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))

    def other():
        (x - 5).numpy()

    with zyx.profile() as profile:
        for _ in range(3):
            (x.softmax(1) @ x.T).numpy()
        zyx.linalg.det(x[:, :3]).numpy()
        thread = threading.Thread(target=other, name="other")
        thread.start()
        thread.join()
    return profile


def events_of(profile):
    return json.loads(json.dumps(profile.as_trace()))["traceEvents"]


def test_events_have_what_the_format_asks_of_their_phase(seen):
    for event in events_of(seen):
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["name"]
        match event["ph"]:
            case "M":
                key = "sort_index" if event["name"].endswith("sort_index") else "name"
                assert list(event["args"]) == [key]
            case "X":
                assert event["ts"] >= 0
                assert event["dur"] >= 0
            case "C":
                assert event["ts"] >= 0
                assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
            case _:
                raise AssertionError(event)
    assert {event["cat"] for event in events_of(seen) if event["ph"] == "X"} == {
        "profile", "plan", "compile", "launch", "kernel", "copy", "call"
    }  # fmt: skip


def test_every_lane_has_a_name_and_devices_are_apart_from_threads(seen):
    events = events_of(seen)
    named = {
        what: {(e["pid"], *([e["tid"]] if what == "thread" else [])): e["args"]["name"]
               for e in events if e["name"] == f"{what}_name"}
        for what in ("process", "thread")
    }  # fmt: skip
    assert sorted(named["process"].values()) == ["host", "interpreter:0"]
    assert set(named["thread"].values()) == {threading.main_thread().name, "zyx-compile", "other", "kernels"}
    for event in events:
        if event["ph"] == "X":
            place = named["process"][event["pid"],], named["thread"][event["pid"], event["tid"]]
            assert (place == ("interpreter:0", "kernels")) == (event["cat"] == "kernel")
            assert (place[1] == "zyx-compile") == (event["cat"] == "compile")


def test_times_do_not_go_back_and_events_of_a_lane_lie_in_each_other(seen):
    timed = [event for event in events_of(seen) if event["ph"] != "M"]
    assert all(a["ts"] <= b["ts"] for a, b in itertools.pairwise(timed))
    open_: dict[tuple[int, int], list[float]] = {}
    for event in timed:
        if event["ph"] == "X":
            stack = open_.setdefault((event["pid"], event["tid"]), [])
            ends = round((event["ts"] + event["dur"]) * 1e3)
            while stack and stack[-1] <= round(event["ts"] * 1e3):
                stack.pop()
            assert not stack or ends <= stack[-1], event
            stack.append(ends)


def test_kernels_take_what_the_table_says(seen):
    events = [event for event in events_of(seen) if event.get("cat") == "kernel"]
    kernels = [kernel for kernel in seen.kernels() if not kernel.is_host]
    assert sum(event["dur"] for event in events) / 1e6 == pytest.approx(sum(k.seconds for k in kernels), abs=1e-8)
    assert len(events) == sum(kernel.launches for kernel in kernels)


def test_memory_is_what_tensors_hold_from_the_beginning_on(interpreter):
    kept = zyx.Tensor(np.ones(1000, np.float32))
    before = zyx.memory_stats()["host"].live_bytes
    with zyx.profile() as seen:
        more = (kept + 1).realize()
        (more + 2).numpy()
        between = zyx.memory_stats()["host"].live_bytes
        del more
        zyx.memory_stats()
    values = [event["args"]["bytes"] for event in events_of(seen) if event["name"] == "memory of host"]
    assert (values[0], values[-1]) == (before, before)
    assert between in values
    (peak,) = seen.peaks()
    assert peak.bytes == max(values) == before + 8000
    by_origin = {held.what: (held.buffers, held.bytes) for held in peak.held}
    assert by_origin.pop("from before") == (1, before)
    assert sum(nbytes for _, nbytes in by_origin.values()) == 8000
    assert set(by_origin) == {kernel.name for kernel in seen.kernels()}


def test_a_long_program_is_noted_as_far_as_there_is_room(interpreter, monkeypatch):
    monkeypatch.setattr(profiles, "_MOST_SPANS", 4)
    x = zyx.Tensor(np.ones(3, np.float32))
    with zyx.profile() as seen:
        for _ in range(5):
            (x + 1).numpy()
    trace = seen.as_trace()
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == 1 + 4
    assert trace["otherData"]["left out"] == seen.left_out > 10
    assert seen.kernels()[0].launches == seen.total("kernel").number == 5
