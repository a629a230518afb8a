"""Loops and conditions as LLVM IR, with the phis that join the slots written in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.render.llvm.types import VALUE
from zyx.render.llvm.writer import OpenRegion

if TYPE_CHECKING:
    from zyx.render.llvm.writer import Writer


def loop(w: Writer, i: int, op: k.Loop) -> None:
    """Open a loop; the line for its phis is filled in at its end."""
    if op.size == 0:
        w.names[i] = "0"
        _open_where(w, i, "false")
        return
    # One that runs at least once has its test at the end.
    head = f"b{i}" if op.end is None else f"h{i}"
    w.lines.append(f"  br label %{head}\n{head}:")
    w.names[i] = f"%v{i}"
    region = OpenRegion(i, w.block, len(w.lines), {})
    w.lines.append("")
    for number, slot in enumerate(w.found.joined[i]):
        region.before[slot] = w.slot_value(slot)
        w.slots[slot] = f"%p{i}.{number}"
    w.open.append(region)
    w.block = f"b{i}"
    if op.end is not None:
        type_, size = VALUE[op.type], op.type.dtype.wrap(op.size)
        kind = "ult" if op.type.dtype.is_unsigned else "slt"
        w.lines.append(
            f"  %s{i} = icmp {kind} {type_} %v{i}, {w.names[op.end]}\n"
            f"  %t{i} = icmp ne {type_} %v{i}, {size}\n"
            f"  %m{i} = and i1 %s{i}, %t{i}\n"
            f"  br i1 %m{i}, label %b{i}, label %e{i}\nb{i}:"
        )


def end_loop(w: Writer, _: int, __: k.EndLoop) -> None:
    """Close the innermost loop."""
    op = w.ops[w.open[-1].start]
    assert isinstance(op, k.Loop)
    if op.size == 0:
        _close_where(w)
        return
    region = w.open.pop()
    i, latch = region.start, w.block
    type_ = VALUE[op.type]
    phis = [f"  %v{i} = phi {type_} [ 0, %{region.block} ], [ %n{i}, %{latch} ]"]
    for number, (slot, before) in enumerate(region.before.items()):
        incoming = f"[ {before}, %{region.block} ], [ {w.slots[slot]}, %{latch} ]"
        phis.append(f"  %p{i}.{number} = phi {w.slot_type(slot)} {incoming}")
    w.lines[region.line] = "\n".join(phis)
    if op.end is not None:
        w.lines.append(f"  %n{i} = add {type_} %v{i}, 1\n  br label %h{i}\ne{i}:")
        w.block = f"e{i}"
        for number, slot in enumerate(region.before):
            w.slots[slot] = f"%p{i}.{number}"
        return
    w.lines.append(
        f"  %n{i} = add {type_} %v{i}, 1\n"
        f"  %m{i} = icmp ne {type_} %n{i}, {op.type.dtype.wrap(op.size)}\n"  # 256 turns of a u8 end at 0
        f"  br i1 %m{i}, label %b{i}, label %e{i}\ne{i}:"
    )
    w.block = f"e{i}"


def open_if(w: Writer, i: int, op: k.If) -> None:
    """Open a region that runs under a condition."""
    _open_where(w, i, w.names[op.condition])


def end_if(w: Writer, _: int, __: k.EndIf) -> None:
    """Close it."""
    _close_where(w)


def _open_where(w: Writer, i: int, condition: str) -> None:
    before = {slot: w.slot_value(slot) for slot in w.found.joined[i]}
    w.open.append(OpenRegion(i, w.block, len(w.lines), before))
    w.begin_where(i, condition)


def _close_where(w: Writer) -> None:
    region = w.open.pop()
    i, last = region.start, w.block
    w.end_where(i)
    for number, (slot, before) in enumerate(region.before.items()):
        incoming = f"[ {w.slots[slot]}, %{last} ], [ {before}, %{region.block} ]"
        w.lines.append(f"  %p{i}.{number} = phi {w.slot_type(slot)} {incoming}")
        w.slots[slot] = f"%p{i}.{number}"
