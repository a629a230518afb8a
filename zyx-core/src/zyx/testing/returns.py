"""Which of its results a function returned: so that tests can tell the rules apart that share a function.

    def _xor(s, op, constant):
        if op.x == op.y:
            return s.like(0, op.x)                          # algebra.integers._xor, 0
        return op.x if constant == 0 else None              # algebra.integers._xor, 1

Each expression that a function may return is a *result*, the two sides of a conditional one for themselves; None is
none. Which one it was is read off the positions of the instructions that ran, which every code object has, so what runs
is the code itself.
"""

from __future__ import annotations

import ast
import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType, ModuleType


class Result(NamedTuple):
    """An expression that a function may return.

    Attributes:
        function: Name of its module, less the package's, and its own qualified one.
        number: Which of the function's results it is, in the order of the source.
        text: Its source.
    """

    function: str
    number: int
    text: str


class Returns:
    """The results of some functions, and which of them were returned while `watching`.

    Args:
        modules: Where the functions are.
        is_watched: Whether a function is one of them.
        is_result: Whether an expression that is returned counts.
    """

    def __init__(
        self,
        modules: Sequence[ModuleType],
        is_watched: Callable[[ast.FunctionDef], bool],
        is_result: Callable[[ast.expr], bool],
    ) -> None:
        self._spans: dict[str, dict[str, list[tuple[ast.expr, Result]]]] = {}  # of each file, by function
        self._at: dict[CodeType, list[Result | None]] = {}  # of each instruction, the result that it is a part of
        everything: list[Result] = []
        for module in modules:
            found = self._spans[inspect.getsourcefile(module) or ""] = {}
            prefix = ".".join(module.__name__.split(".")[2:])
            for name, function in _functions(ast.parse(inspect.getsource(module)).body, ""):
                if is_watched(function):
                    expressions = [value for value in _returned(function) if is_result(value)]
                    label = f"{prefix}.{name.replace('.<locals>', '')}"
                    results = [Result(label, *item) for item in enumerate(map(ast.unparse, expressions))]
                    found[name] = list(zip(expressions, results, strict=True))
                    everything += results
        self.results: Final = tuple(everything)

    @contextmanager
    def watching(self) -> Iterator[list[Result]]:
        """Have what is returned within the context, other than None and False, in a list, in order.

        A tracer that is there already, such as one that measures coverage, rests meanwhile.
        """
        returned: list[Result] = []

        def trace_call(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
            at = self._results_at(frame.f_code)
            if not at:
                return None
            frame.f_trace_opcodes = True
            last: Result | None = None

            def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
                nonlocal last
                if event == "opcode":
                    last = at[frame.f_lasti // 2] or last
                elif event == "return" and argument is not None and argument is not False and last is not None:
                    returned.append(last)
                return trace

            return trace

        before = sys.gettrace()
        sys.settrace(trace_call)
        try:
            yield returned
        finally:
            sys.settrace(before)

    def _results_at(self, code: CodeType) -> list[Result | None]:
        at = self._at.get(code)
        if at is None:
            spans = self._spans.get(code.co_filename, {}).get(code.co_qualname, [])
            at = self._at[code] = [_containing(spans, *place) for place in code.co_positions()] if spans else []
        return at


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Return the functions and methods below, each with its qualified name."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield prefix + statement.name, statement
            yield from _functions(statement.body, f"{prefix}{statement.name}.<locals>.")
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, f"{prefix}{statement.name}.")


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Return what a function may return, but for None."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        match pending.pop():
            case ast.FunctionDef() | ast.Lambda():
                continue
            case ast.Return(value=ast.expr() as value):
                yield from _sides(value)
            case other:
                pending += reversed(list(ast.iter_child_nodes(other)))


def _sides(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.IfExp(body=body, orelse=other):
            yield from _sides(body)
            yield from _sides(other)
        case ast.Constant(value=None):
            pass
        case _:
            yield value


def _containing(
    spans: Sequence[tuple[ast.expr, Result]], line: int | None, end: int | None, column: int | None, last: int | None
) -> Result | None:
    """Return the result whose source has the position of an instruction in it."""
    if line is None or end is None or column is None or last is None:
        return None
    for span, result in spans:
        first = (span.lineno, span.col_offset)
        if first <= (line, column) and (end, last) <= (span.end_lineno or 0, span.end_col_offset or 0):
            return result
    return None
