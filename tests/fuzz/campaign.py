"""Many programs, one after the other.

campaign = Campaign("c")
campaign.run(range(1, 1001))
print(campaign.summary())
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import zyx
import zyx.nn.functional as F
from fuzz import rows_elementwise, rows_index, rows_nn, rows_products, rows_reduce, rows_shape
from fuzz.drawing import Draw, Unfit
from fuzz.invalid import check_refusals
from fuzz.properties import check_properties
from fuzz.running import Way, check, tensors
from fuzz.series import check_series, draw_series, series_as_text
from fuzz.shrinking import as_text, shrink
from zyx import dtype as dtypes
from zyx.runtime.runtime import use
from zyx.testing.choices import Seeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuzz.drawing import Turn
    from fuzz.program import Call, Program
    from fuzz.series import Series
    from fuzz.shrinking import P
    from zyx.runtime.runtime import Runtime
    from zyx.testing.choices import Choices

#: Functions that draw a call, each so many times as likely as others.
TABLE: Final[tuple[tuple[Callable[[Draw], Call], int], ...]] = (
    *rows_elementwise.ROWS, *rows_shape.ROWS, *rows_reduce.ROWS, *rows_index.ROWS, *rows_products.ROWS, *rows_nn.ROWS,
)  # fmt: skip
_DRAWN: Final = tuple(row for row, weight in TABLE for _ in range(weight))
#: Those with numbers and starts that may vary.
_VARYING: Final = (
    rows_elementwise.with_number, rows_index.getitem, rows_elementwise.with_number, rows_index.getitem,
    rows_index.assign, rows_shape.ROLL, rows_shape.part, rows_shape.TRIANGLE,
)  # fmt: skip
_TRIES: Final = 40


@dataclass(frozen=True, slots=True)
class Failure:
    """A program that went wrong.

    Attributes:
        seed: Draws it.
        way: How it was run.
        error: What was raised, with its class.
        text: The smallest part that fails, as a program; the whole story where none could be made.
    """

    seed: int
    way: str
    error: str
    text: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.way}: {self.error}\n{self.text}\n"


@dataclass(slots=True)
class Campaign:
    """Runs programs on the default device of a runtime.

    Attributes:
        runtime: Computes them.
        most_elements: Size of the largest value.
        most_calls: Calls of a program.
        varying: Of 100 programs, so many are run with several numbers, starts and lengths.
        programs: How many were run.
        ways: How often each way, and each row of the table, was.
        failures: What went wrong.
    """

    runtime: Runtime
    most_elements: int = 20000
    most_calls: int = 12
    varying: int = 15
    programs: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def run(self, seeds: Iterable[int], deadline: float | None = None) -> None:
        """Run the programs of seeds, until a time by `time.monotonic`."""
        with use(self.runtime):
            for seed in seeds:
                if deadline is not None and time.monotonic() > deadline:
                    return
                self.run_one(seed)

    def run_one(self, seed: int) -> None:
        """Run the program of a seed in its ways."""
        self.programs += 1
        choices = Seeded(seed)
        try:
            if choices.chance(self.varying):
                self._run_series(seed, choices)
                return
            if choices.chance(3):
                self.ways["refusals and properties"] += 1
                check_refusals(choices)
                check_properties(choices, self.dtypes)
                return
            program, is_smooth = self.draw(choices)
        except Exception as error:  # noqa: BLE001  # whatever goes wrong is a finding
            self.failures.append(Failure(seed, "while it is made", _told(error), _trace(error)))
            return
        if program is None:
            self.ways["empty"] += 1
            return
        for way in _ways(choices, is_smooth=is_smooth):
            self.ways[way.value] += 1
            if not self._check(seed, program, way):
                return

    def draw(self, choices: Seeded) -> tuple[Program | None, bool]:
        """Return a random program, and whether gradients go through all of it."""
        is_smooth, used = self._kind(choices)
        most = min(self.most_elements, 2000) if is_smooth else self.most_elements
        return self._grow(Draw(choices, most, used, zyx.Tensor, _call, is_smooth=is_smooth)), is_smooth

    def _kind(self, choices: Seeded) -> tuple[bool, Sequence[dtypes.DType]]:
        """Return whether gradients are to go through a program, and its element types."""
        is_smooth = choices.chance(30)
        if is_smooth:
            first = (dtypes.float32, dtypes.float64)
            used = [t for t in self.dtypes if t in first]
            return is_smooth, [*used, *(t for t in self.dtypes if t in (dtypes.int32, dtypes.int64))]
        few = (dtypes.float32, dtypes.int32, dtypes.int64, dtypes.bool_)
        return is_smooth, [t for t in self.dtypes if t in few] if choices.chance(35) else self.dtypes

    def _grow(self, draw: Draw) -> Program | None:
        """Draw calls, and return the program of some of their results."""
        choices = draw.choices
        wanted, tries = choices.integer(3, self.most_calls), 0
        while len(draw.computed) < wanted and tries < _TRIES:
            tries += 1
            row = choices.pick(_VARYING if draw.varies and choices.chance(35) else _DRAWN)
            try:
                call = row(draw)
                if draw.is_smooth and not call.has_slope:
                    continue
                draw.add(call)
            except Unfit:
                continue
            self.ways[f"call {row.__name__}"] += 1
        computed = draw.computed
        if draw.is_smooth:
            computed = [n for n in computed if draw.dtype(n).is_float and draw.dtype(n).bits >= 32]
        if not computed:
            return None
        count = min(len(computed), choices.integer(1, 3))
        outputs = dict.fromkeys([computed[-1], *(choices.pick(computed) for _ in range(count - 1))])
        return draw.program(list(outputs))

    def _run_series(self, seed: int, choices: Seeded) -> None:
        """Run programs that differ in numbers, starts and lengths."""
        is_smooth, used = self._kind(choices)

        def grow(choices: Choices, used: Sequence[dtypes.DType], turn: Turn) -> Program | None:
            most = self.most_elements
            return self._grow(Draw(choices, most, used, zyx.Tensor, _call, is_smooth=is_smooth, turn=turn))

        series = draw_series(choices, used, grow)
        if series is None:
            self.ways["empty"] += 1
            return
        self.ways["turns"] += len(series.turns)
        for way in (Way.EAGER, Way.JIT, Way.GRADIENT) if is_smooth else (Way.EAGER, Way.JIT):
            self.ways[f"varying, {way.value}"] += 1
            if not self._passes(seed, series, way):
                return

    def _passes(self, seed: int, series: Series, way: Way) -> bool:
        """Whether a series passes; if not, keep the smallest part that does not, of few turns."""
        error = _error_of(check_series, series, way)
        if error is None:
            return True

        def fails(part: Series) -> bool:
            return isinstance(_error_of(check_series, part, way), type(error))

        smallest = shrink(series, fails)
        for number in reversed(range(len(smallest.turns))):
            part = smallest.without_turn(number)
            if part.turns and fails(part):
                smallest = part
        self.failures.append(Failure(seed, f"varying, {way.value}", _told(error), series_as_text(smallest)))
        return False

    @property
    def dtypes(self) -> list[dtypes.DType]:
        """The element types that the device stores."""
        info = self.runtime.device(self.runtime.default_device).info
        return [dtype for dtype in dtypes.ALL if info.can_store(dtype)]

    def _check(self, seed: int, program: Program, way: Way) -> bool:
        try:
            check(program, way)
        except Exception as error:  # noqa: BLE001  # whatever goes wrong is a finding
            kind = type(error)

            def fails(part: Program) -> bool:
                try:
                    check(part, way)
                except Exception as other:  # noqa: BLE001  # the same is looked for
                    return isinstance(other, kind)
                return False

            smallest = shrink(program, fails)
            self.failures.append(Failure(seed, way.value, _told(error), as_text(smallest)))
            return False
        return True

    def summary(self) -> str:
        """Return the counts, in a line, and the failures."""
        ways = ", ".join(f"{count} {way}" for way, count in sorted(self.ways.items()) if not way.startswith("call "))
        lines = [f"{self.programs} programs, {len(self.failures)} failed ({ways})"]
        return "\n".join([*lines, *map(str, self.failures)])

    @property
    def rows_never_drawn(self) -> list[str]:
        """The rows of the table that no program had."""
        return [row.__name__ for row, _ in TABLE if not self.ways[f"call {row.__name__}"]]


def _ways(choices: Seeded, *, is_smooth: bool) -> Sequence[Way]:
    ways = [Way.ONE_BY_ONE if choices.chance(20) else Way.EAGER]
    if choices.chance(40):
        ways.append(Way.JIT)
    if is_smooth:
        ways.append(Way.GRADIENT)
    if choices.chance(8):
        ways.append(Way.THREADS)
    if choices.chance(15):
        ways.append(Way.GIVEN)
    if choices.chance(15):
        ways.append(Way.MAPPED)
        if is_smooth:
            ways.append(Way.MAPPED_GRADIENT)
    return ways


def _call(text: str, operands: Sequence[Any]) -> Any:  # a lazy tensor
    names = {f"t{number}": operand for number, operand in enumerate(operands)}
    return eval(text.format(*names), {"zyx": zyx, "F": F, **names})


def _told(error: BaseException) -> str:
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {str(error)[:600]}{notes}"


def _error_of(check: Callable[[P, Way], None], program: P, way: Way) -> Exception | None:
    """Return what is raised, if anything is: whatever goes wrong is a finding."""
    try:
        check(program, way)
    except Exception as error:  # noqa: BLE001  # see above
        return error
    return None


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-8:])


__all__ = ["Campaign", "Failure", "tensors"]
