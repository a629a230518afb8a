"""Call a function between any two lines of other code, where Python may run the handler of a signal.

Such a handler may compute, or raise, as that of Ctrl-C does. What it comes in the middle of has to go on as if nothing
had been, or to leave things as they should be.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def at_each_line(function: Callable[[], object], handler: Callable[[], object], module: str) -> int:
    """Call `function` again and again, each time with a call of `handler` before another line; return how many.

    The lines are those that `function` runs of modules whose names start with `module`.
    """
    return next(number for number in itertools.count() if not _before_line(number, function, handler, module))


def _before_line(number: int, function: Callable[[], object], handler: Callable[[], object], module: str) -> bool:
    """Call `function`, and `handler` before line `number` of those that it runs; return whether there is one."""
    count, is_called = 0, False

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[[FrameType, str, object], object] | None:
        nonlocal count, is_called
        if not frame.f_globals.get("__name__", "").startswith(module):
            return None
        if event == "line" and not is_called:
            is_called = count == number
            count += 1
            if is_called:
                sys.settrace(None)
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # a function that returns itself has no type of its own
    try:
        function()
    finally:
        sys.settrace(before)
    return is_called
