"""Digests of nests: equal ones, equal digests, and nothing is held of what they were made of.

A digest says everything that schedules and lowering look at: params, ranges with their numbers, labels and kinds,
statements, and every expression with its fields. It is a cryptographic one, so that nothing is taken for another.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from zyx.nest import expr as e
from zyx.nest.data import Compute, Scan, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.nest.data import Nest, Statement


def digest_of_nests(nests: Sequence[Nest]) -> bytes:
    """Return the digest of nests that run side by side."""
    return hashlib.sha256("\n".join(map(_text, nests)).encode()).digest()


def _text(nest: Nest) -> str:
    numbers: dict[e.Expr, int] = {}
    lines = [f"{p.number} {p.dtype.name} {p.length} {p.mutable} {p.by_value} {p.is_front}" for p in nest.params]
    for range_ in nest.ranges:
        peeled, swapping = range_ in nest.peeled, nest.swapping.get(range_)
        lines.append(f"{_range(range_)} {nest.kind(range_).value} {peeled} {swapping}")
    for statement in nest.statements:
        lines.append(_statement(statement, numbers, lines))
    return "\n".join(lines)


def _statement(statement: Statement, numbers: dict[e.Expr, int], lines: list[str]) -> str:
    """Return the line of a statement, after those of its expressions, which are added to `lines`."""
    order = _ranges(statement.order)
    match statement:
        case Compute(value=value, expr=expr, op=op, reduced=reduced, matrix=matrix):
            tile = "" if matrix is None else f"{_ranges(matrix.ranges)} {matrix.itemsize}"
            root = _number(expr, numbers, lines)
            return f"compute {_value(value)} {root} {op and op.value} {_ranges(reduced)} {order} {tile}"
        case Scan(value=value, expr=expr, op=op, along=along):
            return f"scan {_value(value)} {_number(expr, numbers, lines)} {op.value} {_ranges(along)} {order}"
        case Store(param=param, index=index, expr=expr, mask=mask, combine=combine, serial=serial):
            roots = [None if root is None else _number(root, numbers, lines) for root in (index, expr, mask)]
            how = f"{combine and combine.value} {_ranges(serial)} {order} {statement.streaming} {statement.atomic}"
            return f"store {param.number} {roots} {how}"


def _number(root: e.Expr, numbers: dict[e.Expr, int], lines: list[str]) -> int:
    """Return the number of an expression; lines of those that have none yet are added, what is below them first."""
    stack = [root]
    while stack:
        current = stack[-1]
        if current in numbers:
            stack.pop()
            continue
        below = current.children
        missing = [child for child in below if child not in numbers]
        if missing:
            stack += missing
            continue
        stack.pop()
        numbers[current] = len(numbers)
        places = [numbers[child] for child in below]
        bounds = f"{current.low} {current.high}"
        lines.append(f"{type(current).__name__} {current.dtype.name} {bounds} {_fields(current)} {places}")
    return numbers[root]


def _fields(expr: e.Expr) -> str:
    """Return what an expression has beside those below it."""
    match expr:
        case e.Literal(value=value):
            return repr(value)
        case e.Number(param=param):
            return str(param.number)
        case e.RangeRef(range=range_):
            return _range(range_)
        case e.Affine(terms=terms, constant=constant):
            return f"{[factor for _, factor in terms]} {constant}"
        case e.Quotient(divisor=divisor) | e.Remainder(divisor=divisor):
            return str(divisor)
        case e.Read(param=param, mask=mask):
            return f"{param.number} {param.dtype.name} {param.length} {mask is not None}"
        case e.Ref(value=value, mask=mask):
            return f"{_value(value)} {mask is not None}"
        case e.Reduction(op=op, ranges=ranges):
            return f"{op.value} {_ranges(ranges)}"
        case e.Apply1(op=unary):
            return unary.value
        case e.Apply2(op=binary):
            return binary.value
        case _:
            return ""


def _value(value: e.Value) -> str:
    return f"{value.number} {value.dtype.name} {_ranges(value.ranges)}"


def _range(range_: e.Range) -> str:
    return f"{range_.number}:{range_.label}<{range_.size}"


def _ranges(ranges: Iterable[e.Range]) -> str:
    return f"({' '.join(map(_range, ranges))})"
