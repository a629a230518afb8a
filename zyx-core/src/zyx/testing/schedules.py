"""Random schedules: any sequence of moves that apply leaves a nest's values as they were.

    moves = random_moves(choices, nest)         those that applied, in order, and the nest after them
    run_lowered([nest], buffers)                lowered, verified, run by the interpreter of kernels, which sees races

A move that does not apply, and kinds of ranges that do not go together, raise `ScheduleError` and nothing else.

Rule 13 of the verifier, that accesses are proved to lie inside of their arrays, is the one that a right kernel may
break: after many moves the proof may be out of reach. Such kernels are counted, and run by the interpreter, which looks
at every access; they are not given to devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError, VerifyError
from zyx.kernel.verify import verify
from zyx.lowering.fragments import factors_of
from zyx.lowering.lower import lower_together
from zyx.nest.accesses import combined_ranges
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.nest.run import run_nest
from zyx.ops import ReduceOp
from zyx.schedule.moves import (
    Apart,
    Behind,
    GroupReduce,
    Inline,
    Mark,
    Merge,
    Nested,
    Pad,
    Peel,
    Reorder,
    Split,
    Stage,
    Stream,
    SwapReduce,
    TensorCore,
)
from zyx.schedule.moves.ranges import find_range, statement_labels
from zyx.testing.races import run_without_races

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Param, Range
    from zyx.schedule.moves import Move
    from zyx.testing.choices import Choices
    from zyx.testing.values import Array

#: Nests that would be written out to more than so many points are not lowered: that takes long and finds nothing new.
MOST_WRITTEN_OUT: Final = 256
_FACTORS: Final = (2, 4, 3, 8, 5, 16, 1, 7, 13)
_SUBGROUPS: Final = (4, 2, 8, 32)
_KINDS: Final = (Kind.LOOP, Kind.UNROLL, Kind.VECTOR, Kind.GROUP, Kind.LOCAL, Kind.REPEAT)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A nest after some moves.

    Attributes:
        nest: The nest.
        moves: Those that applied.
        refused: How many did not.
    """

    nest: Nest
    moves: tuple[Move, ...]
    refused: int = 0

    def __str__(self) -> str:
        return "\n".join([*map(str, self.moves), str(self.nest)])


def random_schedule(choices: Choices, nest: Nest, most_moves: int = 8) -> Schedule:
    """Return `nest` after up to `most_moves` random moves."""
    moves: list[Move] = []
    refused = 0
    for _ in range(choices.integer(0, most_moves)):
        for move in random_move(choices, nest):
            try:
                nest = move.apply(nest)
            except ScheduleError:
                refused += 1
            else:
                moves.append(move)
    return Schedule(nest, tuple(moves), refused)


def random_move(choices: Choices, nest: Nest) -> list[Move]:
    """Return a move that may or may not apply to `nest`, or a few that go together."""
    ranges = nest.ranges
    label = choices.pick(list(statement_labels(nest).values()))
    if not ranges:
        return [Stream(label)]
    products = [name for statement, name in statement_labels(nest).items() if _is_product(nest, statement)]
    if products and choices.chance(30):
        return _multiply(choices, nest, choices.pick(products))
    combined = [range_.label for statement in nest.statements for range_ in combined_ranges(statement)]
    if combined and choices.chance(20):
        return _combine_by_swaps(choices, choices.pick(combined))
    range_ = choices.pick(ranges).label
    match choices.integer(0, 13):
        case 0 | 1:
            return [Split(range_, choices.pick(_FACTORS))]
        case 2 | 3:
            return [Mark(range_, choices.pick(_KINDS))]
        case 4:
            return _vectorise(choices, range_)
        case 5:
            return [Peel(range_)]
        case 6:
            return [_reorder(choices, nest, label)]
        case 7:
            return [Pad(range_, choices.pick(_FACTORS))]
        case 8:
            return _merge(choices, nest, label)
        case 9:
            return [_nested(choices, nest)]
        case 10:
            return [_stage(choices, nest, label)]
        case 11:
            return [GroupReduce(range_, choices.pick(_FACTORS))]
        case 12:
            return [_apart(choices, nest, range_)]
        case _:
            values = [name for statement, name in statement_labels(nest).items() if isinstance(statement, Compute)]
            return [Inline(choices.pick(values)) if values and choices.chance(50) else Stream(label)]


def _apart(choices: Choices, nest: Nest, range_: str) -> Move:
    """Give some statements a range of their own, mostly ones that have that range."""
    labels = [
        name
        for statement, name in statement_labels(nest).items()
        if choices.chance(10) or any(r.label == range_ for r in statement.order)
    ]
    chosen = [name for name in labels if choices.chance(50)]
    return Apart(range_, tuple(chosen or labels[-1:]))


def _vectorise(choices: Choices, range_: str) -> list[Move]:
    """Split a range and vectorise its inner part, as good schedules do."""
    moves: list[Move] = [Split(range_, choices.pick((4, 8, 2, 16)))]
    if choices.chance(50):
        moves.append(Peel(f"{range_}.0"))
    return [*moves, Mark(f"{range_}.1", Kind.VECTOR)]


