"""What the integers of a kernel are known to be multiples of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.kernel.data import Kernel

#: Stands for a multiple of everything, which 0 is.
_ANY = 1 << 62


def divisors(kernel: Kernel) -> list[int]:
    """Return, for each operation, a number that divides its result; 1 where nothing is known.

    Only powers of two count once an operation may wrap around, so numbers here are powers of two.
    """
    known: list[int] = []
    for op in kernel.ops:
        match op:
            case k.Const(value=value) if not isinstance(value, float):
                known.append(_power_of_two(int(value)))
            case k.Binary(op=BinaryOp.ADD | BinaryOp.SUB, x=x, y=y):
                known.append(math.gcd(known[x], known[y]))
            case k.Binary(op=BinaryOp.MUL, x=x, y=y):
                known.append(min(_ANY, known[x] * known[y]))
            case k.Binary(op=BinaryOp.SHL, x=x, y=y) if isinstance(shift := kernel.ops[y], k.Const):
                known.append(min(_ANY, known[x] << min(62, max(0, int(shift.value)))))
            case k.Mad(x=x, y=y, z=z):
                known.append(math.gcd(min(_ANY, known[x] * known[y]), known[z]))
            case k.Where(x=x, y=y, type=type_) if type_.dtype.is_integer:
                known.append(math.gcd(known[x], known[y]))
            case k.Cast(x=x, type=type_) if type_.dtype.is_integer:
                known.append(known[x])
            case _:
                known.append(1)
    return known


def _power_of_two(value: int) -> int:
    """Return the largest power of two that divides `value`."""
    return value & -value if value else _ANY
