"""The table of ``docs/explanation/what-compiles-when.md``: each of its rows is measured, on the default device.

A row calls a function with one value after the other, and then with the first two once more, which are remembered. It
is noted at which of the values a kernel was compiled, and at which the function was traced; a cell of the page is what
that is called.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.jit.function import MOST_TRACES
from zyx.runtime.runtime import Runtime, use
from zyx.settings.load import load_settings
from zyx.specialise.lengths import bound_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "what-compiles-when.md"

#: Makes what a call needs of its value, in a runtime of its own; the block ends behind the call.
Prepare: TypeAlias = "Callable[[Any, ExitStack], tuple[object, ...]]"

NUMBERS = tuple(0.3 + step / 10 for step in range(12))
INTEGERS = tuple(range(2, 14))
#: The greatest that they are planned for are 128, 512 and 2048.
LENGTHS = (12, 20, 28, 36, 120, 128, 129, 160, 512, 513, 600, 124)
#: Of which no three lie in a line.
PAIRS = (
    (12, 16), (20, 16), (20, 24), (28, 36), (32, 12), (40, 48), (48, 20), (124, 120), (129, 36), (36, 129), (160, 160),
    (52, 8),
)  # fmt: skip


def ones(*shape: int, dtype: str = "float32") -> zyx.Tensor:
    return zyx.Tensor(np.ones(shape, dtype))


@dataclass(frozen=True)
class Row:
    """What a program changes from call to call.

    Attributes:
        function: What is called.
        values: By which the calls differ.
        prepare: Makes the arguments of a call of its value.
        kinds: By name, of which kind a value is, where it is not for each value that something is made.
        options: Of `zyx.jit`.
    """

    function: Callable[..., object]
    values: Sequence[Any]
    prepare: Prepare
    kinds: Mapping[str, Callable[[Any], Hashable]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


class Noted(NamedTuple):
    """At each call, how many kernels were compiled and how often the function was traced."""

    compiled: list[int]
    traced: list[int]


def measured(row: Row, *, is_jitted: bool) -> Noted:
    runtime = Runtime(load_settings(given={"backends": {"dummy": {"enabled": True, "count": 2}}}))
    with use(runtime):
        noted, traces = Noted([], []), Counter[str]()

        @functools.wraps(row.function)
        def counted(*args: object) -> object:
            traces["all"] += 1
            return row.function(*args)

        called = zyx.jit(counted, **row.options) if is_jitted else row.function
        for value in (*row.values, *row.values[:2]):
            with ExitStack() as stack:
                args = row.prepare(value, stack)
                zyx.realize(*[arg for arg in args if isinstance(arg, zyx.Tensor)])
                compiled, traced = runtime.compiler.compiled, traces["all"]
                zyx.realize(called(*args))
                noted.compiled.append(runtime.compiler.compiled - compiled)
                noted.traced.append(traces["all"] - traced)
    runtime.close()
    return noted


def said(counts: Sequence[int], row: Row) -> str:
    """Return what the page calls it that something was made at these calls; the first of them needs it always."""
    number = len(row.values)
    assert not any(counts[number:]), counts  # what was there before
    made = [place for place in range(number) if counts[place]]
    if made in ([], [0]):
        return "none"
    if len(made) == number:
        return "each"
    if made == [0, 1]:
        return "one more"
    for name, kind in row.kinds.items():
        kinds = [kind(value) for value in row.values]
        for alone in range(3):  # values that come before it is known that these vary
            firsts = [place for place in range(alone, number) if kinds[place] not in kinds[alone:place]]
            if made == [*range(alone), *firsts]:
                return name
    assert made == [*range(len(made))], counts
    return f"the first {len(made)}"


# ---- the rows


def of_numbers(x: np.ndarray[Any, Any]) -> Prepare:
    return lambda value, stack: (zyx.Tensor(x), value)


def assigned(x: zyx.Tensor, place: int) -> zyx.Tensor:
    x[place] = 1.0
    return x


def of_lengths(*shape: int | None) -> Prepare:
    """Return what makes tensors whose shape has a length in place of None."""
    return lambda length, stack: (ones(*[length if size is None else size for size in shape]),)


def in_modes(modes: Callable[[Any], Any]) -> Prepare:
    def prepare(value: Any, stack: ExitStack) -> tuple[object, ...]:
        stack.enter_context(modes(value))
        return (ones(2, 4),)

    return prepare


def autocast(dtype: str) -> zyx.autocast:
    return zyx.autocast(dtype or "bfloat16", enabled=bool(dtype))


def of_modules(values: Sequence[int], make: Callable[[int], nn.Module]) -> Row:
    """Return a row about a module that is an argument, another one for each value."""
    made: dict[int, nn.Module] = {}

    def prepare(value: int, stack: ExitStack) -> tuple[object, ...]:
        if value not in made:
            made[value] = make(value)
            zyx.realize(*made[value].parameters())
        return made[value], ones(2, 4)

    return Row(lambda module, x: module(x), values, prepare, OUTER)


def changing(what: str) -> Row:
    """Return a row about the weights or mode of a module that the function finds outside, or about an optimiser."""
    parts: list[Any] = []

    def prepare(value: int, stack: ExitStack) -> tuple[object, ...]:
        if not parts:
            module = nn.Linear(4, 3)
            parts.extend((module, optim.Adam(module.parameters(), 0.01)))
        module, optimiser = parts
        if what == "rate":
            optimiser.learning_rate = 0.01 / value
        elif what == "mode":
            module.train(value)
        else:
            module.weight.assign(zyx.Tensor(np.full((3, 4), value, np.float32)))
        zyx.realize(*module.parameters())
        return (ones(2, 4),)

    def step(x: zyx.Tensor) -> zyx.Tensor:
        module, optimiser = parts
        if what != "rate":
            return module(x)
        with zyx.Tape() as tape:
            loss = (module(x) ** 2).mean()
        optimiser.step(tape.gradient(loss, list(module.parameters())))
        return loss

    return Row(step, (False, True) if what == "mode" else INTEGERS, prepare)


X = np.arange(24, dtype=np.float32).reshape(4, 6)
LONG = np.arange(64, dtype=np.float32).reshape(16, 4)
WHOLE = X.astype(np.int32)
OUTER = {"each bound": bound_of}
BOTH = {"each pair of bounds": lambda pair: tuple(map(bound_of, pair))}

#: By the first cell of the page's rows, in their order.
ROWS: dict[str, Callable[[], Row]] = {
    "values of a tensor": lambda: Row(lambda x: x * 2, NUMBERS, lambda value, stack: (zyx.Tensor(X * value),)),
    "a float, `x * 0.1`": lambda: Row(lambda x, number: x * number, NUMBERS, of_numbers(X)),
    "an int, `x + 3`": lambda: Row(lambda x, number: x + number, INTEGERS, of_numbers(WHOLE)),
    "a counter, `x * t`": lambda: Row(lambda x, t: x * t, INTEGERS, of_numbers(X)),
    "a counter that Python computes with, `x * 0.9 ** t`": lambda: Row(
        lambda x, t: x * 0.9**t, INTEGERS, of_numbers(X)
    ),
    "an exponent, `x ** 2.0`": lambda: Row(lambda x, number: x**number, [*map(float, INTEGERS)], of_numbers(X)),
    "a divisor of ints, `x % 3`": lambda: Row(lambda x, number: x % number, INTEGERS, of_numbers(WHOLE)),
    "the start of a slice, `x[i : i + 4]`": lambda: Row(lambda x, i: x[i : i + 4] * 2, range(12), of_numbers(LONG)),
    "an index, `x[i]`": lambda: Row(lambda x, i: x[i] * 2, INTEGERS, of_numbers(LONG)),
    "where is assigned, `x[i] = 1`": lambda: Row(assigned, INTEGERS, of_numbers(LONG)),
    "a length, of the outer axis": lambda: Row(lambda x: (x * 2).sum(0), LENGTHS, of_lengths(None, 6), OUTER),
    "a length, of the inner axis": lambda: Row(lambda x: x.softmax(axis=-1), LENGTHS, of_lengths(6, None), OUTER),
    "two lengths, apart from each other": lambda: Row(
        lambda x: x.softmax(axis=-1), PAIRS, lambda pair, stack: (ones(*pair),), BOTH
    ),
    "a length, where tensors are large": lambda: Row(
        lambda x: x * 2, range(300, 900, 100), of_lengths(None, 1000), OUTER
    ),
    "the dtype": lambda: Row(
        lambda x: x * 2, ("float32", "float16", "int32", "int8"), lambda dtype, stack: (ones(3, dtype=dtype),)
    ),
    "the device": lambda: Row(
        lambda x: x * 2, ("", "dummy:0", "dummy:1"), lambda name, stack: (ones(3).to(name) if name else ones(3),)
    ),
    "a number that an `if` looks at": lambda: Row(
        lambda x, number: x * 2 if number > 6 else x + 1, INTEGERS, of_numbers(X), {"each side": lambda n: n > 6}
    ),
    "an axis": lambda: Row(lambda x, axis: x.sum(axis), (0, 1, 2), of_numbers(X.reshape(2, 3, 4))),
    "a number that is `static`": lambda: Row(
        lambda x, number: x * number, NUMBERS, of_numbers(X), options={"static": "number"}
    ),
    "weights of a module": lambda: changing("weights"),
    "steps and rate of an optimiser": lambda: changing("rate"),
    "a module, for one of the same shapes": lambda: of_modules(INTEGERS, lambda _: nn.Linear(4, 3)),
    "a module, for one of other shapes": lambda: of_modules((12, 20, 32, 52, 160), lambda size: nn.Linear(4, size)),
    "`zyx.autocast`": lambda: Row(lambda x: x @ x.T, ("", "float16", "bfloat16"), in_modes(autocast)),
    "`zyx.no_grad`": lambda: Row(
        lambda x: x @ x.T, (False, True), in_modes(lambda is_off: zyx.no_grad() if is_off else nullcontext())
    ),
    "`train()` and `eval()`": lambda: changing("mode"),
    "settings, such as `deterministic`": lambda: Row(
        lambda x: x * 2, ({}, {"deterministic": True}, {"autotune.n_launches": 3}, {"debug": 0}), in_modes(zyx.settings)
    ),
}


def rows_of_the_page() -> dict[str, tuple[str, ...]]:
    table = re.findall(r"^\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [tuple(line.split(" | ")) for line in table]
    return {what: tuple(cells) for what, *cells in rows[1:]}


def test_the_page_has_these_rows() -> None:
    assert list(rows_of_the_page()) == list(ROWS)


@pytest.mark.parametrize("what", ROWS)
def test_a_row_is_what_is_measured(what: str) -> None:
    row = ROWS[what]()
    eager, jitted = measured(row, is_jitted=False), measured(ROWS[what](), is_jitted=True)
    assert not any(eager.traced)
    cells = (said(eager.compiled, row), said(jitted.traced, row), said(jitted.compiled, row))
    assert cells == rows_of_the_page()[what], (eager, jitted)


def test_each_cell_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    explained = set(re.findall(r"^\* \*([a-z ]+)\*", text, re.MULTILINE))
    cells = {re.sub(r" \d+$", "", cell) for cells in rows_of_the_page().values() for cell in cells}
    assert cells == explained


def test_as_many_traces_are_kept_as_the_page_says() -> None:
    assert f"at most {MOST_TRACES} traces" in PAGE.read_text(encoding="utf-8")


def test_a_length_that_stays_gets_kernels_of_its_own() -> None:
    row = Row(lambda x: x * 2, (3, 5, 7, *[9] * 20, 11), of_lengths(None, 6))
    for is_jitted, alone in ((False, 2), (True, 3)):
        noted = measured(row, is_jitted=is_jitted)
        made = [place for place, count in enumerate(noted.compiled) if count]
        assert made == [*range(alone), 3 + 8], noted
    assert "8 times in succession" in PAGE.read_text(encoding="utf-8")
