"""Print a tile program: axes, operands, and a line for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.tiles import data as t

if TYPE_CHECKING:
    from zyx.tiles.data import Step, TileAccess, TileProgram


def print_program(program: TileProgram) -> str:
    """Return the text of `program`."""
    lines = [f"{program.name}: tiles of {program.tile[0]} x {program.tile[1]}, results along {list(program.outer)}"]
    lines += [
        f"axis {number}: {axis.size} in {axis.tiles} tiles, {axis.block} a block"
        for number, axis in enumerate(program.axes)
    ]
    lines += [f"operand {number}: {_operand(operand)}" for number, operand in enumerate(program.operands)]
    for sweep in program.sweeps:
        lines.append("once" if sweep.along is None else f"along axis {sweep.along}")
        lines += [f"    {_step(step)}" for step in sweep.steps]
    return "\n".join(lines)


def _operand(operand: TileAccess) -> str:
    match operand.source:
        case t.LaunchArgument(param=param):
            source = repr(param)
        case t.Constant(value=value, pad=pad):
            source = f"{value}, {pad} beside it" if value != pad else f"{value}"
        case t.Ramp(start=start, step=step):
            source = f"{start} + {step} * i"
    view = operand.view
    place = f"{list(view.shape)} strides {list(view.strides)} from {view.offset}"
    count = f", {view.count} of them" if view.count else ""
    count += f", 0 but at {[f'{low}:{high}' for low, high in view.within]}" if view.within else ""
    kind = f"{view.dtype.short}" + ("" if view.dtype is view.tile_dtype else f" as {view.tile_dtype.short}")
    axes = [axis if axis is not None else "-" for axis in operand.axes]
    beside = "" if operand.pads is t.Pads.ANY else f", {operand.pads.value} beside them"
    return f"{'written ' if operand.is_written else ''}{source} {kind} {place}{count} along {axes}{beside}"


def _step(step: Step) -> str:
    match step:
        case t.Load(to=to, operand=operand):
            return f"t{to} = load {operand}"
        case t.Fill(to=to, value=value, dtype=dtype):
            return f"t{to} = {value} of {dtype.short}"
        case t.Apply1(to=to, op=op, x=x):
            return f"t{to} = {op.value} t{x}"
        case t.Apply2(to=to, op=op, x=x, y=y):
            return f"t{to} = t{x} {op.value} t{y}"
        case t.Choose(to=to, condition=condition, x=x, y=y, doubted=doubted):
            doubts = f"  ({', '.join(f't{value}' for value in doubted)} may be NaN)" if doubted else ""
            return f"t{to} = t{x} if t{condition} else t{y}{doubts}"
        case t.Spread(to=to, x=x, rows=rows, columns=columns):
            return f"t{to} = spread t{x}{' rows' if rows else ''}{' columns' if columns else ''}"
        case t.Cast(to=to, x=x, dtype=dtype):
            return f"t{to} = {dtype.short} of t{x}"
        case t.Turn(to=to, x=x):
            return f"t{to} = t{x} turned"
        case t.Reduce(to=to, op=op, x=x, rows=rows, columns=columns):
            return f"t{to} = {op.value} of{' rows' if rows else ''}{' columns' if columns else ''} of t{x}"
        case t.Multiply(to=to, x=x, y=y):
            return f"t{to} = t{x} @ t{y}"
        case t.Begin(to=to, value=value, dtype=dtype):
            return f"t{to} := {value} of {dtype.short}"
        case t.Combine(to=to, op=op, x=x):
            return f"t{to} {op.value}= t{x}"
        case t.Put(operand=operand, x=x):
            return f"put {operand}, t{x}"
