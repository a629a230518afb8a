"""What a renderer must know of a kernel before it writes the first line.

Register arrays whose every access has a constant index need no memory: see `zyx.render.llvm.slots`. Other register
arrays, and local arrays, lie in memory of the thread: small ones on its stack, the rest in its scratch memory, at the
offsets in `scratch`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.errors import UnsupportedError
from zyx.kernel.data import (
    Atomic,
    Axis,
    Binary,
    Bitcast,
    Cast,
    Define,
    Devectorize,
    EndIf,
    EndLoop,
    If,
    Index,
    Kernel,
    Load,
    Loop,
    Mad,
    Memory,
    Op,
    Shuffle,
    Store,
    Unary,
    ValueId,
    Variable,
    Vectorize,
    Where,
    Wmma,
)  # fmt: skip
from zyx.render.llvm.slots import Slots, find_slots

if TYPE_CHECKING:
    from zyx_backend_c.target import Target

#: Bytes. Register arrays that need memory go to the stack up to this size together; threads have megabytes of it.
STACK_BYTES: Final = 16384

_ARITHMETIC: Final = (Binary, Mad, Unary, Where, Cast, Bitcast, Vectorize, Devectorize, Shuffle)
_ACCESSES: Final = (Load, Store, Atomic)

#: Bytes. Arrays in scratch memory start at multiples of it: cache lines, and the widest vectors.
ALIGNMENT: Final = 64


@dataclass(slots=True)
class Analysis:
    """Facts about one kernel.

    Attributes:
        slots: Elements of register arrays that need no memory.
        scratch: Byte offset in scratch memory of each array that lies there.
        scratch_bytes: Scratch memory that a thread needs.
        groups: Number of groups along each axis.
        work: Estimate of the vector instructions that one group runs.
        traffic: Estimate of the bytes that all groups move between memory and the processor.
        is_streaming: Whether any store goes past the caches.
    """

    slots: Slots
    scratch: dict[ValueId, int] = field(default_factory=dict)
    scratch_bytes: int = 0
    groups: tuple[int, ...] = ()
    work: float = 0.0
    traffic: float = 0.0
    is_streaming: bool = False

    @property
    def group_count(self) -> int:
        """Number of groups."""
        count = 1
        for size in self.groups:
            count *= size
        return count


def analyse(kernel: Kernel, target: Target) -> Analysis:
    """Return the facts about `kernel`.

    Raises:
        UnsupportedError: More than one thread a group, or matrix fragments of a warp.
    """
    ops = kernel.ops
    result = Analysis(find_slots(kernel))
    times, outer = 1.0, [1.0]
    work = 0.0
    moved: dict[ValueId, float] = {}
    vector_bits = target.vector_bytes * 8
    groups: dict[int, int] = {}
    for op in ops:
        if isinstance(op, _ARITHMETIC):
            lanes, bits = op.type.lanes, op.type.dtype.bits
            work += times if lanes == 1 else times * max(1, lanes * bits // vector_bits)
        elif isinstance(op, _ACCESSES):
            array = op.source if isinstance(op, Load) else op.target
            work += times
            moved[array] = moved.get(array, 0.0) + times
            if isinstance(op, Store):
                result.is_streaming |= op.streaming
        elif isinstance(op, (Loop, If)):
            outer.append(times)
            if isinstance(op, Loop):
                times *= op.size
        elif isinstance(op, (EndLoop, EndIf)):
            times = outer.pop()
        elif isinstance(op, Index):
            if op.axis is Axis.GROUP:
                groups[op.number] = op.size
            elif op.size > 1:
                size = f"{op.size} threads a group along axis {op.number}"
                raise UnsupportedError(f"kernel {kernel.name}: {size}; on this device a group has 1")
        elif isinstance(op, Wmma):
            raise UnsupportedError(
                f"kernel {kernel.name}: Wmma needs a warp of 32 threads; on this device a group has 1"
            )
    result.work = work
    result.traffic = _traffic(ops, moved, target)
    result.groups = tuple(groups.get(number, 1) for number in range(max(groups, default=-1) + 1))
    _lay_out(ops, result)
    return result


def _lay_out(ops: tuple[Op, ...], result: Analysis) -> None:
    """Give scratch memory to local arrays, and to register arrays that need memory and are too large for the stack."""
    stack_left = STACK_BYTES
    for i, op in enumerate(ops):
        if not isinstance(op, (Define, Variable)):
            break
        if not isinstance(op, Define) or op.memory is Memory.GLOBAL or i in result.slots.arrays:
            continue
        nbytes = -(-op.length * op.lanes * op.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        if op.memory is Memory.REGISTER and nbytes <= stack_left:
            stack_left -= nbytes
            continue
        result.scratch[i] = result.scratch_bytes
        result.scratch_bytes += nbytes


def _traffic(ops: tuple[Op, ...], accesses: dict[ValueId, float], target: Target) -> float:
    """Return the bytes that all groups move, given the accesses of one: at most all of a buffer, as caches keep it."""
    groups = 1
    for op in ops:
        if isinstance(op, Index) and op.axis is Axis.GROUP:
            groups *= op.size
    total = 0.0
    for array, count in accesses.items():
        defined = ops[array]
        if isinstance(defined, Define) and defined.memory is Memory.GLOBAL:
            total += min(count * groups * target.vector_bytes, defined.length * defined.dtype.itemsize)
    return total
