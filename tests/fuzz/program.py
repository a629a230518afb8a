"""A program: calls in a row, each with its meaning in NumPy, and how exactly its results are known.

Values that are floats are followed in float64: as they are, and as some samples of what rounding makes of them. Where a
call rounds, the samples' operands are moved by about a unit in the last place, and so are their results; how far the
samples have come apart in the end says how far a right result may be off (after Vignes, "A stochastic arithmetic for
reliable scientific computation", 1993). What a call does to errors, cancellation and long sums included, then follows
from its meaning, and needs no bound of its own.

What a call means is computed in a wider type than the result: in float64, and where that is the result's in NumPy's
``longdouble``, since NumPy's own sums along any but the last axis add one element after the other; samples are moved
by as much. Where C has nothing wider than float64, that is float64 as well.

A value whose bits are certain has no samples. Only these may be compared, rounded or counted.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.dtype import as_dtype, float64
from zyx.testing.graphs import Reference
from zyx.testing.values import epsilon, largest, least_normal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.dtype import DType
    from zyx.testing.values import Array

#: Samples that are followed always, and where a result seems wrong.
SAMPLES: Final = 4
MANY_SAMPLES: Final = 40
#: A result may lie so many times as far off as the samples do, plus so many units in the last place.
_SPREAD: Final = 10.0
_ULPS: Final = 8.0


@dataclass(slots=True)
class Call:
    """A call of the public API.

    Attributes:
        text: The expression, with ``{0}`` and so on for the operands.
        meaning: The same in NumPy: of arrays, integers and bools in their own dtypes, floats in float64 or wider.
        operands: Numbers of the values that it takes.
        exact: Whether the bits of its result are certain if those of its operands are.
        jumps: Whether its result jumps, so that operands must be certain.
        has_slope: Whether a gradient goes through it.
        inner: Sizes of what cancels within the call, if that is more than its operands and result let expect: it rounds
            as well. Of the shape of the result, or one that broadcasts to it.
    """

    text: str
    meaning: Callable[..., Any]
    operands: tuple[int, ...]
    exact: bool = False
    jumps: bool = False
    has_slope: bool = True
    inner: Callable[..., Any] | None = None

    def renumbered(self, new: Mapping[int, int]) -> Call:
        """Return the call of other operands."""
        return replace(self, operands=tuple(new[number] for number in self.operands))


@dataclass(slots=True)
class Known:
    """What is known of a value.

    Attributes:
        dtype: Its element type.
        value: What it should be, floats in float64.
        samples: What rounding may make of it; none if it is certain.
    """

    dtype: DType
    value: Array
    samples: list[Array] = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        return not self.samples

    def sample(self, number: int) -> Array:
        return self.samples[number] if self.samples else self.value

    def reference(self) -> Reference:
        """Return what a device may give, in the dtype of the value."""
        with np.errstate(all="ignore"):
            rounded = self.value.astype(self.dtype.numpy)
            if not self.samples or not self.dtype.is_float:
                return Reference(rounded, np.zeros(self.value.shape))
            away = np.max([np.abs(sample - self.value) for sample in self.samples], axis=0)
            unit = _ULPS * (epsilon(self.dtype) * np.abs(self.value) + least_normal(self.dtype))
            bound = _SPREAD * away + unit
            unknown = ~(np.abs(self.value) + bound < largest(self.dtype) / 2)
            return Reference(rounded, np.where(unknown, np.inf, bound))


@dataclass(slots=True)
class Program:
    """Calls over some inputs.

    Attributes:
        inputs: Their values, with the dtypes of tensors.
        calls: Value number ``len(inputs) + i`` is the result of call i.
        dtypes: Of the results of the calls.
        outputs: Numbers of the values that are asked for.
    """

    inputs: list[Array]
    calls: list[Call] = field(default_factory=list)
    dtypes: list[DType] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def known(self, inputs: Sequence[Array] | None = None, samples: int = SAMPLES) -> list[Known]:
        """Return what is known of all values, over other inputs if some are given."""
        noise = Noise(samples)
        values = [noise.certain(array) for array in (self.inputs if inputs is None else inputs)]
        for call, dtype in zip(self.calls, self.dtypes, strict=True):
            values.append(noise.after(call, [values[number] for number in call.operands], dtype))
        return values

    def exactly(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the values of the outputs by their meaning, over inputs whose floats are of float64."""
        values: list[Array] = list(inputs)
        with np.errstate(all="ignore"):
            for call in self.calls:
                values.append(np.asarray(call.meaning(*(values[number] for number in call.operands))))
        return [values[number] for number in self.outputs]

    def source(self) -> str:
        """Return the text of a function of the inputs, ``program(zyx, F, t0, t1, ...)``, that returns the outputs."""
        count = len(self.inputs)
        lines = [f"def program(zyx, F, {', '.join(f't{number}' for number in range(count))}):"]
        lines += [f"    t{count + number} = {text}" for number, text in enumerate(self.texts())]
        return "\n".join([*lines, f"    return [{', '.join(f't{number}' for number in self.outputs)}]", ""])

    def texts(self) -> list[str]:
        """Return the calls, with their operands."""
        return [call.text.format(*(f"t{number}" for number in call.operands)) for call in self.calls]

    def function(self) -> Callable[..., list[Any]]:
        """Return the function that `source` is the text of."""
        return compiled(self.source())

    def needed(self, outputs: Sequence[int]) -> Program:
        """Return the program of some values only, without what they do not need."""
        count = len(self.inputs)
        used: set[int] = set()
        stack = list(outputs)
        while stack:
            number = stack.pop()
            if number not in used:
                used.add(number)
                if number >= count:
                    stack.extend(self.calls[number - count].operands)
        kept = sorted(used)
        new = {old: position for position, old in enumerate(kept)}
        result = Program([self.inputs[number] for number in kept if number < count])
        for number in kept:
            if number >= count:
                result.calls.append(self.calls[number - count].renumbered(new))
                result.dtypes.append(self.dtypes[number - count])
        result.outputs = [new[number] for number in outputs]
        return result

    def without(self, place: int) -> Program:
        """Return the program with the result of a call given as an input."""
        count = len(self.inputs)
        known = self.known()[count + place]
        with np.errstate(all="ignore"):
            value = known.value.astype(known.dtype.numpy)
        new = {n: n for n in range(count)} | {count + place: count}
        for number in range(len(self.calls)):
            if number != place:
                new[count + number] = count + number + (number < place)
        result = Program([*self.inputs, value])
        for number, (call, dtype) in enumerate(zip(self.calls, self.dtypes, strict=True)):
            if number != place:
                result.calls.append(call.renumbered(new))
                result.dtypes.append(dtype)
        result.outputs = [new[number] for number in self.outputs]
        return result.needed(result.outputs)


