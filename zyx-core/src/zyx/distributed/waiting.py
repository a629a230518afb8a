"""Wait for other processes, with a limit, and without taking a processor meanwhile."""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from zyx.errors import CollectiveError, CollectiveTimeoutError
from zyx.runtime.lines import line_of_caller
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: How long is asked without a pause, in seconds: most messages between processes of one machine take less.
_EAGER_S: Final = 50e-6
#: By how much each pause is longer than the one before, and the longest one, in seconds.
_LONGER_S: Final = 20e-6
_LONGEST_S: Final = 1e-3
#: How often it is asked whether there is any sense in waiting, in seconds.
_DOUBT_S: Final = 0.1
#: After so many seconds it is said who is late: longer than processes that do the same work are apart, and so soon that
#: somebody still looks.
LATE_S: Final = 10.0

_traced_at: Final[ContextVar[str]] = ContextVar("traced_at", default="")


class LateWarning(UserWarning):
    """Another process is late, and is waited for; the text has the operation, the line and the ranks."""


@contextmanager
def traced_at(line: str) -> Iterator[None]:
    """Say for a ``with`` block which line of a traced function is being done; "" where it is no traced one."""
    token = _traced_at.set(line)
    try:
        yield
    finally:
        _traced_at.reset(token)


def place() -> str:
    """Return words for the line of the program that this thread is at, to follow what it does there."""
    line, caller = _traced_at.get(), line_of_caller()
    if line and caller:
        return f" at {line}, traced, in a call at {caller}"
    return f" at {line or caller}" if line or caller else ""


def mismatch(calls: Mapping[int, str], names: Sequence[int], rank: int) -> CollectiveError:
    """Return the error of processes that are at different calls.

    Args:
        calls: What each is at, by its rank.
        names: The number of each rank among all, by which errors call it.
        rank: That of this process, whose line is named.
    """
    each = "; ".join(
        f"rank {names[other]} calls {calls[other]}{place() if other == rank else ''}" for other in sorted(calls)
    )
    return CollectiveError(
        f"processes do not call the same operation: {each}. Each must make the same calls in the same order, "
        "with tensors of one shape and dtype"
    )


def wait_until(
    is_done: Callable[[], bool],
    what: str,
    missing: Callable[[], Sequence[int]],
    doubt: Callable[[], None] = lambda: None,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Ask until it is done. Whoever is late is named by a `LateWarning` after `LATE_S` seconds.

    Args:
        is_done: Asks.
        what: Is waited for, and by whom, for people.
        missing: Gives the ranks that are waited for, as far as that is known.
        doubt: Called several times a second; raises if there is no sense in waiting.
        sleep: Returns after so many seconds, or before.

    Raises:
        CollectiveTimeoutError: It takes longer than `collectives.timeout_s` of the settings.
    """
    limit = current().settings.collectives.timeout_s
    started = time.monotonic()
    pause = 0.0
    doubted, is_late = started, False
    while not is_done():
        now = time.monotonic()
        waited = now - started
        if limit and waited > limit:
            raise CollectiveTimeoutError(_text(what, waited, limit, missing()))
        if now - doubted > _DOUBT_S:
            doubt()
            doubted = now
        if waited > LATE_S and not is_late:
            is_late = True
            until = f"waits up to {limit:g} s" if limit else "waits on, without a limit"
            warnings.warn(
                f"{what} has waited {waited:.0f} s for {_who(missing())}{place()}, and {until} "
                "(ZYX_COLLECTIVE_TIMEOUT_S)",
                LateWarning,
                stacklevel=1,
            )
        if waited > _EAGER_S:
            sleep(pause)  # 0 lets another process have the processor
            pause = min(pause + _LONGER_S, _LONGEST_S)


def _who(late: Sequence[int]) -> str:
    return f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}" if late else "the others"


def _text(what: str, waited: float, limit: float, late: Sequence[int]) -> str:
    question = "Has it ended, or does it" if len(late) == 1 else "Has one of them ended, or does one"
    return (
        f"{what} has waited {waited:.1f} s for {_who(late)}; the limit is {limit:g} s (ZYX_COLLECTIVE_TIMEOUT_S). It "
        f"waits{place()}. {question} not come to this call?"
    )
