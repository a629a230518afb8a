"""Every block of code in the guides runs, and the backend that one of them writes passes the conformance kit.

The blocks for a shell are run in an environment of their own, by ``tests/packages/test_outsiders.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zyx.backend import API_VERSION
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

GUIDES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
HABITS = Path(__file__).parents[1] / "docs" / "coming-from.md"
BACKEND = Path(__file__).parents[1] / "docs" / "writing-a-backend.md"


def blocks(path: Path) -> list[tuple[str, str]]:
    """Return the language and the text of every block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def python_of(path: Path) -> str:
    return "\n\n".join(text for language, text in blocks(path) if language == "python")


@pytest.fixture
def only_once() -> None:
    if os.environ.get("ZYX_DEVICE", "interpreter") != "interpreter":
        pytest.skip("the same on every device; run where the interpreter is the default one")


def test_there_are_guides() -> None:
    assert [path.name for path in GUIDES] == [
        "backend-api.md",
        "coming-from.md",
        "compute.md",
        "coverage.md",
        "files.md",
        "onnx.md",
        "quantize.md",
        "record.md",
        "writing-a-backend.md",
    ]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_every_block_is_in_a_language_that_is_run(path: Path) -> None:
    assert {language for language, _ in blocks(path)} <= {"python", "sh", "toml"}
    assert path.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks(path))


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_the_python_of_a_guide_runs(path: Path, tmp_path: Path, only_once: None) -> None:
    script = tmp_path / "guide.py"
    script.write_text(python_of(path), encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_settings_in_the_guide_are_those_of_a_backend() -> None:
    texts = [text for language, text in blocks(BACKEND) if language == "toml"]
    assert [tomllib.loads(text) for text in texts] == [
        {"project": {"entry-points": {"zyx.backends": {"acme": "zyx_backend_acme.plugin"}}}}
    ]


def test_the_backend_of_the_guide_passes_the_kit(tmp_path: Path, only_once: None) -> None:
    (tmp_path / "acme_guide.py").write_text(python_of(BACKEND), encoding="utf-8")
    kit = ["--pyargs", "zyx.testing", "--zyx-device", "acme", "--zyx-plugin", "acme_guide"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *kit],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "ZYX_REQUIRE_DEVICES": "acme"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


def test_the_history_of_the_interface_ends_with_the_present_version() -> None:
    text = (Path(__file__).parents[1] / "docs" / "backend-api.md").read_text(encoding="utf-8")
    history = text.split("## History")[1]
    rows = re.findall(r"^\| (\d+)\.(\d+) \| (\d+\.\d+) \|", history, re.MULTILINE)
    versions = [(int(major), int(minor)) for major, minor, _ in rows]
    assert versions == sorted(versions)
    assert versions[-1] == API_VERSION
    assert __version__.startswith(f"{rows[-1][2]}.")


def fails(error: type[Exception], function: Callable[[], object]) -> bool:
    """Tell whether a call raises an error, and so is none that gives another answer."""
    with pytest.raises(error):
        function()
    return True


def rows_of_habits() -> list[list[str]]:
    _, _, text = HABITS.read_text(encoding="utf-8").partition("<!-- until here -->")  # of the table of programs
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in rows if row[0] != "from"]


@pytest.mark.parametrize("row", rows_of_habits(), ids=lambda row: row[1])
def test_a_row_about_other_libraries_is_true(row: list[str], only_once: None) -> None:
    *_, shown = row
    assert len(row) == 4
    names: dict[str, object] = {"fails": fails}
    exec(python_of(HABITS), names)
    assert eval(shown.strip("`"), names)
