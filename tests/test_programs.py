"""Programs written for PyTorch run on zyx with at most five lines changed, and print the same numbers.

`program_runs` has the lines. Where PyTorch is installed it runs beside, else what it printed is read from the files
beside the programs. At the end the table of the differences and the times is printed.
"""

from __future__ import annotations

import importlib.util

import program_runs as runs
import pytest

import zyx

TABLE: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def _printed(request):
    """Print the table when all programs have run."""
    yield
    manager = request.config.pluginmanager.getplugin("capturemanager")
    with manager.global_and_fixture_disabled():
        print("\n".join(["", runs.HEAD, *TABLE.values()]))


def test_there_are_ten_and_no_other():
    assert len(runs.CHANGED) == 10
    assert {path.stem for path in runs.FOLDER.glob("*.py")} == runs.CHANGED.keys()
    assert {path.stem for path in runs.FOLDER.glob("*.txt")} == runs.CHANGED.keys()


@pytest.fixture
def _fast():
    """Skip where the programs, which ask for a GPU of CUDA or else for the processor, would be interpreted."""
    with zyx.device("cuda" if zyx.cuda.is_available() else "cpu") as device:
        if device.startswith("interpreter"):
            pytest.skip("trains networks, which takes the interpreter minutes; run where a backend has the processor")


@pytest.mark.usefixtures("_fast")
@pytest.mark.parametrize("name", runs.CHANGED)
def test_a_program_prints_what_it_does_with_pytorch(name):
    assert 30 <= len(runs.for_torch(name).splitlines()) <= 100
    assert 1 <= runs.changed_lines(name) <= runs.MOST
    ours = runs.printed(runs.for_zyx(name), name)
    theirs = runs.Run(runs.recorded(name), None)
    if importlib.util.find_spec("torch") is not None:
        theirs = runs.printed(runs.for_torch(name), name)
        assert runs.difference(theirs.text, runs.recorded(name)) <= runs.TOLERANCE, (
            "python tests/program_runs.py --write"
        )
    apart = runs.difference(ours.text, theirs.text)
    TABLE[name] = runs.row(name, apart, theirs, ours)
    assert apart <= runs.TOLERANCE, f"PyTorch:\n{theirs.text}\nzyx:\n{ours.text}"


def test_texts_that_are_not_the_same_differ():
    assert runs.difference("loss 1.500, 3 steps", "loss 1.503, 3 steps") == pytest.approx(0.002, rel=0.01)
    assert runs.difference("loss 1.5, 3 steps", "loss 1.5, 4 steps") == float("inf")
    assert runs.difference("loss 1.5", "loss nan") == float("inf")
    assert runs.difference("[0.1]", "[0.1, 0.2]") == float("inf")


def test_a_line_that_is_not_there_cannot_change(monkeypatch):
    monkeypatch.setitem(runs.CHANGED, "pca", (*runs.CHANGED["pca"], ("no such line", "another")))
    with pytest.raises(LookupError, match="pca has no line 'no such line'"):
        runs.for_zyx("pca")


def test_the_page_has_what_changes():
    page = runs.PAGE.read_text(encoding="utf-8")
    assert runs.BEGIN in page
    assert page == runs.page_with_table(page), "python tests/program_runs.py --write"
