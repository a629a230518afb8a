"""Which devices of a driver are opened."""

from __future__ import annotations

import pytest

from zyx.builtin.host import HostPool
from zyx.drivers.opening import is_named, open_each
from zyx.errors import InitializationError


def test_names_are_found_by_any_part_in_capitals_or_not():
    assert is_named("NVIDIA H200", ())
    assert is_named("NVIDIA H200", ("radeon", "h200"))
    assert not is_named("NVIDIA H200", ("radeon",))


def opened(number, listed):
    if listed.startswith("bad"):
        raise InitializationError(f"{listed} refuses")
    return HostPool(f"{listed} as {number}", 1 << 10)


def test_those_that_refuse_are_noted_and_the_others_numbered():
    notes: list[str] = []
    pools = open_each(["a", "bad b", "c"], opened, notes.append, ["d is too old"])
    assert [pool.name for pool in pools] == ["a as 0", "c as 1"]
    assert notes == ["left out: d is too old", "left out: bad b refuses"]


def test_if_none_is_left_the_error_has_every_reason():
    notes: list[str] = []
    with pytest.raises(InitializationError, match=r"^d is too old; bad b refuses; bad c refuses$"):
        open_each(["bad b", "bad c"], opened, notes.append, ["d is too old"])
    assert not notes
