"""Let threads copy what they need next while they compute.

    loop i                              copy 0 to half 0 of the arrays
        barrier                         barrier
        %x = load global[.. i ..]       loop i
        store local[..] = %x      =>        %x = load global[.. min(i + 1, last) ..]
        barrier                             compute from half i % 2
        compute from local                  store half (i + 1) % 2 of local[..] = %x
    endloop                                 barrier
                                        endloop

Memory answers while the threads compute, and the group meets once in each iteration instead of twice or more. The last
iteration copies again what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.rewrite import Rewriter, renumber
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.kernel.data import Op, ValueId

#: Arrays start at multiples of so many bytes, and so do both halves.
_ALIGNMENT: Final = 16


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that copies, then computes: from the `Loop` at `start` to the `EndLoop` at `end`.

    Attributes:
        body: Where the computing starts, behind the last barrier.
        copied: The arrays that are copied to.
    """

    start: int
    body: int
    end: int
    copied: frozenset[ValueId]


def copy_ahead(kernel: Kernel, local_bytes: int) -> Kernel:
    """Return `kernel` with copies for the next iteration in loops that copy.

    Args:
        kernel: What to change. Loops that do more than copy from params that are only read to local memory, and then
            compute from the copies, stay as they are.
        local_bytes: The most local memory that the kernel may have afterwards.
    """
    ops = kernel.ops
    used = sum(_nbytes(op) for op in ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL)
    loops: dict[int, _Loop] = {}
    for start, end in _loops_that_meet(ops):
        found = _find(ops, start, end)
        more = 0 if found is None else sum(_nbytes(ops[array]) for array in found.copied)
        if found is not None and used + more <= local_bytes:
            loops[start] = found
            used += more
    if not loops:
        return kernel
    doubled = {array for loop in loops.values() for array in loop.copied}
    writer = Rewriter()
    position = 0
    while position < len(ops):
        op = ops[position]
        if position in loops:
            _write(writer, ops, loops[position])
            position = loops[position].end + 1
        elif isinstance(op, k.Define) and position in doubled:
            writer.keep(k.Define(op.memory, op.dtype, 2 * op.length, op.mutable, op.lanes))
            position += 1
        else:
            writer.keep(op)
            position += 1
    return Kernel(kernel.name, tuple(writer.ops))


# ---- which loops


def _loops_that_meet(ops: Sequence[Op]) -> list[tuple[int, int]]:
    """Return the first and last operation of the loops in which groups meet, those inside others first."""
    open_: list[int] = []
    meet: set[int] = set()
    found: list[tuple[int, int]] = []
    for number, op in enumerate(ops):
        match op:
            case k.Loop() | k.If():
                open_.append(number)
            case k.EndLoop() | k.EndIf():
                start = open_.pop()
                if start in meet and isinstance(ops[start], k.Loop):
                    found.append((start, number))
            case k.Barrier():
                meet |= set(open_)
            case _:
                pass
    return found


def _find(ops: Sequence[Op], start: int, end: int) -> _Loop | None:
    """Return the loop from `start` to `end` if all there is in front of its last barrier is copies."""
    barriers = _own_barriers(ops, start, end)
    loop = ops[start]
    if not barriers or len(barriers) < 2 or not isinstance(loop, k.Loop) or loop.size < 2:
        return None
    first, last = barriers[0], barriers[-1]
    copied: dict[ValueId, int] = {}  # with the barrier behind which they are written
    segment = first
    for number in range(start + 1, last):
        op = ops[number]
        if isinstance(op, k.Barrier):
            segment = number
        elif isinstance(op, k.Store) and number > first and _is_local(ops[op.target]):
            if copied.setdefault(op.target, segment) != segment:
                return None  # threads meet between two stores to one array
        elif isinstance(op, k.Load):
            if not _is_read_only(ops[op.source]):
                return None
        elif not isinstance(op, _PURE):
            return None
    return _Loop(start, last + 1, end, frozenset(copied)) if _may_double(ops, copied, last, end) else None


def _own_barriers(ops: Sequence[Op], start: int, end: int) -> list[int] | None:
    """Return the barriers of a loop; None if there are some in loops or branches inside."""
    depth = 0
    found = []
    for number in range(start + 1, end):
        depth += isinstance(ops[number], k.Loop | k.If) - isinstance(ops[number], k.EndLoop | k.EndIf)
        if isinstance(ops[number], k.Barrier):
            if depth:
                return None
            found.append(number)
    return found


