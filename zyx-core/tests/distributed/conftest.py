"""Programs of several processes, run by mpiexec."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what takes several processes where there is no MPI."""
    why = missing()
    for item in items:
        if why and Path(__file__).parent in item.path.parents and "run_program" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=why))


def missing() -> str:
    """Say what is missing to run several processes; "" if nothing is."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    return "" if launcher() else "there is no mpiexec: mpich is not installed"


def launcher() -> str | None:
    """Return the mpiexec of this environment."""
    return shutil.which("mpiexec", path=os.fspath(Path(sys.executable).parent)) or shutil.which("mpiexec")


def run(
    program: str, size: int, *arguments: str, ends_all: bool = True, limit_s: float = LIMIT_S, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder in `size` processes; with `ends_all`, an exception in one of them ends all."""
    module = ["-m", "mpi4py"] if ends_all else []
    own = {"ZYX_DEVICE": "interpreter", "ZYX_COLLECTIVE_TIMEOUT_S": "20", "ZYX_NUM_THREADS": "1"}
    command = [launcher(), "-n", str(size), sys.executable, *module, os.fspath(PROGRAMS / program), *arguments]
    return subprocess.run(
        command, env=os.environ | own | environ, capture_output=True, text=True, timeout=limit_s, check=False
    )


@pytest.fixture(scope="session")
def run_program():
    """Return the function that runs a program in several processes."""
    return run
