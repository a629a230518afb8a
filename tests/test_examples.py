"""Every example runs as it stands."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"

#: Those that read a network out of a wheel, and a file that they are given: `test_real_networks` runs them.
OTHERS = {"inputs.py", "pitch.py", "read_text.py", "similar_sentences.py", "voice_activity.py"}

#: Executes a notebook, and writes it with what its cells show.
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.mark.parametrize("name", sorted({path.name for path in FOLDER.glob("*.py")} - OTHERS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    device = os.environ.get("ZYX_DEVICE", "c")
    if device != "c" and name != "first_steps.py":
        pytest.skip(f"trains for minutes where kernels are slow, or slow to compile; {device} runs first_steps.py only")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_notebook_runs_and_shows_tables(tmp_path: Path) -> None:
    if os.environ.get("ZYX_DEVICE", "c") != "c":
        pytest.skip("searches schedules, which takes long where kernels are slow; it runs on c")
    if any(importlib.util.find_spec(name) is None for name in ("nbclient", "nbformat", "ipykernel")):
        pytest.skip("nbclient, nbformat and ipykernel are not all installed; tox -e examples has them")
    path, done_path = FOLDER / "train_and_profile.ipynb", tmp_path / "done.ipynb"
    folders = {name: str(tmp_path / name) for name in ("ZYX_CACHE_DIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(path), str(done_path)],
        cwd=tmp_path,
        env=os.environ | folders,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    source, executed = (json.loads(each.read_text(encoding="utf-8")) for each in (path, done_path))
    assert not [cell for cell in source["cells"] if cell.get("outputs")]  # kept without, since times are of a machine
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    tables = ["".join(each["data"]["text/html"]) for each in outputs if "text/html" in each.get("data", {})]
    heads = [re.findall(r"<th[^>]*>(\w+)</th>", table)[0] for table in tables]
    assert heads == ["DEVICE", "NAME", "LAYER", "KERNEL", "STEP", "KERNEL"]
    assert all(table.count("<tr>") > 1 for table in tables)
    assert not re.search(r"<script|<link|https?:", "".join(tables))
