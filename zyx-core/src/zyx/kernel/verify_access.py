"""Rules 12 and 13 of `zyx.kernel.verify`: who takes part in barriers, and that no access is out of bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.kernel.breach import Breach
from zyx.kernel.wmma import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.arithmetic.intervals import Range
    from zyx.kernel.data import Kernel, ValueId


def check_participation(kernel: Kernel) -> Iterator[Breach]:
    """Yield what breaks rule 12, given that the rules before hold."""
    varying: set[ValueId] = set()
    regions: list[bool] = []
    local_shape = kernel.grid[1]
    for number, op in enumerate(kernel.ops):
        match op:
            case k.Index(axis=k.Axis.LOCAL) | k.Load():
                varying.add(number)
            case k.If(condition=condition):
                regions.append(condition in varying)
            case k.Loop(end=end):
                regions.append(end in varying)
            case k.EndIf() | k.EndLoop():
                regions.pop()
            case k.Barrier() | k.Swap() | k.Wmma():
                if any(regions):
                    yield Breach(12, number, "the threads of a group may differ in whether they get here")
                together = 1 if isinstance(op, k.Barrier) else op.threads if isinstance(op, k.Swap) else WARP
                if (local_shape[0] if local_shape else 1) % together:
                    yield Breach(
                        12, number, f"the local axes are {local_shape}; the first is no multiple of {together}"
                    )
                varying.add(number)
            case _:
                if any(operand in varying for operand in k.operands(op)):
                    varying.add(number)


def check_bounds(kernel: Kernel) -> Iterator[Breach]:
    """Yield what breaks rule 13, given that the rules before hold."""
    bounds = Bounds()
    for number, op in enumerate(kernel.ops):
        match op:
            case k.Load(source=array):
                lanes = op.type.lanes
            case k.Store(target=array, value=value) | k.Atomic(target=array, value=value):
                lanes = bounds.type_of(value).lanes
            case _:
                bounds.add(op)
                continue
        define = kernel.ops[array]
        assert isinstance(define, k.Define)
        reached = _reached(bounds, op, lanes, 1 if define.memory is not k.Memory.REGISTER else 0, define.length)
        if reached is not None:
            text = f"it may access elements {reached[0]} to {reached[1]} of %{array}, which has {define.length}"
            yield Breach(13, number, text)
        bounds.add(op)


def _reached(bounds: Bounds, op: k.Load | k.Store | k.Atomic, lanes: int, stride: int, length: int) -> Range | None:
    """Return which elements an access may reach, or None if all are within bounds.

    Args:
        bounds: What is known at this point.
        op: The access.
        lanes: Of the value.
        stride: Elements from one lane to the next: 0 in register memory, where a vector is one element.
        length: Of the array.
    """
    known = bounds.ranges[op.index]
    if known is not None and known[0] >= 0 and known[1] + stride * (lanes - 1) < length:
        return None  # as most are: what the index is made of need not be looked at
    low, high = _position(bounds, op.index)
    high += stride * (lanes - 1)
    if (low >= 0 and high < length) or bounds.is_contradictory:
        return None
    if op.mask is None:
        return low, high
    for lane in range(lanes):
        with bounds.assuming(op.mask, lane):
            low, high = _position(bounds, op.index)
            low, high = low + stride * lane, high + stride * lane
            if not bounds.is_contradictory and (low < 0 or high >= length):
                return low, high
    return None


def _position(bounds: Bounds, index: ValueId) -> Range:
    """Return the bounds of an index."""
    inequalities = bounds.inequalities
    form, _ = bounds.form(index)
    low, high = inequalities.minimum(form), inequalities.maximum(form)
    dtype = bounds.type_of(index).dtype
    if low < dtype.min or high > dtype.max:  # the form may differ from the value
        return bounds.range_of(index)
    least, most = bounds.range_of(index)
    return max(low, least), min(high, most)
