"""Loops and conditions as LLVM IR, with the phis that join the slots written in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.ir import kernel as k
from zyx.render.llvm.types import VALUE
from zyx.render.llvm.writer import Region

if TYPE_CHECKING:
    from zyx.render.llvm.writer import Writer


def loop(w: Writer, i: int, op: k.Loop) -> None:
    """Open a loop; the line for its phis is filled in at its end."""
    if op.size == 0:  # all others run at least once, so the test can stand at the end
        w.names[i] = "0"
        _open_where(w, i, "false")
        return
    w.lines.append(f"  br label %b{i}\nb{i}:")
    w.names[i] = f"%v{i}"
    region = Region(i, w.block, len(w.lines), {})
    w.lines.append("")
    for number, slot in enumerate(w.found.joined[i]):
        region.before[slot] = w.slot_value(slot)
        w.slots[slot] = f"%p{i}.{number}"
    w.open.append(region)
    w.block = f"b{i}"


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
    w.open.append(Region(i, w.block, len(w.lines), before))
    w.begin_where(i, condition)


def _close_where(w: Writer) -> None:
    region = w.open.pop()
    i, last = region.start, w.block
    w.end_where(i)
    for number, (slot, before) in enumerate(region.before.items()):
        incoming = f"[ {w.slots[slot]}, %{last} ], [ {before}, %{region.block} ]"
        w.lines.append(f"  %p{i}.{number} = phi {w.slot_type(slot)} {incoming}")
        w.slots[slot] = f"%p{i}.{number}"
