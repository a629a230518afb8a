"""Transform by groups of threads, which keep lines in registers and exchange elements through local memory.

A thread does as many butterflies of each pass as there are for it. Between two passes it stores what it has found, and
loads what the next one takes: real and imaginary parts at once, or one after the other in half the memory.

    thread t of line c is t + c * threads    where elements of a line are neighbours in memory
                          c + t * lines      where lines lie side by side; where only results do, threads change their
                                             numbers at the first exchange

Threads for which there is no butterfly left do the last one again, and store nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.graph.fourier import table_size
from zyx.kernel import data as k
from zyx.kernels.code import Code, Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.fourier.butterflies import Pair, apart, multiply, small_transform, times, together
from zyx.kernels.fourier.stages import BANKS
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.graph.fourier import Pass
    from zyx.kernels.fourier.stages import FourierStage, ThreadGroup


def stage_kernel(stage: FourierStage, group: ThreadGroup) -> CustomKernel:
    """Return the kernel of a stage: from ``(outer, left, size, right, 2)`` and the table to `FourierStage.shape`."""
    return _Writer(stage, group).written()


class _Line(NamedTuple):
    """A line as one thread has it.

    Attributes:
        number: Of the line in its group.
        thread: Of the thread in the line.
        source: Where the line begins, in pairs.
        target: Where its results begin.
        column: The column that it is in; see `FourierStage`.
        is_there: Whether there is such a line; None if there certainly is.
    """

    number: k.ValueId
    thread: k.ValueId
    source: k.ValueId
    target: k.ValueId
    column: k.ValueId
    is_there: k.ValueId | None


class _Butterfly(NamedTuple):
    """What a thread does at once in a pass.

    Attributes:
        number: Which one of the line's; of S * p + t it is that of p and t, with S the radices before.
        is_there: Whether there is such a one; None if there certainly is.
        values: Elements before the pass, and then those behind it.
    """

    number: k.ValueId
    is_there: k.ValueId | None
    values: list[Pair]


class _Writer:
    """Writes the kernel of one stage."""

    def __init__(self, stage: FourierStage, group: ThreadGroup) -> None:
        self._stage, self._group = stage, group
        self._from_real, self._to_real = (stage.kind is kind for kind in (FourierKind.FROM_REAL, FourierKind.TO_REAL))
        source, result = (2 * stage.lines * (stage.size + more) for more in (self._to_real, self._from_real))
        self._code = code = Code(max(source, result, stage.table))
        self._result = code.define(k.Memory.GLOBAL, stage.dtype, result)
        self._source = code.define(k.Memory.GLOBAL, stage.dtype, source, mutable=False)
        self._table = code.define(k.Memory.GLOBAL, stage.dtype, stage.table, mutable=False)
        arrays = group.arrays if stage.is_exchanged else 0
        self._arrays = [code.define(k.Memory.LOCAL, stage.dtype, group.pitch * group.lines) for _ in range(arrays)]
        self._was_read = False
        groups = -(-stage.lines // group.lines)
        self._first = code.times(code.index(k.Axis.GROUP, 0, groups, code.position), Immediate(group.lines))
        self._thread = code.index(k.Axis.LOCAL, 0, group.threads * group.lines, code.position)

    def written(self) -> CustomKernel:
        """Return the kernel."""
        stage = self._stage
        line = self._line(are_side_by_side=stage.right > 1)
        later = self._line(are_side_by_side=True) if stage.is_turned else line
        done = 1
        current: list[_Butterfly] = []
        places: list[list[k.ValueId]] = []
        for each in stage.passes:
            if done == 1:
                current = self._butterflies(stage.size // each.radix, line)
                current = [self._read(each, line, butterfly) for butterfly in current]
            else:
                following = self._butterflies(stage.size // each.radix, later)
                step = stage.size // each.radix
                taken = [[self._plus(one.number, i * step) for i in range(each.radix)] for one in following]
                current = self._exchanged(line, current, places, later, following, taken)
                line = later
            current = [self._transformed(each, line, done, butterfly) for butterfly in current]
            places = [self._places(each, done, butterfly) for butterfly in current]
            done *= each.radix
        if self._from_real:
            current, places = self._apart(line, current, places)
        for butterfly, targets in zip(current, places, strict=True):
            self._write(line, butterfly, targets)
        return CustomKernel(self._code.finish(f"fourier_groups_{stage.size}"), ((stage.shape, stage.dtype),))

    # ---- who does what

    def _line(self, *, are_side_by_side: bool) -> _Line:
        """Return the line that a thread does, as threads are numbered where lines lie side by side, or where not."""
        code, stage, group = self._code, self._stage, self._group
        if are_side_by_side:
            number, thread = (
                code.rest(self._thread, Immediate(group.lines)),
                code.over(self._thread, Immediate(group.lines)),
            )
        else:
            number = code.over(self._thread, Immediate(group.threads))
            thread = code.rest(self._thread, Immediate(group.threads))
        line, is_there = code.plus(self._first, number), None
        if stage.lines % group.lines:
            is_there = code.less(line, Immediate(stage.lines))
            line = code.least(line, Immediate(stage.lines - 1))
        before, beside = code.over(line, Immediate(stage.right)), code.rest(line, Immediate(stage.right))
        source, target = (
            code.plus(code.times(before, Immediate((stage.size + more) * stage.right)), beside)
            for more in (
                stage.size if self._are_apart(self._from_real) else self._to_real,
                stage.size if self._are_apart(self._to_real) else self._from_real,
            )
        )
        if stage.is_turned:
            outer, left = code.over(before, Immediate(stage.left)), code.rest(before, Immediate(stage.left))
            start = code.times(
                code.plus(code.times(outer, Immediate(stage.size * stage.left)), left), Immediate(stage.right)
            )
            target = code.plus(start, beside)
        column = code.over(beside, Immediate(stage.right // stage.columns))
        return _Line(number, thread, source, target, column, is_there)

    def _are_apart(self, are_real: bool) -> bool:
        """Whether the parts of pairs, which are real numbers, do not lie side by side in memory."""
        return are_real and self._stage.right > 1

    def _plus(self, place: k.ValueId, number: int) -> k.ValueId:
        return self._code.plus(place, Immediate(number))

    def _butterflies(self, count: int, line: _Line) -> list[_Butterfly]:
        """Return what a thread does of `count` butterflies, with no values yet."""
        code, threads = self._code, self._group.threads
        found = []
        for start in range(0, count, threads):
            number, is_there = code.plus(line.thread, Immediate(start)), None
            if start + threads > count:
                is_there = code.less(number, Immediate(count))
                number = code.least(number, Immediate(count - 1))
            found.append(_Butterfly(number, is_there, []))
        return found

    def _places(self, each: Pass, done: int, butterfly: _Butterfly) -> list[k.ValueId]:
        """Return where along the line the results of a pass are: t + S (r p + k) for k < r."""
        code = self._code
        inside = code.rest(butterfly.number, Immediate(done))
        first = code.plus(
            code.times(code.over(butterfly.number, Immediate(done)), Immediate(each.radix * done)), inside
        )
        return [code.plus(first, Immediate(i * done)) for i in range(each.radix)]

    # ---- memory

    def _read(self, each: Pass, line: _Line, butterfly: _Butterfly) -> _Butterfly:
        """Return a butterfly of the first pass with what it takes."""
        code, size = self._code, self._stage.size
        values = []
        for i in range(each.radix):
            place = self._plus(butterfly.number, i * (size // each.radix))
            pair = self._pair(line, place)
            if self._to_real:
                mirrored = self._pair(line, code.minus(code.at(size), place))
                pair = together(code, pair, mirrored, self._root(place), code.equal(place, Immediate(0)))
            values.append((pair[1], pair[0]) if self._stage.is_inverse else pair)
        return butterfly._replace(values=values)

    def _pair(self, line: _Line, place: k.ValueId) -> Pair:
        """Return a pair of the source."""
        code, right = self._code, self._stage.right
        if self._are_apart(self._from_real):
            index = code.plus(line.source, code.times(place, Immediate(2 * right)))
            return code.load(self._source, index), code.load(self._source, self._plus(index, right))
        index = code.times(code.plus(line.source, code.times(place, Immediate(right))), Immediate(2))
        if self._group.lanes == 2:
            both = code.load(self._source, index, 2)
            return code.devectorize(both, 0), code.devectorize(both, 1)
        return code.load(self._source, index), code.load(self._source, self._plus(index, 1))

    def _write(self, line: _Line, butterfly: _Butterfly, places: list[k.ValueId]) -> None:
        """Store results, times the factors and scaled."""
        code, stage = self._code, self._stage
        conditions = [condition for condition in (butterfly.is_there, line.is_there) if condition is not None]
        mask = code.both(*conditions) if len(conditions) == 2 else conditions[0] if conditions else None
        scale = stage.scale * (0.5 if self._from_real else 1.0)
        for place, value in zip(places, butterfly.values, strict=True):
            pair = value
            if stage.factors is not None:
                at = self._plus(code.times(place, Immediate(2 * stage.columns)), stage.factors)
                pair = times(code, pair, self._factor(code.plus(at, line.column), stage.columns))
            if scale != 1.0:
                factor = code.like(scale, pair[0])
                pair = multiply(code, pair[0], factor), multiply(code, pair[1], factor)
            self._store(line, place, (pair[1], pair[0]) if stage.is_inverse else pair, mask)

    def _store(self, line: _Line, place: k.ValueId, pair: Pair, mask: k.ValueId | None) -> None:
        """Write a pair of the results."""
        code, stage = self._code, self._stage
        if self._are_apart(self._to_real):
            index = code.plus(line.target, code.times(place, Immediate(2 * stage.right)))
            code.store(self._result, index, pair[0], mask)
            code.store(self._result, self._plus(index, stage.right), pair[1], mask)
            return
        distance = stage.right * (stage.left if stage.is_turned else 1)
        index = code.times(code.plus(line.target, code.times(place, Immediate(distance))), Immediate(2))
        if self._group.lanes == 2:
            code.store(self._result, index, code.vectorize(pair), None if mask is None else code.splat(mask, 2))
        else:
            code.store(self._result, index, pair[0], mask)
            code.store(self._result, self._plus(index, 1), pair[1], mask)

    def _root(self, place: k.ValueId) -> Pair:
        """Return the root of unity that real numbers take at a place."""
        return self._factor(self._plus(place, table_size(self._stage.size)), self._stage.size + 1)

    def _factor(self, place: k.ValueId, distance: int) -> Pair:
        code = self._code
        return code.load(self._table, place), code.load(self._table, code.plus(place, Immediate(distance)))

    def _exchanged(
        self,
        line: _Line,
        current: list[_Butterfly],
        places: list[list[k.ValueId]],
        later: _Line,
        following: list[_Butterfly],
        taken: list[list[k.ValueId]],
    ) -> list[_Butterfly]:
        """Return `following` with what is at places `taken`, of the results of `current`, which belong at `places`."""
        code = self._code
        targets = [[self._held(line, place) for place in several] for several in places]
        sources = [[self._held(later, place) for place in several] for several in taken]
        parts: list[list[list[k.ValueId]]] = []
        for several in ((0, 1),) if len(self._arrays) == 2 else ((0,), (1,)):
            if self._was_read:
                code.barrier()
            for array, part in zip(self._arrays, several, strict=True):
                for butterfly, indices in zip(current, targets, strict=True):
                    for index, value in zip(indices, butterfly.values, strict=True):
                        code.store(array, index, value[part], butterfly.is_there)
            code.barrier()
            self._was_read = True
            parts += [[[code.load(array, at) for at in indices] for indices in sources] for array in self._arrays]
        return [
            butterfly._replace(values=list(zip(*values, strict=True)))
            for butterfly, *values in zip(following, *parts, strict=True)
        ]

    def _held(self, line: _Line, place: k.ValueId) -> k.ValueId:
        """Return where in local memory a line has what is at a place."""
        code, group = self._code, self._group
        start = code.times(line.number, Immediate(group.pitch))
        if group.is_padded:
            place = code.plus(place, code.down(place, Immediate(BANKS.bit_length() - 1)))
        return code.plus(start, place)

    # ---- arithmetic

    def _apart(
        self, line: _Line, current: list[_Butterfly], places: list[list[k.ValueId]]
    ) -> tuple[list[_Butterfly], list[list[k.ValueId]]]:
        """Return twice the elements of half of the transform of real numbers, and their places: of two that lie
        opposite each other, a thread does both.
        """
        code, size = self._code, self._stage.size
        following = self._butterflies(size // 2 + 1, line)
        opposite = [code.minus(code.at(size), one.number) for one in following]
        taken = [
            [one.number, code.rest(other, Immediate(size))] for one, other in zip(following, opposite, strict=True)
        ]  # fmt: skip
        found = self._exchanged(line, current, places, line, following, taken)
        targets = [[one.number, other] for one, other in zip(following, opposite, strict=True)]
        for number, (one, several) in enumerate(zip(found, targets, strict=True)):
            first, second = one.values
            roots = [self._root(place) for place in several]
            values = [apart(code, first, second, roots[0]), apart(code, second, first, roots[1])]
            found[number] = one._replace(values=values)
        return found, targets

    def _transformed(self, each: Pass, line: _Line, done: int, butterfly: _Butterfly) -> _Butterfly:
        """Return a butterfly with the results of a pass, times its factors."""
        code = self._code
        found = small_transform(code, butterfly.values)
        if each.rest > 1:
            spread = each.rest * done * each.radix // self._stage.size  # 1, unless other passes are another stage's
            place = code.times(code.over(butterfly.number, Immediate(done)), Immediate(spread))
            if spread > 1:
                place = code.plus(place, line.column)
            place = code.plus(place, Immediate(each.factors))
            for i in range(1, each.radix):
                factor = self._factor(code.plus(place, Immediate(2 * i * each.rest)), each.rest)
                found[i] = times(code, found[i], factor)
        return butterfly._replace(values=found)
