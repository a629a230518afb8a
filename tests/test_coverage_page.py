"""docs/reference/coverage.md is what the code says, and no name is without an answer."""

import pytest
import write_coverage
from write_coverage import LISTS, PAGE, Answer, Reasons, answer, has, page


def test_the_page_is_what_the_script_writes():
    assert PAGE.read_text(encoding="utf-8") == page(), "python tests/write_coverage.py --write"


def test_a_name_without_an_answer_is_an_error(monkeypatch, tmp_path):
    for path in write_coverage.DATA.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "numpy.txt").open("a") as file:
        file.write("no_such_function\n")
    monkeypatch.setattr(write_coverage, "DATA", tmp_path)
    with pytest.raises(SystemExit, match="no answer for numpy: no_such_function"):
        page()


def test_answers_are_asked_of_the_code():
    reasons = Reasons()
    numpy, methods = LISTS[1], LISTS[3]
    assert answer(numpy, "sum", reasons) == Answer("sum")
    assert answer(numpy, "arccos", reasons) == Answer("arccos", other="zyx.acos")
    assert answer(numpy, "isnat", reasons).reason
    assert answer(methods, "addcmul_", reasons) == Answer("addcmul_")
    assert answer(numpy, "no_such_function", reasons) is None
    assert not has(numpy.home, "linalg")
    assert reasons.false() == []
