"""Count what choosing schedules is tuned by: numbers, tests of the kind of device, and lines.

    python tests/tuned_numbers.py

Numbers are the numeric literals in assignments at the level of modules and classes, of tables each entry, of the
folders that go from a graph to a kernel; 0, 1 and -1 are none, nor are strings. What measures, `zyx.autotune`, is not
on that way. Tests of the kind of device are comparisons of the threads that a group may have with one.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(__file__).parents[1] / "zyx-core" / "src" / "zyx"
FOLDERS: Final = ("fusion", "kernels", "schedule", "estimate", "lowering")
#: Kernels that are written by hand: the lines of these are not counted, since they are no choice.
BY_HAND: Final = "kernels"
_OF_KIND: Final = re.compile(r"max_group_threads\s*(>|==|<=|!=)\s*1\b|is_gpu")
_NONE: Final = (0, 1, -1)


class Counted(NamedTuple):
    """What a file has.

    Attributes:
        numbers: Numbers that somebody chose.
        kinds: Tests of the kind of device.
        lines: Lines.
    """

    numbers: int
    kinds: int
    lines: int


def numbers_in(text: str) -> int:
    """Return how many numbers a module has in assignments outside of functions."""
    return sum(map(_literals, _values(ast.parse(text).body)))


def _values(body: list[ast.stmt]) -> Iterator[ast.expr]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _values(statement.body)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            yield statement.value


def _literals(value: ast.expr) -> int:
    return sum(
        isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in _NONE
        for node in ast.walk(value)
    )


def counted() -> dict[str, Counted]:
    """Return the counts of every file."""
    found: dict[str, Counted] = {}
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines = 0 if folder == BY_HAND else len(text.splitlines())
            found[str(path.relative_to(SOURCE))] = Counted(numbers_in(text), len(_OF_KIND.findall(text)), lines)
    return found


def totals() -> Counted:
    """Return the sums over all files."""
    return Counted(*(sum(counts[part] for counts in counted().values()) for part in range(3)))


if __name__ == "__main__":
    for name, counts in sorted(counted().items(), key=lambda item: -item[1].numbers):
        if counts.numbers or counts.kinds:
            print(f"{counts.numbers:4} numbers  {counts.kinds:3} kinds  {counts.lines:5} lines  {name}")
    print(*(f"{count} {part}" for count, part in zip(totals(), Counted._fields, strict=True)), sep=", ")
