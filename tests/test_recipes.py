"""What CONTRIBUTING says takes a file or two does: each recipe, a diff, is applied to a copy of core and tried."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = Path(__file__).with_name("recipes")
CORE = Path("zyx-core", "src", "zyx")

#: How many files of core each recipe may touch.
MOST_FILES = {
    "scalar_operation": 4,
    "rule": 1,
    "legalisation": 1,
    "move": 1,
    "schedule_seed": 1,
    "dialect": 1,
    "onnx_operator": 1,
    "gradient_rule": 1,
}
#: What a recipe needs beside core.
NEEDS = {"onnx_operator": "onnx"}


def check(name: str, source: Path) -> subprocess.CompletedProcess[str]:
    """Run the check of a recipe with the core that lies in a folder."""
    return subprocess.run(
        [sys.executable, str(RECIPES / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", MOST_FILES)
def test_a_recipe_takes_few_files_and_does_what_it_says(name: str, tmp_path: Path) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    if shutil.which("git") is None:
        pytest.skip("git is not installed, which applies the diff")
    shutil.copytree(ROOT / CORE, tmp_path / CORE)
    diff = RECIPES / f"{name}.diff"
    subprocess.run(
        ["git", "apply", str(diff)], cwd=tmp_path, check=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )  # fmt: skip
    touched = re.findall(r"^\+\+\+ b/(\S+)$", diff.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(path.startswith(f"{CORE.as_posix()}/") for path in touched)
    assert 0 < len(touched) <= MOST_FILES[name]
    done = check(name, tmp_path / CORE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["rule", "gradient_rule"])
def test_without_its_diff_a_check_fails(name: str) -> None:
    assert "AssertionError" in check(name, ROOT / CORE.parent).stderr


def test_every_recipe_is_named_where_contributors_look() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name, count in MOST_FILES.items():
        assert re.search(rf"\(tests/recipes/{name}\.diff\).*\b{count}\b", text), f"CONTRIBUTING.md lacks {name}"
    assert {path.stem for path in RECIPES.iterdir() if path.suffix in (".diff", ".py")} == set(MOST_FILES)
