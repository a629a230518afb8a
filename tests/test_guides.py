"""Every block of code in the guides runs, and the README's program; the backend that a guide writes passes the kit.

The blocks for a shell are run in an environment of their own, by ``tests/packages/test_outsiders.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
import write_guides

from zyx.backend import API_VERSION
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DOCS = write_guides.DOCS
GUIDES = write_guides.guides()
HABITS = DOCS / "coming-from.md"
BACKEND = DOCS / "how-to" / "writing-a-backend.md"
#: The modules of the kit that the guide's backend is tried with: those about memory, launches and kernels. All of it is
#: for ``examples/zyx-backend-tcc``.
KIT = "test_events or test_kernels or test_launches or test_limits or test_ops or test_plans or test_pool"


def blocks(path: Path) -> list[tuple[str, str]]:
    """Return the language and the text of every block of code."""
    return re.findall(r"^```([\w{}]*)[^\n]*\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def python_of(path: Path) -> str:
    return "\n\n".join(write_guides.python_of(path))


@pytest.fixture
def only_once() -> None:
    if os.environ.get("ZYX_DEVICE", "interpreter") != "interpreter":
        pytest.skip("the same on every device; run where the interpreter is the default one")


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def test_every_guide_is_in_the_table_of_contents() -> None:
    listed = {"index.md"}
    for path in GUIDES:
        for language, text in blocks(path):
            if language == "{toctree}":
                names = [line for line in text.splitlines() if line and not line.startswith(":")]
                listed |= {(path.parent / f"{name}.md").relative_to(DOCS).as_posix() for name in names}
    assert {name_of(path) for path in GUIDES} <= listed
    assert len(GUIDES) >= 10


@pytest.mark.parametrize("path", GUIDES, ids=name_of)
def test_every_block_is_in_a_language_that_is_run(path: Path) -> None:
    assert {language for language, _ in blocks(path)} <= {"python", "sh", "toml", "text", "{toctree}", "{include}"}
    assert path.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks(path))


@pytest.mark.parametrize("path", GUIDES, ids=name_of)
def test_the_python_of_a_guide_runs_and_prints_what_is_shown(path: Path, only_once: None) -> None:
    assert write_guides.with_output(path) == path.read_text(encoding="utf-8"), "python tests/write_guides.py --write"


def test_the_program_of_the_readme_runs_and_prints_what_is_shown(only_once: None) -> None:
    text = write_guides.README.read_text(encoding="utf-8")
    assert [language for language, _ in blocks(write_guides.README)][:2] == ["python", "text"]  # before all else
    (program,) = write_guides.python_of(write_guides.README)
    assert sum(bool(line.strip()) for line in program.splitlines()) <= 15
    assert write_guides.with_output(write_guides.README) == text, "python tests/write_guides.py --write"


def test_the_settings_in_the_guide_are_those_of_a_backend() -> None:
    texts = [text for language, text in blocks(BACKEND) if language == "toml"]
    assert [tomllib.loads(text) for text in texts] == [
        {"project": {"entry-points": {"zyx.backends": {"acme": "zyx_backend_acme.plugin"}}}}
    ]


def test_the_backend_of_the_guide_passes_the_kit(tmp_path: Path, only_once: None) -> None:
    (tmp_path / "acme_guide.py").write_text(python_of(BACKEND), encoding="utf-8")
    kit = ["--pyargs", "zyx.testing", "--zyx-device", "acme", "--zyx-plugin", "acme_guide", "-k", KIT]
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
    text = (DOCS / "reference" / "backend-api.md").read_text(encoding="utf-8")
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
