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

from zyx.kernel import data as k
from zyx.kernel.rewrite import Rewriter
from zyx.ops import COMMUTATIVE
from zyx.passes.effects import shared_arrays, stored_in_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from zyx.kernel.data import Kernel, Op, Type, ValueId


def eliminate_common_subexpressions(kernel: Kernel) -> Kernel:
    """Return `kernel` without values that equal others at hand."""
    at_hand = AtHand(kernel.ops)
    rewriter = Rewriter()

    def rule(op: Op) -> ValueId | None:
        key = at_hand.key(op)
        if key is None:
            at_hand.note_effect(op, rewriter.type_of, len(rewriter.renamed))
            return None
        found = at_hand.get(key)
        if found is None:
            at_hand.put(key, len(rewriter.ops))
        return found

    return rewriter.rewrite(kernel, rule)


class AtHand:
    """The values at hand, region by region.

    Args:
        ops: Of the kernel that is read, whose arrays have the same numbers in what is written.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        self._values: dict[Hashable, ValueId] = {}
        self.get: Final = self._values.get
        self._added: list[list[Hashable]] = [[]]  # keys of each open region
        self._changed: dict[ValueId, int] = {}  # which change of its contents was an array's last
        self._changes = 0
        self._shared = shared_arrays(ops)
        self._stored_in = stored_in_loops(ops)
        #: Arrays that rules have added, which any loop may change that these write.
        self.scratch: range = range(0)

    def key(self, op: Op) -> Hashable | None:
        """Return what values have in common that equal that of `op`; None if it has none."""
        key_of = _KEYS.get(type(op))
        if key_of is not None:
            return key_of(op)
        if type(op) is k.Load:
            return self._place(op.source, op.index, op.mask, op.type.lanes)
        return None

    def put(self, key: Hashable, value: ValueId) -> None:
        """Have a value at hand until the region ends."""
        self._values[key] = value
        self._added[-1].append(key)

    def _place(self, array: ValueId, index: ValueId, mask: ValueId | None, lanes: int) -> Hashable:
        """Return the key of what lies in memory, as long as it does not change."""
        return "load", array, index, mask, lanes, self._changed.get(array)

    def note_effect(self, op: Op, type_of: Callable[[ValueId], Type], read: int | None) -> None:
        """Forget what an operation without value makes untrue.

        Args:
            op: The operation, as it is written.
            type_of: Of the operands.
            read: Its number in the kernel that is read; None of one that a rule writes.
        """
        match op:
            case k.Loop():
                self._change(self.scratch if read is None else self._stored_in[read])
                self._added.append([])
            case k.If():
                self._added.append([])
            case k.EndLoop() | k.EndIf():
                for key in self._added.pop():
                    self._values.pop(key, None)
            case k.Store(target=target, index=index, value=value, mask=mask):
                self._change((target,))
                if mask is None:
                    self.put(self._place(target, index, None, type_of(value).lanes), value)
            case k.Atomic(target=target):
                self._change((target,))
            case k.Barrier():
                self._change(self._shared)
            case _:
                pass

    def _change(self, arrays: Iterable[ValueId]) -> None:
        """Note that the contents of `arrays` are others from now on."""
        self._changes += 1
        for array in arrays:
            self._changed[array] = self._changes


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
