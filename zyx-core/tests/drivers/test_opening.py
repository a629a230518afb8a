"""Which devices of a driver are opened."""

from __future__ import annotations

import pytest

from zyx.builtin.host import HostPool
from zyx.drivers.opening import asked_for, is_named, needing, open_each
from zyx.errors import DriverNotFoundError, InitializationError, NoDeviceError


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (ImportError("no module", name="acme_gpu"), ()),
        (ImportError("half of it"), ()),
        (OSError("no libacme"), (OSError,)),
    ],
)
def test_what_cannot_be_imported_is_a_driver_that_is_not_there(error: Exception, also: tuple[type[Exception], ...]):
    said = rf"^the package acme cannot be imported \({error}\): ask ACME$"
    with pytest.raises(DriverNotFoundError, match=said), needing("the package acme", "ask ACME", *also):
        raise error


@pytest.mark.parametrize("error", [ImportError("old core", name="zyx.drivers.new"), OSError("another")])
def test_what_is_no_driver_is_left_alone(error: Exception):
    with pytest.raises(type(error), match=str(error)), needing("the package acme", "ask ACME"):
        raise error


def test_names_are_found_by_any_part_in_capitals_or_not():
    assert is_named("NVIDIA H200", ())
    assert is_named("NVIDIA H200", ("radeon", "h200"))
    assert not is_named("NVIDIA H200", ("radeon",))


def test_those_that_are_asked_for_keep_their_order():
    assert asked_for([3, 1, 2], lambda number: number > 1, "more than 1") == [3, 2]


def test_if_none_is_asked_for_the_error_has_those_there_are():
    with pytest.raises(NoDeviceError, match=r"^no device is asked for \(less than 0\); there are: 3; 1$"):
        asked_for([3, 1], lambda number: number < 0, "less than 0")
    with pytest.raises(NoDeviceError, match=r"^no adapter is asked for \(less than 0\); there are: a 3; a 1$"):
        asked_for([3, 1], lambda number: number < 0, "less than 0", "a {}".format, "adapter")


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
