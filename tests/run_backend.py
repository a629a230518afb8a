"""Run the tests of one backend, or say why they cannot run.

    python tests/run_backend.py NAME [PYTEST ARGUMENTS]

If the backend has a device: its own tests, and those that cross packages, with its device as the default one. If not:
its own tests only, which skip what needs a device. The status is 1 if it has none although the variable
ZYX_REQUIRE_DEVICES names it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from zyx.plugins.describe import explanation
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import BackendReport, BackendState
from zyx.settings.record import Settings

ROOT = Path(__file__).parents[1]


def main(name: str, arguments: list[str]) -> int:
    """Run them; return the exit status."""
    report = state_of(name)
    required = os.environ.get("ZYX_REQUIRE_DEVICES", "").split(",")
    print(f"backend {name}: {report.state.value}: {explanation(report)}", flush=True)
    own = [str(folder) for folder in [ROOT / f"zyx-backend-{name}" / "tests"] if folder.exists()]
    if report.state is BackendState.READY:
        os.environ["ZYX_DEVICE"] = name
        shared = [str(ROOT / "tests"), f"--ignore={ROOT / 'tests' / 'packages'}"]
        return pytest.main([*own, *shared, *arguments])
    if name in required:
        print(f"ZYX_REQUIRE_DEVICES names {name}, so this is a failure", flush=True)
        return 1
    print(f"SKIPPED: what needs a device of {name}", flush=True)
    return pytest.main([*own, *arguments]) if own else 0


def state_of(name: str) -> BackendReport:
    """Open the backend, and return what became of it."""
    opened = open_backends(PluginManager(Settings()), [name])
    report = next(report for report in opened.reports if report.name == name)
    opened.close()
    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
