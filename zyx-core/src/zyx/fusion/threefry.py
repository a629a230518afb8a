"""Random words by the Threefry-2x32 generator with 20 rounds.

The function and its constants are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
3" (SC 2011), section 4.2 and table 2; the words agree with the authors' Random123 test vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from zyx import dtype as dtypes
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType

T = TypeVar("T")

_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY: Final = 0x1BD11BDA
_ROUNDS: Final = 20


class Arithmetic(Protocol[T]):
    """What makes expressions: `zyx.nest.pool.Pool`, or what writes them down otherwise."""

    def binary(self, op: BinaryOp, lhs: T, rhs: T, /) -> T:
        """Return `op` of two expressions."""

    def literal(self, value: int, dtype: DType, /) -> T:
        """Return a number."""

    def convert(self, x: T, dtype: DType, /) -> T:
        """Return an expression in another dtype; integers wrap."""

    def modulo(self, x: T, number: int, /) -> T:
        """Return the rest of an index that is not negative."""

    def divide(self, x: T, number: int, /) -> T:
        """Return the quotient of an index that is not negative, rounded down."""


def random_word(pool: Arithmetic[T], state: Sequence[T], position: T, dtype: DType) -> T:
    """Return the random word of `dtype` (uint32 or uint64) at an index `position`, >= 0, of a stream.

    Args:
        pool: For the expressions.
        state: Four uint32: the key's words, and the words of the counter that `position` is added to, low words first.
        position: An index.
        dtype: uint32: the two words of the block combined by exclusive or. uint64: both, the first one low.
    """
    u32 = dtypes.uint32

    def add(x: T, y: T) -> T:
        return pool.binary(BinaryOp.ADD, x, y)

    low = pool.convert(pool.modulo(position, 1 << 32), u32)
    high = pool.convert(pool.divide(position, 1 << 32), u32)
    counter_low = add(low, state[2])
    carry = pool.convert(pool.binary(BinaryOp.LT, counter_low, low), u32)
    counter_high = add(add(high, state[3]), carry)
    first, second = threefry(pool, state[0], state[1], counter_low, counter_high)
    if dtype is u32:
        return pool.binary(BinaryOp.XOR, first, second)
    shifted = pool.binary(BinaryOp.SHL, pool.convert(second, dtypes.uint64), pool.literal(32, dtypes.uint64))
    return pool.binary(BinaryOp.OR, pool.convert(first, dtypes.uint64), shifted)


def threefry(pool: Arithmetic[T], key0: T, key1: T, x0: T, x1: T) -> tuple[T, T]:
    """Return the block that counter words `x0`, `x1` have under a key; all are uint32."""

    def literal(value: int) -> T:
        return pool.literal(value, dtypes.uint32)

    def op(operation: BinaryOp, x: T, y: T) -> T:
        return pool.binary(operation, x, y)

    parity = op(BinaryOp.XOR, op(BinaryOp.XOR, key0, key1), literal(_PARITY))
    keys = (key0, key1, parity)
    x0, x1 = op(BinaryOp.ADD, x0, key0), op(BinaryOp.ADD, x1, key1)
    for round_ in range(_ROUNDS):
        rotation = _ROTATIONS[round_ % 8]
        x0 = op(BinaryOp.ADD, x0, x1)
        left = op(BinaryOp.SHL, x1, literal(rotation))
        right = op(BinaryOp.SHR, x1, literal(32 - rotation))
        x1 = op(BinaryOp.XOR, op(BinaryOp.OR, left, right), x0)
        if round_ % 4 == 3:
            injection = round_ // 4 + 1
            x0 = op(BinaryOp.ADD, x0, keys[injection % 3])
            x1 = op(BinaryOp.ADD, op(BinaryOp.ADD, x1, keys[(injection + 1) % 3]), literal(injection))
    return x0, x1
