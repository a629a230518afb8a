"""Loops, branches and barriers as SPIR-V's structured control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx_backend_vulkan import render_casts

if TYPE_CHECKING:
    from zyx.kernel import data as k
    from zyx_backend_vulkan.render_writer import Writer

#: SPIR-V's scope of a group, and what a barrier makes visible: writes to its own memory, and to buffers.
_GROUP: Final = 2
_LOCAL_MEMORY: Final = 0x8 | 0x100
_ALL_MEMORY: Final = _LOCAL_MEMORY | 0x40
#: What Vulkan's memory model wants to be told besides: that writes become available, and are seen.
_AVAILABLE_AND_VISIBLE: Final = 0x2000 | 0x4000


def loop(w: Writer, i: int, op: k.Loop) -> None:
    """Open a loop: a counter, tested at its head."""
    m, dtype = w.m, op.type.dtype
    # A counter of few bits, or one that would wrap around before it reached the end, is one of more bits.
    wide = dtype
    if dtype.bits < 32:
        wide = dtypes.int32
    elif op.size > dtype.max:
        wide = dtypes.int64
    zero, one, size = (m.const(number, wide) for number in (0, 1, op.size))
    end = None if op.end is None else render_casts.resized(m, dtype, wide, 1, w.scalar(op.end))
    head, body, again, behind, counter, following = (m.new() for _ in range(6))
    before = w.block
    w.branch(head)
    w.begin(head)
    m.do("Phi", m.of(wide), counter, zero, before, following, again)
    less = "ULessThan" if wide.is_unsigned else "SLessThan"
    goes_on = m.compare(less, counter, size, 1)
    if end is not None:
        goes_on = m.value("LogicalAnd", m.of(dtypes.bool_), goes_on, m.compare(less, counter, end, 1))
    m.do("LoopMerge", behind, again, 0)
    m.do("BranchConditional", goes_on, body, behind)
    w.begin(body)
    w.values[i] = (render_casts.resized(m, wide, dtype, 1, counter),)
    w.open.append((head, again, behind, counter, following, one, m.of(wide)))


def end_loop(w: Writer, i: int, op: k.EndLoop) -> None:
    """Close a loop."""
    del i, op
    m = w.m
    head, again, behind, counter, following, one, type_ = w.open.pop()
    w.branch(again)
    w.begin(again)
    m.do("IAdd", type_, following, counter, one)
    w.branch(head)
    w.begin(behind)


def open_if(w: Writer, i: int, op: k.If) -> None:
    """Open a region that runs under a condition."""
    del i
    w.open.append((w.begin_where(w.scalar(op.condition)),))


def end_if(w: Writer, i: int, op: k.EndIf) -> None:
    """Close it."""
    del i, op
    (behind,) = w.open.pop()
    w.end_where(behind)


def barrier(w: Writer, i: int, op: k.Barrier) -> None:
    """Let the threads of the group meet."""
    del op
    m = w.m
    group = m.word(_GROUP)
    semantics = _ALL_MEMORY if i in w.fenced else _LOCAL_MEMORY
    if w.has_memory_model:
        semantics |= _AVAILABLE_AND_VISIBLE
    m.do("ControlBarrier", group, group, m.word(semantics))
