"""What choosing schedules is tuned by does not grow: a new rule takes the place of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # a script, not a package

from tuned_numbers import Counted, counted, numbers_in, totals

MOST = Counted(numbers=282, kinds=23, lines=13_394)


def test_there_are_no_more_numbers_kinds_and_lines_than_there_were() -> None:
    found = totals()
    assert all(now <= most for now, most in zip(found, MOST, strict=True)), f"{found}, where at most {MOST} were"
    assert len(counted()) > 20


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("A = 3", 1),
        ("A: Final = {'x': 2, 'y': (4, 8)}", 3),
        ("A = 0\nB = -1\nC = 1.0\nD = 'x'\nE = True", 0),
        ("class A:\n    b = 5\n    def f(self):\n        return 7", 1),
        ("A = 1 << 20", 1),
    ],
)
def test_numbers_are_counted_where_they_are_set(text: str, numbers: int) -> None:
    assert numbers_in(text) == numbers
