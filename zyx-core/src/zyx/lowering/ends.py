"""Bound loops by dynamic sizes: iterations beyond them have no effect, and are not run.

    for r < 4096:  s += x[r] if n - 1 - r >= 0 else 0           for r < 4096, n:  s += x[r]
    for r < 512:   for j < 8: s += (the same of 8 * r + j)      for r < 512, (n + 7) // 8:  as it was

A sum takes nothing where what is added is 0 for all that is written out, and for all threads, at once; a store does
nothing where its mask fails; and what else is computed is of no use where nothing else is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.lowering.tree import statements_in
from zyx.nest import expr as e
from zyx.nest.accesses import below
from zyx.nest.data import Compute, Store
from zyx.nest.masks import conjunction, tests_of
from zyx.ops import identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zyx.lowering.tree import RangeLoop, Tree
    from zyx.nest.data import Scan, Statement
    from zyx.nest.expr import Expr, Range
    from zyx.nest.pool import Pool


class End(NamedTuple):
    """Where a loop ends.

    Attributes:
        at: The first point that is left out.
        known: Masks that hold at all points in front of it.
    """

    at: Expr
    known: frozenset[Expr]


def end_of(pool: Pool, tree: Tree, loop: RangeLoop, env: Mapping[Range, Expr], inside: int) -> End | None:
    """Return the dynamic end of a loop; None if it may be its last iteration.

    In place of the ranges in `env` stand other values; `inside` are all ranges but those of the grid's groups, and of
    the loops around it, as a bit set.
    """
    return _Ends(pool, tree, loop, env, inside).common([*statements_in(loop)])


class _Ends:
    def __init__(self, pool: Pool, tree: Tree, loop: RangeLoop, env: Mapping[Range, Expr], inside: int) -> None:
        self._pool = pool
        self._tree = tree
        self._along = loop.range
        self._statements = frozenset(statements_in(loop))
        self._env = env
        self._inside = inside

    def common(self, statements: Iterable[Statement]) -> End | None:
        """Return where all statements end, None if one does not, or elsewhere than others."""
        found: End | None = None
        for statement in statements:
            if isinstance(statement, Store) or (isinstance(statement, Compute) and self._along in statement.reduced):
                mine = next((end for test in self._tests(statement) if (end := self._end(test)) is not None), None)
            elif self._is_used_here(statement):
                mine = self.common([user for user, _ in self._tree.uses.get(statement.value, ())])
            else:
                return None
            if mine is None or (found is not None and found.at is not mine.at):
                return None
            found = End(mine.at, mine.known if found is None else mine.known | found.known)
        return found

    def _is_used_here(self, statement: Compute | Scan) -> bool:
        """Whether what is made of a value at a point of the loop is of that point, too."""
        for user, reference in self._tree.uses.get(statement.value, ()):
            indices = dict(zip(reference.value.ranges, reference.indices, strict=True))
            if self._along in indices:
                if not e.is_current(indices[self._along], self._along):
                    return False
            elif user not in self._statements:
                return False
        return True

    def _tests(self, statement: Statement) -> Sequence[Expr]:
        """Return the masks any one of which makes a statement do nothing where it fails."""
        if isinstance(statement, Store):
            mask = self._pool.true if statement.mask is None else statement.mask
            return conjunction(*self._pool.substitute([mask], self._env))
        (expr,) = self._pool.substitute([statement.expr], self._env)
        assert statement.op is not None
        return [*tests_of(expr, identity(statement.op, expr.dtype), self._of_value)]

    def _of_value(self, reference: e.Ref) -> Sequence[Expr]:
        """Return the masks any one of which makes a value be 0 where it fails."""
        definition = self._tree.definitions[reference.value]
        if not isinstance(definition, Compute) or definition.op is not None:
            return ()
        at = dict(zip(reference.value.ranges, reference.indices, strict=True))
        tests = tests_of(definition.expr, definition.expr.dtype.to_scalar(0), self._of_value)
        return self._pool.substitute([*tests], at)

    def _end(self, test: Expr) -> End | None:
        """Return where the loop ends because a test fails from there on, if it compares with a number."""
        pool, along = self._pool, self._along
        if not isinstance(test, e.NonNegative) or not isinstance(test.x, e.Affine):
            return None
        ref = pool.ref(along)
        factor = -sum(times for term, times in test.x.terms if term is ref)
        rest = [(term, times) for term, times in test.x.terms if term is not ref]
        if factor <= 0 or any(term.free & along.bit for term, _ in rest):
            return None
        outside = [(term, times) for term, times in rest if not term.free & self._inside]
        if not any(isinstance(part, e.Number) for term, _ in outside for part in below(term)):
            return None
        within = [(term, times) for term, times in rest if term.free & self._inside]
        most = test.x.constant + sum(max(term.low * times, term.high * times) for term, times in within)
        last = pool.affine(outside, most)
        turns = max(-(last.low // factor), 0)  # which make it a number above 0, of which a quotient is rounded down
        at = pool.shift(pool.divide(pool.shift(last, turns * factor), factor), 1 - turns)
        if at.low >= along.size:
            return None
        return End(at, frozenset([test]) if factor == 1 and not within else frozenset())
