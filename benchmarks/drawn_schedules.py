"""Nests and schedules drawn by seed, for `fit_schedules.py`.

Programs of zyx are drawn: elementwise chains with broadcasts, combinations over any axes, normalisations, scans,
products, windows, axes in other orders, strided parts, looked up rows. The nests of their kernels are what is
scheduled: as it is chosen, as it would be for a device with other caches, vectors or units, in ways made of random
tiles, orders and vectors, and after random moves.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

import zyx
from zyx.errors import ScheduleError, UnsupportedError, VerifyError
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.accesses import combined_ranges, serial_ranges
from zyx.nest.data import Kind, Scan
from zyx.nn import functional as F
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.runtime.profile import Profile
from zyx.schedule.apply import share_out
from zyx.schedule.choose import choose_schedule
from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges, work_of
from zyx.schedule.search import applied
from zyx.schedule.seeds.groups import group_seeds
from zyx.schedule.seeds.processors import neighbours, seeds
from zyx.schedule.seeds.products import product_seeds
from zyx.schedule.spec import Spec
from zyx.schedule.streaming import stream_stores
from zyx.testing.schedules import random_schedule, written_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from zyx.autotune.store import Winner
    from zyx.backend import Device, DeviceInfo, Program
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.testing.choices import Choices

#: Points of the largest tensor of a program, at least.
LEAST_POINTS: Final = 10_000
#: Kernels of more operations take seconds to compile, and points that are written out likewise.
MOST_OPERATIONS: Final = 2000
MOST_WRITTEN_OUT: Final = 256
#: Smaller nests are not timed.
LEAST_WORK: Final = 8000


@dataclass(frozen=True, slots=True)
class DrawnNest:
    """A nest, and the program that it is from: family, shape, seed."""

    family: str
    seed: int
    nest: Nest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule: where it is from, the nest, its kernel."""

    origin: str
    nest: Nest
    kernel: Kernel


class _Collected(Profile):
    """Notes the nests of programs."""

    def __init__(self) -> None:
        super().__init__()
        self.nests: list[Nest] = []

    def started(
        self, future: Future[Program], nests: Sequence[Nest], device: Device, schedule: int, winner: Winner | None
    ) -> None:
        if len(nests) == 1:
            self.nests.append(nests[0])


# ---- programs


def _given(shape: tuple[int, ...]) -> zyx.Tensor:
    """Return a tensor that lies in memory: no constant, which would be computed with when kernels are made."""
    return zyx.Tensor(np.zeros(shape, np.float32))


