"""Print a nest: one line a statement, its loops with their sizes and kinds at the end.

v0[r0] = max(r1) of p0[(r0*1000 + r1)]      | r0<4096 group, r1<1000
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.nest.expr_text import show

if TYPE_CHECKING:
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Param, Range


def print_nest(nest: Nest) -> str:
    """Return the text of `nest`."""
    return "\n".join(
        [", ".join(map(_param, nest.params)), *(print_statement(statement, nest) for statement in nest.statements)]
    )


def _param(param: Param) -> str:
    if param.by_value:
        return f"{param}: {param.dtype.short}"
    kind = f"{' mutable' if param.mutable else ''}{' front' if param.is_front else ''}"
    return f"{param}: {param.dtype.short}[{param.length}]{kind}"


def print_statement(statement: Statement, nest: Nest) -> str:
    """Return the line of one statement."""
    loops = ", ".join(_loop(range_, nest) for range_ in statement.order)
    match statement:
        case Compute(value=value, expr=expr, op=op, reduced=reduced, matrix=matrix):
            over = "" if op is None else f"{op.value}({', '.join(map(repr, reduced))}) of "
            text = f"{value}{list(value.ranges)} = {over}{show(expr)}"
            if matrix is not None:
                text += f" matrix {'x'.join(map(str, matrix.dims))}({', '.join(map(repr, matrix.ranges))})"
        case Scan(value=value, expr=expr, op=op, along=along):
            text = f"{value}{list(value.ranges)} = running {op.value}({', '.join(map(repr, along))}) of {show(expr)}"
        case Store(param=param, index=index, expr=expr, mask=mask, combine=combine):
            sign = "=" if combine is None else f"{combine.value}="
            sign = f"atomic {sign}" if statement.atomic else sign
            text = f"{param}[{show(index)}] {sign} {show(expr)}" + ("" if mask is None else f" if {show(mask)}")
            text += " streaming" if statement.streaming else ""
    return f"{text}      | {loops}"


def _loop(range_: Range, nest: Nest) -> str:
    kind = nest.kind(range_)
    peeled = " peeled" if range_ in nest.peeled else ""
    peeled += f" swapping {nest.swapping[range_]}" if range_ in nest.swapping else ""
    return f"{range_}<{range_.size}" + ("" if kind is Kind.LOOP else f" {kind.value}") + peeled
