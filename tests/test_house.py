"""What the house is made of is counted as `tests/house.py` says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # a script, not a package

import house

LINES = [f"    total = total + {letter * 20}[{letter}]\n" for letter in "abcdefg"]


def of(**sources: str) -> house.Counts:
    """Return the counts of modules of a folder, by their names."""
    return house.count({f"schedule/{name}.py": text for name, text in sources.items()})


def test_lines_and_files_are_those_of_core_and_apart_those_for_people() -> None:
    counts = house.count(
        {"ops.py": "a = 1\n", "nn/a.py": "b = 2\nc = 3\n", "amp.py": "d = 4\n", "testing/a.py": "e\n" * 9}
    )
    assert (counts.lines, counts.files, counts.people_lines, counts.people_files) == (1, 1, 3, 2)


def test_lines_of_tests_are_those_of_all_packages_by_the_hundred_of_what_they_test() -> None:
    files = {
        "zyx-core/src/zyx/ops.py": "a\n" * 6,
        "zyx-backend-c/src/zyx_backend_c/device.py": "a\n" * 2,
        "zyx-core/src/zyx/testing/suite/test_ops.py": "a\n" * 50,
        "zyx-core/tests/schedule/test_moves.py": "a\n" * 3,
        "tests/test_house.py": "a\n",
        "tests/fuzz/drawing.py": "a\n" * 9,
        "docs/api_pages.py": "a\n" * 9,
    }
    assert house.proportion(files) == 50
    assert house.figures_of(files)["tests"] == 50
    assert house.figures_of(files)["lines"] == 6


def test_a_function_is_long_without_its_docstring() -> None:
    body = "    pass\n" * (house.LONGEST - 1)
    assert of(a=f'def f():\n    """One.\n\n    Two.\n    """\n{body}').functions == []
    assert of(a=f"x = 1\ndef f():\n    pass\n{body}").functions == ["schedule/a.py:2 f"]


def test_imports_are_own_ones_inside_of_functions_each_once() -> None:
    inner = "    def g():\n        from zyx.b import c\n        from os import d\n"
    text = f"import zyx\ndef f():\n    import math, zyx.a\n{inner}"
    assert of(a=text).imports == ["schedule/a.py:3 zyx.a", "schedule/a.py:5 zyx.b"]


def test_runs_of_equal_lines_are_found_whatever_their_indentation() -> None:
    indented = "".join(f"    {line}" for line in LINES[: house.RUN])
    counts = of(a="def f():\n" + "".join(LINES[: house.RUN]), b=f"def g():\n  if x:\n\n    # why\n{indented}")
    assert [place.split(" total")[0] for place in counts.repeated] == ["schedule/b.py:5 as schedule/a.py:2"]


def test_runs_of_equal_lines_are_no_imports_and_no_short_lines() -> None:
    imports = "".join(f"from zyx.schedule.somewhere import something_{number}\n" for number in range(9))
    assert of(a=imports, b=imports, c="f()\n" * 9, d="f()\n" * 9).repeated == []
    typed = f"if TYPE_CHECKING:\n{imports.replace('from', '    from')}"
    assert of(a=typed, b=typed).repeated == []


@pytest.mark.parametrize(
    ("paths", "is_one_too_many"),
    [
        (["schedule/a.py"], False),
        (["schedule/a.py", "schedule/b.py"], True),
        (["graph/a.py", "kernel/a.py", "nest/a.py"], False),
        (["graph/a.py", "graph/b.py"], True),
        (["graph/a.py", "lowering/a.py"], True),
        (["optim/a.py", "optim/b.py"], False),
        (["optim/a.py", "schedule/b.py"], True),
    ],
)
def test_a_name_has_one_meaning_but_in_data_and_in_what_is_offered_twice(
    paths: list[str], is_one_too_many: bool
) -> None:
    names = house.count(dict.fromkeys(paths, "class Word:\n    pass\nclass _Own:\n    pass\n")).names
    assert names == ([f"Word: {', '.join(paths)}"] if is_one_too_many else [])


def test_a_figure_above_its_limit_is_exceeded() -> None:
    most = {name: limit or 0 for name, (_, limit) in house.FIGURES.items()}
    assert house.exceeded({**most, "people_lines": 1 << 20}) == []
    assert house.exceeded({**most, "names": most["names"] + 1}) == ["class names with two meanings"]


def test_an_earlier_commit_that_the_clone_lacks_has_no_figures() -> None:
    assert house.at("0" * 40) == {}
    lines = house.table(dict.fromkeys(house.FIGURES, 1), {}).splitlines()
    assert len(lines) == 1 + len(house.FIGURES)
    assert lines[1].split()[-3:] == ["1", "-", str(house.FIGURES["lines"][1])]
