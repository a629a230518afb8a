"""What all tests of this repository share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests"))  # for `skipped`, which is no test

import skipped

#: The environment of tox.
ENVIRONMENT = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Note which environment this is, and hide it from what tests start: that skips what they let it skip."""
    config.stash[ENVIRONMENT] = os.environ.pop("TOX_ENV_NAME", "")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs everything."""
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what takes minutes, unless it is asked for."""
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run with --slow"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Note for the list of tox's last environment why tests were skipped."""
    if config.stash[ENVIRONMENT]:
        reports = terminalreporter.stats.get("skipped", [])
        skipped.note_all(config.stash[ENVIRONMENT], [f"tests: {reason_of(report)}" for report in reports])


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test, or a file of tests, was skipped."""
    where = report.longrepr
    return (where[2] if isinstance(where, tuple) else str(where)).removeprefix("Skipped: ")
