"""Bounds of sums of unknowns, given ranges of the unknowns and inequalities between them.

An `Inequalities` hands out atoms, the unknowns of `zyx.arithmetic.affine`, each with a range. *Facts* are forms that
are at most 0. A form's bounds are first those of its *box*, in which every atom takes its least or greatest value on
its own. Subtracting a positive multiple of a fact makes no form smaller, and may cancel terms: where ``8*i + j - 999 <=
0`` is known, ``8*i + j`` is at most 999. Products, quotients, remainders, maxima and minima are atoms too, and most
bring facts of their own, such as ``divisor * quotient + remainder - dividend <= 0``.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.arithmetic import affine
from zyx.arithmetic.affine import Form
from zyx.arithmetic.intervals import product

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from zyx.arithmetic.intervals import Range

#: Times that a multiple of a fact is subtracted from a form.
MAX_STEPS: Final = 12


@dataclass(slots=True)
class Savepoint:
    """What was before some facts were added.

    Attributes:
        facts: Number of facts.
        narrowed: Ranges that atoms had.
        is_contradictory: Whether the facts added since cannot hold.
    """

    facts: int
    narrowed: dict[int, Range] = field(default_factory=dict)
    is_contradictory: bool = False


class Inequalities:
    """Atoms, their ranges, and what holds between them."""

    def __init__(self) -> None:
        self._atoms: dict[Hashable, int] = {}
        self._first_ranges: list[Range] = []  # without any facts
        self._ranges: list[Range] = []
        self._relations: dict[int, list[Form]] = {}  # facts that always hold, by the atoms they are useful for
        self._quotients: list[tuple[int, int, Form, int]] = []
        self._dividends: dict[int, tuple[Form, int, Form]] = {}  # and divisors and remainders, by quotients
        #: Constants of dividends, divisors and quotients, by the terms of the dividends.
        self._divisors: dict[tuple[tuple[int, int], ...], list[tuple[int, int, Form]]] = {}
        self._extremes: list[tuple[int, tuple[Form, Form], bool]] = []
        self._products: list[tuple[int, Form, Form]] = []
        self._facts: list[Form] = []
        self._marks: list[Savepoint] = []
        self._maxima: dict[Form, int] = {}  # what `maximum` gave since something changed that it depends on
        self._maxima_before: list[dict[Form, int]] = []  # the same when each mark was made

    # ---- facts

    def mark(self) -> Savepoint:
        """Return the present state, to be given to `release`; facts added until then are forgotten by it."""
        self._marks.append(Savepoint(len(self._facts)))
        self._maxima_before.append(self._maxima)
        return self._marks[-1]

    def release(self) -> None:
        """Forget the facts since the last `mark`."""
        mark = self._marks.pop()
        del self._facts[mark.facts :]
        for atom, range_ in mark.narrowed.items():
            self._ranges[atom] = range_
        self._maxima = self._maxima_before.pop()

    def learn(self, facts: Iterable[Form]) -> None:
        """Take each of `facts` to be at most 0, until the last `mark` is released."""
        for fact in facts:
            if fact not in self._facts:
                self._add(fact)
                self._cut([fact, *self._in_quotients(fact, self._quotients)])
            self._narrow(fact)

    def _cut(self, facts: Iterable[Form]) -> None:
        """Learn what follows from `facts` because all unknowns are integers.

        Of ``4*i + 4*j + k - 387 <= 0`` with k >= 0 follows ``i + j - 96 <= 0``.
        """
        for fact in facts:
            for common in {abs(factor) for _, factor in fact.terms} - {1}:
                divisible = tuple((atom, factor // common) for atom, factor in fact.terms if factor % common == 0)
                rest = Form(tuple(term for term in fact.terms if term[1] % common), fact.constant)
                cut = Form(divisible, -(-self.box(rest)[0] // common))
                if self.box(cut)[1] > 0 and cut not in self._facts:
                    self._add(cut)

    def _add(self, fact: Form) -> None:
        self._facts.append(fact)
        self._maxima = {}

    @staticmethod
    def _in_quotients(fact: Form, quotients: Iterable[tuple[int, int, Form, int]]) -> Iterator[Form]:
        """Yield forms that are at most 0 because `fact` is, with multiples of quotients in the place of dividends."""
        terms = dict(fact.terms)
        for quotient, _, dividend, divisor in quotients:
            (atom, factor), *_ = dividend.terms
            multiple, remainder = divmod(terms.get(atom, 0), factor)
            if multiple and not remainder and all(terms.get(a) == multiple * f for a, f in dividend.terms):
                floor = affine.add(Form(((quotient, divisor),), 0), dividend, -1)  # -divisor < floor <= 0
                known = floor if multiple > 0 else affine.shift(floor, divisor - 1)
                yield affine.add(fact, known, multiple)

    def narrow_quotients(self) -> None:
        """Narrow the ranges of quotients and remainders by what was learned about their dividends, and each other.

        Of ``x // 3`` with x from -2 to 0 it is only known that it is -1 or 0; where ``x % 3`` is 0, it is 0. And the
        dividends by these: where ``x % 3`` is at least 1, an x that is not negative is at least 1, too. Those that
        have nothing to do with what was learned since the last `mark` are left as they are.
        """
        touched = self._touched()
        for quotient, remainder, dividend, divisor in self._quotients:
            concerned = {quotient, remainder, *(atom for atom, _ in dividend.terms)}
            if touched.isdisjoint(concerned):
                continue
            touched |= concerned
            low, high = self.minimum(dividend), self.maximum(dividend)
            least, most = self._ranges[remainder]
            self._intersect(quotient, (-((most - low) // divisor), (high - least) // divisor))
            if low // divisor == high // divisor:
                self._intersect(remainder, (low % divisor, high % divisor))
            exact = affine.add(Form(((quotient, divisor), (remainder, 1)), 0), dividend, -1)
            self._narrow(exact)
            self._narrow(affine.scale(exact, -1))

    def _touched(self) -> set[int]:
        """Return the atoms that were narrowed since the last `mark`, and those that facts relate to them."""
        mark = self._marks[-1]
        touched = {atom for fact in self._facts[mark.facts :] for atom, _ in fact.terms} | mark.narrowed.keys()
        waiting = [{atom for atom, _ in fact.terms} for fact in self._facts[: mark.facts]] if touched else []
        while related := [atoms for atoms in waiting if not touched.isdisjoint(atoms)]:
            touched.update(*related)
            waiting = [atoms for atoms in waiting if atoms not in related]
        return touched

    def narrow_extremes(self) -> None:
        """Narrow the operands of maxima and minima, and learn which of them it is where the other one is ruled out."""
        for atom, operands, is_greatest in reversed(self._extremes):  # outer ones first
            low, high = self._ranges[atom]
            itself = Form(((atom, 1),), 0)
            for one, other in (operands, operands[::-1]):
                above = affine.add(one, itself, -1)
                below = affine.scale(above, -1)
                self._narrow(above if is_greatest else below)
                if low > self.box(other)[1] if is_greatest else high < self.box(other)[0]:
                    self.learn([below if is_greatest else above])

    def narrow_products(self) -> None:
        """Narrow the ranges of products by what was learned about their factors since the last `mark`."""
        touched = self._touched() if self._products else set()
        for atom, x, y in self._products:
            if not touched.isdisjoint(number for number, _ in (*x.terms, *y.terms)):
                self._intersect(atom, product(*((self.minimum(factor), self.maximum(factor)) for factor in (x, y))))

    @property
    def is_contradictory(self) -> bool:
        """Whether the facts cannot all hold."""
        return any(mark.is_contradictory for mark in self._marks)

    def _narrow(self, fact: Form) -> None:
        """Narrow the range of each atom of a form that is at most 0."""
        least = self.box(fact)[0]
        if least > 0:
            self._marks[-1].is_contradictory = True
            return
        for atom, factor in fact.terms:
            low, high = self._ranges[atom]
            rest = least - factor * (low if factor > 0 else high)
            if factor > 0:
                self._intersect(atom, (low, -rest // factor))
            else:
                self._intersect(atom, (-(-rest // -factor), high))

    def _intersect(self, atom: int, range_: Range) -> None:
        before = self._ranges[atom]
        narrowed = max(before[0], range_[0]), min(before[1], range_[1])
        if narrowed[0] > narrowed[1]:
            self._marks[-1].is_contradictory = True
        elif narrowed != before:
            self._marks[-1].narrowed.setdefault(atom, before)
            self._ranges[atom] = narrowed
            self._maxima = {}

    # ---- bounds of forms

    def box(self, form: Form) -> Range:
        """Return the bounds of a form, from the ranges of its atoms alone."""
        return self._box(form, self._ranges)

    @staticmethod
    def _box(form: Form, ranges: list[Range]) -> Range:
        low = high = form.constant
        for atom, factor in form.terms:
            least, most = ranges[atom]
            if factor > 0:
                low += factor * least
                high += factor * most
            else:
                low += factor * most
                high += factor * least
        return low, high

    def maximum(self, form: Form) -> int:
        """Return a number that a form does not exceed, using facts."""
        best = self._maxima.get(form)
        if best is None:
            best = self._maxima[form] = self._maximum(form) if form.terms else form.constant
        return best

    def _maximum(self, form: Form) -> int:
        best, ranges = self.box(form)[1], self._ranges
        seen = {(frozenset(form.terms), form.constant)}
        # First come those that no step to them made greater; a step that does, or gains nothing, may lead to a gain.
        waiting = [(0, best, len(form.terms), 0, dict(form.terms), form.constant)]
        for _ in range(MAX_STEPS):
            if not waiting:
                break
            losses, bound, _, _, factors, constant = heapq.heappop(waiting)
            for fact, multiple in self._cancelling(factors):
                # All that follows is affine.add(form, fact, -multiple) and its box, for here is where the time goes.
                terms = factors.copy()
                for atom, factor in fact.terms:
                    left = terms.get(atom, 0) - multiple * factor
                    if left:
                        terms[atom] = left
                    else:
                        del terms[atom]
                rest = constant - multiple * fact.constant
                candidate = frozenset(terms.items()), rest
                if candidate not in seen:
                    seen.add(candidate)
                    high = rest
                    for atom, factor in terms.items():
                        high += factor * ranges[atom][factor > 0]
                    best = min(best, high)
                    item = losses + (high > bound), high, len(terms), len(seen), terms, rest
                    heapq.heappush(waiting, item)
        return best

    def _cancelling(self, factors: dict[int, int]) -> Iterator[tuple[Form, int]]:
        """Yield facts, each with a positive multiple of it that has a term of a form, given as factors by atom."""
        facts = {id(fact): fact for fact in self._facts}
        for atom in sorted(factors):
            facts |= {id(fact): fact for fact in self._relations.get(atom, ())}
        for fact in facts.values():
            multiples: list[int] = []
            for atom, factor in fact.terms:
                mine = factors.get(atom)
                if mine is not None and mine % factor == 0:
                    multiple = mine // factor
                    if multiple > 0 and multiple not in multiples:
                        multiples.append(multiple)
                        yield fact, multiple

    def minimum(self, form: Form) -> int:
        """Return a number that a form is not less than, using facts."""
        return -self.maximum(affine.scale(form, -1))

    def _relate_atoms(self, atoms: Iterable[int], facts: list[Form]) -> None:
        """Take each of `facts` to be at most 0 from now on, and useful for `atoms`."""
        for atom in atoms:
            self._relations.setdefault(atom, []).extend(facts)
        self._maxima, self._maxima_before = {}, [{} for _ in self._maxima_before]

    # ---- atoms

    def atom(self, key: Hashable, first: Range, now: Range | None = None) -> Form:
        """Return the atom of a key; `first` is its range without, `now` with the present assumptions."""
        number = self._atoms.get(key)
        if number is None:
            number = self._atoms[key] = len(self._ranges)
            self._first_ranges.append(first)
            self._ranges.append(first)
            if now is not None and self._marks:
                self._intersect(number, now)
        return Form(((number, 1),), 0)

    def quotient_and_remainder(self, dividend: Form, divisor: int) -> tuple[Form, Form]:
        """Return the forms of ``dividend // divisor``, rounded down, and of what remains."""
        whole = Form(
            tuple((a, f // divisor) for a, f in dividend.terms if f % divisor == 0), dividend.constant // divisor
        )
        rest = Form(tuple(term for term in dividend.terms if term[1] % divisor), dividend.constant % divisor)
        low, high = self.minimum(rest), self.maximum(rest)
        if low // divisor == high // divisor:
            return affine.shift(whole, low // divisor), affine.shift(rest, -(low // divisor) * divisor)
        common = math.gcd(divisor, *(factor for _, factor in rest.terms))
        if common > 1:
            reduced = Form(tuple((atom, factor // common) for atom, factor in rest.terms), rest.constant // common)
            quotient, remainder = self.quotient_and_remainder(reduced, divisor // common)
            return affine.add(whole, quotient), affine.shift(affine.scale(remainder, common), rest.constant % common)
        quotient, remainder = self._divided(rest, divisor)
        return affine.add(whole, quotient), remainder

    def _divided(self, dividend: Form, divisor: int) -> tuple[Form, Form]:
        """Return the atoms of a quotient and a remainder, with the facts that define them."""
        is_new = (dividend, divisor) not in self._atoms
        low, high = self.minimum(dividend), self.maximum(dividend)
        first_low, first_high = self._box(dividend, self._first_ranges)
        first = first_low // divisor, first_high // divisor
        quotient = self.atom((dividend, divisor), first, (low // divisor, high // divisor))
        remainder = self.atom((dividend, divisor, "remainder"), (0, divisor - 1))
        if is_new:
            (q, _), (r, _) = quotient.terms[0], remainder.terms[0]
            self._quotients.append((q, r, dividend, divisor))
            floor = affine.add(affine.scale(quotient, divisor), dividend, -1)  # -divisor < floor <= 0
            above = affine.shift(affine.scale(floor, -1), 1 - divisor)
            exact = affine.add(floor, remainder)
            both = [exact, affine.scale(exact, -1)]
            self._relate_atoms([q], [*both, floor, above])
            self._relate_atoms([r], both)
            self._relate_atoms([atom for atom, _ in dividend.terms], [floor, above, *both])
            for fact in self._facts.copy():
                self._cut(self._in_quotients(fact, self._quotients[-1:]))
            self._divided_again(quotient, remainder, dividend, divisor)
            self._dividends[q] = dividend, divisor, remainder
            self._divide_on(dividend, divisor, quotient)
        return quotient, remainder

    def _divided_again(self, quotient: Form, remainder: Form, dividend: Form, divisor: int) -> None:
        """Say what is the quotient, and the remainder, of a quotient.

        ``(x // 3 + 1) // 5`` is ``(x + 3) // 15``, and ``(x + 3) % 15`` is ``(x // 3 + 1) % 5 * 3 + x % 3``.
        """
        if len(dividend.terms) != 1 or dividend.terms[0][1] != 1 or dividend.terms[0][0] not in self._dividends:
            return
        inner, first, rest = self._dividends[dividend.terms[0][0]]
        whole = self.quotient_and_remainder(affine.shift(inner, first * dividend.constant), first * divisor)
        in_two = quotient, affine.add(rest, remainder, first)
        for one, other in zip(whole, in_two, strict=True):
            same = affine.add(one, other, -1)
            self._relate_atoms([atom for atom, _ in same.terms], [same, affine.scale(same, -1)])

    def _divide_on(self, dividend: Form, divisor: int, quotient: Form) -> None:
        """Relate quotients of one dividend: ``x // 24`` is ``x // 6 // 4``, so ``x // 6 % 16`` has to do with it."""
        known = self._divisors.setdefault(dividend.terms, [])
        own = (dividend.constant, divisor, quotient)
        for other in known.copy():
            self._relate(own, other)
            self._relate(other, own)
        known.append(own)
        if len(dividend.terms) == 1 and dividend.terms[0][1] == 1 and dividend.terms[0][0] in self._dividends:
            inner, first, _ = self._dividends[dividend.terms[0][0]]
            fine = (inner.constant, first, affine.shift(dividend, -dividend.constant))
            for other in self._divisors[inner.terms].copy():
                self._relate(fine, other)

    def _relate(self, fine: tuple[int, int, Form], coarse: tuple[int, int, Form]) -> None:
        """Say what remainders of one quotient have to do with those of another, of the same terms.

        Of ``q`` = ``x // 6`` and ``p`` = ``(x + 6) // 24``, which is ``(q + 1) // 4``: ``(q + 5) % 16`` is
        ``(p + 1) % 4 * 4 + (q + 5) % 4``. Both are given as the constant of the dividend, the divisor, the quotient.
        """
        (fine_constant, fine_divisor, q), (coarse_constant, coarse_divisor, p) = fine, coarse
        moved = coarse_constant - fine_constant
        if coarse_divisor % fine_divisor or coarse_divisor == fine_divisor or moved % fine_divisor:
            return
        ratio, moved = coarse_divisor // fine_divisor, moved // fine_divisor
        for _, remainder, dividend, divisor in self._quotients.copy():
            apart = dividend.constant - moved
            if dividend.terms == q.terms and divisor > ratio and divisor % ratio == 0 and apart % ratio == 0:
                _, high = self.quotient_and_remainder(affine.shift(p, apart // ratio), divisor // ratio)
                _, low = self.quotient_and_remainder(dividend, ratio)
                same = affine.add(affine.add(Form(((remainder, 1),), 0), high, -ratio), low, -1)
                self._relate_atoms([atom for atom, _ in same.terms], [same, affine.scale(same, -1)])

    def product(self, x: Form, y: Form) -> Form:
        """Return the atom of a product of two forms, neither of which is a constant."""
        key = "product", frozenset((x, y))
        is_new = key not in self._atoms
        first, now = (product(self._box(x, r), self._box(y, r)) for r in (self._first_ranges, self._ranges))
        form = self.atom(key, first, now)
        if is_new:
            self._products.append((form.terms[0][0], x, y))
        return form

    def extreme(self, x: Form, y: Form, *, greatest: bool) -> Form:
        """Return the atom of a maximum or minimum."""
        is_new = (greatest, x, y) not in self._atoms
        choose = max if greatest else min
        now, first = (
            (choose(x_low, y_low), choose(x_high, y_high))
            for ranges in (self._ranges, self._first_ranges)
            for (x_low, x_high), (y_low, y_high) in [(self._box(x, ranges), self._box(y, ranges))]
        )
        form = self.atom((greatest, x, y), first, now)
        if is_new:
            sign = -1 if greatest else 1
            self._extremes.append((form.terms[0][0], (x, y), greatest))
            relations = [affine.scale(affine.add(form, operand, -1), sign) for operand in (x, y)]
            self._relate_atoms([atom for atom, _ in (*form.terms, *x.terms, *y.terms)], relations)
        return form
