"""Compute equal things once.

    %3 = add %1, %2 : i64           %3 = add %1, %2 : i64
    %4 = load %0[%3] : f32          %4 = load %0[%3] : f32
    %5 = add %1, %2 : i64     =>    %7 = mul %4, %4 : f32
    %6 = load %0[%5] : f32
    %7 = mul %4, %6 : f32

A value is used again in the region that it was computed in and in those inside of it. A load is used again, and what
was stored is used in place of loading it, as long as nothing else is stored to the array: by this thread or, where a
barrier stands between, by others. Entering a loop counts as meeting all stores of its body, since earlier iterations
have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.ir import kernel as k
from zyx.ir.rewriter import Rewriter
from zyx.ops import COMMUTATIVE
from zyx.passes.effects import shared_arrays, stored_in_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from zyx.ir.kernel import Kernel, Op, ValueId


def eliminate_common_subexpressions(kernel: Kernel) -> Kernel:
    """Return `kernel` without values that equal others at hand."""
    return _Elimination(kernel).run()


class _Elimination:
    """The values at hand, region by region."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.rewriter = Rewriter()
        self.at_hand: dict[Hashable, ValueId] = {}
        self.added: list[list[Hashable]] = [[]]  # keys of each open region
        self.changed: dict[ValueId, int] = {}  # where the contents of an array last changed
        self.shared = shared_arrays(kernel.ops)
        self.stored_in = stored_in_loops(kernel.ops)

    def run(self) -> Kernel:
        """Return the kernel rewritten."""
        rewriter, at_hand = self.rewriter, self.at_hand

        def rule(op: Op) -> ValueId | None:
            key_of = _KEYS.get(type(op))
            if key_of is not None:
                key = key_of(op)
            elif isinstance(op, k.Load):
                key = self.place(op.source, op.index, op.mask, op.type.lanes)
            else:
                self.note_effect(op)
                return None
            found = at_hand.get(key)
            if found is None:
                self.put(key, len(rewriter.ops))
            return found

        return rewriter.rewrite(self.kernel, rule)

    def put(self, key: Hashable, value: ValueId) -> None:
        """Have a value at hand until the region ends."""
        self.at_hand[key] = value
        self.added[-1].append(key)

    def place(self, array: ValueId, index: ValueId, mask: ValueId | None, lanes: int) -> Hashable:
        """Return the key of what lies in memory, as long as it does not change."""
        return "load", array, index, mask, lanes, self.changed.get(array)

    def note_effect(self, op: Op) -> None:
        """Forget what an operation without value makes untrue."""
        position = len(self.rewriter.renamed)
        match op:
            case k.Loop():
                self.change(self.stored_in[position], position)
                self.added.append([])
            case k.If():
                self.added.append([])
            case k.EndLoop() | k.EndIf():
                for key in self.added.pop():
                    del self.at_hand[key]
            case k.Store(target=target, index=index, value=value, mask=mask):
                self.change((target,), position)
                if mask is None:
                    lanes = self.rewriter.type_of(value).lanes
                    self.put(self.place(target, index, None, lanes), value)
            case k.Atomic(target=target):
                self.change((target,), position)
            case k.Barrier():
                self.change(self.shared, position)
            case _:
                pass

    def change(self, arrays: Iterable[ValueId], position: int) -> None:
        """Note that the contents of `arrays` are others from `position` on."""
        for array in arrays:
            self.changed[array] = position


def _binary(op: k.Binary) -> Hashable:
    x, y, name = op.x, op.y, op.op._value_
    return (name, y, x) if y < x and name in _COMMUTATIVE else (name, x, y)


def _mad(op: k.Mad) -> Hashable:
    return ("mad", op.y, op.x, op.z) if op.y < op.x else ("mad", op.x, op.y, op.z)


# Names in place of the members of enumerations, whose hash is computed in Python.
_COMMUTATIVE: Final = frozenset(op.value for op in COMMUTATIVE)
_KEYS: Final[dict[type[Op], Callable[[Any], Hashable]]] = {
    k.Const: lambda op: ("const", op.key, op.type),
    k.Index: lambda op: ("index", op.axis._value_, op.number),
    k.Unary: lambda op: (op.op._value_, op.x),
    k.Binary: _binary,
    k.Where: lambda op: ("where", op.condition, op.x, op.y),
    k.Cast: lambda op: ("cast", op.x, op.type),
    k.Bitcast: lambda op: ("bitcast", op.x, op.type),
    k.Mad: _mad,
    k.Vectorize: lambda op: ("vectorize", op.items),
    k.Devectorize: lambda op: ("devectorize", op.x, op.lane),
    k.Swap: lambda op: ("swap", op.x, op.distance),
    k.Shuffle: lambda op: ("shuffle", op.x, op.y, op.lanes),
}
