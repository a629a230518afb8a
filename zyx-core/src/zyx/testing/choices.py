"""Where generators take their choices from: a seed, or hypothesis.

A generator that asks a `Choices` can be run thousands of times from seeds, without the cost of hypothesis, and can
be given to hypothesis, which makes a failing case smaller. Small numbers and first options are the simpler choices,
so put simple things first.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol, TypeVar

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

T = TypeVar("T")


class Choices(Protocol):
    """Makes choices."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`, of which there is at least one."""

    def chance(self, percent: int) -> bool:
        """Return True in about `percent` of 100 cases; False is the simpler choice."""


class Seeded:
    """Choices by a seed: the same seed, the same choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self._random.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        return self._random.random() * 100 < percent


class Drawn:
    """Choices by hypothesis, inside a composite strategy."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        return options[self._draw(st.integers(0, len(options) - 1))]

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) >= 100 - percent
