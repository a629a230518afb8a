"""Go through loops in larger steps, for a driver that lets a thread run so many iterations only, of all loops together.

    %3 = loop < 100001                  %3 = loop < 50000
    store %0[%3] = %2                   %5 = mul %3, 2
    endloop                             store %0[%5] = %2
                                        %6 = add %5, 1
                              =>        store %0[%6] = %2
                                        endloop
                                        store %0[100000] = %2

A loop counts once for each run of its body, and once for the end: that is how Mesa's llvmpipe counts, up to 65,535 a
thread (``LP_MAX_TGSI_LOOP_ITERATIONS``). What it has begun then, it leaves undone, and says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Type
from zyx.kernel.rewrite import Rewriter, renumber
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Container

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, ValueId
    from zyx.ops import ReduceOp

#: Operations of a kernel that is written out, at most: compilers take seconds for that many.
MOST_OPERATIONS: Final = 1 << 14
#: Iterations that exchanging a value in memory takes until nobody else was faster: all lanes of a vector may want to,
#: and other processors.
_EXCHANGE: Final = 16


def in_fewer_iterations(kernel: Kernel, most_iterations: int, native: Container[tuple[ReduceOp, DType]]) -> Kernel:
    """Return a kernel of which a thread runs at most so many iterations; the same one if that is so already.

    Args:
        kernel: What to change.
        most_iterations: Of all loops together.
        native: What is combined in memory without a loop.

    Raises:
        UnsupportedError: It would take more than `MOST_OPERATIONS`.
    """
    body = _parsed(kernel, native)
    loops = body.loops()
    before = body.exchanged + sum(loop.exchanged + loop.runs * (loop.size + 1) for loop in loops)
    if before <= most_iterations:
        return kernel
    while body.iterations > most_iterations and body.operations <= MOST_OPERATIONS:
        longest = max(loops, key=lambda loop: loop.turns)
        if not longest.turns:
            break
        longest.step = min(2 * longest.step, longest.size)
    if body.iterations > most_iterations or body.operations > MOST_OPERATIONS:
        raise UnsupportedError(
            f"a thread runs {before} iterations of loops, which the driver ends after {most_iterations}, in steps of "
            "any size that it compiles; compute this on another device, or in parts"
        )
    return _Writer(kernel, body).written()


@dataclass(slots=True)
class _Region:
    """The operations between `start` and `end`, exclusive, that run so often in a thread.

    Attributes:
        exchanges: Iterations that exchanges in memory take each time, those of loops inside apart.
        size: Of a loop; 1 for the whole kernel.
        step: So many iterations of a loop become one.
        inner: The loops in it, one behind the other.
    """

    start: int
    end: int = 0
    runs: int = 1
    exchanges: int = 0
    size: int = 1
    step: int = 1
    inner: list[_Region] = field(default_factory=list)

    def loops(self) -> list[_Region]:
        """Return all loops inside."""
        return [found for loop in self.inner for found in (loop, *loop.loops())]

    @property
    def turns(self) -> int:
        """Iterations of the loop itself that are left, in all of its runs; 0 if it is written out."""
        return self.runs * sum(count + 1 for count in divmod(self.size, self.step) if count > 1)

    @property
    def exchanged(self) -> int:
        """Iterations of loops that are not seen in the kernel, in all runs."""
        return self.runs * self.size * self.exchanges

    @property
    def iterations(self) -> int:
        """All iterations that are left, of the loop and of those inside."""
        return self.turns + self.exchanged + sum(loop.iterations for loop in self.inner)

    @property
    def operations(self) -> int:
        """How many operations are written for it."""
        body = self.end - self.start + sum(loop.operations - (loop.end - loop.start) for loop in self.inner)
        return (self.step + (self.size % self.step > 0)) * (body + 1)


def _parsed(kernel: Kernel, native: Container[tuple[ReduceOp, DType]]) -> _Region:
    """Return the loops of a kernel, as they stand."""
    whole = _Region(0, len(kernel.ops))
    opened = [whole]
    for position, op in enumerate(kernel.ops):
        match op:
            case k.Loop(size=size):
                loop = _Region(position + 1, runs=opened[-1].runs * opened[-1].size, size=size)
                opened[-1].inner.append(loop)
                opened.append(loop)
            case k.EndLoop():
                opened.pop().end = position
            case k.Atomic(op=combined, value=value):
                stored = kernel.ops[value]
                assert isinstance(stored, k.Value)
                opened[-1].exchanges += 0 if (combined, stored.type.dtype) in native else _EXCHANGE
            case _:
                pass
    return whole


class _Writer(Rewriter):
    """Writes a kernel with loops in the steps that were found for them."""

    def __init__(self, kernel: Kernel, body: _Region) -> None:
        super().__init__()
        self._kernel = kernel
        self._body = body
        self.renamed = [0] * len(kernel.ops)

    def written(self) -> Kernel:
        """Return the new kernel."""
        self._region(self._body)
        return self.finish(self._kernel.name)

    def _region(self, region: _Region) -> None:
        position = region.start
        for loop in region.inner:
            self._copy(position, loop.start - 1)
            self._loop(loop)
            position = loop.end + 1
        self._copy(position, region.end)

    def _copy(self, start: int, end: int) -> None:
        for position in range(start, end):
            self.renamed[position] = self.append(renumber(self._kernel.ops[position], self.renamed))

    def _loop(self, loop: _Region) -> None:
        whole, rest = divmod(loop.size, loop.step)
        self._turns(loop, whole, loop.step, 0)
        self._turns(loop, rest, 1, whole * loop.step)

    def _turns(self, loop: _Region, count: int, step: int, first: int) -> None:
        """Write `count` turns of `step` iterations, from iteration `first` on."""
        op = self._kernel.ops[loop.start - 1]
        assert isinstance(op, k.Loop)
        at: ValueId | None = None
        end = None if op.end is None else self.renamed[op.end]
        if count > 1:
            turns = None if end is None else self._turns_below(end, step, first, op.type)
            at = self.append(k.Loop(count, op.type, turns))
            if step > 1:
                at = self.add(k.Binary(BinaryOp.MUL, at, self.const(step, op.type.dtype), op.type))
        for number in range(first, first + step if count else first):
            if at is None:
                place = self.const(number, op.type.dtype)
            elif number:
                place = self.add(k.Binary(BinaryOp.ADD, at, self.const(number, op.type.dtype), op.type))
            else:
                place = at
            self.renamed[loop.start - 1] = place
            is_tested = end is not None and (at is None or step > 1)
            if end is not None and is_tested:
                self.append(k.If(self.add(k.Binary(BinaryOp.LT, place, end, Type(dtypes.bool_)))))
            self._region(loop)
            if is_tested:
                self.append(k.EndIf())
        if count > 1:
            self.append(k.EndLoop())

    def _turns_below(self, end: ValueId, step: int, first: int, type_: Type) -> ValueId:
        """Return the end of what counts turns of `step` iterations from `first` on; it may be below 0."""
        if step == 1 and not first:
            return end
        rest = self.add(k.Binary(BinaryOp.ADD, end, self.const(step - 1 - first, type_.dtype), type_))
        return self.add(k.Binary(BinaryOp.DIV, rest, self.const(step, type_.dtype), type_))
