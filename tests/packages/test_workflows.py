"""The workflow of a hosted runner is of the form that is asked for, and has all environments of tox."""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
#: The schema comes with the package that compares; nothing is fetched.
CHECK = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows")

Run = Callable[..., str]


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    return YAML(typ="safe").load(WORKFLOW)


def test_the_workflow_is_as_the_schema_has_it(run: Run) -> None:
    assert "ok" in run(*CHECK, WORKFLOW, cwd=ROOT)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [("runs-on:", "run-on:"), ("steps:", "step:"), ("contents: read", "contents: look")],
)
def test_a_workflow_of_another_form_is_refused(written: str, wrong: str, tmp_path: Path, run: Run) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    assert written in text
    (tmp_path / "ci.yml").write_text(text.replace(written, wrong), encoding="utf-8")
    assert "Schema validation errors" in run(*CHECK, tmp_path / "ci.yml", cwd=tmp_path, status=1)


def test_each_environment_of_tox_is_a_job(workflow: dict[str, Any]) -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini", encoding="utf-8")
    environments = re.split(r",\s*", settings["tox"]["env_list"].strip())
    assert environments[-1] == "skipped"
    assert workflow["jobs"]["tox"]["strategy"]["matrix"]["environment"] == environments[:-1]
    assert workflow["jobs"]["tox"]["strategy"]["fail-fast"] is False


def test_a_job_calls_what_is_here_with_rights_to_read_alone(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) if "uses" in step else "run" in step
    (command,) = (step["run"] for step in workflow["jobs"]["tox"]["steps"] if ".ci/run" in step.get("run", ""))
    assert command == ".ci/run -e ${{ matrix.environment }}"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
