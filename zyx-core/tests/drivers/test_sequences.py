"""Captured sequences: what is checked when they are made, and what is recorded of them."""

from __future__ import annotations

import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.drivers.arguments import Parameter
from zyx.drivers.sequences import Recordings, bound, outline
from zyx.errors import LaunchError

PARAMETERS = [Parameter(16), Parameter(64), Parameter(0, dtypes.float32)]


@pytest.fixture
def program(pool, new_program):
    return new_program("scale", pool, PARAMETERS)


def test_an_outline_has_the_steps_and_the_sizes_that_slots_need(pool, program, new_program, allocate):
    small = new_program("small", pool, PARAMETERS[:1])
    buffer = allocate(64)
    made = outline(
        [
            Launch(program, (Slot(1), buffer, 2.5)),
            Launch(small, (Slot(0),)),
            Launch(program, (Slot(0), Slot(1), Slot(3))),
        ],
        4,
        pool,
        "list:0",
    )
    assert made.name == "3 steps: scale, small, scale"
    assert made.what == "a sequence of 3 kernels on list:0 (scale, small)"
    assert made.parameters == (Parameter(16), Parameter(64), Parameter(0), Parameter(0, dtypes.float32))
    assert [step.program for step in made.steps] == [program, small, program]
    assert [step.slots for step in made.steps] == [((0, 1),), ((0, 0),), ((0, 0), (1, 1), (2, 3))]
    assert [step.fixed for step in made.steps] == [((1, buffer), (2, 2.5)), (), ()]


def test_a_bound_step_fills_the_slots_between_its_fixed_arguments(pool, program, allocate):
    buffer = allocate(64)
    (step,) = outline([Launch(program, (Slot(1), buffer, Slot(0)))], 2, pool, "list:0").steps
    for convert, native in ((None, buffer.memory), (lambda memory: memory + 100, buffer.memory + 100)):
        made = bound(step, convert)
        assert made.program is program
        assert made.arguments(["number", "memory"]) == ["memory", native, "number"]
        assert made.arguments([1, 2]) == [2, native, 1]


def test_arguments_that_do_not_fit_are_refused(pool, program, allocate, new_pool):
    buffer, small = allocate(64), allocate(8)
    foreign, _ = new_pool().allocate(64)
    for args, text in (
        ((Slot(0), buffer), "kernel scale on list:0 was given 2 arguments; it takes 3"),
        (
            (Slot(0), buffer, Slot(0)),
            "argument 2 of kernel scale on list:0 is slot 0, which cannot stand for buffers and",
        ),
        ((Slot(2), buffer, 1.0), "argument 0 of kernel scale on list:0 is slot 2; there are 2 slots"),
        ((Slot(-1), buffer, 1.0), "argument 0 of kernel scale on list:0 is slot -1"),
        ((Slot(0), small, 1.0), "argument 1 of kernel scale on list:0 has 8 bytes; the kernel reaches 64"),
        ((Slot(0), foreign, 1.0), "argument 1 of kernel scale on list:0 is a buffer of pool list memory, not of"),
        ((Slot(0), 3, 1.0), "argument 1 of kernel scale on list:0 is 3, not a buffer"),
        ((Slot(0), buffer, "1"), "argument 2 of kernel scale on list:0 is '1', not a number"),
    ):
        with pytest.raises(LaunchError, match=text):
            outline([Launch(program, args)], 2, pool, "list:0")


class TestRecordings:
    def test_what_comes_again_is_recorded_once_and_kept(self):
        made: list[str] = []
        recordings: Recordings[str] = Recordings(4, is_on=True)

        def record() -> str:
            made.append("a")
            return "recording"

        assert [recordings.find(1, record) for _ in range(4)] == [None, "recording", "recording", "recording"]
        assert made == ["a"]
        assert len(recordings) == 1

    def test_the_least_used_gives_way_and_is_told_of_before_it_goes(self):
        dropped: list[tuple[int, int]] = []
        recordings: Recordings[int] = Recordings(
            2, is_on=True, drop=lambda recording: dropped.append((recording, len(recordings)))
        )
        for key in (1, 2):
            for _ in range(2):
                recordings.find(key, lambda key=key: key)
        recordings.find(1, lambda: 0)  # so 2 is the one that was not used for the longest time
        for _ in range(2):
            recordings.find(3, lambda: 3)
        assert dropped == [(2, 3)]
        assert len(recordings) == 2
        assert recordings.find(1, lambda: 0) == 1

    def test_what_cannot_be_recorded_is_not_tried_again(self):
        recordings: Recordings[int] = Recordings(2, is_on=True)
        assert recordings.find(1, lambda: None) is None
        assert recordings.is_on
        assert recordings.find(1, lambda: None) is None
        assert not recordings.is_on

    def test_all_are_let_go(self):
        recordings: Recordings[int] = Recordings(2, is_on=True)
        for _ in range(2):
            recordings.find(1, lambda: 1)
        assert recordings.clear() == [1]
        assert len(recordings) == 0
        assert recordings.find(1, lambda: 1) is None  # as if it were new

    def test_only_some_sets_are_remembered(self):
        recordings: Recordings[int] = Recordings(2, is_on=True)
        for key in range(65):
            recordings.find(key, lambda key=key: key)
        assert recordings.find(0, lambda: 0) is None
        assert recordings.find(64, lambda: 64) == 64
