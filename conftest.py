"""What all tests of this repository share."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests"))  # for what tests share

import skipped

pytest.register_assert_rewrite("every_driver")

#: Which tests are slow; and what steers a browser, for tests of pages.
pytest_plugins = ["slow", "browser"]

#: The environment of tox.
ENVIRONMENT = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Note which environment this is, and hide it from what tests start: that skips what they let it skip.

    Nor do tests see what ``zyx calibrate`` has kept.
    """
    config.stash[ENVIRONMENT] = os.environ.pop("TOX_ENV_NAME", "")
    os.environ["ZYX_CACHE_CALIBRATION"] = "false"  # what somebody measured of this machine is not what is tested


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says where the site is."""
    parser.addoption("--site", type=Path, help="a folder with the built site, for its test in a browser")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over modules and tests, which stay to the end: many tests call it."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Note for the list of tox's last environment why tests were skipped."""
    if config.stash[ENVIRONMENT]:
        reports = terminalreporter.stats.get("skipped", [])
        skipped.note_all(config.stash[ENVIRONMENT], [f"tests: {reason_of(report)}" for report in reports])


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test, or a file of tests, was skipped."""
    where = report.longrepr
    return (where[2] if isinstance(where, tuple) else str(where)).removeprefix("Skipped: ")
