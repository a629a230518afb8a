"""Divide a transform into what groups of threads do, each stage by one kernel.

    (outer, n, inner)                          one stage, where a group has room for a line
    (outer, rows, columns * inner)             two: columns, times factors, in place, and then rows, which are turned on
    (outer, rows, columns, inner) turned       the way (Bailey's four steps); so each reads and writes everything once

The two divide a long length as `zyx.graph.fourier` does; or the passes of one of its parts, where the device has too
little local memory for all of them: what these multiply by are the factors then.
D. H. Bailey, "FFTs in external or hierarchical memory", Journal of Supercomputing 4 (1990).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from zyx.arithmetic.powers import next_power, previous_power
from zyx.graph.fourier import offsets, parts, passes
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.graph.fourier import Pass
    from zyx.kernels.fourier.problem import Problem
    from zyx.shape import Shape

#: Elements of local memory with a place left free behind them: those a power of two apart are in different banks.
BANKS: Final = 16
#: Threads that a group has at least, if there is work for them: its warps hide each other's waiting.
_FEW_THREADS: Final = 128
#: Bytes of lines side by side that a group reads at once, where it has room: two sectors of a cache.
_SIDE_BY_SIDE: Final = 64
#: With fewer, memory is read so badly that two kernels take less time than one.
_LEAST_SIDE_BY_SIDE: Final = 16
#: Arrays, and whether they are padded, the best first.
_WAYS: Final = ((2, True), (2, False), (1, True), (1, False))
#: Most pairs that a thread has in registers.
_MOST_PAIRS: Final = 32


@dataclass(frozen=True, slots=True)
class FourierStage:
    """Passes over lines: over what ``(outer, left, size, right)`` has at one place of its other axes.

    Attributes:
        dtype: float32 or float64.
        outer: See above.
        left: See above.
        size: See above; the product of the radices.
        right: See above.
        passes: What is done, with places of roots and factors in the whole table.
        table: Elements of the table that is given.
        is_inverse: Whether roots are the conjugates of the table's.
        scale: What results are multiplied by.
        is_turned: Whether results are ``(outer, size, left, right)``; else they lie as what is transformed.
        columns: Factors depend on which of so many columns, each ``right / columns`` lines side by side, a line is in.
        factors: Where the table has what results are multiplied by, ``(size, 2, columns)``; None if they are not, or
            if the passes have the factors already.
        kind: Of other ones than complex, what is taken or given is as `Problem` has it.
    """

    dtype: DType
    outer: int
    left: int
    size: int
    right: int
    passes: tuple[Pass, ...]
    table: int
    is_inverse: bool
    scale: float = 1.0
    is_turned: bool = False
    columns: int = 1
    factors: int | None = None
    kind: FourierKind = FourierKind.COMPLEX

    @property
    def is_exchanged(self) -> bool:
        """Whether threads need what others have found."""
        return len(self.passes) > 1 or self.kind is FourierKind.FROM_REAL

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return self.outer * self.left * self.right

    @property
    def shape(self) -> Shape:
        """The shape of the results, pairs last."""
        if self.kind is FourierKind.TO_REAL:
            return (self.outer, 2 * self.size, self.right)
        size = self.size + (self.kind is FourierKind.FROM_REAL)
        middle = (size, self.left) if self.is_turned else (self.left, size)
        return (self.outer, *middle, self.right, 2)


class ThreadGroup(NamedTuple):
    """A group of threads for a stage.

    Attributes:
        threads: Of each line.
        lines: Which the group does at once.
        arrays: 2 if threads exchange real and imaginary parts at once, 1 if they do one after the other.
        pitch: How far apart lines lie in an array.
        is_padded: Whether places are left free there.
        lanes: 2 if pairs are loaded and stored as vectors, else 1.
    """

    threads: int
    lines: int
    arrays: int
    pitch: int
    is_padded: bool
    lanes: int


Staged: TypeAlias = "list[tuple[FourierStage, ThreadGroup]]"


def stages_of(problem: Problem, info: DeviceInfo) -> Staged | None:
    """Return what does a transform, one after the other; None if groups have no room, or it is of real numbers and
    takes several.
    """
    size, inner, dtype, is_complex = problem.size, problem.inner, problem.dtype, problem.kind is FourierKind.COMPLEX
    starts, table = offsets(size), problem.table.shape[0]
    whole = FourierStage(
        dtype, problem.outer, 1, size, inner, (), table, problem.is_inverse, problem.scale, kind=problem.kind
    )
    if len(parts(size)) == 2:
        if not is_complex:
            return None
        rows, columns = (_placed(part, start) for part, start in zip(parts(size), starts, strict=False))
        return _grouped(_divided(whole, rows, columns, starts[2]), info)
    whole = replace(whole, passes=_placed(size, starts[0]))
    found = _grouped([whole], info)
    if found is not None and (inner == 1 or found[0][1].lines * 2 * dtype.itemsize >= _LEAST_SIDE_BY_SIDE):
        return found
    if not is_complex:
        return None
    cuts = [(whole.passes[:count], whole.passes[count:]) for count in range(1, len(whole.passes))]
    cuts.sort(key=lambda cut: max(map(_length, cut)))
    return next(filter(None, (_grouped(_divided(whole, *cut), info) for cut in cuts)), found)


def _placed(size: int, start: int) -> tuple[Pass, ...]:
    """Return the passes of a part of the length whose table starts there."""
    return tuple(each._replace(roots=each.roots + start, factors=each.factors + start) for each in passes(size))


def _length(several: tuple[Pass, ...]) -> int:
    return prod(each.radix for each in several)


def _divided(
    whole: FourierStage, first: tuple[Pass, ...], second: tuple[Pass, ...], factors: int | None = None
) -> list[FourierStage]:
    """Return the two stages of a transform whose passes are `first`, over columns, and `second`, over rows."""
    rows, columns = _length(first), _length(second)
    return [
        replace(
            whole, size=rows, right=columns * whole.right, passes=first, scale=1.0, columns=columns, factors=factors
        ),
        replace(whole, left=rows, size=columns, passes=second, is_turned=True),
    ]


def _grouped(stages: list[FourierStage], info: DeviceInfo) -> Staged | None:
    found = [(stage, group) for stage in stages if (group := group_of(stage, info)) is not None]
    return found if len(found) == len(stages) else None


def group_of(stage: FourierStage, info: DeviceInfo) -> ThreadGroup | None:
    """Return a group of the device for a stage; None if there is no room for a line."""
    most = min(info.max_group_threads, info.max_group_shape[0])
    threads = min(most, stage.size // max(each.radix for each in stage.passes))
    if max(each.radix * -(-stage.size // (each.radix * threads)) for each in stage.passes) > _MOST_PAIRS:
        return None
    are_side_by_side = stage.right > 1 or stage.is_turned
    wanted = previous_power(_FEW_THREADS // threads)
    if are_side_by_side:
        wanted = max(wanted, _SIDE_BY_SIDE // (2 * stage.dtype.itemsize))
    lanes = 2 if 2 in info.capabilities[stage.dtype].lanes else 1
    counts = _halvings(min(wanted, next_power(stage.lines), previous_power(most // threads)))
    choices = [(lines, *way) for way in _WAYS for lines in counts]
    if are_side_by_side:  # then lines matter more than how parts are exchanged
        choices.sort(key=lambda choice: -choice[0])
    for lines, arrays, is_padded in choices:
        pitch = _padded(stage.size, lines) if is_padded else stage.size
        if not stage.is_exchanged or arrays * pitch * lines * stage.dtype.itemsize <= info.local_bytes:
            return ThreadGroup(threads, lines, arrays, pitch, is_padded, lanes)
    return None


def _halvings(number: int) -> list[int]:
    """Return a power of two and the lesser ones."""
    return [number >> bits for bits in range(number.bit_length())]


def _padded(size: int, lines: int) -> int:
    """Return how far apart so many lines lie with places left free, those of each in different banks."""
    return size + size // BANKS + (max(1, 2 * BANKS // lines) if lines > 1 else 0)