def _may_double(ops: Sequence[Op], copied: Iterable[ValueId], last: int, end: int) -> bool:
    """Whether what is behind `last` in the loop loads from all arrays and writes to none, and halves are aligned.

    What is in front of the loop or behind it may use them too: both halves have the last copy when the loop ends.
    """
    arrays = set(copied)
    behind = ops[last:end]
    used = {op.source for op in behind if isinstance(op, k.Load)}
    written = {op.target for op in behind if isinstance(op, k.Store | k.Atomic)}
    is_whole = all(_nbytes(ops[array]) % _ALIGNMENT == 0 for array in arrays)
    return bool(arrays) and arrays <= used and arrays.isdisjoint(written) and is_whole


def _is_local(op: Op) -> bool:
    return isinstance(op, k.Define) and op.memory is k.Memory.LOCAL


def _is_read_only(op: Op) -> bool:
    return isinstance(op, k.Define) and op.memory is k.Memory.GLOBAL and not op.mutable


def _nbytes(op: Op) -> int:
    assert isinstance(op, k.Define)
    return op.length * op.dtype.itemsize


# ---- how they are written


def _write(writer: Rewriter, ops: Sequence[Op], found: _Loop) -> None:
    loop = ops[found.start]
    assert isinstance(loop, k.Loop)
    dtype = loop.type.dtype
    copies = range(found.start + 1, found.body)
    # The first copy. Somebody may still compute, in the loop around this one.
    writer.add(k.Barrier())
    names = list(writer.renamed)
    names.append(writer.const(0, dtype))
    _write_loads(writer, ops, copies, names)
    _write_stores(writer, ops, copies, names, None)
    writer.add(k.Barrier())
    # What the computing needs of what the copies are computed from stays; the rest of it is dead.
    number = writer.keep(loop)
    for position in copies:
        op = ops[position]
        if isinstance(op, k.Store | k.Barrier):
            writer.renamed.append(-1)
        else:
            writer.keep(op)
    one, two, last = (writer.const(value, dtype) for value in (1, 2, loop.size - 1))
    if loop.end is not None:  # what there is one turn more of is not computed
        end = writer.add(k.Binary(BinaryOp.SUB, writer.renamed[loop.end], one, loop.type))
        last = writer.add(k.Binary(BinaryOp.MIN, last, end, loop.type))
        last = writer.add(k.Binary(BinaryOp.MAX, last, writer.const(0, dtype), loop.type))
    following = writer.add(k.Binary(BinaryOp.ADD, number, one, loop.type))
    half, other = (writer.add(k.Binary(BinaryOp.MOD, value, two, loop.type)) for value in (number, following))
    names = [*writer.renamed[: found.start], writer.add(k.Binary(BinaryOp.MIN, following, last, loop.type))]
    _write_loads(writer, ops, copies, names)
    for position in range(found.body, found.end):
        op = ops[position]
        if isinstance(op, k.Load) and op.source in found.copied:
            moved = renumber(op, writer.renamed)
            assert isinstance(moved, k.Load)
            index = _in_half(writer, ops[op.source], moved.index, half)
            writer.renamed.append(writer.add(k.Load(moved.source, index, moved.type, moved.mask)))
        else:
            writer.keep(op)
    _write_stores(writer, ops, copies, names, other)
    writer.add(k.Barrier())
    writer.keep(ops[found.end])


def _write_loads(writer: Rewriter, ops: Sequence[Op], copies: range, names: list[ValueId]) -> None:
    """Write all but the stores and barriers of `copies`; `names`, of what is in front of them, grows by their names."""
    for position in copies:
        op = ops[position]
        names.append(-1 if isinstance(op, k.Store | k.Barrier) else writer.add(renumber(op, names)))


def _write_stores(
    writer: Rewriter, ops: Sequence[Op], copies: range, names: Sequence[ValueId], half: ValueId | None
) -> None:
    """Write the stores of `copies` to the half of the arrays of that number, None for the first."""
    for position in copies:
        op = ops[position]
        if not isinstance(op, k.Store):
            continue
        store = renumber(op, names)
        assert isinstance(store, k.Store)
        index = store.index if half is None else _in_half(writer, ops[op.target], store.index, half)
        writer.add(k.Store(store.target, index, store.value, store.mask, store.streaming))


def _in_half(writer: Rewriter, array: Op, index: ValueId, half: ValueId) -> ValueId:
    """Return `index` in the half of an array of that number."""
    assert isinstance(array, k.Define)
    type_ = writer.type_of(index)
    if writer.type_of(half) != type_:
        half = writer.add(k.Cast(half, type_))
    length = writer.const(array.length, type_.dtype)
    start = writer.add(k.Binary(BinaryOp.MUL, half, length, type_))
    return writer.add(k.Binary(BinaryOp.ADD, start, index, type_))


_PURE: Final = (
    k.Const, k.Index, k.Unary, k.Binary, k.Where, k.Cast, k.Bitcast, k.Mad, k.Vectorize, k.Devectorize, k.Shuffle,
)  # fmt: skip
