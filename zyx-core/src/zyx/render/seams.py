"""Which values of a kernel a driver must not see through, lest it computes something else.

Languages such as WGSL let compilers take floats for real numbers: no NaN, no infinities, sums in any order. Drivers do:
Mesa's makes ``(x + c) - c`` into ``x``, ``x - x`` into 0, ``x * 0`` into 0, ``(x * c) * d`` into ``x * (c * d)``,
``!(x < y)`` into ``x >= y`` and ``x < y ? x : y`` into a minimum that forgets NaN; others fuse a product and a sum. All
of that needs two operations, or an operation and a constant, side by side. So values at such seams are *hidden*:
combined with a zero that is read from memory, of which a compiler knows nothing.

A multiply-add that goes on from one before it needs no hiding: a driver has nothing to merge there. So sums of products
in registers are hidden where something else is computed from them, not at each step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.data import Memory
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from zyx.kernel.data import Kernel, Op, ValueId

_ARITHMETIC: Final = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV})
_ORDERS: Final = frozenset({BinaryOp.LT, BinaryOp.LE})
_INEXACT: Final = frozenset({UnaryOp.SQRT, UnaryOp.RECIPROCAL, UnaryOp.FLOOR, UnaryOp.TRUNC, UnaryOp.NEG})


def hidden_values(kernel: Kernel) -> frozenset[ValueId]:
    """Return the floats and bools of `kernel` that are to be hidden where they are made."""
    users: list[list[Op]] = [[] for _ in kernel.ops]
    for op in kernel.ops:
        for operand in k.operands(op):
            users[operand].append(op)
    gathered = {op.target for op in kernel.ops if isinstance(op, k.Store) and isinstance(kernel.ops[op.value], k.Mad)}
    return frozenset(i for i, op in enumerate(kernel.ops) if _is_hidden(kernel, op, users[i], gathered))


def hidden_operands(kernel: Kernel, op: Op) -> list[int]:
    """Return the numbers of operands to be hidden from arithmetic on floats: of zeros, and of the first of two equals.

    To a compiler that does not know better, ``x * 0`` and ``x - x`` are 0.
    """
    match op:
        case k.Binary(op=kind, x=x, y=y) if kind in _ARITHMETIC and _is_float(kernel, x):
            operands: tuple[ValueId, ...] = (x, y)
        case k.Mad(x=x, y=y, z=z) if _is_float(kernel, x):
            operands = (x, y, z)
        case _:
            return []
    return [
        number
        for number, operand in enumerate(operands)
        if (isinstance(constant := kernel.ops[operand], k.Const) and constant.value == 0)
        or (number == 0 and operands == (operand, operand))
    ]


def _is_hidden(kernel: Kernel, op: Op, users: list[Op], gathered: AbstractSet[ValueId]) -> bool:
    match op:
        case k.Binary(op=kind, type=type_) if kind in _ARITHMETIC and type_.dtype.is_float:
            return any(_computes(kernel, user) for user in users)
        case k.Unary(op=kind, type=type_) if kind in _INEXACT and type_.dtype.is_float:
            return any(_computes(kernel, user) for user in users)
        case k.Mad(type=type_) if type_.dtype.is_float:
            return any(_computes(kernel, user) and not isinstance(user, k.Mad | k.Store) for user in users)
        case k.Load(source=source, type=type_) if type_.dtype.is_float and source in gathered:
            return any(_computes(kernel, user) and not isinstance(user, k.Mad) for user in users)
        case k.Cast(x=x, type=type_) if type_.dtype.is_float and _dtype_is_bool(kernel, x):
            return any(_multiplies(user) for user in users)
        case k.Where(x=x, y=y, type=type_) if type_.dtype.is_float:
            chooses_constants = isinstance(kernel.ops[x], k.Const) or isinstance(kernel.ops[y], k.Const)
            return chooses_constants and any(_multiplies(user) for user in users)
        case k.Binary(op=kind, x=x, y=y) if kind in _ORDERS and _is_float(kernel, x):
            return any(_turns(user, {x, y}) for user in users)
        case _:
            return False


def _computes(kernel: Kernel, user: Op) -> bool:
    """Whether a driver could merge what makes a float with `user`."""
    match user:
        case k.Store(target=target):
            array = kernel.ops[target]
            assert isinstance(array, k.Define)
            return array.memory is Memory.REGISTER  # which the next operation reads again
        case k.Unary() | k.Mad() | k.Where() | k.Vectorize() | k.Devectorize() | k.Shuffle():
            return True
        case k.Binary(op=kind):
            return kind in _ARITHMETIC or kind in COMPARISONS
        case _:
            return False


def _multiplies(user: Op) -> bool:
    if isinstance(user, k.Binary):
        return user.op is BinaryOp.MUL
    return isinstance(user, k.Mad | k.Vectorize | k.Devectorize | k.Shuffle)


def _turns(user: Op, compared: AbstractSet[ValueId]) -> bool:
    """Whether `user` negates or combines a comparison, or chooses between the values that were compared."""
    if isinstance(user, k.Where):
        return user.x in compared or user.y in compared
    return isinstance(user, k.Unary | k.Binary | k.Vectorize | k.Devectorize | k.Shuffle)


def _is_float(kernel: Kernel, value: ValueId) -> bool:
    op = kernel.ops[value]
    assert isinstance(op, k.Value)
    return op.type.dtype.is_float


def _dtype_is_bool(kernel: Kernel, value: ValueId) -> bool:
    op = kernel.ops[value]
    assert isinstance(op, k.Value)
    return op.type.dtype.is_bool
