"""What all tests of this repository share."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests"))  # for `skipped` and `browser`, which are no tests

import skipped

#: What steers a browser, for tests of pages.
pytest_plugins = ["browser"]

#: Tests that `--quick` leaves out, by the beginnings of their names.
THOROUGH = Path(__file__).parent / "tests" / "thorough.txt"

#: The environment of tox.
ENVIRONMENT = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Note which environment this is, and hide it from what tests start: that skips what they let it skip.

    Nor do tests see what ``zyx calibrate`` has kept.
    """
    config.stash[ENVIRONMENT] = os.environ.pop("TOX_ENV_NAME", "")
    os.environ["ZYX_CACHE_CALIBRATION"] = "false"  # what somebody measured of this machine is not what is tested


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs everything."""
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes")
    parser.addoption("--site", type=Path, help="a folder with the built site, for its test in a browser")
    parser.addoption("--quick", action="store_true", help=f"leave out what {THOROUGH.name} names: most of the time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what takes minutes, unless it is asked for, and leave out what is not quick, if that is wanted."""
    if config.getoption("--quick"):
        names = tuple(thorough_tests())
        left_out = [item for item in items if name_of(item).startswith(names)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not name_of(item).startswith(names)]
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run with --slow"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over modules and tests, which stay to the end: many tests call it."""
    gc.collect()
    gc.freeze()


def thorough_tests() -> list[str]:
    """Return the beginnings of the names of tests that take long."""
    lines = (line.partition("#")[0].strip() for line in THOROUGH.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def name_of(item: pytest.Item) -> str:
    """Return the name of a test from the root of this repository on; those of the kit begin with ``zyx.testing``."""
    path = item.path.as_posix()
    _, is_kit, rest = path.rpartition("/zyx/testing/")
    start = f"zyx.testing/{rest}" if is_kit else path.removeprefix(f"{Path(__file__).parent.as_posix()}/")
    return "::".join([start, *item.nodeid.split("::")[1:]])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Note for the list of tox's last environment why tests were skipped."""
    if config.stash[ENVIRONMENT]:
        reports = terminalreporter.stats.get("skipped", [])
        skipped.note_all(config.stash[ENVIRONMENT], [f"tests: {reason_of(report)}" for report in reports])


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test, or a file of tests, was skipped."""
    where = report.longrepr
    return (where[2] if isinstance(where, tuple) else str(where)).removeprefix("Skipped: ")
