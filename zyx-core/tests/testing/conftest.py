"""Run the kit, as authors of backends do, on devices that are planted with bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What a run of the kit said.

    Attributes:
        status: Exit status of pytest.
        output: Standard output and errors.
        failed: Names of the tests that failed.
    """

    status: int
    output: str

    @property
    def failed(self) -> set[str]:
        lines = [line.split() for line in self.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return {words[1].partition("::")[2].partition("[")[0] for words in lines}


@pytest.fixture
def run_kit(tmp_path):
    """A function that runs modules of the kit on the planted device with a bug."""

    def run(bug: str, *modules: str, options: tuple[str, ...] = (), ini: str = "") -> Outcome:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}")
        environment = {**os.environ, "PYTHONPATH": str(HERE), "PLANTED_BUG": bug}
        names = [f"zyx.testing.suite.{module}" for module in modules] or ["zyx.testing"]
        command = [
            sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-c", "pytest.ini",
            "--pyargs", *names, "--zyx-plugin", "planted", "--zyx-device", "planted", *options,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        return Outcome(done.returncode, done.stdout + done.stderr)

    return run
