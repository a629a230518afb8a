"""Kernels as text, one operation a line, indented by region; `zyx.kernel.parse` reads it back.

    kernel     := "kernel" name, then lines
    line       := [ "%" number " = " ] operation
    operation  := memory type "[" length "]" [ "readonly" ]                     memory: global, local, register
                | "variable" type name
                | "const" value ":" type
                | ( "group" | "thread" ) axis "<" size ":" type                 position on a grid axis
                | "loop" "<" size ":" type  |  "endloop"
                | "if" value  |  "endif"  |  "barrier"
                | "load" array "[" value "]" [ "if" mask ] ":" type
                | "store" array "[" value "]" "=" value [ "if" mask ] [ "streaming" ]
                | "atomic" reduction array "[" value "]" "=" value [ "if" mask ]
                | unary value ":" type  |  binary value "," value ":" type
                | "where" condition "," value "," value ":" type
                | ( "cast" | "bitcast" ) value ":" type
                | "mad" value "," value "," value ":" type                      first times second plus third
                | "vectorize" value "," ... ":" type
                | "devectorize" value "[" lane "]" ":" type
                | "shuffle" value "," value "[" lane "," ... "]" ":" type
                | "swap" value "," distance ":" type                           of the thread at number ^ distance
                | "wmma" M "x" N "x" K value "," value "," value ":" type
    type       := dtype [ "x" lanes ]                                           f32, i64, boolx8

An example:

    kernel double
    %0 = global f32[1000] readonly
    %1 = global f32[1000]
    %2 = group 0 < 125 : i64
    %3 = const 8 : i64
    %4 = mul %2, %3 : i64
    %5 = load %0[%4] : f32x8
    %6 = add %5, %5 : f32x8
    store %1[%4] = %6
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.kernel import data as k

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.kernel.data import Kernel, Op

INDENT: Final = "    "


def print_kernel(kernel: Kernel) -> str:
    """Return the kernel as text, without a newline at the end."""
    return "\n".join([f"kernel {kernel.name}", *print_ops(kernel.ops)])


def print_ops(ops: Sequence[Op]) -> list[str]:
    """Return a line for each operation, indented by the regions around it; also for malformed kernels."""
    lines = []
    depth = 0
    for number, op in enumerate(ops):
        if isinstance(op, k.EndLoop | k.EndIf):
            depth = max(depth - 1, 0)
        lines.append(INDENT * depth + print_op(number, op))
        if isinstance(op, k.Loop | k.If):
            depth += 1
    return lines


def print_op(number: int, op: Op) -> str:
    """Return the line of operation `number`, without indentation."""
    text = _PRINT[type(op)](op)
    return text if isinstance(op, _WITHOUT_RESULT) else f"%{number} = {text}"


def print_excerpt(ops: Sequence[Op], position: int, context: int = 6) -> str:
    """Return the lines around `position`, which is marked with ``>``."""
    lines = print_ops(ops)
    start, stop = max(position - context, 0), min(position + context + 1, len(lines))
    shown = [f"{'>' if n == position else ' '} {lines[n]}" for n in range(start, stop)]
    before = [f"  ({start} operations)"] if start else []
    after = [f"  ({len(lines) - stop} operations)"] if stop < len(lines) else []
    return "\n".join(before + shown + after)


def _define(op: k.Define) -> str:
    kind = f"{'' if op.mutable else ' readonly'}{' front' if op.is_front else ''}"
    return f"{op.memory.value} {k.Type(op.dtype, op.lanes)}[{op.length}]{kind}"


def _const(op: k.Const) -> str:
    value = str(op.value).lower() if isinstance(op.value, bool) else repr(op.value)
    return f"const {value} : {op.type}"


def _index(op: k.Index) -> str:
    return f"{AXIS_NAMES[op.axis]} {op.number} < {op.size} : {op.type}"


def _mask(mask: int | None) -> str:
    return "" if mask is None else f" if %{mask}"


def _store(op: k.Store) -> str:
    streaming = " streaming" if op.streaming else ""
    return f"store %{op.target}[%{op.index}] = %{op.value}{_mask(op.mask)}{streaming}"


def _atomic(op: k.Atomic) -> str:
    return f"atomic {op.op.value} %{op.target}[%{op.index}] = %{op.value}{_mask(op.mask)}"


def _wmma(op: k.Wmma) -> str:
    return f"wmma {'x'.join(map(str, op.dims))} %{op.a}, %{op.b}, %{op.c} : {op.type}"


def _list(values: Sequence[int]) -> str:
    return ", ".join(f"%{value}" for value in values)


AXIS_NAMES: Final = {k.Axis.GROUP: "group", k.Axis.LOCAL: "thread"}
_WITHOUT_RESULT: Final = (k.Store, k.Atomic, k.EndLoop, k.If, k.EndIf, k.Barrier)
_PRINT: Final[dict[type[Op], Callable[[Any], str]]] = {
    k.Define: _define,
    k.Variable: lambda op: f"variable {op.type} {op.name}",
    k.Const: _const,
    k.Index: _index,
    k.Loop: lambda op: f"loop < {op.size}{'' if op.end is None else f', %{op.end}'} : {op.type}",
    k.EndLoop: lambda op: "endloop",
    k.If: lambda op: f"if %{op.condition}",
    k.EndIf: lambda op: "endif",
    k.Barrier: lambda op: "barrier",
    k.Load: lambda op: f"load %{op.source}[%{op.index}]{_mask(op.mask)} : {op.type}",
    k.Store: _store,
    k.Atomic: _atomic,
    k.Unary: lambda op: f"{op.op.value} %{op.x} : {op.type}",
    k.Binary: lambda op: f"{op.op.value} %{op.x}, %{op.y} : {op.type}",
    k.Where: lambda op: f"where %{op.condition}, %{op.x}, %{op.y} : {op.type}",
    k.Cast: lambda op: f"cast %{op.x} : {op.type}",
    k.Bitcast: lambda op: f"bitcast %{op.x} : {op.type}",
    k.Mad: lambda op: f"mad %{op.x}, %{op.y}, %{op.z} : {op.type}",
    k.Vectorize: lambda op: f"vectorize {_list(op.items)} : {op.type}",
    k.Devectorize: lambda op: f"devectorize %{op.x}[{op.lane}] : {op.type}",
    k.Shuffle: lambda op: f"shuffle %{op.x}, %{op.y}[{', '.join(map(str, op.lanes))}] : {op.type}",
    k.Swap: lambda op: f"swap %{op.x}, {op.distance} : {op.type}",
    k.Wmma: _wmma,
}
