"""The pytest plugin of the kit: options, markers, header and summary.

Pytest imports it in every environment that has zyx, whatever is tested there. So it lies outside the package `zyx`,
which would bring NumPy, and imports of that only what is asked for.

    --zyx-device NAME      device or backend to test; may be given several times; by default ZYX_DEVICE or interpreter
    --zyx-plugin MODULE    a backend's plugin module that is not installed: register it beside the installed ones
    --zyx-xfails FILE      the backend's list of expected failures (`zyx.testing`); also the ini option zyx_xfails
    --zyx-thorough         more examples, and the tests marked `thorough`
    --zyx-shares NAME      of tests about kernels that have several parameters each value of each, and of their
                           combinations a share, which is drawn by NAME; all of them with --zyx-thorough
    --zyx-seed N           of everything random; runs with the same seed are the same

A device that is not there skips its tests and says why; if the variable ZYX_REQUIRE_DEVICES names it, it fails them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Folder of the kit's tests.
SUITE: Final = Path(__file__).parent / "zyx" / "testing" / "suite"
DEFAULT_DEVICE: Final = "interpreter"

#: How many examples of each kind were run, for the summary.
EXAMPLES: Final = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this module."""
    group = parser.getgroup("zyx", "conformance of zyx backends")
    group.addoption("--zyx-device", action="append", default=[], metavar="NAME", help="device to test")
    group.addoption("--zyx-plugin", action="append", default=[], metavar="MODULE", help="plugin that is not installed")
    group.addoption("--zyx-xfails", action="append", default=[], metavar="FILE", help="list of expected failures")
    group.addoption("--zyx-thorough", action="store_true", help="run more examples")
    group.addoption("--zyx-shares", metavar="NAME", help="run a share of combinations of parameters, drawn by NAME")
    group.addoption("--zyx-seed", type=int, default=0, metavar="N", help="seed of everything random")
    parser.addini("zyx_xfails", "lists of expected failures of zyx backends", type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and start counting examples."""
    config.addinivalue_line("markers", "thorough: takes minutes; run with --zyx-thorough")
    config.stash[EXAMPLES] = Counter()


def device_names(config: pytest.Config) -> list[str]:
    """Return the names of the devices to test."""
    given: list[str] = config.getoption("--zyx-device")
    return given or [os.environ.get("ZYX_DEVICE") or DEFAULT_DEVICE]


def is_thorough(config: pytest.Config) -> bool:
    """Return whether more examples are asked for."""
    return bool(config.getoption("--zyx-thorough"))


def is_required(device: str) -> bool:
    """Return whether ZYX_REQUIRE_DEVICES names a device, or its backend."""
    required = [name.strip() for name in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(",")]
    return device in required or device.partition(":")[0] in required


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is tested with what, if the kit is."""
    if not config.getoption("--zyx-device"):
        return []
    import hypothesis
    import numpy as np

    from zyx.version import __version__

    devices, seed = ", ".join(device_names(config)), config.getoption("--zyx-seed")
    shares = config.getoption("--zyx-shares")
    effort = "thorough" if is_thorough(config) else f"quick, shares of {shares}" if shares else "quick"
    return [
        f"zyx {__version__}, numpy {np.__version__}, hypothesis {hypothesis.__version__}",
        f"zyx conformance: {devices}; {effort}; --zyx-seed {seed}",
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of the kit once for every device."""
    if SUITE in metafunc.definition.path.parents and "device_name" in metafunc.fixturenames:
        metafunc.parametrize("device_name", device_names(metafunc.config), scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Skip what takes minutes, and mark expected failures."""
    own = [item for item in items if SUITE in item.path.parents]
    if not is_thorough(config):
        for item in own:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; run with --zyx-thorough"))
        if shares := config.getoption("--zyx-shares"):
            for item in _left_to_others(own, shares):
                item.add_marker(pytest.mark.skip(reason=f"not in the share of {shares}; run with --zyx-thorough"))
    collected = {item.path.name for item in own}
    is_part = bool(config.option.keyword or config.option.markexpr) or any("::" in arg for arg in config.args)
    for pattern, reason in expected_failures(config):
        matching = [item for item in own if matches(_name(item), pattern)]
        in_question = any(matches(file, pattern.partition("::")[0]) for file in collected)
        if not matching and in_question and not is_part:
            raise pytest.UsageError(f"the list of expected failures has {pattern!r}, which matches no test ({reason})")
        for item in matching:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _left_to_others(own: Iterable[pytest.Item], key: str) -> list[pytest.Item]:
    """Return what is not in the share of `key`, of all tests of the kit about kernels."""
    from zyx.testing.parts import AROUND_KERNELS, SHARE

    tests = defaultdict[tuple[str, str], list[pytest.Item]](list)
    for item in own:
        if hasattr(item, "callspec") and item.path.stem not in AROUND_KERNELS:
            tests[item.nodeid.partition("[")[0], item.callspec.params.get("device_name", "")].append(item)
    return [item for combinations in tests.values() for item in not_drawn(combinations, SHARE, key)]


def not_drawn(combinations: Iterable[pytest.Item], share: int, key: str = "") -> list[pytest.Item]:
    """Return the combinations of a test's parameters that are left out where one in `share` is drawn.

    Each value of each parameter is drawn once at least, so more than the share may be. Digests of `key` and of the
    names of combinations draw: another key has others, and a new value changes little of what is drawn of the rest.
    """
    in_order = sorted(combinations, key=lambda item: hashlib.sha256(f"{key}{item.name}".encode()).digest())
    seen, left = set[tuple[object, ...]](), list[pytest.Item]()
    for item in in_order:
        values = _values(item)
        if values <= seen:
            left.append(item)
        seen |= values
    return left[max(0, len(in_order) // share - (len(in_order) - len(left))) :]


def _values(item: pytest.Item) -> set[tuple[object, ...]]:
    """Return what a combination has of each ``parametrize``: names, and which objects they have.

    Values may have no hash and no equality, but each is one object in all combinations.
    """
    params = item.callspec.params  # type: ignore[attr-defined]  # items with parameters have it
    found = set[tuple[object, ...]]()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
        found.add((*names, *(id(params[name]) for name in names)))
    return found


def _name(item: pytest.Item) -> str:
    """Return ``file::test[parameters]``."""
    return f"{item.path.name}::{item.nodeid.partition('::')[2]}"


def matches(name: str, pattern: str) -> bool:
    """Whether a test's name is what a pattern says: ``*`` is any text; brackets, which names have, mean themselves."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def expected_failures(config: pytest.Config) -> list[tuple[str, str]]:
    """Return the patterns of all lists of expected failures, each with its reason.

    Raises:
        pytest.UsageError: A list is not there, or a line of it has no reason.
    """
    files = [*config.getini("zyx_xfails"), *map(Path, config.getoption("--zyx-xfails"))]
    return [entry for file in files for entry in read_expected_failures(file)]


def read_expected_failures(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the patterns of a list of expected failures, each with its reason.

    Raises:
        pytest.UsageError: There is no such file, or a line has no pattern or no reason.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise pytest.UsageError(f"--zyx-xfails {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        pattern, separator, reason = text.rpartition(": ")
        if not separator or not pattern.strip() or not reason.strip():
            raise pytest.UsageError(f"{path}, line {number}: not 'PATTERN: reason' but {text!r}")
        yield pattern.strip(), reason.strip()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many random examples were run."""
    examples = config.stash[EXAMPLES]
    if examples:
        terminalreporter.section("zyx conformance")
        for name, count in sorted(examples.items()):
            terminalreporter.line(f"{count:7d} {name}")