@functools.lru_cache(maxsize=256)
def compiled(source: str) -> Callable[..., list[Any]]:
    """Return the function ``program`` of a text."""
    names: dict[str, Any] = {}
    exec(compile(source, "<program>", "exec"), names)
    found: Callable[..., list[Any]] = names["program"]
    return found


class Noise:
    """Follows values and samples of them through calls."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._samples = samples
        self._random = np.random.default_rng(samples)

    def certain(self, array: Array) -> Known:
        """Return an input."""
        dtype = as_dtype(array.dtype)
        return Known(dtype, array.astype(np.float64) if dtype.is_float else array)

    def after(self, call: Call, operands: Sequence[Known], dtype: DType) -> Known:
        """Return what is known of the result of a call, which has a dtype."""
        with np.errstate(all="ignore"):
            value = np.asarray(call.meaning(*(operand.value for operand in operands)))
            if not dtype.is_float:
                return Known(dtype, value.astype(dtype.numpy))
            value = value.astype(np.float64)
            if call.exact and all(operand.is_certain for operand in operands):
                return Known(dtype, value.astype(dtype.numpy).astype(np.float64))
            error = _error(call, operands, value) if dtype is float64 and not call.exact else 0.0
            samples = []
            for number in range(self._samples):
                given = [operand.sample(number) for operand in operands]
                if not call.exact:
                    given = [self._moved(x, operand.dtype, dtype) for x, operand in zip(given, operands, strict=True)]
                result = np.asarray(call.meaning(*given)).astype(np.float64) - error
                size = np.abs(result) if call.inner is None else np.abs(result) + call.inner(*given)
                result = result + self._signs(result) * (epsilon(dtype) * size)
                samples.append(np.where(np.abs(result) < largest(dtype) / 4, result, np.nan))
            return Known(dtype, value - error, samples)

    def _moved(self, x: Array, dtype: DType, result: DType) -> Array:
        """Return an operand of a call that rounds, moved by a unit; integers move in the dtype of the result."""
        if dtype.is_bool:
            return x
        if not dtype.is_float:
            # A result of floats is computed from floats; what needs integers, such as an index, is told by its dtype.
            return x
        moved: Array = x * (1 + max(epsilon(dtype), epsilon(result)) * self._signs(x))
        return moved

    def _signs(self, x: Array) -> Array:
        signs: Array = self._random.uniform(0.5, 1.5, x.shape) * self._random.choice((-1.0, 1.0), x.shape)
        return signs


def _error(call: Call, operands: Sequence[Known], value: Array) -> Array:
    """Return how far `value`, of a call in float64, is off, as far as a wider type tells: 0 where it is not finite."""
    wide = call.meaning(*(x.astype(np.longdouble) if x.dtype.kind == "f" else x for x in (o.value for o in operands)))
    error = value - np.asarray(wide).astype(np.float64)
    return np.where(np.isfinite(error), error, 0.0)
