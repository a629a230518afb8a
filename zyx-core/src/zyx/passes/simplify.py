"""Make a kernel what a device takes, and as small as rules can, in one walk.

    %5 = mul %3, %4 : i64         each operation, in order: is it at hand already, is it known, has the device it, is
    %6 = exp %2 : f32             there a simpler one; what is written in its place goes the same way

Folding, identities, what the device lacks and values at hand meet in one place, so that each sees at once what the
others made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.passes.algebra.simplifier import NAMED, Simplifier
from zyx.passes.decompose_float_mod import FloatRemainders
from zyx.passes.decompose_integer_power import IntegerPowers
from zyx.passes.decompose_small_floats import SmallFloats
from zyx.passes.decompose_transcendentals import Functions
from zyx.passes.eliminate_common_subexpressions import AtHand
from zyx.passes.fold_constants import Folding
from zyx.passes.guard_integer_division import SafeDivisors
from zyx.passes.rules import keys_of
from zyx.passes.simplify_algebra import Identities
from zyx.passes.split_multiply_add import SplitMultiplyAdds

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from zyx.backend.info import DeviceInfo
    from zyx.kernel.data import Kernel, Op, ValueId
    from zyx.passes.rules import Rules

    Rule: TypeAlias = Callable[[Simplifier, Any], ValueId | None]


def simplify(kernel: Kernel, info: DeviceInfo, around: Callable[[Rule], Rule] | None = None) -> Kernel:
    """Return `kernel` with nothing left to fold, to identify or to compute once, and with what `info` lists alone.

    Operations stay for which there is no other way, if a device lacks them; no integer division has a divisor of 0, or
    one that makes it overflow. `around` returns what is called in place of a rule, such as to see which one does what.
    """
    lacking: list[Rules] = [
        Functions(info),
        SmallFloats(info),
        FloatRemainders(info, widened=True),
        IntegerPowers(info),
    ]
    if not info.has_fma:
        lacking.append(SplitMultiplyAdds())
    table: dict[object, list[Rule]] = {}
    defining: dict[object, list[Rules]] = {}
    for each in (Folding(), Identities(), *lacking, SafeDivisors()):
        if each.concerns(kernel.ops):
            for kind in each.looks_at:
                rule = each.rule(kind) if around is None else around(each.rule(kind))
                for key in keys_of(kind):
                    table.setdefault(key, []).append(rule)
                    if each in lacking:
                        defining.setdefault(key, []).append(each)
    simplifier = Simplifier(table, AtHand(kernel.ops))

    def define() -> None:
        found: dict[Rules, list[Op]] = {}
        for op in kernel.ops:
            kind = type(op)
            for each in defining.get(op.op._value_ if kind in NAMED else kind, ()):  # type: ignore[union-attr]  # `key_of`
                found.setdefault(each, []).append(op)
        for each in lacking:
            each.define(simplifier, found.get(each, ()))

    return simplifier.run(kernel, define)
