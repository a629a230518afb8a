"""What a vector of points of a product costs along each of its ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.ir.accesses import reads_in, stride_along
from zyx.lowering.emit import LONGEST_STEP

if TYPE_CHECKING:
    from zyx.ir.expr import Range
    from zyx.ir.nest import Compute

_UNCHANGED_COST = 0.25
#: Of each vector that lanes a few elements apart are taken out of.
_STEP_COST = 1.5
#: Of adding up a lane.
_ADD_UP_COST = 4.0


def cost(statement: Compute, range_: Range, lanes: int) -> float:
    """Return the accesses that a vector of `lanes` points along `range_` takes, for each access of a point.

    Lanes that are combined have to be added up in the end: all points that are combined share what that costs.
    """
    steps = [stride_along(read.index, range_) for read in reads_in(statement)]
    total = sum(
        float(step) if step == 1 else cost_of_steps(step, lanes) if step != 0 else _UNCHANGED_COST for step in steps
    )
    waste = -(-range_.size // lanes) * lanes / range_.size
    combined = math.prod(other.size for other in statement.reduced)
    return total / len(steps) * waste + (_ADD_UP_COST * lanes / combined if range_ in statement.reduced else 0.0)


def cost_of_steps(step: int | None, lanes: int) -> float:
    """Return what loading a vector costs whose lanes are `step` apart."""
    is_short = step is not None and 2 <= abs(step) <= LONGEST_STEP < lanes
    return _STEP_COST * abs(step) if step is not None and is_short else float(lanes)
