"""What no schedule of a nest goes below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zyx.estimate import Estimate
    from zyx.nest.data import Nest

#: How many times the bytes of all buffers may come from memory if each is said to come once: lines are not all whole.
_ONCE: Final = 1.1


def least_seconds(found: Estimate, nest: Nest) -> float:
    """Return what any schedule takes at least, from the estimate of one: the launch, and moving each buffer once.

    Less than that where the schedule moves more: how long buffers take that fit a cache is not known from it.
    """
    nbytes = sum(param.length * param.dtype.itemsize for param in nest.params)
    moves_once = found.bytes["main memory"] <= _ONCE * nbytes
    return found.times["launch"] + (found.times.get("main memory", 0.0) if moves_once else 0.0)
