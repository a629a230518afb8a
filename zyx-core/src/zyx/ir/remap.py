"""Give an operation other operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.ir import kernel as k

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.ir.kernel import Op, ValueId


def remap(op: Op, new: Sequence[ValueId]) -> Op:
    """Return `op` with every operand v replaced by ``new[v]``."""
    function = _REMAP.get(type(op))
    return op if function is None else function(op, new)


def _mask(mask: ValueId | None, new: Sequence[ValueId]) -> ValueId | None:
    return None if mask is None else new[mask]


# A table instead of a match: dispatch is a third of the cost of lowering a kernel of thousands of operations.
_REMAP: Final[dict[type, Callable[[Any, Sequence[ValueId]], Op]]] = {
    k.Loop: lambda o, n: o if o.end is None else k.Loop(o.size, o.type, n[o.end]),
    k.If: lambda o, n: k.If(n[o.condition]),
    k.Load: lambda o, n: k.Load(n[o.source], n[o.index], o.type, _mask(o.mask, n)),
    k.Store: lambda o, n: k.Store(n[o.target], n[o.index], n[o.value], _mask(o.mask, n), o.streaming),
    k.Atomic: lambda o, n: k.Atomic(o.op, n[o.target], n[o.index], n[o.value], _mask(o.mask, n)),
    k.Unary: lambda o, n: k.Unary(o.op, n[o.x], o.type),
    k.Binary: lambda o, n: k.Binary(o.op, n[o.x], n[o.y], o.type),
    k.Where: lambda o, n: k.Where(n[o.condition], n[o.x], n[o.y], o.type),
    k.Cast: lambda o, n: k.Cast(n[o.x], o.type),
    k.Bitcast: lambda o, n: k.Bitcast(n[o.x], o.type),
    k.Mad: lambda o, n: k.Mad(n[o.x], n[o.y], n[o.z], o.type),
    k.Vectorize: lambda o, n: k.Vectorize(tuple([n[item] for item in o.items]), o.type),
    k.Devectorize: lambda o, n: k.Devectorize(n[o.x], o.lane, o.type),
    k.Shuffle: lambda o, n: k.Shuffle(n[o.x], n[o.y], o.lanes, o.type),
    k.Swap: lambda o, n: k.Swap(n[o.x], o.distance, o.type),
    k.Wmma: lambda o, n: k.Wmma(o.dims, n[o.a], n[o.b], n[o.c], o.type),
}
