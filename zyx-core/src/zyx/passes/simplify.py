"""Make a kernel what a device takes, and as small as rules can, in one walk.

    %5 = mul %3, %4 : i64         each operation, in order: is it at hand already, is it known, has the device it, is
    %6 = exp %2 : f32             there a simpler one; what is written in its place goes the same way

Folding, identities, what the device lacks and values at hand meet in one place, so that each sees at once what the
others made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.passes.algebra.simplifier import Simplifier
from zyx.passes.decompose_float_mod import FloatRemainders
from zyx.passes.decompose_integer_power import IntegerPowers
from zyx.passes.decompose_small_floats import SmallFloats
from zyx.passes.decompose_transcendentals import Functions
from zyx.passes.eliminate_common_subexpressions import AtHand
from zyx.passes.fold_constants import Folding
from zyx.passes.guard_integer_division import SafeDivisors
from zyx.passes.simplify_algebra import IDENTITIES
from zyx.passes.split_multiply_add import SplitMultiplyAdds

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from zyx.backend.info import DeviceInfo
    from zyx.ir.kernel import Kernel, Op, ValueId
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
    table: dict[type[Op], list[Rule]] = {}
    folding = Folding()
    for kind in folding.looks_at:
        table.setdefault(kind, []).append(folding.write)
    for kind, rules in IDENTITIES.items():
        table.setdefault(kind, []).extend(rules)
    for each in (*lacking, SafeDivisors()):
        for kind in each.looks_at:
            table.setdefault(kind, []).append(each.write)
    if around is not None:
        table = {kind: [around(rule) for rule in rules] for kind, rules in table.items()}
    simplifier = Simplifier(table, AtHand(kernel.ops))

    def define() -> None:
        for each in lacking:
            each.define(simplifier, kernel.ops)

    return simplifier.run(kernel, define)
