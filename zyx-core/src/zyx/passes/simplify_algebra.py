"""Replace operations by simpler ones of the same value, by identities and by what is known of the operands' ranges.

    %5 = mul %3, %4 : i64           %5 = mul %3, %4 : i64            with %3 = group 0 < 10, %4 = const 8
    %6 = add %5, %2 : i64     =>    %6 = add %5, %2 : i64            and %2 = thread 0 < 8
    %7 = div %2, %4 : i64           %8 = load %0[%6] : f32           since 8 * %3 + %2 < 80, and %7 is 0
    %8 = load %0[%6] if %n : f32                                     with %n = lt %6, 80

Integers of one possible value become constants; quotients and comparisons are resolved by intervals, comparisons by
affine forms as well (`zyx.kernel.bounds`); masks that always hold vanish, and accesses whose mask never does. Sums that
are divided are simplified where indices are made (`zyx.nest.indices`). On floats only exact identities are used.
Operands of commutative operations are put in order, constants last, so that equal expressions look equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.kernel import data as k
from zyx.kernel.rewrite import DROPPED
from zyx.ops import COMMUTATIVE, COMPARISONS, BinaryOp
from zyx.passes.algebra import booleans, casts, comparisons, floats, integers, vectors
from zyx.passes.algebra.simplifier import Simplifier
from zyx.passes.rules import Rules, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel, Op, ValueId
    from zyx.passes.rules import Kind


def simplify_algebra(kernel: Kernel) -> Kernel:
    """Return `kernel` with its arithmetic simplified."""
    rules = Identities()
    return Simplifier({key: (rules.rule(kind),) for kind in rules.looks_at for key in keys_of(kind)}).run(kernel)


def _known_value(s: Simplifier, op: k.Pure) -> ValueId | None:
    """Return the constant that an integer or bool must be by its range, or None."""
    known = s.bounds.predict(op)
    if known is None or known[0] != known[1]:
        return None
    dtype = op.type.dtype
    return s.add(k.Const(bool(known[0]) if dtype.is_bool else known[0], op.type))


def _index(s: Simplifier, op: k.Index) -> ValueId | None:
    return s.const(0, op.type.dtype) if op.size == 1 else None


def _unary(s: Simplifier, op: k.Unary) -> ValueId | None:
    dtype = op.type.dtype
    if dtype.is_float:
        return floats.simplify_unary(s, op)
    known = _known_value(s, op)
    if known is not None:
        return known
    return booleans.simplify_not(s, op) if dtype.is_bool else integers.simplify_unary(s, op)


def _binary(s: Simplifier, op: k.Binary) -> ValueId | None:
    x, y, kind = op.x, op.y, op.op
    known = _known_value(s, op)
    if known is not None:
        return known
    if kind in COMMUTATIVE and _comes_later(s, x, y):
        return s.add(k.Binary(kind, y, x, op.type))
    dtype = s.type_of(x).dtype
    if dtype.is_bool:
        return booleans.simplify_binary(s, op)
    if kind in COMPARISONS:
        return None if dtype.is_float else comparisons.simplify_comparison(s, op)
    return floats.simplify_binary(s, op) if dtype.is_float else integers.simplify_binary(s, op)


def _comes_later(s: Simplifier, x: ValueId, y: ValueId) -> bool:
    """Return whether `x` should be the second operand."""
    x_is_constant, y_is_constant = s.constant(x) is not None, s.constant(y) is not None
    return x > y if x_is_constant == y_is_constant else x_is_constant


def _where(s: Simplifier, op: k.Where) -> ValueId | None:
    known = _known_value(s, op)
    return booleans.simplify_where(s, op) if known is None else known


def _mad(s: Simplifier, op: k.Mad) -> ValueId | None:
    """Take apart what is a product or a sum only."""
    if _comes_later(s, op.x, op.y):
        return s.add(k.Mad(op.y, op.x, op.z, op.type))
    known, factor, added = _known_value(s, op), s.constant(op.y), s.constant(op.z)
    if known is not None:
        return known
    if factor == 1:
        return s.binary(BinaryOp.ADD, op.x, op.z)
    if not op.type.dtype.is_float:
        return op.z if factor == 0 else s.binary(BinaryOp.MUL, op.x, op.y) if added == 0 else None
    return None


def _cast(s: Simplifier, op: k.Cast) -> ValueId | None:
    known = _known_value(s, op)
    return casts.simplify_cast(s, op) if known is None else known


def _load(s: Simplifier, op: k.Load) -> ValueId | None:
    if op.mask is None:
        return None
    known = s.bounds.range_of(op.mask)
    if known == (1, 1):
        return s.add(k.Load(op.source, op.index, op.type))
    return s.const(0, op.type.dtype, op.type.lanes) if known == (0, 0) else None


def _store(s: Simplifier, op: k.Store) -> ValueId | None:
    if op.mask is None:
        return None
    known = s.bounds.range_of(op.mask)
    if known == (1, 1):
        return s.add(k.Store(op.target, op.index, op.value, None, op.streaming))
    return DROPPED if known == (0, 0) else None


def _atomic(s: Simplifier, op: k.Atomic) -> ValueId | None:
    if op.mask is None:
        return None
    known = s.bounds.range_of(op.mask)
    if known == (1, 1):
        return s.add(k.Atomic(op.op, op.target, op.index, op.value))
    return DROPPED if known == (0, 0) else None


_RULES: Final[dict[type[Op], Callable[[Simplifier, Any], ValueId | None]]] = {
    k.Index: _index,
    k.Load: _load,
    k.Store: _store,
    k.Atomic: _atomic,
    k.Unary: _unary,
    k.Binary: _binary,
    k.Where: _where,
    k.Cast: _cast,
    k.Bitcast: casts.simplify_bitcast,
    k.Mad: _mad,
    k.Vectorize: vectors.simplify_vectorize,
    k.Devectorize: vectors.simplify_devectorize,
    k.Shuffle: vectors.simplify_shuffle,
}


class Identities(Rules):
    """Writes simpler operations of the same value."""

    looks_at = frozenset(_RULES)

    def rule(self, kind: Kind) -> Callable[[Simplifier, Any], ValueId | None]:
        """Return what returns the value of something simpler, or None."""
        return _RULES[kind]  # type: ignore[index]  # classes are looked at alone
