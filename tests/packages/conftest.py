"""Wheels of all packages, built alone, and an environment into which they were installed.

Builds and installs take a minute or two; pip fetches what it needs, so this runs in its own tox environment only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["zyx-core", *sorted(folder.name for folder in ROOT.glob("zyx-backend-*"))]
#: What is built likewise, and is no part of the kit.
PROGRAMS = ["zyx-llm"]

Run = Callable[..., str]


@pytest.fixture(scope="session")
def run() -> Run:
    """A function that runs a command in a folder, apart from the settings of whoever runs this, and returns its output.

    It fails unless the command ends with `status`.
    """

    def run_one(*command: str | Path, cwd: Path, status: int = 0, **environ: str) -> str:
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("ZYX_", "PYTEST_", "TOX_"))}
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env=mine | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == status, f"{command} ended with {done.returncode}\n{done.stdout}"
        return done.stdout

    return run_one


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory, run: Run) -> dict[str, Path]:
    """One wheel for each package, each built by itself: pip makes an environment of its own for each."""
    folder = tmp_path_factory.mktemp("wheels")
    sources = [ROOT / package for package in (*PACKAGES, *PROGRAMS)]
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, *sources, cwd=folder)
    return {package: next(folder.glob(f"{package.replace('-', '_')}-*.whl")) for package in (*PACKAGES, *PROGRAMS)}


@pytest.fixture(scope="session")
def new_environment(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Callable[..., Path]:
    """A function that installs packages into a new environment, and returns its interpreter."""
    # It comes with tox, and unpacks the pip that it brings: venv installs one, which takes ten times as long.
    kept = tmp_path_factory.mktemp("kept")
    virtualenv = (sys.executable, "-m", "virtualenv", "--no-download", "--app-data", kept)

    def make(*packages: str | Path) -> Path:
        folder = tmp_path_factory.mktemp("env")
        run(*virtualenv, folder, cwd=folder)
        python = next(path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists())
        run(python, "-m", "pip", "install", *packages, cwd=folder)
        return python

    return make


@pytest.fixture(scope="session")
def python(wheels: dict[str, Path], new_environment: Callable[..., Path]) -> Path:
    """The interpreter of an environment into which all wheels were installed, and what the kit of core needs."""
    return new_environment(*(f"{wheel}[testing]" if name == "zyx-core" else wheel for name, wheel in wheels.items()))
