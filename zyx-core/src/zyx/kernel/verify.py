"""The rules that every kernel keeps: `verify` checks them, passes keep them, and backends rely on them.

 1. Operands are positions of earlier operations in the same or an enclosing region: values where values are meant,
    arrays (`Define`) as what `Load`, `Store` and `Atomic` access.
 2. Regions are balanced: `EndLoop` closes a `Loop`, `EndIf` an `If`, and none is left open.
 3. Params (global `Define`, `Variable`) come first, then the other `Define`s, then the rest.
 4. The kernel can do something: one of its params at least is mutable.
 5. The kernel's name has letters, digits and underscores alone; those of its variables are identifiers, and distinct.
 6. Arrays have at least one element (params may have none). Only params may be read-only, and only elements of register
    memory may be vectors.
 7. `Variable`, `Index` and `Loop` are scalars; `Index` and `Loop` are integers that hold every position, and sizes are
 at
    least 1 (0 for `Loop`). An axis has a number of 0 to 2, and one `Index` at most.
 8. A `Const` is a Python bool, int or float, by the kind of its dtype, and one that the dtype holds exactly.
 9. Arithmetic has the types that its description says: operands of `Binary`, `Mad`, `Where` and `Shuffle` agree,
    comparisons give bool, and the operation exists for the dtype (`zyx.ops`). Vectors have at least 2 lanes. What is
    swapped has 32 or 64 bits, and a distance of 1 at least.
10. Accesses have an integer scalar as index, a value of the array's dtype, and a mask of bool with as many lanes.
    Vectors in register memory are accessed whole. What is written to is mutable. `Atomic` combines scalars in global
    or local memory by an operation that their dtype has; only global memory takes streaming stores.
11. The condition of an `If` is a scalar bool.
12. All threads of a group take part in a `Barrier`, in a `Swap` and in a `Wmma`: no `If` around it has a condition that
    depends on the position within the group, or on data in memory. The size of local axis 0 is a multiple of 32 with
    `Wmma`, and of the threads that swap (the power of two above the distance) with `Swap`.
13. No access reaches outside of its array, whatever the data: the index is within bounds by its range, by an
    `If` around, or in every lane that the mask lets through (`zyx.kernel.bounds` says what is understood).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from zyx.errors import VerifyError
from zyx.kernel import data as k
from zyx.kernel.breach import Breach
from zyx.kernel.text import print_excerpt, print_op
from zyx.kernel.verify_access import check_bounds, check_participation
from zyx.kernel.verify_types import check_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.kernel.data import Kernel, Op


def verify(kernel: Kernel) -> None:
    """Check that a kernel keeps the rules of this module.

    Raises:
        VerifyError: It does not; the text has the rule, the operation, and the operations around it.
    """
    # Later checks take for granted what earlier ones have found to hold.
    checks = (_check_regions, _check_operands, _check_order, check_types, check_participation, check_bounds)
    for breach in itertools.chain.from_iterable(check(kernel) for check in checks):
        if not kernel.ops:
            raise VerifyError(f"kernel {kernel.name}, rule {breach.rule}: {breach.text}")
        line = print_op(breach.position, kernel.ops[breach.position])
        raise VerifyError(
            f"kernel {kernel.name}, rule {breach.rule}, operation {breach.position} ({line}): {breach.text}\n"
            f"{print_excerpt(kernel.ops, breach.position)}"
        )


def _check_regions(kernel: Kernel) -> Iterator[Breach]:
    openers: list[int] = []
    for number, op in enumerate(kernel.ops):
        if isinstance(op, k.Loop | k.If):
            openers.append(number)
        elif isinstance(op, k.EndLoop | k.EndIf):
            wanted = k.Loop if isinstance(op, k.EndLoop) else k.If
            if not openers or not isinstance(kernel.ops[openers.pop()], wanted):
                yield Breach(2, number, f"the innermost open region is no {wanted.__name__}")
    for number in openers:
        yield Breach(2, number, "this region is never closed")


def _check_operands(kernel: Kernel) -> Iterator[Breach]:
    visible = [False] * len(kernel.ops)
    regions: list[list[int]] = [[]]
    for number, op in enumerate(kernel.ops):
        if isinstance(op, k.EndLoop | k.EndIf):
            for hidden in regions.pop():
                visible[hidden] = False
        array = op.source if isinstance(op, k.Load) else op.target if isinstance(op, k.Store | k.Atomic) else None
        for position, operand in enumerate(k.operands(op)):
            if not 0 <= operand < number:
                yield Breach(1, number, f"operand %{operand} is no earlier operation")
            elif not visible[operand]:
                yield Breach(1, number, f"operand %{operand} is defined in a region that has ended")
            elif position == 0 and array is not None:
                if not isinstance(kernel.ops[operand], k.Define):
                    yield Breach(1, number, f"what it accesses, %{operand}, is no array")
            elif not isinstance(kernel.ops[operand], k.Value):
                yield Breach(1, number, f"operand %{operand} is no value")
        if isinstance(op, k.Loop | k.If):
            regions.append([])
        visible[number] = True
        regions[-1].append(number)


def _phase(op: Op) -> int:
    """Return 0 for a param, 1 for another array, 2 for the rest."""
    if isinstance(op, k.Define):
        return 0 if op.memory is k.Memory.GLOBAL else 1
    return 0 if isinstance(op, k.Variable) else 2


def _check_order(kernel: Kernel) -> Iterator[Breach]:
    phase = 0
    names: set[str] = set()
    axes: set[tuple[k.Axis, int]] = set()
    if not f"_{kernel.name}".isidentifier() or not kernel.name:  # `2_sum_8x200` begins with how many share a launch
        yield Breach(5, 0, f"the kernel's name {kernel.name!r} has more than letters, digits and underscores, or none")
    for number, op in enumerate(kernel.ops):
        if _phase(op) < phase:
            yield Breach(3, number, "params come before other arrays, and these before the body")
        phase = _phase(op)
        match op:
            case k.Variable(name=name):
                if not name.isidentifier() or name in names:
                    yield Breach(5, number, f"{name!r} is no identifier, or names another variable too")
                names.add(name)
            case k.Index(axis=axis, number=axis_number):
                if (axis, axis_number) in axes:
                    yield Breach(7, number, f"{axis.value} axis {axis_number} has an Index already")
                axes.add((axis, axis_number))
            case _:
                pass
    if not any(isinstance(param, k.Define) and param.mutable for param in kernel.params):
        yield Breach(4, 0, "no param is mutable, so nothing can come of it")
