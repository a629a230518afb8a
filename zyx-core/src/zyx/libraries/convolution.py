"""Recognise convolutions in nests.

    y[b, g, o, i...] = sum(c, k...) of x[b, g, c, (i * stride + k * dilation - padding)...] * w[g, o, c, k...]

with zeros where x has no such element. In a nest the places of x are one number, of which strides, dilations, padding
and sizes are read; what they would give is then held against the index and the mask, so that nothing is taken for
another. Results of one channel for each that is read are no sums of products of two sides, and those of one place along
an axis say nothing of its stride: neither is found.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.backend.library import Convolution
from zyx.libraries.results import has_library_types, is_stored
from zyx.nest import expr as e
from zyx.nest.data import Store
from zyx.ops import BinaryOp
from zyx.schedule.contraction import find_contraction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.nest.data import Nest
    from zyx.nest.expr import Expr, Param, Range
    from zyx.schedule.contraction import Contraction

#: The most axes that images have.
_MOST_AXES: Final = 3


@dataclass(frozen=True, slots=True)
class _Linear:
    """``constant + sum of factor * range``."""

    factors: dict[Range, int]
    constant: int

    def below(self, last: int) -> _Linear:
        """Return what is at least 0 where this is at most `last`."""
        return _Linear({range_: -factor for range_, factor in self.factors.items()}, last - self.constant)

    def reduced(self) -> _Linear:
        """Return what is at least 0 exactly where this is, in the smallest factors."""
        by = math.gcd(*self.factors.values()) or 1
        return _Linear({r: factor // by for r, factor in self.factors.items()}, self.constant // by)

    @property
    def least(self) -> int:
        """The least value."""
        return self.constant + sum(min(0, factor * (r.size - 1)) for r, factor in self.factors.items())

    def strides(self, ranges: Sequence[Range | None]) -> list[int]:
        """Return the factors of ranges; 0 of none."""
        return [0 if range_ is None else self.factors.get(range_, 0) for range_ in ranges]


@dataclass(frozen=True, slots=True)
class _Roles:
    """What the ranges of a nest would be: those of one point are left out of it, and None here."""

    batch: Range | None
    group: Range | None
    out: Range | None
    places: tuple[Range, ...]
    channel: Range | None
    taps: tuple[Range | None, ...]


def match_convolution(nest: Nest) -> tuple[Convolution, tuple[Param, Param, Param]] | None:
    """Return the convolution that `nest` is, with the params of x, w and y, if it is one and nothing more."""
    found = find_contraction(nest)
    if found is None or len(found.others) != 1 or len(found.reads) != 2 or not found.statement.reduced:
        return None
    (store,) = found.others
    if not isinstance(store, Store) or not is_stored(found, store) or not has_library_types(found, store):
        return None
    if store.param.dtype is not found.reads[0].param.dtype or (match := _found(found, store)) is None:
        return None
    problem, x, w = match
    return problem, (x.param, w.param, store.param)


def _found(found: Contraction, store: Store) -> tuple[Convolution, e.Read, e.Read] | None:
    """Return the convolution that a sum of products is, with the reads of its images and filters, if it is one.

    Args:
        found: The sum.
        store: What stores its results as they are, everywhere.
    """
    for x, w in (found.reads, found.reads[::-1]):
        places, taps, results = _linear(x.index), _linear(w.index), _linear(store.index)
        if places is None or taps is None or results is None or w.mask is not None:
            continue
        limits = _limits(x.mask)
        if limits is None:
            continue
        for roles in _roles(found, x, w):
            for problem in _problems(roles, places, taps, results, x, w):
                if _is_right(problem, roles, places, limits):
                    return problem, x, w
    return None


def _linear(index: Expr) -> _Linear | None:
    """Return an index as a sum over ranges, if it is nothing else."""
    if isinstance(index, e.Literal):
        return _Linear({}, int(index.value))
    terms, constant = (index.terms, index.constant) if isinstance(index, e.Affine) else (((index, 1),), 0)
    factors: dict[Range, int] = {}
    for term, factor in terms:
        if not isinstance(term, e.RangeRef):
            return None
        factors[term.range] = factor
    return _Linear(factors, constant)


def _limits(mask: Expr | None) -> list[_Linear] | None:
    """Return what a mask says is at least 0; None if it says something else."""
    found: list[_Linear] = []
    stack = [] if mask is None else [mask]
    while stack:
        term = stack.pop()
        if isinstance(term, e.Apply2) and term.op is BinaryOp.AND:
            stack += (term.x, term.y)
            continue
        limit = _linear(term.x) if isinstance(term, e.NonNegative) else None
        if limit is None:
            return None
        if limit.least < 0:  # it is not always so
            found.append(limit.reduced())
    return found


def _roles(found: Contraction, x: e.Read, w: e.Read) -> Iterator[_Roles]:
    """Yield what the ranges may be."""
    kept, reduced = found.statement.value.ranges, found.statement.reduced
    of_both = [r for r in kept if x.index.free & w.index.free & r.bit]
    of_x = [r for r in kept if x.index.free & ~w.index.free & r.bit]
    of_w = [r for r in kept if w.index.free & ~x.index.free & r.bit]
    if max(len(of_both), len(of_w)) > 1 or len(of_both) + len(of_x) + len(of_w) < len(kept):
        return
    group, out = (ranges[0] if ranges else None for ranges in (of_both, of_w))
    for axes in range(1, _MOST_AXES + 1):
        for has_channel in (True, False):
            taps = reduced[has_channel:]
            if not 0 <= len(of_x) - axes <= 1 or len(taps) > axes or not reduced:
                continue
            batch = of_x[0] if len(of_x) > axes else None
            for where in itertools.combinations(range(axes), len(taps)):
                placed: list[Range | None] = [None] * axes
                for axis, tap in zip(where, taps, strict=True):
                    placed[axis] = tap
                channel = reduced[0] if has_channel else None
                yield _Roles(batch, group, out, tuple(of_x[-axes:]), channel, tuple(placed))


def _problems(
    roles: _Roles, places: _Linear, taps: _Linear, results: _Linear, x: e.Read, w: e.Read
) -> Iterator[Convolution]:
    """Yield the convolutions that strides and sizes allow, if the filters and results lie as they have to."""
    batch, groups, out, channels = (_size(r) for r in (roles.batch, roles.group, roles.out, roles.channel))
    kernel, size_out = tuple(map(_size, roles.taps)), tuple(map(_size, roles.places))
    of_results = [roles.batch, roles.group, roles.out, *roles.places]
    of_taps = [roles.group, roles.out, roles.channel, *roles.taps]
    if not _is_row_major(results, of_results) or not _is_row_major(taps, of_taps):
        return
    elements, images = x.param.length, batch * groups * channels
    if elements % images or w.param.length != groups * out * channels * math.prod(kernel):
        return
    image = elements // images
    near = [roles.batch, roles.group, roles.channel]
    if any(
        stride not in (0, wanted)
        for stride, wanted in zip(places.strides(near), _strides([groups, channels, image]), strict=True)
    ):
        return
    for size in _sizes(places, roles, image):
        steps = _strides([*size[1:], 1])
        stride = [factor // step for factor, step in zip(places.strides(roles.places), steps, strict=True)]
        dilation = [
            1 if tap is None else factor // step
            for tap, factor, step in zip(roles.taps, places.strides(roles.taps), steps, strict=True)
        ]
        if min(*stride, *dilation) < 1:
            continue
        for padding in _paddings(size, size_out, kernel, stride, dilation):
            if places.constant == -sum(p * step for p, step in zip(padding, steps, strict=True)):
                yield Convolution(
                    batch, groups, channels, out, size, kernel, tuple(stride), padding, tuple(dilation), x.param.dtype
                )


def _size(range_: Range | None) -> int:
    return 1 if range_ is None else range_.size


def _strides(sizes: Sequence[int]) -> list[int]:
    """Return the products of each size and those behind it."""
    return [math.prod(sizes[number:]) for number in range(len(sizes))]


def _is_row_major(index: _Linear, ranges: Sequence[Range | None]) -> bool:
    sizes = [*map(_size, ranges), 1]
    wanted = [0 if range_ is None else stride for range_, stride in zip(ranges, _strides(sizes[1:]), strict=True)]
    return index.constant == 0 and index.strides(ranges) == wanted and len(index.factors) == sum(map(bool, wanted))


def _sizes(places: _Linear, roles: _Roles, image: int) -> Iterator[tuple[int, ...]]:
    """Yield what the sizes of images may be: of all axes but the first, they divide the strides along those before."""
    axes = len(roles.places)

    def inner(axis: int, step: int) -> Iterator[tuple[int, ...]]:
        """Yield the sizes of the axes up to `axis`, whose elements are so far apart."""
        if axis == 0:
            if image % step == 0:
                yield (image // step,)
            return
        before = math.gcd(*places.strides([roles.places[axis - 1], roles.taps[axis - 1]]))
        for size in range(1, before // step + 1):
            if before % (step * size) == 0 and image % (step * size) == 0:
                for outer in inner(axis - 1, step * size):
                    yield (*outer, size)

    yield from inner(axes - 1, 1)


def _paddings(
    size: Sequence[int], size_out: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the paddings that give results of so many places."""
    choices = []
    for axis, length in enumerate(size):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        least = (size_out[axis] - 1) * stride[axis] + reach - length  # twice the padding, or up to a step more
        first = max(0, -(-least // 2))
        choices.append([p for p in range(first, first + stride[axis]) if 0 <= 2 * p - least < stride[axis]])
    yield from itertools.product(*choices)


def _is_right(problem: Convolution, roles: _Roles, places: _Linear, limits: Sequence[_Linear]) -> bool:
    """Whether a problem reads what a nest does, and zeros where this does."""
    steps = _strides([*problem.size[1:], 1])
    wanted: list[_Linear] = []
    factors: dict[Range, int] = {}
    image = math.prod(problem.size)
    for range_, stride in zip(
        (roles.batch, roles.group, roles.channel), _strides([problem.groups, problem.in_channels, image]), strict=True
    ):
        if range_ is not None:
            factors[range_] = stride
    for axis, step in enumerate(steps):
        place = {roles.places[axis]: problem.stride[axis]}
        tap = roles.taps[axis]
        if tap is not None:
            place[tap] = problem.dilation[axis]
        at = _Linear(place, -problem.padding[axis])
        wanted += [limit.reduced() for limit in (at, at.below(problem.size[axis] - 1)) if limit.least < 0]
        for range_, factor in place.items():
            factors[range_] = factor * step
    if factors != places.factors or len(wanted) != len(limits):
        return False
    return all(any(limit == other for other in wanted) for limit in limits)
