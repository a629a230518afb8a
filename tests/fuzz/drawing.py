"""Choosing operands and numbers for calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from fuzz.program import Call, Known, Noise, Program
from zyx import dtype as dtypes
from zyx.shape import size_of
from zyx.testing.values import epsilon, random_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.shape import Shape
    from zyx.testing.choices import Choices
    from zyx.testing.values import Array

#: All axes, one, or several, as NumPy takes them.
Axes: TypeAlias = "int | tuple[int, ...] | None"

_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 65, 97, 127, 128, 257, 512, 1000)
_LARGE: Final = (1024, 1025, 2048, 3001, 4097, 10007, 65536, 100003)
#: The greatest length that varies.
LONGEST: Final = 300
#: The sum of the squares of as many such values as a program has stays below the largest float32.
_MOST_SQUARED: Final = 1e15
#: Floats that operations are often made simpler for, wrongly so for some operands.
SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf)
INTEGERS: Final = dtypes.INTEGERS
FLOATS: Final = dtypes.FLOATS


@dataclass(frozen=True, slots=True)
class Turn:
    """What one of several programs has that differ in it alone.

    Attributes:
        number: Which one it is.
        varying: Decide about numbers and starts.
        length: Of an axis of some inputs; None if no length varies.
    """

    number: int
    varying: Choices
    length: int | None


class Unfit(Exception):
    """A row finds nothing to work on; another one is drawn."""


class Draw:
    """A program while it grows.

    Args:
        choices: Decide about everything.
        most_elements: Size of the largest value.
        used: Element types to use.
        make: Makes the tensor of an array: dtypes and shapes are those of zyx's own lazy tensors.
        call: Calls a function of the public API by its text.
        is_smooth: Whether inputs are floats that no two are equal of, for gradients.
        turn: Which of the programs it is that differ in what varies alone; see `fuzz.series`.
    """

    def __init__(
        self,
        choices: Choices,
        most_elements: int,
        used: Sequence[DType],
        make: Callable[[Array], Any],
        call: Callable[[str, Sequence[Any]], Any],
        *,
        is_smooth: bool = False,
        turn: Turn | None = None,
    ) -> None:
        self.choices = choices
        self.most_elements = most_elements
        self.dtypes = tuple(used)
        self.is_smooth = is_smooth
        self._turn = turn
        self._make = make
        self._call = call
        self._noise = Noise()
        self._inputs: list[Array] = []
        self._values: list[tuple[Known, Any, Call | None]] = []

    # ---- growing

    def leaf(self, shape: Shape, dtype: DType, array: Array | None = None) -> int:
        """Add an input, and return its number."""
        if math.prod(shape) > self.most_elements:
            raise Unfit
        if array is None:
            random = self._random()
            count = math.prod(shape)
            if dtype.is_float and (self.is_smooth or self.choices.chance(25)):
                array = random.standard_normal(count).astype(dtype.numpy)
            else:
                array = random_array(dtype, count, random)
            array = array.reshape(shape)
        self._inputs.append(array)
        self._values.append((self._noise.certain(array), self._make(array), None))
        return len(self._values) - 1

    def add(self, call: Call) -> int:
        """Add a call, and return the number of its result.

        Raises:
            AssertionError: Its shape, or the kind of its dtype, is not what its meaning says.
            Unfit: The result is too large.
        """
        operands = [self._values[number] for number in call.operands]
        if call.jumps and not all(known.is_certain for known, _, _ in operands):
            raise Unfit
        with np.errstate(all="ignore"):
            wanted = np.asarray(call.meaning(*(known.value for known, _, _ in operands)))
        if wanted.size > 4 * self.most_elements:
            raise Unfit
        tensor = self._call(call.text, [tensor for _, tensor, _ in operands])
        kinds = {kind: name for kind, name in (("b", "bool"), ("i", "integer"), ("u", "integer"), ("f", "float"))}
        found = "bool" if tensor.dtype.is_bool else "float" if tensor.dtype.is_float else "integer"
        if tensor.shape != wanted.shape or found != kinds[wanted.dtype.kind]:
            text = call.text.format(*(f"{tensor.dtype}{tensor.shape}" for _, tensor, _ in operands))
            raise AssertionError(f"{text} is of {tensor.dtype}{tensor.shape}; NumPy gives {wanted.dtype}{wanted.shape}")
        known = self._noise.after(call, [known for known, _, _ in operands], tensor.dtype)
        self._values.append((known, tensor, call))
        return len(self._values) - 1

    def program(self, outputs: Sequence[int]) -> Program:
        """Return the program of some values: inputs first."""
        order = [n for n, (_, _, call) in enumerate(self._values) if call is None]
        order += [n for n, (_, _, call) in enumerate(self._values) if call is not None]
        new = {old: position for position, old in enumerate(order)}
        program = Program(list(self._inputs))
        for known, _, call in self._values:
            if call is not None:
                program.calls.append(call.renumbered(new))
                program.dtypes.append(known.dtype)
        program.outputs = [new[number] for number in outputs]
        return program.needed(program.outputs)

    @property
    def computed(self) -> list[int]:
        """The results of calls."""
        return [number for number, (_, _, call) in enumerate(self._values) if call is not None]

    # ---- looking

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self._values)

    def refuse_squares(self, *numbers: int) -> None:
        """Refuse values of which a sum of squares overflows float32, though its root would not."""
        for number in numbers:
            if (np.abs(self.known(number).value.astype(np.float64)) > _MOST_SQUARED).any():
                raise Unfit

    def refuse_exponents(self, number: int) -> None:
        """Refuse finite values so large that neighbours of their type have other exponentials altogether."""
        value = self.known(number).value.astype(np.float64)
        if (np.abs(value[np.isfinite(value)]) * epsilon(self.dtype(number)) > 1).any():
            raise Unfit

    def require(self, fits: bool) -> None:  # it is what the function is about
        """Refuse what does not fit."""
        if not fits:
            raise Unfit

    def known(self, number: int) -> Known:
        return self._values[number][0]

    def shape(self, number: int) -> Shape:
        return tuple(self.known(number).value.shape)

    def dtype(self, number: int) -> DType:
        return self.known(number).dtype

    # ---- choosing

    def place(self, low: int, high: int) -> int:
        """Return a start, an index or a shift, which may vary."""
        return self._varying.integer(low, high)

    def constant(self, dtype: DType) -> float:
        """Return a Python number, which may vary, for an operation with a value of a dtype that is no bool."""
        choices = self._varying
        if dtype.is_float:
            return choices.pick((*SPECIAL, 0.1, 2.5, -0.375, 3, -7, 0, 2**31, 2**53 + 1, -(2**63), 1e-3, 1e30))
        least, most = int(dtype.min), int(dtype.max)
        return choices.pick((0, 1, least and -1, 3, 5, 7, least, least + 1, most, most - 1, most // 2))

    @property
    def varies(self) -> bool:
        """Whether the program is one of several."""
        return self._turn is not None

    @property
    def _varying(self) -> Choices:
        return self.choices if self._turn is None else self._turn.varying

    def _random(self) -> np.random.Generator:
        """Return where the elements of an input come from."""
        return np.random.default_rng(self.choices.integer(0, 2**32 - 1) + (self._turn.number if self._turn else 0))

    def random_shape(self, least_rank: int = 0, most_rank: int = 4) -> Shape:
        """Return a shape: zeros and ones, primes, powers of two and their neighbours; sometimes a large axis."""
        choices = self.choices
        rank = choices.pick([r for r in (2, 1, 3, 2, 0, 4, 2, 3) if least_rank <= r <= most_rank] or [least_rank])
        room = self.most_elements if choices.chance(20) else min(self.most_elements, 3000)
        length = None if self._turn is None else self._turn.length
        if length is not None:
            room = self.most_elements // LONGEST
        shape: list[int] = []
        for _ in range(rank):
            sizes = _LARGE if choices.chance(8) else _SIZES
            fitting = [size for size in sizes if size * math.prod(shape) <= room] or [1]
            shape.append(choices.pick(fitting))
        if shape and choices.chance(4):
            shape[choices.integer(0, len(shape) - 1)] = 0
        if shape and length is not None and choices.chance(85):
            shape[choices.integer(0, len(shape) - 1)] = length
        return tuple(shape)

    def value(
        self,
        fits: Callable[[DType], bool] = lambda dtype: True,
        *,
        least_rank: int = 0,
        most_rank: int = 5,
        certain: bool = False,
        not_empty: bool = False,
    ) -> int:
        """Return a value, rather a late one; a new input if there is none."""
        found = [
            number
            for number, (known, _, _) in enumerate(self._values)
            if fits(known.dtype)
            and least_rank <= known.value.ndim <= most_rank
            and (known.is_certain or not certain)
            and (known.value.size or not not_empty)
        ]
        if found and not self.choices.chance(12):
            return self.choices.pick(found[-4:]) if self.choices.chance(75) else self.choices.pick(found)
        usable = [dtype for dtype in self.dtypes if fits(dtype)]
        if not usable:
            raise Unfit
        shape = self.random_shape(least_rank, min(most_rank, 4))
        if not_empty and 0 in shape:
            shape = tuple(max(size, 1) for size in shape)
        return self.leaf(shape, self.choices.pick(usable))

    def number(self, **options: Any) -> int:  # those of `value`
        """Return a value of numbers."""
        return self.value(lambda dtype: not dtype.is_bool, **options)

    def floating(self, **options: Any) -> int:  # those of `value`
        """Return a value of floats."""
        return self.value(lambda dtype: dtype.is_float, **options)

    def integral(self, **options: Any) -> int:  # those of `value`
        """Return a value of integers."""
        return self.value(lambda dtype: dtype.is_integer, **options)

    def like(self, number: int, *, certain: bool = False, thin: bool = True) -> int:
        """Return a value of the same dtype that broadcasts with another one."""
        shape, dtype = self.shape(number), self.dtype(number)
        found = [
            n
            for n, (known, _, _) in enumerate(self._values)
            if known.dtype is dtype
            and (known.is_certain or not certain)
            and (known.value.shape == shape or (thin and _stretches(known.value.shape, shape)))
        ]
        if found and self.choices.chance(70):
            return self.choices.pick(found)
        if thin and self.choices.chance(40):
            shape = tuple(1 if self.choices.chance(40) else size for size in shape)
            shape = shape[self.choices.integer(0, len(shape)) :]
        return self.leaf(shape, dtype)

    def axis(self, number: int) -> int:
        """Return an axis of a value, which may count from the end."""
        rank = len(self.shape(number))
        if not rank:
            raise Unfit
        return self.choices.integer(-rank, rank - 1)

    def axes(self, number: int) -> Axes:
        """Return None, an axis, or several of them."""
        rank = len(self.shape(number))
        if not rank or self.choices.chance(25):
            return None
        if self.choices.chance(60):
            return self.axis(number)
        return tuple(axis for axis in range(rank) if self.choices.chance(55)) or (rank - 1,)

    def index(self, shape: Shape, size: int, *, negative: bool = True, unique_along: int | None = None) -> int:
        """Return an input of positions along an axis of a size."""
        if size == 0 and size_of(shape):
            raise Unfit
        usable = [t for t in INTEGERS if t in self.dtypes and t.max >= size and not (negative and t.is_unsigned)]
        if not usable:
            raise Unfit
        dtype = self.choices.pick(usable)
        random = self._random()
        if unique_along is not None:
            count = shape[unique_along]
            if count > size:
                raise Unfit
            places = np.argsort(
                random.random((*shape[:unique_along], size, *shape[unique_along + 1 :])), axis=unique_along
            )
            array = np.take(places, range(count), axis=unique_along)
        else:
            low = -size if negative and not dtype.is_unsigned and self.choices.chance(50) else 0
            array = random.integers(low, max(size, 1), shape)
        return self.leaf(shape, dtype, array.astype(dtype.numpy))


def _stretches(shape: Shape, wanted: Shape) -> bool:
    """Whether a shape broadcasts to another one."""
    return len(shape) <= len(wanted) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(wanted), strict=False)
    )
