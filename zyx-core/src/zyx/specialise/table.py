"""What was met of structures with holes: numbers, starts of slices, and sizes that are others from run to run.

    x * 0.1, x * 0.2                    one structure, whose hole was 0.1 at first, and has changed since
    sum of x[20], of x[31]              one structure, whose sizes follow a length: 20 at first, and 31
    step(x[20, 3], 0.1), ...            one structure of the arguments of a call, with holes of both kinds

A structure is anything that can be hashed: that of a graph (`zyx.graph.signature`), of a graph without its sizes
(`zyx.specialise.outline`), or of the arguments of a traced function. There is one table of them, a part of the runtime;
what is compiled lies elsewhere, by keys in which what has not changed stands.

What is to be done about a hole is decided here alone:

* A number that has never changed is a constant, and a part of what is compiled. One that has changed is *given*; but
  not those that somebody looks at, and not the first few values of those that kernels of their own are much faster for.
* Sizes follow lengths, as soon as there are calls of some lengths. A plan for a greatest length then serves all up to
  it (`zyx.specialise.lengths`).
* A length that is run many times in succession, or so often that what it runs takes as long as compiling, has
  *settled*: it gets a plan of its own.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zyx.specialise.follow import Followed, follow

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zyx.specialise.length import Length

#: Structures that are remembered; those go first that were not met for longest.
_MOST: Final = 2048
#: Of each, sets of sizes that nothing is known to follow, and symbolic sizes: those of the same operations on rows
#: of several widths, say. What was met last is remembered.
_MOST_ROWS: Final = 5
_MOST_SYMBOLIC: Final = 16
#: Sets of values that plans of their own are made for, of numbers which are worth it.
_OWN_VALUES: Final = 4
#: Lengths of which the points are counted at a time.
_MOST_COUNTED: Final = 4096
#: Runs at one length in succession, after which it gets a plan of its own.
_SETTLED: Final = 8
#: Points that all runs at one length go over, after which it gets one, too: a core takes as long for them as for
#: compiling it, a few tenths of a second.
WORTH: Final = 1 << 28
_numbers: Final = itertools.count()


@dataclass(slots=True, eq=False)
class SymbolicSizes:
    """How the sizes of a structure follow one length, or two, and at which it was run.

    Attributes:
        followed: How.
        settles: Whether lengths get plans of their own when they are run often.
        number: Of this one, among all.
        refused: The greatest lengths for which there is no plan.
        settled: The lengths that have plans of their own.
        latest: The lengths that were run last.
        in_succession: How often they were.
        points: How many points the runs at each length went over that has no plan of its own.
        made: What plans for it are given, by their greatest lengths and the places of numbers that are given, too.
    """

    followed: Followed
    settles: bool = True
    number: int = field(default_factory=_numbers.__next__)
    refused: set[tuple[int, ...]] = field(default_factory=set)
    settled: set[tuple[int, ...]] = field(default_factory=set)
    latest: tuple[int, ...] = ()
    in_succession: int = 0
    points: dict[tuple[int, ...], int] = field(default_factory=dict)
    made: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Length, ...]] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[Length, ...]:
        """The sizes, as they follow."""
        return self.followed.sizes

    def ran(self, lengths: tuple[int, ...], points: int) -> bool:
        """Note a run over so many points; return whether the lengths have settled."""
        if not self.settles:
            return False
        self.in_succession = self.in_succession + 1 if lengths == self.latest else 1
        self.latest = lengths
        points += self.points.get(lengths, 0)
        if self.in_succession < _SETTLED and points < WORTH:
            if len(self.points) >= _MOST_COUNTED:
                self.points.clear()
            self.points[lengths] = points
            return False
        self.points.pop(lengths, None)
        self.settled.add(lengths)
        return True


@dataclass(slots=True, eq=False)
class Outline:
    """A structure with holes, and what was in them.

    Attributes:
        first: The numbers that it was met with first.
        changed: The places of those that were others since.
        kept: The places of those that are never given: somebody looks at them, or a device refused to be given them.
        better_known: The places of those that plans of their own are worth.
        own: The values of these that have such plans.
        rows: Sets of sizes that it was met with and that followed no lengths then.
        symbolics: How its sizes follow lengths, those met last at the end.
        sized: The places of numbers that vary as sizes do, and are among them, behind the others.
    """

    first: Sequence[Any]
    changed: set[int] = field(default_factory=set)
    kept: frozenset[int] = frozenset()
    better_known: tuple[int, ...] = ()
    own: set[tuple[Any, ...]] = field(default_factory=set)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    symbolics: list[Any] = field(default_factory=list)
    sized: frozenset[int] = frozenset()

    def given(self, numbers: Sequence[Any]) -> tuple[int, ...]:
        """Note the numbers of a run, and return the places of those that it is to be given."""
        changed = {place for place, value in enumerate(numbers) if value != self.first[place]}
        if self.better_known:
            values = tuple([numbers[place] for place in self.better_known])
            if len(self.own) < _OWN_VALUES:
                self.own.add(values)
            if values in self.own:
                changed.difference_update(self.better_known)
        self.changed |= changed
        return tuple(sorted(self.changed - self.kept))

    def sizes(self, sizes: tuple[int, ...], numbers: Sequence[Any]) -> tuple[int, ...]:
        """Return the sizes of a run, and the numbers that are some behind them."""
        return (*sizes, *[int(numbers[place]) for place in sorted(self.sized)]) if self.sized else sizes

    def vary_as_sizes(self, places: frozenset[int]) -> None:
        """Let more numbers be sizes; what was met before says nothing of these."""
        if not places <= self.sized:
            first = self.rows[0][: len(self.rows[0]) - len(self.sized)]
            self.sized |= places
            self.rows, self.symbolics = [self.sizes(first, self.first)], []

    def known_sizes(self, sizes: tuple[int, ...]) -> tuple[Any, tuple[int, ...]] | None:
        """Return the symbolic sizes that these are of, and the lengths at which."""
        for symbolic in self.symbolics:
            lengths = symbolic.followed.lengths_of(sizes)
            if lengths is not None:
                if symbolic is not self.symbolics[-1]:
                    self.symbolics.remove(symbolic)
                    self.symbolics.append(symbolic)
                return symbolic, lengths
        return None

    def add(self, symbolic: SymbolicSizes) -> None:
        """Remember how sizes follow lengths."""
        self.symbolics = [*self.symbolics, symbolic][-_MOST_SYMBOLIC:]

    def symbolic_sizes(
        self,
        sizes: tuple[int, ...],
        most_lengths: int,
        make: Callable[[Followed], SymbolicSizes] = SymbolicSizes,
        *,
        fits: Callable[[Sequence[Length]], bool] = lambda _: True,
    ) -> tuple[Any, tuple[int, ...]] | None:
        """Return how sizes follow lengths, and the lengths that they are of, found out from those of other runs.

        None if nothing is known to give them.

        Args:
            sizes: They.
            most_lengths: How many lengths may vary at once.
            make: Makes new ones.
            fits: Whether sizes may follow so.
        """
        known = self.known_sizes(sizes)
        if known is not None or sizes in self.rows:
            return known
        rows = [*self.rows, sizes]
        self.rows = rows[-_MOST_ROWS:]
        for some in (rows, *([row, sizes] for row in rows[:-1])):
            found = follow(some, most_lengths) if len(some) > 1 else None
            if found is not None and fits(found):
                self.add(make(Followed(found)))
                return self.known_sizes(sizes)
        return None


class Table:
    """The structures that were met. Whoever asks holds the runtime's lock.

    Args:
        all_vary: Whether numbers of graphs are given from the first time on; for tests.
    """

    def __init__(self, *, all_vary: bool = False) -> None:
        self.all_vary: Final = all_vary
        self._outlines: OrderedDict[tuple[Hashable, ...], Outline] = OrderedDict()
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        self._gone: deque[object] = deque()  # what ends in the middle of something else is forgotten later

    def outline(self, kind: tuple[Hashable, ...], numbers: Sequence[Any], owner: object = None) -> tuple[Outline, bool]:
        """Return what is known of a structure, and whether it is met for the first time.

        Args:
            kind: The structure.
            numbers: Those of this run.
            owner: What it is forgotten with, for which `kind` begins with an object that stands for it.
        """
        while self._gone:
            token = self._gone.popleft()
            for known in [known for known in self._outlines if known[0] is token]:
                del self._outlines[known]
        found = self._outlines.get(kind)
        if found is not None:
            self._outlines.move_to_end(kind)
            return found, False
        found = self._outlines[kind] = Outline(numbers)
        if owner is not None and owner not in self._owners:
            self._owners.add(owner)
            weakref.finalize(owner, self.forget, kind[0]).atexit = False
        if len(self._outlines) > _MOST:
            self._outlines.popitem(last=False)
        return found, True

    def clear(self) -> None:
        """Forget all structures."""
        self._outlines.clear()

    def forget(self, token: object) -> None:
        """Forget the structures that begin with an object. May be called anywhere."""
        self._gone.append(token)

    def known(self, kind: tuple[Hashable, ...]) -> Outline | None:
        """Return what is known of a structure, None if it was not met."""
        return self._outlines.get(kind)
