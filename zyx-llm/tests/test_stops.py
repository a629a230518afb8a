"""Stop strings in what comes in parts."""

from __future__ import annotations

import pytest

from zyx.errors import InvalidArgumentError
from zyx_llm.generation import Stops


@pytest.mark.parametrize("size", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["\nUser:"], "Hi.\n\nUser: x", "Hi.\n"),
        (["aab"], "aaaab", "aa"),
        (["abc", "b"], "xabc", "xa"),
        (["abc"], "xxab", "xxab"),
        ([], "xyz", "xyz"),
        (["xyz"], "xyz", ""),
    ],
)
def test_what_comes_before_a_stop_is_given_whatever_the_parts_are(stops, text, expected, size):
    found = Stops(stops)
    parts = [found.push(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(parts) + found.finish() == expected
    assert found.is_over == (expected != text)


def test_nothing_is_held_back_longer_than_it_has_to_be():
    found = Stops(["stop"])
    assert found.push("a s") == "a "
    assert found.push("top") == ""
    assert found.is_over
    other = Stops(["stop"])
    assert other.push("sto") == ""
    assert other.push("ne") == "stone"


@pytest.mark.parametrize("stops", ["text", [""], [3]])
def test_a_stop_is_a_text(stops):
    with pytest.raises(InvalidArgumentError, match="stops are texts, none of them empty"):
        Stops(stops)
