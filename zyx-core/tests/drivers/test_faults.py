"""What drivers refuse: what their numbers mean, the errors that faults become, and devices that are lost."""

from __future__ import annotations

import pytest

from zyx.drivers.faults import Cause, Codes, DeviceWork, Fault, failure
from zyx.errors import AllocationError, CompileError, DeviceLostError, LaunchError, TransferError

CODES = Codes("PAPER_", "paper error", {1: "TORN", 2: "NO_SHEETS", 3: "BURNT"}, frozenset({3}), frozenset({2, 7}))


@pytest.mark.parametrize(
    ("code", "cause", "name"),
    [
        (1, Cause.REFUSED, "PAPER_TORN (1)"),
        (2, Cause.MEMORY, "PAPER_NO_SHEETS (2)"),
        (3, Cause.LOST, "PAPER_BURNT (3)"),
        (7, Cause.MEMORY, "paper error 7"),
        (9, Cause.REFUSED, "paper error 9"),
    ],
)
def test_a_number_has_a_cause_and_a_name(code: int, cause: Cause, name: str):
    fault = CODES.fault(code, "fold")
    assert (fault.cause, fault.code, str(fault)) == (cause, code, f"fold: {name}")
    assert str(CODES.fault(code)) == CODES.name(code) == name


@pytest.mark.parametrize("kind", [CompileError, LaunchError, TransferError])
@pytest.mark.parametrize(
    ("cause", "better", "text"),
    [
        (Cause.LOST, DeviceLostError, "a sheet on paper:0: the device can do no more work in this process: ash"),
        (Cause.MEMORY, AllocationError, "a sheet on paper:0: the driver has no memory for it: ash"),
        (Cause.DEADLOCK, None, "a sheet on paper:0: its kernels wait for each other: ash"),
        (Cause.REFUSED, None, "a sheet on paper:0: ash"),
    ],
)
def test_a_fault_becomes_the_error_of_what_was_done_or_a_better_one(
    kind: type[LaunchError], cause: Cause, better: type[LaunchError] | None, text: str
):
    error = failure("a sheet on paper:0", Fault(cause, "ash"), kind, "a fold was queued last")
    assert type(error) is (better or kind)
    assert str(error) == (f"{text}; a fold was queued last" if cause is Cause.LOST else text)


def test_a_number_becomes_the_same_error_as_its_fault():
    for code in (1, 2, 3):
        error, expected = (
            CODES.failure("a sheet", code, LaunchError),
            failure("a sheet", CODES.fault(code), LaunchError),
        )
        assert (type(error), str(error)) == (type(expected), str(expected))


class Press(DeviceWork):
    """A device with some sheets in it."""

    sheets: tuple[str, ...] = ()

    def running(self) -> tuple[str, ...]:
        return self.sheets


def test_a_device_that_refuses_something_goes_on():
    press = Press("paper:0")
    error = press.failed("a fold", Fault(Cause.REFUSED, "torn"), LaunchError)
    assert (type(error), str(error)) == (LaunchError, "a fold: torn")
    press.check("the next fold")
    assert press.lost is None


@pytest.mark.parametrize(
    ("sheets", "running"),
    [
        ((), ""),
        (("a",), "; it was running a"),
        (("a", "b", "a"), "; it was running a, b"),
        (tuple("abcdef"), "; it was running a, b, c, d and 2 more"),
    ],
)
def test_a_device_that_is_lost_stays_so_with_what_it_was_running(sheets: tuple[str, ...], running: str):
    press = Press("paper:0")
    press.sheets = sheets
    error = press.failed("a fold", Fault(Cause.LOST, "burnt"), LaunchError)
    said = f"device paper:0 is lost{running} (burnt)"
    assert (type(error), str(error)) == (DeviceLostError, f"a fold: {said}")
    press.sheets = ("what came later",)
    again = press.failed("a look", Fault(Cause.LOST, "ash"), TransferError)
    assert (type(again), str(again)) == (DeviceLostError, f"a look: {said}")
    with pytest.raises(DeviceLostError, match="the next fold: device paper:0 is lost"):
        press.check("the next fold")
