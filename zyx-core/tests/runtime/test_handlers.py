"""Handlers of signals compute, or raise, between any two lines of the runtime; what they interrupt stays right.

The devices here put everything off, so that work which does not wait for what it needs computes with something else.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np
import pytest

import zyx
from zyx.testing.handlers import at_each_line

MODULES = ["zyx.runtime.buffer", "zyx.runtime.plan", "zyx.runtime.runtime", "zyx.runtime.waiting", "zyx.jit"]


def full(value, device="lab:0"):
    return zyx.Tensor(np.full(4, value, np.float32), device=device)


class Steps:
    """Some of everything that a program does, a new round at each call; and a look at whether it was right."""

    def __init__(self) -> None:
        self.state = full(0.0).realize()
        self.rounds = 0
        self.step = zyx.jit(lambda x: (self.state.assign(self.state + x), self.state * 2.0)[1])
        self.step(full(0.0)).tolist()

    def go(self) -> None:
        self.rounds += 1
        x = (full(1.0) + 1.0).realize()
        assert self.step(x).tolist() == [4.0 * self.rounds] * 4
        assert (x.to("lab:1") * 3.0).tolist() == [6.0] * 4

    def look(self) -> None:
        """What a handler does: read what is there, and compute with it."""
        found = (self.state * 1.0).tolist()
        assert found in ([2.0 * self.rounds] * 4, [2.0 * self.rounds - 2.0] * 4)
        assert (full(3.0) * 2.0).to("lab:1").tolist() == [6.0] * 4


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.usefixtures("lab")
def test_a_handler_computes_at_any_line(module):
    steps = Steps()
    steps.go()
    assert at_each_line(steps.go, steps.look, module) > 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # those that come in a finaliser
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.usefixtures("lab")
def test_after_an_exception_at_any_line_everything_works(module):
    constant = (full(5.0) + 0.0).realize()
    double = zyx.jit(lambda x: x * 2.0 + constant)

    def go(number: float = 1.0) -> None:
        x = (full(number) + 1.0).realize()
        assert double(x).tolist() == [2.0 * number + 7.0] * 4
        assert (x.to("lab:1") * constant.to("lab:1")).tolist() == [5.0 * number + 5.0] * 4

    def interrupted() -> None:
        with suppress(KeyboardInterrupt):
            go()
        sys.settrace(None)
        for number in (2.0, 3.0):
            go(number)

    def handler() -> None:
        raise KeyboardInterrupt

    go()
    assert at_each_line(interrupted, handler, module) > 10
