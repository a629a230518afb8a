"""The bits of ZYX_DEBUG."""

import pytest

from zyx.settings.debug import EVERYTHING, Debug, parse_debug


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0, Debug(0)),
        ("0", Debug(0)),
        (24, Debug.IR | Debug.SOURCE),
        ("24", Debug.IR | Debug.SOURCE),
        (" Source , ir ", Debug.IR | Debug.SOURCE),
        (["memory"], Debug.MEMORY),
        ("all", EVERYTHING),
        ("", Debug(0)),
    ],
)
def test_it_is_given_as_a_number_or_by_names(given: object, wanted: Debug) -> None:
    assert parse_debug(given) == wanted


def test_the_bits_are_those_that_are_documented() -> None:
    names = [
        "DEVICES",
        "PLAN",
        "SCHEDULE",
        "IR",
        "SOURCE",
        "LAUNCHES",
        "MEMORY",
        "COMPILE",
        "AUTOTUNE",
        "LINES",
        "STAGES",
    ]
    assert {flag.name: flag.value for flag in Debug} == {name: 1 << bit for bit, name in enumerate(names)}


@pytest.mark.parametrize("given", [-1, 2048, "2048", "shedule", True, None, 1.0, [1]])
def test_anything_else_is_refused_with_the_list_of_names(given: object) -> None:
    with pytest.raises(ValueError, match="devices \\(1\\), plan \\(2\\)"):
        parse_debug(given)
