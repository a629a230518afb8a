"""How the sizes of several calls follow one length, or two.

x[20, 3], y[20]     and x[31, 3], y[31]                     x[n, 3], y[n]
x[8, 20], y[8]      and x[8, 31], y[8], and x[4, 20], y[4]  x[m, n], y[m]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.specialise.length import Length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.specialise.length import Product


class Followed:
    """Sizes that follow lengths, each one of these.

    Attributes:
        sizes: They.
    """

    __slots__ = ("_places", "_terms", "sizes")

    def __init__(self, sizes: tuple[Length, ...]) -> None:
        self.sizes = sizes
        # The length, its factor and what is added, of each size; of those that follow none, the one behind the others.
        count = len({product for size in sizes for product in size.terms if product})
        self._terms: list[tuple[int, int, int]] = []
        for size in sizes:
            (number,), factor = next(((p, term) for p, term in size.terms.items() if p), ((count,), 0))
            self._terms.append((number, factor, size.terms.get((), 0)))
        self._places = []
        for i in range(count):
            places = (j for j, term in enumerate(self._terms) if term[0] == i)
            place = min(places, key=lambda j: abs(self._terms[j][1]))
            self._places.append((place, *self._terms[place][1:]))

    def lengths_of(self, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the lengths that give these sizes, None if there are none."""
        lengths = [(sizes[place] - offset) // factor for place, factor, offset in self._places]
        lengths.append(0)
        for size, (number, factor, offset) in zip(sizes, self._terms, strict=True):
            if lengths[number] * factor + offset != size:
                return None
        return tuple(lengths[:-1])


def follow(rows: Sequence[tuple[int, ...]], most_lengths: int) -> tuple[Length, ...] | None:
    """Return how the sizes of several calls follow one length, or some at most; None if they do not.

    One length is the first size of those that vary least, and all others follow it. If there are more, each size is
    one of them and a number.
    """
    found = _follow_one(rows[0], rows[-1])
    if found is not None:
        followed = Followed(found)
        if all(followed.lengths_of(row) is not None for row in rows[1:-1]):
            return found
    if most_lengths == 1:
        return None
    changes = [tuple([size - sizes[0] for size in sizes]) for sizes in zip(*rows, strict=True)]
    kinds = [*dict.fromkeys(change for change in changes if any(change))]
    if not 0 < len(kinds) <= most_lengths:
        return None
    lengths: list[Length] = []
    for change, size in zip(changes, rows[0], strict=True):
        if not any(change):
            lengths.append(Length(0, size))
        else:  # that of the first size of its kind, and how much there is more of this one
            lengths.append(Length.of({(kinds.index(change),): 1, (): size - rows[0][changes.index(change)]}))
    return tuple(lengths)


def _follow_one(first: Sequence[int], second: Sequence[int]) -> tuple[Length, ...] | None:
    """Return two sets of sizes as lengths that give both, if one n varies and all others follow it."""
    changes = [b - a for a, b in zip(first, second, strict=True)]
    step = min((change for change in changes if change), key=abs, default=0)
    if not step or any(change % step for change in changes):
        return None
    at = changes.index(step)
    return tuple(
        [Length(change // step, size - change // step * first[at]) for size, change in zip(first, changes, strict=True)]
    )


def in_steps(sizes: Sequence[Length], steps: Sequence[int], rests: Sequence[int]) -> tuple[Length, ...]:
    """Return how sizes follow the number of steps in lengths that are some of these and a rest.

    x[n] for n = 8 * m + 4      x[8 * m + 4], and its half is 4 * m + 2
    """
    found = []
    for size in sizes:
        terms: dict[Product, int] = {(): size.terms.get((), 0)}
        for product, factor in size.terms.items():
            if product:
                (number,) = product
                terms[product] = factor * steps[number]
                terms[()] += factor * rests[number]
        found.append(Length.of(terms))
    return tuple(found)
