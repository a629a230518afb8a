"""Sizes as polynomials in the lengths that a graph is run at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The numbers of the lengths that are multiplied with each other, in order: () of none.
Product: TypeAlias = tuple[int, ...]


class Length:
    """A dynamic size: a polynomial in the lengths that a graph is run at; mostly in one, n.

    Length(2, 3)                        2 * n + 3
    Length.of({(0, 1): 4, (): -1})      4 * n * m - 1

    Attributes:
        terms: The coefficients, but for those that are 0.
        varies: Whether it is another size at other lengths.
    """

    __slots__ = ("terms", "varies")

    def __init__(self, factor: int, offset: int) -> None:
        self._set({(0,): factor, (): offset})

    @classmethod
    def of(cls, terms: Mapping[Product, int]) -> Self:
        """Return the size of these coefficients."""
        made = cls.__new__(cls)
        made._set(terms)
        return made

    def _set(self, terms: Mapping[Product, int]) -> None:
        self.terms = {product: term for product, term in terms.items() if term}
        self.varies = any(self.terms)

    def at(self, *lengths: int) -> int:
        """Return it for some lengths."""
        value = 0
        for product, term in self.terms.items():
            for number in product:
                term *= lengths[number]
            value += term
        return value

    @property
    def shrinks(self) -> bool:
        """Whether it may be less where lengths are greater."""
        return any(term < 0 for product, term in self.terms.items() if product)

    def __add__(self, other: Length) -> Length:
        terms = dict(self.terms)
        for product, term in other.terms.items():
            terms[product] = terms.get(product, 0) + term
        return Length.of(terms)

    def __neg__(self) -> Length:
        return Length.of({product: -term for product, term in self.terms.items()})

    def __mul__(self, other: Length) -> Length:
        terms: dict[Product, int] = {}
        for left, mine in self.terms.items():
            for right, theirs in other.terms.items():
                product = tuple(sorted((*left, *right)))
                terms[product] = terms.get(product, 0) + mine * theirs
        return Length.of(terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Length) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return f"Length.of({self.terms})"