def _shape(choices: Choices, most: int, axes: int) -> tuple[int, ...]:
    """Return a shape of so many axes, with some number of points between the limits, of sizes that are not round."""
    low, high = math.log(LEAST_POINTS), math.log(most)
    left = low + (high - low) * choices.integer(0, 1000) / 1000
    sizes = []
    for axis in range(axes, 1, -1):
        size = max(2, round(math.exp(left * choices.integer(5, 1900 // axis) / 1000)))
        sizes.append(size)
        left -= math.log(size)
    sizes.append(max(2, round(math.exp(max(left, 0.7)))))
    return tuple(sizes)


def _elementwise(choices: Choices, most: int) -> zyx.Tensor:
    shape = _shape(choices, most, choices.integer(1, 4))
    result = _given(shape)
    for _ in range(choices.integer(1, 5)):
        side = tuple(1 if choices.chance(40) else size for size in shape)
        match choices.integer(0, 5):
            case 0 | 1 | 2:
                result = result * _given(side) + 0.5
            case 3:
                result = result.exp()
            case 4:
                result = result / (_given(side) + 2.0)
            case _:
                result = zyx.where(result > 0, result, _given(side))
    return result


def _axes(choices: Choices, count: int) -> tuple[int, ...]:
    chosen = tuple(axis for axis in range(count) if choices.chance(50))
    return chosen or (choices.integer(0, count - 1),)


def _reduction(choices: Choices, most: int) -> zyx.Tensor:
    shape = _shape(choices, most, choices.integer(1, 4))
    x = _given(shape)
    if choices.chance(50):
        x = x * _given(shape)
    axes = _axes(choices, len(shape))
    return x.max(axes) if choices.chance(30) else x.sum(axes)


def _normalisation(choices: Choices, most: int) -> zyx.Tensor:
    shape = _shape(choices, most, choices.integer(2, 3))
    axis = choices.integer(0, len(shape) - 1)
    x = _given(shape)
    if choices.chance(50):
        return zyx.softmax(x, axis=axis)
    centred = x - x.mean(axis, keepdims=True)
    return centred / (centred.square().mean(axis, keepdims=True) + 1e-5).sqrt()


def _scan(choices: Choices, most: int) -> zyx.Tensor:
    shape = _shape(choices, most, choices.integer(1, 3))
    return _given(shape).cumsum(choices.integer(0, len(shape) - 1))


def _product(choices: Choices, most: int) -> zyx.Tensor:
    rows, columns, depth = (round(math.exp(choices.integer(100, 620) / 100)) for _ in range(3))
    a, b = _given((rows, depth)), _given((depth, columns))
    if choices.chance(30):
        a = _given((depth, rows)).permute_dims((1, 0))
    if choices.chance(30):
        b = _given((columns, depth)).permute_dims((1, 0))
    result = a @ b
    return zyx.relu(result + _given((columns,))) if choices.chance(40) else result


def _windows(choices: Choices, most: int) -> zyx.Tensor:
    channels, out = choices.pick((1, 3, 8, 16)), choices.pick((1, 4, 8, 32))
    side = choices.integer(16, 90)
    x = _given((choices.integer(1, 4), channels, side, side + choices.integer(0, 9)))
    match choices.integer(0, 2):
        case 0:
            size = choices.pick((1, 3, 5))
            return zyx.conv2d(x, _given((out, channels, size, size)), padding=choices.integer(0, 1))
        case 1:
            return F.max_pool2d(x, choices.pick((2, 3)))
        case _:
            y = _given((side * 16, side * 9))
            return y[1:-1, 1:-1] * 4 - y[:-2, 1:-1] - y[2:, 1:-1] - y[1:-1, :-2] - y[1:-1, 2:]


def _movement(choices: Choices, most: int) -> zyx.Tensor:
    shape = _shape(choices, most, choices.integer(2, 4))
    order = list(range(len(shape)))
    for _ in range(4):
        i, j = choices.integer(0, len(order) - 1), choices.integer(0, len(order) - 1)
        order[i], order[j] = order[j], order[i]
    x = _given(shape).permute_dims(tuple(order))
    if choices.chance(30):
        x = zyx.flip(x, axis=choices.integer(0, len(shape) - 1))
    if choices.chance(30):
        x = x[:: choices.integer(2, 3)]
    return x + 1.0


def _looked_up(choices: Choices, most: int) -> zyx.Tensor:
    rows, columns = _shape(choices, most, 2)
    count = choices.integer(100, 20_000)
    count = min(count, most // columns)
    where = zyx.Tensor(np.random.default_rng(choices.integer(0, 99)).integers(0, rows, count).astype(np.int32))
    found = zyx.take(_given((rows, columns)), where, axis=0)
    return found.sum(0) if choices.chance(40) else found * 2.0


FAMILIES: Final[dict[str, Callable[[Choices, int], zyx.Tensor]]] = {
    "elementwise": _elementwise, "reduction": _reduction, "normalisation": _normalisation, "scan": _scan,
    "product": _product, "windows": _windows, "movement": _movement, "looked up": _looked_up,
}  # fmt: skip


def drawn_nests(seed: int, first_seed: int, most_points: int, choices: Choices) -> Iterator[DrawnNest]:
    """Yield the nests of a program that is drawn, the families in turn from `first_seed` on, on the current runtime."""
    runtime = zyx.runtime.runtime.current()
    family = list(FAMILIES)[(seed - first_seed) % len(FAMILIES)]
    collected = _Collected()
    with runtime.profiled(collected):
        try:
            FAMILIES[family](choices, most_points).realize()
        except (zyx.errors.ZyxError, MemoryError) as error:
            print(f"seed {seed}, {family}: {type(error).__name__}: {error}")
    for nest in collected.nests:
        if sum(map(work_of, nest.statements)) >= LEAST_WORK:
            yield DrawnNest(family, seed, nest)


# ---- schedules


def drawn_schedules(nest: Nest, info: DeviceInfo, choices: Choices, count: int) -> list[Candidate]:
    """Return up to so many schedules whose kernels differ, what is chosen first."""
    found: dict[str, Candidate] = {}

    def add(origin: str, scheduled: Nest) -> None:
        if written_out(scheduled) > MOST_WRITTEN_OUT and origin != "chosen":
            return
        try:
            kernel = run_passes(lower(scheduled, "drawn"), standard_passes(info))
            if len(kernel.ops) > MOST_OPERATIONS and origin != "chosen":
                return
            verify(kernel)
        except (ScheduleError, VerifyError, UnsupportedError):
            return
        found.setdefault(str(kernel), Candidate(origin, scheduled, kernel))

    chosen, _ = choose_schedule(nest, info)
    add("chosen", chosen)
    for spec in _specs(nest, info):
        plan = Plan(nest)
        simplify_ranges(plan)
        try:
            add("spec", applied(plan, spec, info).nest)
        except ScheduleError:
            continue
    for other in _other_devices(info):
        try:
            add("other device", choose_schedule(nest, other)[0])
        except ScheduleError:
            continue
    tries = 0
    while len(found) < count and tries < 12 * count:
        tries += 1
        try:
            if tries % 3 == 0 or info.max_group_threads > 1:
                add("random moves", random_schedule(choices, chosen, 4).nest)
            else:
                add("random tiles", _tiled(nest, info, choices))
        except ScheduleError:
            continue
    return list(found.values())[:count]


def _specs(nest: Nest, info: DeviceInfo) -> Iterator[Spec | Plan]:
    """Yield what a nest is chosen from on a processor; or groups of threads, and the neighbours of those."""
    plan = Plan(nest)
    simplify_ranges(plan)
    product = find_contraction(plan.nest) if info.vector_bytes else None
    if info.max_group_threads > 1:
        found = [*group_seeds(plan.nest, product, info, is_alone=True)]
        yield from found
        yield from itertools.chain.from_iterable(neighbours(plan.nest, x) for x in found if isinstance(x, Spec))
        return
    yield from product_seeds(plan.nest, product, info) if product else seeds(plan.nest, info)


def _other_devices(info: DeviceInfo) -> Iterator[DeviceInfo]:
    """Yield devices that differ in one respect: what is chosen for them is another way to do it on this one."""
    for factor in (0.125, 0.5, 2, 8):
        yield replace(info, cache_bytes=tuple(max(64, int(size * factor)) for size in info.cache_bytes))
    for part in (2, 4):
        yield replace(info, vector_bytes=info.vector_bytes // part)
    yield replace(info, registers=max(8, info.registers // 2))
    yield replace(info, has_streaming=not info.has_streaming)
    yield replace(info, has_shuffle=not info.has_shuffle)
    yield replace(info, units=4 * info.units)
    yield replace(info, units=max(1, info.units // 4))


def _tiled(nest: Nest, info: DeviceInfo, choices: Choices) -> Nest:
    """Return a nest with some ranges in tiles, the loops in some order, and vectors along one of its ranges."""
    plan = Plan(nest)
    simplify_ranges(plan)
    statement = max(plan.nest.statements, key=work_of)
    inner = []
    lanes = choices.pick((info.vector_bytes // 4 or 1, info.vector_bytes // 4 or 1, info.vector_bytes // 8 or 1, 1))
    free = [r for r in statement.order if not (isinstance(statement, Scan) and r in statement.along)]
    free = [r for r in free if not (r in serial_ranges(statement) and r not in combined_ranges(statement))]
    if lanes > 1 and free:
        range_ = choices.pick(free)
        several = choices.pick((1, 1, 2, 4))
        if range_.size >= lanes * several:
            if several > 1:
                _, block = plan.split(range_, lanes * several)
                unrolled, vector = plan.split(block, lanes)
                plan.mark(unrolled, choices.pick((Kind.UNROLL, Kind.REPEAT)))
                inner.append(unrolled)
            else:
                _, vector = plan.split(range_, lanes)
            plan.mark(vector, Kind.VECTOR)
            inner.append(vector)
    for _ in range(choices.integer(0, 2)):
        loops = [r for r in plan.nest.ranges if plan.nest.kind(r) is Kind.LOOP and r.size >= 8]
        if loops:
            _, tile = plan.split(choices.pick(loops), choices.pick((2, 4, 8, 32, 128)))
            if tile.size <= 8 and choices.chance(50):
                plan.mark(tile, choices.pick((Kind.UNROLL, Kind.REPEAT)))
                inner.insert(0, tile)
    loops = [r for r in plan.nest.ranges if plan.nest.kind(r) is Kind.LOOP]
    if choices.chance(70):
        for position in range(len(loops)):
            other = choices.integer(0, len(loops) - 1)
            loops[position], loops[other] = loops[other], loops[position]
    plan.order([*loops, *inner])
    share_out(plan, info)
    if choices.chance(50):
        stream_stores(plan, info)
    return plan.nest
