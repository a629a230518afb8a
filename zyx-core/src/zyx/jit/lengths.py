"""Sizes that change from call to call: from the third one on, one trace for all of them.

    @zyx.jit
    def normalized(x): return x - x.mean(0)

    normalized(x) of x[20, 3], of x[31, 3]      a trace each
    normalized(x) of x[25, 3]                   a trace for x[n, 3], and a plan for x[128, 3], given n = 25
    normalized(x) of x[27, 3]                   the same plan, given 27
    normalized(x) of x[150, 3]                  the same trace, and a plan for x[512, 3]

So do ints among the arguments that the function looks at, as it does at sizes:

    @zyx.jit
    def front(x, n): return x[:n] * zyx.arange(n)

Where a size is divided, as windows with strides do, lengths count steps in which what is left is known:

    max_pool1d(x, 2) of x[3, 25]        a trace for x[3, 2 * n + 1], given n = 12
    max_pool1d(x, 2) of x[3, 30]        a trace for x[3, 2 * n]

All sizes that vary have to follow one length, or two (`zyx.specialise.follow`). What a trace for many lengths is made
with, and how it is known which those are, says `zyx.jit.sizes`; how it is run, `zyx.jit.bucketed`.

Where it is declared which sizes vary (`zyx.jit.dims`), that is so from the first call on, and at no length there is
another trace because it is run in succession.

Where there is no such trace or plan, a length has a trace of its own, as has one that is run many times in succession.
``ZYX_DEBUG=plan`` says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from zyx.jit.bucketed import BucketedTrace
from zyx.jit.numbers import LookedAt, Numbers
from zyx.jit.sizes import Extent
from zyx.runtime.tracing import Tracing, Unfit
from zyx.specialise import table as specialise
from zyx.specialise.follow import Followed, in_steps
from zyx.specialise.length import Length
from zyx.specialise.lengths import LEAST_BOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx.jit.bucketed import BoundedEntry, Call
    from zyx.jit.dims import Declared
    from zyx.jit.function import SignatureTraces
    from zyx.runtime.handle import Handle
    from zyx.specialise.length import Product
    from zyx.specialise.table import Outline

#: Lengths that vary at once.
_MOST_LENGTHS: Final = 2
#: Traces that turned out to be for one length alone, after which no more are made.
_MOST_PINNED: Final = 2
#: Traces that are made for symbolic sizes until one has served often: each call could need another one.
_MOST_MADE: Final = 8
_SERVED_FOR_ONE: Final = 32
#: Steps in which lengths are counted, and how many kinds of rests have traces that they share.
_MOST_STEPS: Final = 1024
_MOST_RESTS: Final = 8


def run_at_length(
    outline: Outline,
    call: Call,
    sizes: tuple[int, ...],
    declared: Declared | None,
    kept: Callable[[TracedSizes], SignatureTraces | None],
    keep: Callable[[TracedSizes, BucketedTrace], SignatureTraces],
) -> tuple[Any, BucketReplay] | None:
    """Return what a call gives by a trace for many lengths, and what gives it again.

    None if it is to have a trace of its own.

    Args:
        outline: Of calls that are alike but for sizes of tensors, and for numbers.
        call: The call.
        sizes: Those of all its tensors, and its numbers that are sizes.
        declared: Which sizes vary, where that was declared.
        kept: From symbolic sizes to the traces that are kept for it.
        keep: Keeps one more.
    """
    with call.runtime.lock:
        if call.numbers:
            outline.given(call.numbers)
        symbolic, lengths = _symbolic_sizes(outline, sizes, declared)
        if symbolic is None or not symbolic.serves(lengths):
            return None
        there = kept(symbolic)
        for known in () if there is None else there.entries:
            if lengths in known.extent and (not known.fixed or known.has_fixed(call.numbers)):
                outside = known.found(call.tensors)
                if outside is not None and there is not None:
                    return symbolic.run(known, outside, call, lengths, there)
        if not symbolic.may_trace():
            return None
    trace, tracing = _trace(outline, call, symbolic, lengths)  # the second keeps what was found until the first run
    if trace is None:
        return run_at_length(outline, call, sizes, declared, kept, keep) if symbolic.is_left else None
    if lengths not in trace.extent:  # it was made at others
        symbolic.settled.add(lengths)
        return None
    with call.runtime.lock:
        symbolic.pinned = 0
        there = keep(symbolic, trace)
        outside = trace.found(call.tensors)
        done = None if outside is None else symbolic.run(trace, outside, call, lengths, there)
        del tracing
        trace.settle()
    return done


def _symbolic_sizes(
    outline: Outline, sizes: tuple[int, ...], declared: Declared | None
) -> tuple[TracedSizes | None, tuple[int, ...]]:
    """Return how sizes follow lengths, found out from those of other calls, and the lengths."""
    if declared is None:
        rows = [*outline.rows, sizes]
        found = outline.symbolic_sizes(sizes, _MOST_LENGTHS, lambda followed: TracedSizes(followed).saw(rows))
    else:
        found = outline.known_sizes(sizes)
        if found is None:
            outline.add(_declared(sizes, declared))
            found = outline.known_sizes(sizes)
    if found is None:
        return None, ()
    symbolic: TracedSizes | None
    symbolic, lengths = found
    if symbolic.is_left:
        symbolic, lengths = symbolic.now(lengths, sizes)
    if symbolic is not None and min(lengths) < 2 <= max(lengths):
        return symbolic.beside(lengths, sizes)
    return symbolic, lengths


def _declared(sizes: tuple[int, ...], declared: Declared) -> TracedSizes:
    """Return how sizes follow lengths that were declared, beside those that do not."""
    numbers = [declared.number_of.get(place) for place in range(len(sizes))]
    followed = [
        Length(0, size) if number is None else Length.of({(number,): 1})
        for size, number in zip(sizes, numbers, strict=True)
    ]
    return TracedSizes(Followed(tuple(followed)), declared.most, is_declared=True)


def _trace(
    outline: Outline, call: Call, symbolic: TracedSizes, lengths: tuple[int, ...]
) -> tuple[BucketedTrace | None, Tracing | None]:
    """Trace the function for many lengths."""
    error: Exception = LookedAt()
    apart = 0
    while symbolic.may_trace():
        symbolic.traced += 1
        fixed = frozenset(range(len(call.numbers))) - outline.changed | outline.kept | call.static
        fixed -= outline.sized
        numbers = Numbers(fixed)
        # A length that is another size by chance looks as if it were that one: any other ones do as well.
        made_at = [length + apart * (number + 7) for number, length in enumerate(lengths)]
        if len({*made_at}) < len(made_at):
            made_at[-1] += 5
        extent = Extent(made_at, numbers, symbolic.most, [-(-LEAST_BOUND // step) for step in symbolic.steps])
        remaining = iter(symbolic.sizes)
        shapes = [tuple([extent.made(next(remaining)) for _ in tensor._node.shape]) for tensor in call.tensors]
        numbers.sizes = {place: extent.made(size) for place, size in zip(sorted(outline.sized), remaining, strict=True)}
        tracing = Tracing(call.runtime, shapes)
        if call.runtime.trace.plans:
            shown = " and ".join(map(str, lengths))
            why = "sizes of its arguments change" if symbolic.settles else "for lengths that were declared"
            call.runtime.trace.traced(call.name, f"{why}; for lengths such as {shown}")
        try:
            trace = BucketedTrace(call, extent, tracing)
            tracing.finish()
            return trace, tracing
        except LookedAt:
            if numbers.looked_at == fixed or -1 in numbers.looked_at:
                if symbolic.leave(extent.finer):
                    break
                symbolic.pinned += 1
                apart += 1
                error = LookedAt(f"{extent.place or 'the runtime'} looks at the number of elements itself")
            else:
                outline.kept |= numbers.looked_at
        except Exception as raised:  # noqa: BLE001  # it takes no stand-ins; or it fails anyway, with those of its own
            symbolic.pinned = _MOST_PINNED
            error = raised
    call.runtime.trace.unbounded(max(lengths), error, "trace")
    return None, None


class TracedSizes(specialise.SymbolicSizes):
    """How sizes follow lengths, and what became of the traces for them.

    Attributes:
        most: The greatest of each length, as `Extent` has them.
        traced: How many traces were made.
        pinned: How many turned out to be for one length, since one was of use.
        is_left: Whether lengths that count more steps are to take its place.
        steps: What its lengths count; nothing where that is elements.
    """

    def __init__(
        self,
        followed: Followed,
        most: tuple[int | None, ...] = (),
        *,
        is_declared: bool = False,
        counted_by: TracedSizes | None = None,
    ) -> None:
        super().__init__(followed, settles=not is_declared)
        self.most = most
        self.traced = 0
        self.pinned = 0
        self.is_left = False
        self.steps: list[int] = []
        if counted_by is not None:
            step = counted_by._step
            self.steps = [mine * times for mine, times in zip(counted_by.steps or [1] * len(step), step, strict=True)]
        self._counted_by = counted_by
        self._step: list[int] = []
        self._stepped: dict[tuple[int, ...], TracedSizes] = {}
        self._beside: dict[tuple[int, ...], TracedSizes] = {}
        self._seen: set[tuple[int, ...]] | None = None if is_declared or counted_by else set()
        self._replays = 0

    def saw(self, rows: Iterable[tuple[int, ...]]) -> Self:
        """Note the lengths of calls, and return it."""
        if self._seen is not None:
            self._seen.update(lengths for row in rows if (lengths := self.followed.lengths_of(row)) is not None)
        return self

    def serves(self, lengths: tuple[int, ...]) -> bool:
        """Whether lengths are to share a trace: from the third one on, unless they have settled.

        Those of 0 and 1 are apart: there may be nothing, and what has one element is repeated beside others.
        """
        if min(lengths) < 2 or lengths in self.settled:
            return False
        if self._seen is not None:
            self._seen.add(lengths)
            if len(self._seen) < 3:
                return False
            self._seen = None
        return True

    def beside(self, lengths: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[TracedSizes | None, tuple[int, ...]]:
        """Return how sizes follow the other lengths where some are 0 or 1, which have traces of their own."""
        kept = [number for number, length in enumerate(lengths) if length > 1]
        key = tuple([0 if number in kept else length + 1 for number, length in enumerate(lengths)])
        found = self._beside.get(key)
        if found is None:
            new: dict[Product, Product] = {(number,): (place,) for place, number in enumerate(kept)}
            new[()] = ()
            followed = [
                Length.of({new[product]: term for product, term in size.terms.items()})
                if new.keys() >= size.terms.keys()
                else Length(0, size.at(*lengths))
                for size in self.sizes
            ]
            most = tuple([self.most[number] for number in kept]) if self.most else ()
            found = self._beside[key] = TracedSizes(Followed(tuple(followed)), most, is_declared=not self.settles)
            found.steps = [self.steps[number] for number in kept] if self.steps else []
        served = found.followed.lengths_of(sizes)
        if served is None:
            return None, ()
        return found.now(served, sizes) if found.is_left else (found, served)

    def leave(self, finer: Sequence[int]) -> bool:
        """Whether lengths that count so many times more are to take its place, unless these are too many."""
        plain = self._counted_by or self
        steps = [mine * times for mine, times in zip(plain._step or [1] * len(finer), finer, strict=True)]
        if max(finer) == 1 or math.prod(steps) > _MOST_STEPS or plain.most:
            return False
        plain._step, plain._stepped, plain.is_left, self.is_left = steps, {}, True, True
        return True

    def now(self, lengths: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[TracedSizes | None, tuple[int, ...]]:
        """Return the sizes that take its place, and the lengths there; None if there are too many for one more."""
        rests = tuple([length % step for length, step in zip(lengths, self._step, strict=True)])
        found = self._stepped.get(rests)
        if found is None:
            if len(self._stepped) == _MOST_RESTS:
                return None, ()
            found = TracedSizes(Followed(in_steps(self.sizes, self._step, rests)), counted_by=self)
            self._stepped[rests] = found
        return found, found.followed.lengths_of(sizes) or ()

    def may_trace(self) -> bool:
        """Whether one more trace is to be made."""
        return self.pinned < _MOST_PINNED and self.traced < _MOST_MADE + self._replays // _SERVED_FOR_ONE

    def run(
        self,
        trace: BucketedTrace,
        outside: Sequence[Handle],
        call: Call,
        lengths: tuple[int, ...],
        kept: SignatureTraces,
    ) -> tuple[Any, BucketReplay] | None:
        """Return what a trace gives for a call, and what gives it again; None if it, or no plan of it, is for that."""
        bounded = trace.at(lengths, call.tensors)
        if bounded is None:
            return None
        self._replays += 1
        self.ran(lengths, bounded.points)
        numbers: list[Any] = [*call.numbers, lengths]
        try:
            return bounded.run(call.tensors, outside, numbers), BucketReplay(bounded, numbers, self, kept)
        except Unfit:
            return None


class BucketReplay(NamedTuple):
    """A call that was run by a plan for a greatest length, to be replayed.

    Attributes:
        bounded: What runs it.
        numbers: Those of the call, and the length.
        symbolic: What notes how often it is run.
        kept: Where its trace is kept.
    """

    bounded: BoundedEntry
    numbers: Sequence[Any]
    symbolic: TracedSizes
    kept: SignatureTraces

    def run(self, tensors: Sequence[Handle]) -> tuple[Any] | None:
        """Return what the same call gives with other values, None if that is not known any more."""
        if self.numbers[-1] in self.symbolic.settled:
            return None
        outside = self.bounded.found(tensors)
        if outside is None:
            return None
        self.symbolic.ran(self.numbers[-1], self.bounded.points)
        return (self.bounded.run(tensors, outside, self.numbers),)
