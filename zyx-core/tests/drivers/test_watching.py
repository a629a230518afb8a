"""Waits that somebody looks after."""

from __future__ import annotations

import pytest

from zyx.drivers.watching import wait_watched
from zyx.errors import LaunchError


class Counting:
    """A watcher that counts what it is asked, and finds something wrong at a look, or a check, of some number."""

    def __init__(self, look: int = 0, check: int = 0):
        self.times: list[float] = []
        self.checks = 0
        self.look, self.check_at = look, check

    def watch(self, since: float) -> float:
        self.times.append(since)
        if len(self.times) == self.look:
            raise LaunchError("the others have ended")
        return since + 1.0

    def check(self) -> None:
        self.checks += 1
        if self.checks == self.check_at:
            raise LaunchError("exchanges were ended")


def answers(*values: bool):
    """Return a function that gives these, one after the other."""
    return iter(values).__next__


def test_what_is_over_is_not_waited_for_and_still_checked():
    watcher = Counting()
    wait_watched(answers(True), [watcher])
    assert (watcher.times, watcher.checks) == ([], 1)


def test_watchers_look_until_it_is_over_each_with_what_the_one_before_has_found():
    first, second = Counting(), Counting()
    wait_watched(answers(False, False, False, True), [first, second])
    start = first.times[0]
    assert [time - start for time in first.times] == pytest.approx([0, 2, 4])
    assert [time - start for time in second.times] == pytest.approx([1, 3, 5])
    assert (first.checks, second.checks) == (1, 1)


@pytest.mark.parametrize("watcher", [Counting(look=2), Counting(check=1)], ids=["look", "check"])
def test_what_a_watcher_finds_ends_the_wait(watcher: Counting):
    with pytest.raises(LaunchError, match="ended"):
        wait_watched(answers(False, False, True), [watcher])
