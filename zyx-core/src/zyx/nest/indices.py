"""Make expressions of indices, simplified, equal ones once."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.nest import expr as e
from zyx.nest.expr import INDEX, Expr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.dtype import DType, Scalar


_SERIAL: Final = operator.attrgetter("serial")


class Indices:
    """The ranges of one nest, what is computed of them, and literals. What is equal is one expression."""

    def __init__(self) -> None:
        self._table: dict[object, Expr] = {}
        self._literals: dict[int, Expr] = {}
        self._ranges = 0
        self._values = 0
        self.true = self.literal(True, dtypes.bool_)
        self.false = self.literal(False, dtypes.bool_)

    def _intern(self, key: object, new: Expr, children: tuple[Expr, ...] = (), low: int = 0, high: int = 0) -> Expr:
        new.children, new.low, new.high, new.serial = children, low, high, len(self._table)
        self._table[key] = new
        return new

    # ---- names

    def range(self, size: int, label: str | None = None) -> e.Range:
        """Return a new range, labelled by its number unless said otherwise."""
        self._ranges += 1
        number = self._ranges - 1
        return e.Range(number, size, f"r{number}" if label is None else label)

    def value(self, dtype: DType, ranges: tuple[e.Range, ...]) -> e.Value:
        """Return a new value, to be defined by a statement."""
        self._values += 1
        return e.Value(self._values - 1, dtype, ranges)

    # ---- index arithmetic

    def literal(self, value: Scalar, dtype: DType) -> Expr:
        """Return a constant of a data type."""
        key = (e.Literal, value.hex() if isinstance(value, float) else value, dtype.name)
        return self._table.get(key) or self._intern(key, e.Literal(dtype, 0, value))

    def index(self, value: int) -> Expr:
        """Return a constant index."""
        found = self._literals.get(value)
        if found is None:
            key = (e.Literal, value, INDEX.name)
            found = self._literals[value] = self._intern(key, e.Literal(INDEX, 0, value), (), value, value)
        return found

    def ref(self, range_: e.Range) -> Expr:
        """Return the value of a range; a range of size 1 is always 0."""
        if range_.size == 1:
            return self.index(0)
        key = (e.RangeRef, range_)
        return self._table.get(key) or self._intern(key, e.RangeRef(INDEX, range_.bit, range_), (), 0, range_.size - 1)

    def affine(self, terms: Iterable[tuple[Expr, int]], constant: int = 0) -> Expr:
        """Return ``constant + sum of factor * term`` for any index terms."""
        factors: dict[Expr, int] = {}
        for term, factor in terms:
            if isinstance(term, e.Affine):
                constant += term.constant * factor
                for inner, inner_factor in term.terms:
                    factors[inner] = factors.get(inner, 0) + inner_factor * factor
            elif isinstance(term, e.Literal):
                constant += int(term.value) * factor
            else:
                factors[term] = factors.get(term, 0) + factor
        if e.Remainder in set(map(type, factors)):
            constant += self._recombine(factors)
        children = tuple(sorted([term for term, factor in factors.items() if factor], key=_SERIAL))
        if not children:
            return self.index(constant)
        items = [(term, factors[term]) for term in children]
        if len(items) == 1 and items[0][1] == 1 and constant == 0:
            return items[0][0]
        key = (e.Affine, tuple(items), constant)
        found = self._table.get(key)
        if found is not None:
            return found
        low = high = constant
        free = 0
        for term, factor in items:
            free |= term.free
            low += factor * (term.low if factor > 0 else term.high)
            high += factor * (term.high if factor > 0 else term.low)
        return self._intern(key, e.Affine(INDEX, free, tuple(items), constant), children, low, high)

    def _recombine(self, factors: dict[Expr, int]) -> int:
        """Undo divisions in place and return the constant that this brings to light.

        ``c*k*(x // c) + k*(x % c)`` is ``k*x``, and ``a*k*((x // a) % b) + k*(x % a)`` is ``k*(x % (a*b))``.
        """
        constant = 0
        pending = [term for term, factor in factors.items() if factor and isinstance(term, e.Remainder)]
        while pending:
            low = pending.pop()
            factor = factors.get(low, 0)
            if not factor or not isinstance(low, e.Remainder):
                continue
            quotient = self.divide(low.x, low.divisor)
            scale = factor * low.divisor
            whole: Expr | None = None
            if factors.get(quotient, 0) == scale:
                del factors[quotient]
                whole = low.x
            else:
                for high, high_factor in factors.items():
                    if high_factor == scale and isinstance(high, e.Remainder) and high.x is quotient:
                        del factors[high]
                        whole = self.modulo(low.x, low.divisor * high.divisor)
                        break
            if whole is None:
                continue
            del factors[low]
            if isinstance(whole, e.Affine):
                constant += whole.constant * factor
            for term, inner in whole.terms if isinstance(whole, e.Affine) else ((whole, 1),):
                factors[term] = factors.get(term, 0) + inner * factor
                if isinstance(term, e.Remainder):
                    pending.append(term)
        return constant

    def add(self, x: Expr, y: Expr) -> Expr:
        """Return the sum of two indices."""
        return self.affine(((x, 1), (y, 1)))

    def scale(self, x: Expr, factor: int) -> Expr:
        """Return ``x * factor``."""
        return self.affine(((x, factor),))

    def shift(self, x: Expr, constant: int) -> Expr:
        """Return ``x + constant``."""
        return self.affine(((x, 1),), constant) if constant else x

    def divide(self, x: Expr, divisor: int) -> Expr:
        """Return ``x // divisor``, rounded down."""
        if divisor == 1:
            return x
        if x.low // divisor == x.high // divisor:
            return self.index(x.low // divisor)
        whole, rest = self._separate(x, divisor)
        if whole:
            return self.affine([*whole, (self.divide(rest, divisor), 1)])
        coarse = self._coarsen(rest, divisor)
        if coarse is not None:
            return self.divide(coarse[1], divisor // coarse[0])
        if isinstance(rest, e.Quotient):
            return self.divide(rest.x, rest.divisor * divisor)
        if isinstance(rest, e.Remainder) and rest.divisor % divisor == 0:
            return self.modulo(self.divide(rest.x, divisor), rest.divisor // divisor)
        key = (e.Quotient, rest, divisor)
        return self._table.get(key) or self._intern(
            key, e.Quotient(INDEX, rest.free, rest, divisor), (rest,), rest.low // divisor, rest.high // divisor
        )

    def modulo(self, x: Expr, divisor: int) -> Expr:
        """Return ``x % divisor``, not negative."""
        if divisor == 1:
            return self.index(0)
        if x.low // divisor == x.high // divisor:
            return self.shift(x, -(x.low // divisor) * divisor)
        _, rest = self._separate(x, divisor)
        if rest is not x:
            return self.modulo(rest, divisor)
        coarse = self._coarsen(rest, divisor)
        if coarse is not None:
            unit, inner, small = coarse
            return self.affine(((self.modulo(inner, divisor // unit), unit), (small, 1)))
        if isinstance(rest, e.Remainder) and rest.divisor % divisor == 0:
            return self.modulo(rest.x, divisor)
        key = (e.Remainder, rest, divisor)
        return self._table.get(key) or self._intern(
            key, e.Remainder(INDEX, rest.free, rest, divisor), (rest,), 0, divisor - 1
        )

    def within(self, x: Expr, size: int) -> Expr:
        """Return `x` as an index of which 0 <= x < `size` is known wherever it is used, masked as such uses are."""
        if x.low >= 0 and x.high < size:
            return x
        key = (e.Within, x, size)
        return self._table.get(key) or self._intern(key, e.Within(INDEX, x.free, x), (x,), 0, size - 1)

    def _coarsen(self, x: Expr, divisor: int) -> tuple[int, Expr, Expr] | None:
        """Return (unit, inner, small): ``x == unit * inner + small``, 0 <= small < unit, unit > 1 divides `divisor`."""
        if not isinstance(x, e.Affine):
            return None
        for unit in sorted({math.gcd(divisor, factor) for _, factor in x.terms} - {1}, reverse=True):
            small = self.affine([(term, factor) for term, factor in x.terms if factor % unit], x.constant % unit)
            if small.low >= 0 and small.high < unit:
                return (
                    unit,
                    self.affine(
                        [(term, factor // unit) for term, factor in x.terms if factor % unit == 0], x.constant // unit
                    ),
                    small,
                )
        return None

    def _separate(self, x: Expr, divisor: int) -> tuple[list[tuple[Expr, int]], Expr]:
        """Return (terms of the multiple of `divisor` in x, divided by it; the rest, with the least constant that does).

        The rest is not negative: devices round quotients toward zero, not down.
        """
        if not isinstance(x, e.Affine):
            return [], x
        whole = [(term, factor // divisor) for term, factor in x.terms if factor % divisor == 0]
        carry = x.constant // divisor
        rest = self.affine([(term, factor) for term, factor in x.terms if factor % divisor], x.constant % divisor)
        if rest.low < 0:
            lift = -(rest.low // divisor)
            rest = self.shift(rest, lift * divisor)
            carry -= lift
        if not whole and not carry:
            return [], x
        if carry:
            whole.append((self.index(carry), 1))
        return whole, rest

    def flatten(self, indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
        """Return the row-major position of the point `indices` in `shape`."""
        if len(indices) == 1:  # as most runs of axes are that are reshaped
            return indices[0]
        terms = []
        step = 1
        for index, size in zip(reversed(indices), reversed(shape), strict=True):
            terms.append((index, step))
            step *= size
        return self.affine(terms)

    def unflatten(self, position: Expr, shape: Sequence[int]) -> tuple[Expr, ...]:
        """Return the point of `shape` at a row-major position."""
        result = []
        for size in reversed(shape[1:]):
            result.append(self.modulo(position, size))
            position = self.divide(position, size)
        if shape:
            result.append(position)
        return tuple(reversed(result))

    # ---- tests

    def non_negative(self, x: Expr) -> Expr:
        """Return whether the index `x` is >= 0."""
        if x.low >= 0:
            return self.true
        if x.high < 0:
            return self.false
        if isinstance(x, e.Affine):  # in units of the factors' common divisor
            common = math.gcd(*(factor for _, factor in x.terms))
            if common > 1:
                return self.non_negative(
                    self.affine([(term, factor // common) for term, factor in x.terms], x.constant // common)
                )
            coarser = self._in_larger_units(x)
            if coarser is not None:
                return self.non_negative(coarser)
        key = (e.NonNegative, x)
        return self._table.get(key) or self._intern(key, e.NonNegative(dtypes.bool_, x.free, x), (x,))

    def _in_larger_units(self, x: e.Affine) -> Expr | None:
        """Return what is >= 0 where `x` is, without terms that decide nothing, if there are such.

        So ``-4 * i - j + 99``, j < 4, is as ``-i + 24``: it is 4 times that and 3 - j, which is 0 to 3.
        """
        terms = sorted(x.terms, key=lambda item: -abs(item[1]))
        unit = 0
        for count in range(1, len(terms)):
            unit = math.gcd(unit, terms[count - 1][1])
            if unit == 1:
                return None
            ends = [(factor * term.low, factor * term.high) for term, factor in terms[count:]]
            low = x.constant + sum(min(both) for both in ends)
            high = x.constant + sum(max(both) for both in ends)
            if low // unit == high // unit:
                return self.affine([(term, factor // unit) for term, factor in terms[:count]], low // unit)
        return None

    def is_zero(self, x: Expr) -> Expr:
        """Return whether the index `x` is 0."""
        if x.low > 0 or x.high < 0:
            return self.false
        if x.low == x.high == 0:
            return self.true
        key = (e.IsZero, x)
        return self._table.get(key) or self._intern(key, e.IsZero(dtypes.bool_, x.free, x), (x,))

    def less(self, x: Expr, limit: int) -> Expr:
        """Return whether the index `x` is below a constant."""
        return self.non_negative(self.affine(((x, -1),), limit - 1))

    def opaque(self, free: int, size: int) -> Expr:
        """Return an index of which nothing is known but the ranges it depends on, and that it is below `size`.

        It stands for an index read from memory while a kernel is planned; it cannot be computed.
        """
        key = (e.Opaque, free, size, len(self._table))
        return self._intern(key, e.Opaque(INDEX, free), (), 0, size - 1)
