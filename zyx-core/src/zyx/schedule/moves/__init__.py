"""The language of schedules: a schedule is a list of moves, each of which turns a nest into an equal one.

    Split, Merge, Pad       change ranges
    Mark, Peel, Reorder     say how ranges are run
    Behind                  puts ranges next to each other, to be merged
    Apart                   gives some statements a range of their own
    Nested, Stage, Inline   change which intermediate values there are
    GroupReduce, SwapReduce let threads reduce together, and those that run in step without local memory
    Stream                  store past the caches
    TensorCore              let warps multiply tiles of matrices

Moves name ranges and statements by label (`zyx.schedule.moves.ranges`), so a schedule can be written down, and
applied again. Any sequence of moves that apply gives the same values, up to the order in which floats are combined;
one that does not apply raises `ScheduleError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from zyx.schedule.moves import ranges, tensor_core, values
from zyx.schedule.moves.ranges import Apart, Behind, Mark, Merge, Pad, Peel, Reorder, Split
from zyx.schedule.moves.tensor_core import TensorCore
from zyx.schedule.moves.values import GroupReduce, Inline, Nested, Stage, Stream, SwapReduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zyx.nest.data import Nest


class Move(Protocol):
    """Turns a nest into an equal one. Ours are frozen dataclasses, of fields that JSON holds."""

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: The move does not apply to this nest.
        """


#: Ours, by name: the classes of these modules that have an `apply`.
MOVES: Final[Mapping[str, Any]] = {
    name: kind
    for module in (ranges, values, tensor_core)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and hasattr(kind, "apply")
}


def apply_moves(nest: Nest, moves: Iterable[Move]) -> Nest:
    """Return `nest` after `moves`, in order."""
    for move in moves:
        nest = move.apply(nest)
    return nest


__all__ = [
    "MOVES", "Apart", "Behind", "GroupReduce", "Inline", "Mark", "Merge", "Move", "Nested", "Pad", "Peel", "Reorder",
    "Split", "Stage", "Stream", "SwapReduce", "TensorCore", "apply_moves",
]  # fmt: skip