def _combine_by_swaps(choices: Choices, range_: str) -> list[Move]:
    """Let threads reduce or scan together over a range, and those that run in step swap what they have."""
    return [
        GroupReduce(range_, choices.pick((4, 8, 2, 12, 16, 32))),
        SwapReduce(f"{range_}.1", choices.pick(_SUBGROUPS)),
    ]


def _is_product(nest: Nest, statement: Statement) -> bool:
    """Whether a statement sums up products that warps might compute."""
    if not isinstance(statement, Compute) or statement.op is not ReduceOp.SUM or statement.matrix is not None:
        return False
    try:
        x, _ = factors_of(nest.pool, statement)
    except ScheduleError:
        return False
    if x.dtype.bits != 16:  # of float32 only some bits take part, which changes values
        return False
    return len(statement.value.ranges) > 1 and bool(statement.reduced)


def _multiply(choices: Choices, nest: Nest, label: str) -> list[Move]:
    """Divide two ranges of results and one of the sum into tiles, and let warps multiply these."""
    statement = _statement(nest, label)
    assert isinstance(statement, Compute)
    results = [range_.label for range_ in statement.value.ranges]
    rows = results.pop(choices.integer(0, len(results) - 1))
    columns, depth = choices.pick(results), choices.pick(statement.reduced).label
    moves: list[Move] = []
    tile = []
    for range_, size in ((rows, 16), (columns, 8), (depth, choices.pick((16, 8, 32)))):
        is_whole = find_range(nest, range_).size == size
        moves += [] if is_whole else [Split(range_, size)]
        tile.append(range_ if is_whole else f"{range_}.1")
    return [*moves, TensorCore(label, *tile)]


def _reorder(choices: Choices, nest: Nest, label: str) -> Move:
    labels = [range_.label for range_ in _statement(nest, label).order]
    shuffled = []
    while labels:
        shuffled.append(labels.pop(choices.integer(0, len(labels) - 1)))
    return Reorder(label, tuple(shuffled))


def _merge(choices: Choices, nest: Nest, label: str) -> list[Move]:
    """Merge two ranges of a statement: neighbours, or any that become neighbours first."""
    order = [range_.label for range_ in _statement(nest, label).order]
    if len(order) < 2:
        return [Merge("missing", "missing")]
    first = choices.integer(0, len(order) - 2)
    if choices.chance(30):
        pair = order[first], choices.pick(order)
        return [Behind(*pair), Merge(*pair)]
    return [Merge(order[first], order[first + 1])]


def _nested(choices: Choices, nest: Nest) -> Move:
    labels = statement_labels(nest)
    reductions = [s for s in nest.statements if isinstance(s, Compute) and len(s.reduced) > 1]
    if not reductions:
        return Nested(choices.pick(list(labels.values())), (choices.pick(nest.ranges).label,))
    chosen = choices.pick(reductions)
    inner = tuple(range_.label for range_ in chosen.reduced if choices.chance(50)) or (chosen.reduced[-1].label,)
    return Nested(labels[chosen], inner)


def _stage(choices: Choices, nest: Nest, label: str) -> Move:
    order = _statement(nest, label).order
    tile = tuple(range_.label for range_ in order if choices.chance(50))
    return Stage(label, choices.pick(nest.params).number, tile, converted=choices.chance(50))


def _statement(nest: Nest, label: str) -> Compute | Scan | Store:
    return next(statement for statement, name in statement_labels(nest).items() if name == label)


def written_out(nest: Nest) -> int:
    """Return the most points that one statement is written out for."""
    most = 1
    for statement in nest.statements:
        count = 1
        for range_ in statement.order:
            if nest.kind(range_) in (Kind.UNROLL, Kind.REPEAT) or (nest.kind(range_) is Kind.VECTOR):
                count *= range_.size
        most = max(most, count * 2 ** len(_peeled(nest, statement.order)))
    return most


def _peeled(nest: Nest, order: Sequence[Range]) -> list[Range]:
    return [range_ for range_ in order if range_ in nest.peeled]


# ---- ways to run nests


def run_nests(nests: Sequence[Nest], buffers: Mapping[Param, Array]) -> None:
    """Run nests one after the other by the interpreter of nests."""
    for nest in nests:
        run_nest(nest, [buffers[param] for param in nest.params])


def run_kernel(kernel: Kernel, nests: Sequence[Nest], buffers: Mapping[Param, Array]) -> None:
    """Run a kernel made of `nests` by the interpreter of kernels, and see races between its threads."""
    params = dict.fromkeys(param for nest in nests for param in nest.params)
    run_without_races(kernel, [buffers[param] for param in params])


def run_lowered(nests: Sequence[Nest], buffers: Mapping[Param, Array]) -> bool:
    """Lower nests to one kernel, verify it, and run it; return whether all accesses were proved to lie inside.

    Raises:
        ScheduleError: The kinds of the ranges do not go together.
    """
    kernel = lower_together(nests, "test")
    is_proved = True
    try:
        verify(kernel)
    except VerifyError as error:
        if not is_about_bounds(error):
            raise
        is_proved = False
    run_kernel(kernel, nests, buffers)
    return is_proved


def is_about_bounds(error: VerifyError) -> bool:
    """Whether a kernel breaks no rule but the last, that accesses are proved to lie inside."""
    return ", rule 13, " in str(error)
