"""Transform by vectors, where groups have one thread: a group does all passes over what lies in its nearest caches.

    rows     ``(outer, n, 2)``, a group a row: the first pass has lanes along the row, and stores what it finds turned
             round; of then on, lanes run over the product of the radices that are done
    columns  ``(outer, n, inner, 2)``, a group as many columns as a vector has lanes; the results may be multiplied by
             factors
    turned   ``(outer, count, n, 2)`` to ``(outer, n, count, 2)``: rows that become columns as they are read

Between the passes, real and imaginary parts lie in two arrays each, in local memory. The last vector of a loop begins
so that it ends where the loop does: what it has in common with the one before is computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.arithmetic.powers import previous_power
from zyx.graph.fourier import passes, table_size
from zyx.kernel import data as k
from zyx.kernels.code import Code, Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.fourier.butterflies import Pair, apart, multiply, small_transform, times, together
from zyx.ops import FourierKind
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.graph.fourier import Pass
    from zyx.shape import Shape

#: From a place along the transformed axis to the pair of vectors there, and the other way round.
Read: TypeAlias = "Callable[[k.ValueId], Pair]"
Write: TypeAlias = "Callable[[k.ValueId, Pair], None]"

#: Elements that the last store of a first pass may reach behind its array.
_BEHIND: Final = 16


@dataclass(frozen=True, slots=True)
class FourierWork:
    """What a kernel is to transform.

    Attributes:
        dtype: float32 or float64.
        size: Of the part that is transformed.
        table: Elements of the table that is given.
        start: Where that has what belongs to the part.
        is_inverse: Whether roots are the conjugates of the table's.
        scale: What results are multiplied by.
        lanes: Most lanes of a vector.
        factors: Where the table has what the results of columns are multiplied by, ``(size, 2, inner)``; None if they
            are not.
        kind: Of other ones than complex, what is taken or given is as `zyx.kernels.fourier.problem` has it, and rows
            and columns are of `size` pairs; the table has what they take behind that of this size.
    """

    dtype: DType
    size: int
    table: int
    start: int
    is_inverse: bool
    scale: float
    lanes: int
    factors: int | None = None
    kind: FourierKind = FourierKind.COMPLEX

    @property
    def halves(self) -> int:
        """Where the table has what real numbers take."""
        return table_size(self.size)

    @property
    def ends(self) -> tuple[int, int]:
        """How many pairs a row has before, and behind: one more where there is half of a transform."""
        return (
            self.size + (self.kind is FourierKind.TO_REAL),
            self.size + (self.kind is FourierKind.FROM_REAL),
        )


def scratch_bytes(size: int, lanes: int, dtype: DType) -> int:
    """Return the local memory that a group takes: two arrays of pairs, and what stores of vectors reach behind them."""
    return 4 * (size * lanes + _BEHIND) * dtype.itemsize


def rows_kernel(shape: Shape, work: FourierWork) -> CustomKernel:
    """Return the kernel that transforms ``(outer, n, 1, 2)``."""
    writer = _Writer(shape, work, shape[0], 1)
    code, size = writer.code, work.size
    source, target = (code.times(writer.group, Immediate(end)) for end in work.ends)
    is_apart = work.kind is FourierKind.FROM_REAL
    first, *others = passes(size)
    if not others:
        writer.run(passes(size), writer.reads(source, 1, 1), None if is_apart else writer.writes(target, 1, 1), 1)
    else:
        writer.first_of_row(first, source)
    done = first.radix
    for number, each in enumerate(others):
        lanes = min(work.lanes, previous_power(done))
        write = writer.writes(target, 1, lanes) if each is others[-1] and not is_apart else None
        writer.along_row(each, done, lanes, number % 2, write)
        done *= each.radix
    if is_apart:
        writer.apart(len(others) % 2, target, 1, min(work.lanes, previous_power(size + 1)))
    return writer.finish("rows", outer=shape[0], inner=1)


def columns_kernel(shape: Shape, work: FourierWork) -> CustomKernel:
    """Return the kernel that transforms ``(outer, n, inner, 2)`` along axis 1."""
    outer, size, inner, _ = shape
    lanes = min(work.lanes, previous_power(inner))
    blocks = -(-inner // lanes)
    writer = _Writer(shape, work, outer * blocks, lanes)
    code = writer.code
    column = code.least(
        code.times(code.rest(writer.group, Immediate(blocks)), Immediate(lanes)), Immediate(inner - lanes)
    )
    from_real, to_real = work.kind is FourierKind.FROM_REAL, work.kind is FourierKind.TO_REAL
    lengths = 2 * size if from_real else work.ends[0], 2 * size if to_real else work.ends[1]
    row = code.over(writer.group, Immediate(blocks))
    source, target = (code.plus(code.times(row, Immediate(length * inner)), column) for length in lengths)
    write = None if from_real else writer.writes(target, inner, lanes, column)
    held = writer.run(passes(size), writer.reads(source, inner, lanes), write, lanes)
    if from_real:
        writer.apart(held, target, inner, lanes)
    return writer.finish("columns", outer, inner)


def turned_kernel(shape: Shape, work: FourierWork) -> CustomKernel:
    """Return the kernel from ``(outer, count, n, 2)`` to the transforms of its rows, ``(outer, n, count, 2)``."""
    outer, count, size, _ = shape
    lanes = min(work.lanes, previous_power(count), previous_power(size))
    blocks = -(-count // lanes)
    writer = _Writer(shape, work, outer * blocks, lanes)
    code = writer.code
    column = code.least(
        code.times(code.rest(writer.group, Immediate(blocks)), Immediate(lanes)), Immediate(count - lanes)
    )
    start = code.times(code.over(writer.group, Immediate(blocks)), Immediate(size * count))
    writer.turn_rows(code.plus(start, code.times(column, Immediate(size))), lanes)
    write = writer.writes(code.plus(start, column), count, lanes)
    writer.run(passes(size), None, write, lanes)
    return writer.finish("turned", outer, count)


class _Writer:
    """Writes one kernel; its group is one of `groups`."""

    def __init__(self, shape: Shape, work: FourierWork, groups: int, lanes: int) -> None:
        self.work = work
        source, result = (size_of(shape) // work.size * end for end in work.ends)
        self.code = code = Code(max(source, result))
        self._result = code.define(k.Memory.GLOBAL, work.dtype, result)
        self._source = code.define(k.Memory.GLOBAL, work.dtype, source, mutable=False)
        self._table = code.define(k.Memory.GLOBAL, work.dtype, work.table, mutable=False)
        length = work.size * lanes + _BEHIND
        self._held = [
            tuple(code.define(k.Memory.LOCAL, work.dtype, length) for _ in range(2))
            for _ in range(min(2, len(passes(work.size))))
        ]
        self.group = code.index(k.Axis.GROUP, 0, groups, code.position)

    def finish(self, name: str, outer: int, inner: int) -> CustomKernel:
        """Return the kernel."""
        work = self.work
        is_real = work.kind is FourierKind.TO_REAL
        shape = (outer, 2 * work.size, inner) if is_real else (outer, work.ends[1], inner, 2)
        return CustomKernel(self.code.finish(f"fourier_{name}_{work.size}"), ((shape, work.dtype),))

    # ---- memory

    def reads(self, base: k.ValueId, stride: int, lanes: int) -> Read:
        """Return what reads the source at ``base + stride * place``: pairs, or those that real numbers are taken as."""
        code, work = self.code, self.work

        def read(place: k.ValueId) -> Pair:
            if work.kind is FourierKind.FROM_REAL and stride > 1:
                index = code.plus(base, code.times(place, Immediate(2 * stride)))
                pair = (
                    code.load(self._source, index, lanes),
                    code.load(self._source, code.plus(index, Immediate(stride)), lanes),
                )
            else:
                pair = self._pair_at(code.plus(base, code.times(place, Immediate(stride))), lanes)
            if work.kind is FourierKind.TO_REAL:
                pair = self._together(place, pair, base, stride, lanes)
            return (pair[1], pair[0]) if work.is_inverse else pair

        return read

    def _pair_at(self, place: k.ValueId, lanes: int) -> Pair:
        code = self.code
        index = code.times(place, Immediate(2))
        if lanes == 1:
            return code.load(self._source, index), code.load(self._source, code.plus(index, Immediate(1)))
        both = code.load(self._source, index, 2 * lanes)
        real, imaginary = (code.shuffle(both, both, tuple(range(part, 2 * lanes, 2))) for part in (0, 1))
        return real, imaginary

    def _together(self, place: k.ValueId, pair: Pair, base: k.ValueId, stride: int, lanes: int) -> Pair:
        """Return what half of a transform, with `pair` at a place, makes of it there; lanes are along rows, if any."""
        code = self.code
        along = lanes if stride == 1 else 1
        opposite = code.minus(code.at(self.work.size - (along - 1)), place)
        mirrored = self._pair_at(code.plus(base, code.times(opposite, Immediate(stride))), lanes)
        is_first = code.equal(place, Immediate(0))
        if along > 1:
            mirrored = self._reversed(mirrored)
            is_other = code.const(False, dtypes.bool_)
            is_first = code.vectorize((is_first, *[is_other] * (along - 1)))
        return together(code, pair, mirrored, self._root(place, along, lanes), is_first)

    def _reversed(self, pair: Pair) -> Pair:
        lanes = self.code.type_of(pair[0]).lanes
        order = tuple(reversed(range(lanes)))
        return self.code.shuffle(pair[0], pair[0], order), self.code.shuffle(pair[1], pair[1], order)

    def _root(self, place: k.ValueId, along: int, lanes: int) -> Pair:
        """Return roots of unity that real numbers take: at so many places, in all lanes."""
        code = self.code
        start = code.plus(place, Immediate(self.work.halves))
        cosine, sine = (
            code.load(self._table, code.plus(start, Immediate(part * (self.work.size + 1))), along) for part in (0, 1)
        )
        return (cosine, sine) if along == lanes else (code.splat(cosine, lanes), code.splat(sine, lanes))

    def writes(self, base: k.ValueId, stride: int, lanes: int, column: k.ValueId | None = None) -> Write:
        """Return what writes the result at ``base + stride * place``, scaled and times the factors."""
        code, work = self.code, self.work
        factor = work.scale * (0.5 if work.kind is FourierKind.FROM_REAL else 1.0)

        def write(place: k.ValueId, pair: Pair) -> None:
            if work.factors is not None and column is not None:
                at = code.plus(code.times(place, Immediate(2 * stride)), column)
                at = code.plus(at, Immediate(work.factors))
                cosine = code.load(self._table, at, lanes)
                pair = times(code, pair, (cosine, code.load(self._table, code.plus(at, Immediate(stride)), lanes)))
            if factor != 1.0:
                scale = code.like(factor, pair[0])
                pair = multiply(code, pair[0], scale), multiply(code, pair[1], scale)
            real, imaginary = (pair[1], pair[0]) if work.is_inverse else pair
            if work.kind is FourierKind.TO_REAL and stride > 1:
                index = code.plus(base, code.times(place, Immediate(2 * stride)))
                code.store(self._result, index, real)
                code.store(self._result, code.plus(index, Immediate(stride)), imaginary)
                return
            index = code.times(code.plus(base, code.times(place, Immediate(stride))), Immediate(2))
            if lanes == 1:
                code.store(self._result, index, real)
                code.store(self._result, code.plus(index, Immediate(1)), imaginary)
                return
            order = tuple(lane + part for lane in range(lanes) for part in (0, lanes))
            code.store(self._result, index, code.shuffle(real, imaginary, order))

        return write

    def _held_at(self, number: int, lanes: int, stride: int) -> Read:
        code, arrays = self.code, self._held[number]

        def read(place: k.ValueId) -> Pair:
            index = code.times(place, Immediate(stride))
            return code.load(arrays[0], index, lanes), code.load(arrays[1], index, lanes)

        return read

    def _hold_at(self, number: int, stride: int) -> Write:
        code, arrays = self.code, self._held[number]

        def write(place: k.ValueId, pair: Pair) -> None:
            index = code.times(place, Immediate(stride))
            code.store(arrays[0], index, pair[0])
            code.store(arrays[1], index, pair[1])

        return write

    # ---- passes

    def run(self, several: Sequence[Pass], read: Read | None, write: Write | None, lanes: int) -> int:
        """Write passes whose lanes are independent transforms; without `read`, of what the first arrays hold.

        Returns:
            Without `write`, which arrays hold the results.
        """
        done, number = 1, 0 if read is None else -1
        for each in several:
            source = read if read is not None and done == 1 else self._held_at(number, lanes, lanes)
            number = (number + 1) % len(self._held)
            is_last = each is several[-1]
            target = write if is_last and write is not None else self._hold_at(number, lanes)
            self._pass(each, done, done, lanes, source, target, step=1)
            done *= each.radix
        return number

    def apart(self, number: int, base: k.ValueId, stride: int, lanes: int) -> None:
        """Write half of the transform of real numbers, of what arrays hold; lanes are along rows, if any."""
        code, size, arrays = self.code, self.work.size, self._held[number]
        along, unit = (lanes, 1) if stride == 1 else (1, lanes)
        width = lanes if unit > 1 else 1
        for array in arrays:  # once around: the first one is behind the last one, too
            code.store(array, code.at(size * unit), code.load(array, code.at(0), width))
        place = code.times(code.loop(-(-(size + 1) // along), code.position), Immediate(along))
        if (size + 1) % along:
            place = code.least(place, Immediate(size + 1 - along))
        read = self._held_at(number, lanes, unit)
        mirrored = read(code.minus(code.at(size - (along - 1)), place))
        if along > 1:
            mirrored = self._reversed(mirrored)
        pair = apart(code, read(place), mirrored, self._root(place, along, lanes))
        self.writes(base, stride, lanes)(place, pair)
        code.end_loop()

    def along_row(self, each: Pass, done: int, lanes: int, number: int, write: Write | None) -> None:
        """Write a pass of a row whose lanes run over what is done."""
        target = self._hold_at(1 - number, 1) if write is None else write
        self._pass(each, done, -(-done // lanes), lanes, self._held_at(number, lanes, 1), target, step=lanes)

    def _pass(self, each: Pass, done: int, turns: int, lanes: int, read: Read, write: Write, *, step: int) -> None:
        code = self.code
        outer = code.loop(each.rest, code.position) if each.rest > 1 else None
        factors = self._factors(each, outer, lanes)
        inner = code.loop(turns, code.position) if turns > 1 else None
        place = code.at(0)
        if inner is not None:
            place = code.times(inner, Immediate(step))
            if done % step:
                place = code.least(place, Immediate(done - step))
        source = target = place
        if outer is not None:
            source = code.plus(place, code.times(outer, Immediate(done)))
            target = code.plus(place, code.times(outer, Immediate(done * each.radix)))
        stride = done * each.rest
        found = small_transform(code, [read(code.plus(source, Immediate(i * stride))) for i in range(each.radix)])
        for i, pair in enumerate(found):
            if factors and i:
                pair = times(code, pair, factors[i])
            write(code.plus(target, Immediate(i * done)), pair)
        for opened in (inner, outer):
            if opened is not None:
                code.end_loop()

    def _factors(self, each: Pass, place: k.ValueId | None, lanes: int) -> list[Pair]:
        """Return what a pass multiplies by at one place, the same in all lanes."""
        if place is None:
            return []
        return [
            (self.code.splat(cosine, lanes), self.code.splat(sine, lanes))
            for cosine, sine in (self._factor(each, i, place, 1) for i in range(each.radix))
        ]

    def _factor(self, each: Pass, row: int, place: k.ValueId, lanes: int) -> Pair:
        code = self.code
        start = self.work.start + each.factors + 2 * row * each.rest
        cosine = code.load(self._table, code.plus(place, Immediate(start)), lanes)
        return cosine, code.load(self._table, code.plus(place, Immediate(start + each.rest)), lanes)

    def first_of_row(self, each: Pass, base: k.ValueId) -> None:
        """Write the first pass of a row, with lanes along it; results at neighbouring places are stored turned."""
        code, radix = self.code, each.radix
        lanes = min(self.work.lanes, previous_power(each.rest))
        turn = code.loop(-(-each.rest // lanes), code.position)
        place = code.times(turn, Immediate(lanes))
        if each.rest % lanes:
            place = code.least(place, Immediate(each.rest - lanes))
        read = self.reads(base, 1, lanes)
        found = small_transform(code, [read(code.plus(place, Immediate(i * each.rest))) for i in range(radix)])
        found = [found[0], *(times(code, found[i], self._factor(each, i, place, lanes)) for i in range(1, radix))]
        target = code.times(place, Immediate(radix))
        for part, array in enumerate(self._held[0]):
            self._store_turned(array, target, [pair[part] for pair in found], lanes)
        code.end_loop()

    def turn_rows(self, base: k.ValueId, lanes: int) -> None:
        """Read `lanes` rows, which begin at `base`, into the first arrays, with what they have at a place together."""
        code, size = self.code, self.work.size
        place = code.at(0)
        turns = -(-size // lanes)
        if turns > 1:
            place = code.times(code.loop(turns, code.position), Immediate(lanes))
            if size % lanes:
                place = code.least(place, Immediate(size - lanes))
        found = [self.reads(code.plus(base, Immediate(lane * size)), 1, lanes)(place) for lane in range(lanes)]
        for part, array in enumerate(self._held[0]):
            self._store_turned(array, code.times(place, Immediate(lanes)), [pair[part] for pair in found], lanes)
        if turns > 1:
            code.end_loop()

    def _store_turned(self, array: k.ValueId, start: k.ValueId, vectors: list[k.ValueId], lanes: int) -> None:
        """Store lane i of vector j at ``start + i * count + j``, of `count` vectors.

        Where their number is no power of two, the vectors stored have elements to spare, which reach into the next
        place, and are stored over when that is: the order matters.
        """
        code, count = self.code, len(vectors)
        if lanes == 1:
            for number, value in enumerate(vectors):
                code.store(array, code.plus(start, Immediate(number)), value)
            return
        width = 1 << (count - 1).bit_length()
        wide = [[vector] for vector in [*vectors, *vectors[:1] * (width - count)]]
        order = tuple(lane + part for lane in range(lanes) for part in (0, lanes))
        while len(wide) > 1:
            half = len(wide) // 2
            wide = [
                [code.shuffle(a, b, part) for a, b in zip(x, y, strict=True) for part in (order[:lanes], order[lanes:])]
                for x, y in zip(wide[:half], wide[half:], strict=True)
            ]
        pieces, size = wide[0], lanes
        if width == count:
            for number, piece in enumerate(pieces):
                code.store(array, code.plus(start, Immediate(number * size)), piece)
            return
        while size < width:
            together = tuple(range(2 * size))
            pieces = [code.shuffle(a, b, together) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
            size *= 2
        while size > width:
            size //= 2
            pieces = [code.shuffle(p, p, tuple(range(i, i + size))) for p in pieces for i in (0, size)]
        for number, piece in enumerate(pieces):
            code.store(array, code.plus(start, Immediate(number * count)), piece)
