"""Which tests are slow, in one place: what runs with ``--slow`` alone.

    @pytest.mark.slow           takes long, or tries much more of what a test beside it tries already
    @pytest.mark.one_in(4)      of the combinations of its parameters a quarter, the same ones each time, runs always;
                                the others are slow

Of a test that is marked so every value of each parameter is among what runs always, so more than the share may be.

Examples of properties (hypothesis) are `EXAMPLES`, and with ``--slow`` `MANY_EXAMPLES`, unless a test says otherwise
since its examples are larger or smaller than most. ``--slow -m "slow or hypothesis"`` is what ``--slow`` adds.
"""

from __future__ import annotations

import importlib.util
from typing import Final

import pytest

#: Examples of a property, and as many as a longer run has: seconds for all of core's, and about a minute.
EXAMPLES: Final = 40
MANY_EXAMPLES: Final = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs everything."""
    parser.addoption("--slow", action="store_true", help="also run slow tests, and more examples of properties")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and say how many examples properties have."""
    config.addinivalue_line("markers", "slow: runs with --slow alone")
    config.addinivalue_line("markers", "one_in(n): of the combinations of parameters all but one in n are slow")
    if importlib.util.find_spec("hypothesis"):  # not where only packages are built
        from hypothesis import settings

        settings.register_profile("always", max_examples=EXAMPLES, deadline=None)
        settings.register_profile("slow", max_examples=MANY_EXAMPLES, deadline=None)
        settings.load_profile("slow" if config.getoption("--slow") else "always")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is not drawn as slow, before ``-m`` looks at marks; and skip slow tests, unless they are asked for."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("one_in"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    if tests:
        from zyx_pytest import not_drawn  # not where only packages are built

        for combinations in tests.values():
            mark = combinations[0].get_closest_marker("one_in")
            assert mark is not None
            for item in not_drawn(combinations, *mark.args):
                item.add_marker("slow")
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="takes long; run with --slow"))
