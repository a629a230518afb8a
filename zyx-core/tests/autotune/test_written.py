"""Schedules as data: what is written is read as it was, and what is not a schedule is refused."""

import json

import pytest

from zyx.autotune.written import read_moves, write_moves
from zyx.errors import FormatError
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import random_schedule


def test_random_schedules_are_read_as_they_were_written():
    kinds = set()
    for seed in range(120):
        choices = Seeded(seed)
        case = random_case(choices, GraphOptions(most_nodes=5, most_elements=100))
        for kernel in kernels_of(case, choices.pick(MACHINES))[0]:
            for nest in kernel.nests:
                schedule = random_schedule(choices, nest)
                read = read_moves(json.loads(json.dumps(write_moves(schedule.moves))))
                assert read == list(schedule.moves)
                kinds.update(map(type, read))
    assert len(kinds) > 8


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "a schedule is a list"),
        ([3], "a move has a name"),
        ([{"range": "r0"}], "a move has a name"),
        ([{"move": "Spilt", "range": "r0", "factor": 2}], "there is no move 'Spilt'; there are Apart, "),
        ([{"move": "Split", "range": "r0"}], "the move Split: .*factor"),
        ([{"move": "Split", "range": "r0", "factor": "2"}], "the move Split: .*int"),
        ([{"move": "Split", "range": "r0", "factor": 2, "by": 1}], "the move Split has no 'by'"),
        ([{"move": "Mark", "range": "r0", "kind": "thread"}], "the move Mark: .*thread"),
    ],
)
def test_what_is_no_schedule_is_refused(data, said):
    with pytest.raises(FormatError, match=said):
        read_moves(data)
