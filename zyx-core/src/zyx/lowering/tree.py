"""Find which loops neighbouring statements share.

    v0[r0] = max(r1) of ..      | r0, r1          loop r0:
    v1[r0] = sum(r2) of ..      | r0, r2   =>         loop r1: v0
    p1[..] = ..                 | r0, r3              loop r2: v1
                                                      loop r3: p1

Only ranges of kind LOOP are loops here: unrolled and vector ranges are written out within a statement, group and
local ones are the grid. A statement joins the open loops as far as its own order of loops agrees with them, but stays
out of

* a loop that reduces a value it reads: the value is complete only after it;
* a loop over a range of a value it reads at another point than the current one.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from zyx.lowering.fragments import fragments_of
from zyx.nest import expr as e
from zyx.nest.accesses import below, roots_of
from zyx.nest.data import Compute, Kind, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.nest.data import Nest, Statement


@dataclass(slots=True, eq=False)
class RangeLoop:
    """A loop over `range` around `body`."""

    range: e.Range
    body: list[Item] = field(default_factory=list)


Item: TypeAlias = "RangeLoop | Statement"


@dataclass(slots=True, eq=False)
class Tree:
    """The loops of a nest.

    Attributes:
        body: What is outside all loops.
        paths: The loops around each statement, outermost first.
        definitions: The statement that defines each value.
        uses: For each value, the statements that read it, with every reference.
    """

    body: list[Item]
    paths: dict[Statement, tuple[RangeLoop, ...]]
    definitions: dict[e.Value, Statement]
    uses: dict[e.Value, list[tuple[Statement, e.Ref]]]


@functools.lru_cache(maxsize=4)  # of a schedule that is looked at, several ask, and then no more
def build_tree(nest: Nest) -> Tree:
    """Return the loops of `nest`."""
    tree = Tree([], {}, {}, {})
    open_: list[RangeLoop] = []
    for statement in nest.statements:
        loops = [range_ for range_ in statement.order if nest.kind(range_) is Kind.LOOP]
        shared = 0
        while shared < min(len(open_), len(loops)) and open_[shared].range is loops[shared]:
            shared += 1
        references = [expr for expr in below(*_read_by(nest, statement)) if isinstance(expr, e.Ref)]
        for reference in references:
            shared = min(shared, _shareable(reference, tree, open_))
            tree.uses.setdefault(reference.value, []).append((statement, reference))
        del open_[shared:]
        for range_ in loops[shared:]:
            loop = RangeLoop(range_)
            (open_[-1].body if open_ else tree.body).append(loop)
            open_.append(loop)
        (open_[-1].body if open_ else tree.body).append(statement)
        tree.paths[statement] = tuple(open_)
        if not isinstance(statement, Store):
            tree.definitions[statement.value] = statement
    return tree


def statements_in(loop: RangeLoop) -> Iterator[Statement]:
    """Yield the statements inside a loop."""
    for item in loop.body:
        if isinstance(item, RangeLoop):
            yield from statements_in(item)
        else:
            yield item


def _shareable(reference: e.Ref, tree: Tree, open_: list[RangeLoop]) -> int:
    """Return how many of the open loops a statement with `reference` may join."""
    definition = tree.definitions[reference.value]
    path = tree.paths[definition]
    current = 0
    while current < min(len(open_), len(path)) and open_[current] is path[current]:
        current += 1
    apart = {
        range_
        for range_, index in zip(reference.value.ranges, reference.indices, strict=True)
        if not e.is_current(index, range_)
    }
    if isinstance(definition, Compute):
        apart.update(definition.reduced)
    for depth in range(current):
        if open_[depth].range in apart:
            return depth
    return len(open_)


def _read_by(nest: Nest, statement: Statement) -> Sequence[e.Expr]:
    """Return the expressions of a statement, as the threads compute them."""
    if isinstance(statement, Compute) and statement.matrix is not None:
        return fragments_of(nest.pool, statement)
    return roots_of(statement)
