"""With ``--zyx-shares`` a device has each value of each parameter of tests about kernels, and not each combination."""

from __future__ import annotations

import re

import pytest

#: Tests of the kit with two parameters: about kernels, with 39 combinations, and of what is around them, with 36.
COMPUTING = "test_native_operations_give_the_right_values"
AN_EVENT = "test_an_event_is_used_once"


@pytest.fixture
def ran(run_kit):
    """Return what runs the two tests of the kit with options, and returns the parameters of those that passed."""

    def ran(*options: str) -> dict[str, set[str]]:
        options = ("-vv", "-k", f"{COMPUTING} or {AN_EVENT}", *options)
        outcome = run_kit("none", "test_ops", "test_events", options=options)
        assert outcome.status == 0, outcome.output
        found: dict[str, set[str]] = {COMPUTING: set(), AN_EVENT: set()}
        for test, parameters in re.findall(r"::(\w+)\[planted-(\S+)\] PASSED", outcome.output):
            found[test].add(parameters)
        return found

    return ran


def test_a_share_has_each_value_and_another_name_another_share(ran):
    everything, one, another = ran(), ran("--zyx-shares", "one"), ran("--zyx-shares", "another")
    families, types = (set(part) for part in zip(*(name.split("-") for name in everything[COMPUTING]), strict=True))
    for part in (one, another):
        assert part[AN_EVENT] == everything[AN_EVENT]
        assert part[COMPUTING] < everything[COMPUTING]
        assert {name.partition("-")[0] for name in part[COMPUTING]} == families
        assert {name.partition("-")[2] for name in part[COMPUTING]} == types
    assert one[COMPUTING] != another[COMPUTING]


def test_a_thorough_run_has_them_all(ran):
    assert ran("--zyx-shares", "one", "--zyx-thorough") == ran()
