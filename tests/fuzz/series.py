"""Programs that differ in their numbers, starts and lengths alone, run one after the other.

    turn 0    t0 of (20, 3)   t1 = t0[3:17:1] * 2.5
    turn 1    t0 of (20, 3)   t1 = t0[-9:5:1] * float('nan')
    turn 2    t0 of (33, 3)   t1 = t0[0:30:1] * -0.0

A program is drawn again with the same choices, but for those about what varies. The numbers in which the texts of the
turns differ become parameters, so that all turns are calls of one function. A kernel, plan or trace of one turn that
another one is given and should not be, or a length that it takes to be its own, shows as a wrong result.

What was planned before is forgotten first: a seed says all.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import zyx
import zyx.nn.functional as F
from fuzz.drawing import LONGEST, Turn
from fuzz.program import compiled
from fuzz.running import Way, check_slopes, compare, gradients, tensors
from fuzz.shrinking import input_as_text, prints
from zyx import dtype as dtypes
from zyx.errors import ZyxError
from zyx.runtime.runtime import current
from zyx.specialise.table import Table
from zyx.testing.choices import Seeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuzz.program import Call, Program
    from zyx.runtime.runtime import Runtime
    from zyx.testing.choices import Choices
    from zyx.testing.values import Array

T = TypeVar("T")

#: Turns of a series.
TURNS: Final = 6
#: Lengths of the first turn, which is the program that others are to look like, and of all.
_FIRST: Final = (5, 7, 8, 13, 16, 20, 31, 32, 33, 40)
_LENGTHS: Final = (
    0, 1, 2, 3, *_FIRST, 15, 17, 50, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257, LONGEST,
)  # fmt: skip
#: How often a length is drawn for which there is such a program: a matrix of one row cannot be cut as one of 20.
_TRIES: Final = 4
#: A number in the text of a call.
_NUMBER: Final = re.compile(r"float\('-?\w+'\)|(?<![\w.'])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.'])")
#: What no axis has room for, and no integer type.
_WILD: Final = (10**6, -(10**6), 2**63, -(2**70), 2**70)
#: Other element types for some turns, where a device stores them.
_OTHERS: Final = {
    dtypes.float32: dtypes.float64, dtypes.float64: dtypes.float32, dtypes.int32: dtypes.int64,
    dtypes.int64: dtypes.int32,
}  # fmt: skip


class Again:
    """Choices that are made once, and then the same ones again."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._made: list[int] = []
        self._next = 0

    def again(self) -> None:
        """Begin with the first one."""
        self._next = 0

    def integer(self, low: int, high: int) -> int:
        if self._next == len(self._made):
            self._made.append(self._choices.integer(low, high))
        self._next += 1
        return min(max(self._made[self._next - 1], low), high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) < percent


@dataclass(slots=True)
class Series:
    """Programs of the same calls and operands, which differ in numbers and lengths.

    Attributes:
        turns: One or more of them.
    """

    turns: list[Program]

    @property
    def inputs(self) -> list[Array]:
        return self.turns[0].inputs

    @property
    def calls(self) -> list[Call]:
        return self.turns[0].calls

    @property
    def outputs(self) -> list[int]:
        return self.turns[0].outputs

    @property
    def varies(self) -> bool:
        """Whether turns differ in more than the elements of inputs."""
        return len({(*turn.texts(), *((x.dtype, x.shape) for x in turn.inputs)) for turn in self.turns}) > 1

    def needed(self, outputs: Sequence[int]) -> Series:
        """Return the series of some values only."""
        return Series([turn.needed(outputs) for turn in self.turns])

    def without(self, place: int) -> Series:
        """Return the series with the results of a call given as inputs."""
        return Series([turn.without(place) for turn in self.turns])

    def without_turn(self, number: int) -> Series:
        """Return the series of the other turns."""
        return Series([*self.turns[:number], *self.turns[number + 1 :]])

    def source(self) -> tuple[str, list[list[str]]]:
        """Return the text of a function of inputs and numbers, and the numbers of each turn, as text."""
        numbers: list[list[str]] = [[] for _ in self.turns]
        count = len(self.inputs)
        lines = []
        for place, texts in enumerate(zip(*(turn.texts() for turn in self.turns), strict=True)):
            found = [_NUMBER.findall(text) for text in texts]
            parts = iter(_NUMBER.split(texts[0]))
            line = next(parts)
            for column in zip(*found, strict=True):
                if len(set(column)) == 1:
                    line += column[0]
                else:
                    line += f"k{len(numbers[0])}"
                    for row, text in zip(numbers, column, strict=True):
                        row.append(text)
                line += next(parts)
            lines.append(f"    t{count + place} = {line}")
        given = ", ".join([*(f"t{number}" for number in range(count)), *(f"k{n}" for n in range(len(numbers[0])))])
        ends = f"    return [{', '.join(f't{number}' for number in self.outputs)}]"
        return "\n".join([f"def program(zyx, F, {given}):", *lines, ends, ""]), numbers


def is_like(program: Program, other: Program) -> bool:
    """Whether two programs differ in nothing but numbers in the texts of calls, dtypes and shapes."""
    return (
        program.outputs == other.outputs
        and len(program.inputs) == len(other.inputs)
        and len(program.calls) == len(other.calls)
        and all(a.operands == b.operands for a, b in zip(program.calls, other.calls, strict=True))
        and all(_NUMBER.sub("0", a) == _NUMBER.sub("0", b) for a, b in zip(program.texts(), other.texts(), strict=True))
    )


