"""Sums of multiples of unknowns: ``constant + sum of factor * atom``, the form in which index arithmetic is compared.

Atoms are numbers that `zyx.kernel.bounds` hands out. The arithmetic is that of unbounded integers.
"""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    """``constant + sum of factor * atom``.

    Attributes:
        terms: Pairs (atom, factor), by atom; no factor is 0.
        constant: What is added.
    """

    terms: tuple[tuple[int, int], ...]
    constant: int

    def __str__(self) -> str:
        return " + ".join([*(f"{factor}*a{atom}" for atom, factor in self.terms), str(self.constant)])


def literal(value: int) -> Form:
    """Return a constant."""
    return Form((), value)


def add(x: Form, y: Form, factor: int = 1) -> Form:
    """Return ``x + factor * y``."""
    if not y.terms:
        return Form(x.terms, x.constant + factor * y.constant)
    factors = dict(x.terms)
    for atom, more in y.terms:
        factors[atom] = factors.get(atom, 0) + factor * more
    return Form(tuple(sorted(item for item in factors.items() if item[1])), x.constant + factor * y.constant)


def scale(x: Form, factor: int) -> Form:
    """Return ``factor * x``."""
    if factor == 0:
        return Form((), 0)
    return Form(tuple((atom, factor * old) for atom, old in x.terms), factor * x.constant)


def shift(x: Form, amount: int) -> Form:
    """Return ``x + amount``."""
    return Form(x.terms, x.constant + amount)