def draw_series(
    choices: Choices,
    used: Sequence[dtypes.DType],
    grow: Callable[[Choices, Sequence[dtypes.DType], Turn], Program | None],
) -> Series | None:
    """Return a random series, or None if none was drawn in which anything varies.

    Args:
        choices: Decide about everything.
        used: Element types to use.
        grow: Returns the program of choices, with what varies.
    """
    for _ in range(_TRIES):
        series = _drawn(choices, used, grow)
        if series is not None and series.varies:
            return series
    return None


def _drawn(
    choices: Choices,
    used: Sequence[dtypes.DType],
    grow: Callable[[Choices, Sequence[dtypes.DType], Turn], Program | None],
) -> Series | None:
    same = Again(choices)
    has_lengths, has_numbers = choices.chance(65), choices.chance(80)
    other = choices.integer(1, TURNS - 1) if choices.chance(25) else None
    seed = choices.integer(0, 2**32 - 1)
    varying = Seeded(seed)

    def drawn(number: int, lengths: Sequence[int]) -> Program | None:
        same.again()
        length = varying.pick(lengths) if has_lengths else None
        turn = Turn(number, varying if has_numbers else Seeded(seed), length)
        types = used if number != other else [new if (new := _OTHERS.get(t, t)) in used else t for t in used]
        return grow(same, types, turn)

    first = drawn(0, _FIRST)
    if first is None:
        return None
    turns = [first]
    for number in range(1, TURNS):
        for _ in range(_TRIES):
            program = drawn(number, _LENGTHS)
            if program is not None and is_like(first, program):
                turns.append(program)
                break
    return Series(turns)


@contextmanager
def nothing_planned(runtime: Runtime) -> Iterator[None]:
    """Let a runtime know nothing of earlier programs, for the length of a ``with`` block."""
    before, runtime.outlines = runtime.outlines, Table()
    runtime.drop_plans()
    try:
        yield
    finally:
        runtime.outlines = before


def check_series(series: Series, way: Way) -> None:
    """Run a series on the default device: as it stands, under `zyx.jit`, or with gradients, those of both.

    Raises:
        AssertionError: A result is not what it has to be. Errors of other classes are wrong as well.
    """
    source, texts = series.source()
    function = compiled(source)
    numbers = [[eval(text) for text in row] for row in texts]
    sources = [n for n, array in enumerate(series.inputs) if array.dtype.kind == "f"]

    def outputs(given: Sequence[zyx.Tensor], row: Sequence[float]) -> list[zyx.Tensor]:
        return function(zyx, F, *given, *row)

    def slopes(given: Sequence[zyx.Tensor], weights: Sequence[zyx.Tensor], row: Sequence[float]) -> list[zyx.Tensor]:
        return gradients(lambda *given: outputs(given, row), given, weights, sources)

    with nothing_planned(current()):
        if way is Way.GRADIENT:
            for computed in (slopes, zyx.jit(slopes)):
                for number, (turn, row) in enumerate(zip(series.turns, numbers, strict=True)):
                    with _noted(f"in turn {number}, with {row}, {'jitted' if computed is not slopes else 'eager'}"):
                        check_slopes(turn, lambda given, weights: computed(given, weights, row), sources)  # noqa: B023
            return
        called = zyx.jit(outputs) if way is Way.JIT else outputs
        for number, (turn, row) in enumerate(zip(series.turns, numbers, strict=True)):
            with _noted(f"in turn {number}, with {row}"):
                found = called(tensors(turn.inputs), row)
                zyx.realize(*found)
                compare(turn, turn.inputs, found)
        if way is Way.JIT:
            _check_refusals(series, source, outputs, called, numbers[-1])


@contextmanager
def _noted(note: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


def _check_refusals(
    series: Series, source: str, outputs: Callable[..., Any], jitted: Callable[..., Any], row: Sequence[float]
) -> None:
    """Assert that numbers out of range are refused when traced as they are when not, by an error of zyx."""
    lines = [line for line in source.splitlines() if "(" not in line]  # operators and slices
    places = [place for place in range(len(row)) if any(re.search(rf"\bk{place}\b", line) for line in lines)]
    given = tensors(series.turns[-1].inputs)
    for place in places[:3]:
        wild = [*row[:place], _WILD[(place + len(source)) % len(_WILD)], *row[place + 1 :]]
        first, second = _outcome(outputs, given, wild), _outcome(jitted, given, wild)
        assert first == second, f"with {wild}, the outcome is {first}, and {second} under zyx.jit"


def _outcome(function: Callable[..., Any], given: Sequence[zyx.Tensor], row: Sequence[float]) -> object:
    try:
        found = function(given, row)
        zyx.realize(*found)
    except (ZyxError, IndexError) as error:  # the latter of a tuple that has fewer parts with other numbers
        return type(error)
    return [(array.dtype, array.shape) for array in found]


def series_as_text(series: Series) -> str:
    """Return a program of Python that prints what each turn gives, and what it should be."""
    source, numbers = series.source()
    lines = ["import base64, zlib", "import numpy as np, zyx, zyx.nn.functional as F", source.rstrip()]
    for turn, row in zip(series.turns, numbers, strict=True):
        given = ", ".join([*(input_as_text(array) for array in turn.inputs), *row])
        lines += [f"found = program(zyx, F, {given})", "zyx.realize(*found)"]
        lines += prints(turn, [f"found[{number}]" for number in range(len(turn.outputs))])
    return "\n".join(lines)
