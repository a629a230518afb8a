"""Time programs of one launch beside each other, and see whether they compute the same.

Buffers are made for it. There are several sets of them, which launches take in turn, so that together they are more
than the last cache holds, as far as `_MOST_SETS` and memory go: what a kernel reads is then as far away as in a program
whose other kernels were there in between. Devices that capture launches are given some in a row, so that what the host
takes for one does not count.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.backend.device import Launch, SupportsCapture, SupportsTiming
from zyx.errors import AllocationError, BackendError, DeviceLostError
from zyx.nest.accesses import below, roots_of
from zyx.nest.expr import Opaque, Within
from zyx.nest.run import run_nest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Argument, Device, PoolBuffer, Program
    from zyx.dtype import DType, Scalar
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param

#: Sets of buffers at most, and the part of the free memory that they may take together.
_MOST_SETS: Final = 64
_PART_OF_MEMORY: Final = 0.25
#: Seconds below which launches are timed in a row, and that a row takes about.
_SHORT_S: Final = 3e-4
_ROW_S: Final = 5e-3
#: Launches of a row at most: what captures them keeps something of each.
_MOST_OF_A_ROW: Final = 256
#: Launches, or rows of them, that are timed at least; and seconds after which these are enough.
_FEWEST: Final = 3
_ENOUGH_S: Final = 0.1
#: Points of all statements up to which the interpreter of nests takes a fraction of a second.
_MOST_POINTS: Final = 1 << 20
#: Where so large a part of what is computed is NaN, there is not enough to see.
_MOSTLY: Final = 0.5
#: How far results may be from each other, as a part of the largest: sums are taken in other orders. Wrong indices and
#: masks are further off. By the bits of the dtype.
_TOLERANCES: Final = {64: 1e-9, 32: 1e-4, 16: 5e-2, 8: 0.25}


class Scratch:
    """Buffers for the params of a launch, and what is timed on them.

    Args:
        device: Where.
        nests: What the launch computes.
        params: In launch order, numbers behind buffers.
        values: What is known of them: the numbers that the launch was given, and the contents of buffers of integers.
            These may be places, so they are zeros where nothing is known.
        seed: Of the contents of the others.

    Raises:
        AllocationError: There is no room for one set.
    """

    def __init__(
        self,
        device: Device,
        nests: Sequence[Nest],
        params: Sequence[Param],
        values: Mapping[int, Scalar | np.ndarray[Any, Any]],
        seed: int = 0,
    ) -> None:
        self._device = device
        self._nests = nests
        self._params = params
        self._rows: dict[tuple[Program, bool], tuple[Program, int]] = {}
        self._sets: list[list[PoolBuffer]] = []
        self._numbers: list[Scalar] = [values.get(p.number, 0) for p in params if p.by_value]  # type: ignore[misc]  # numbers are
        self._contents = _contents(nests, params, values, np.random.default_rng(seed), is_positive=False)
        nbytes = sum(param.length * param.dtype.itemsize for param in params if not param.by_value)
        room = int(_PART_OF_MEMORY * device.memory_pool.free_bytes)
        wanted = 2 * max(device.info.cache_bytes, default=0)
        try:
            self._sets.append(self._one_set())
            while len(self._sets) < min(_MOST_SETS, room // max(nbytes, 1)) and len(self._sets) * nbytes < wanted:
                self._sets.append(self._one_set())
        except AllocationError:
            if not self._sets:
                raise
        except BaseException:
            self.close()
            raise
        self._seed = seed
        self._values = values
        self._fill()

    def _one_set(self) -> list[PoolBuffer]:
        pool = self._device.memory_pool
        made: list[PoolBuffer] = []
        try:
            for param in self._params:
                if not param.by_value:
                    buffer, event = pool.allocate(max(1, param.length * param.dtype.itemsize))
                    made.append(buffer)
                    pool.sync_events([event])
        except BaseException:
            for buffer in made:
                pool.deallocate(buffer)
            raise
        return made

    def _fill(self) -> None:
        for buffers in self._sets:
            for buffer, content in zip(buffers, self._contents, strict=True):
                self._upload(buffer, content)

    def _upload(self, buffer: PoolBuffer, content: np.ndarray[Any, Any]) -> None:
        if content.size:
            pool = self._device.memory_pool
            pool.sync_events([pool.host_to_pool(_bytes_of(content), buffer)])

    # ---- what is computed

    def reference(self, program: Program) -> list[np.ndarray[Any, Any]]:
        """Return what a program computes that is taken for right, and fill the buffers so that there is much to see.

        Raises:
            BackendError: The device refuses the launch.
        """
        found = self.results(program)
        if any(array.dtype.kind not in "iub" and array.size and _share_of_nan(array) > _MOSTLY for array in found):
            generator = np.random.default_rng(self._seed)
            self._contents = _contents(self._nests, self._params, self._values, generator, is_positive=True)
            self._fill()
            found = self.results(program)
        return found

    def results(self, program: Program, order: Sequence[int] | None = None) -> list[np.ndarray[Any, Any]]:
        """Return what the buffers that are written to hold after a launch, each as it was filled before it.

        Args:
            program: What is launched.
            order: The places of its arguments among the params, if it does not take these as they are.
        """
        pool, buffers = self._device.memory_pool, self._sets[0]
        mine = [param for param in self._params if not param.by_value]
        for param, buffer, content in zip(mine, buffers, self._contents, strict=True):
            if param.mutable:
                self._upload(buffer, content)
        pool.sync_events([self._device.launch(program, self._arguments(0, order))])
        found: list[np.ndarray[Any, Any]] = []
        for param, buffer in zip(mine, buffers, strict=True):
            if param.mutable:
                array = np.empty(param.length, param.dtype.numpy)
                if array.size:
                    pool.pool_to_host(buffer, _bytes_of(array))
                found.append(array)
        return found

    def interpreted(self) -> list[np.ndarray[Any, Any]] | None:
        """Return what the interpreter of nests computes; None if that takes too long."""
        points = sum(math.prod(r.size for r in s.order) for nest in self._nests for s in nest.statements)
        if points > _MOST_POINTS:
            return None
        buffers = [param for param in self._params if not param.by_value]
        arrays = {param: content.copy() for param, content in zip(buffers, self._contents, strict=True)}
        numbers = [param for param in self._params if param.by_value]
        for param, number in zip(numbers, self._numbers, strict=True):
            arrays[param] = np.asarray([number], param.dtype.numpy)
        with np.errstate(all="ignore"):
            for nest in self._nests:
                run_nest(nest, [arrays[param] for param in nest.params])
        return [arrays[param] for param in buffers if param.mutable]

    # ---- how long it takes

    def seconds(
        self,
        program: Program,
        launches: int,
        *,
        order: Sequence[int] | None = None,
        hopeless_s: float = math.inf,
        in_turns: bool = True,
    ) -> float:
        """Return the median seconds of a launch.

        Args:
            program: What is launched.
            launches: How often, beside one to warm up.
            order: As `results` takes it; always the same for a program.
            hopeless_s: What it is not to take: then one launch is enough.
            in_turns: Whether launches take the sets of buffers in turn; or else all take the same.

        Raises:
            BackendError: The device refuses it.
        """
        first = self._once(program, 0, order)
        first = min(first, self._once(program, 0, order))  # the first one may have been interrupted, or waited for code
        if first >= hopeless_s:
            return first
        row = self._row(program, first, order, in_turns=in_turns) if first < _SHORT_S else None
        if row is None:
            sets = len(self._sets) if in_turns else 1
            times = [self._once(program, number % sets, order) for number in range(min(launches, _FEWEST))]
            while len(times) < launches and sum(times) < _ENOUGH_S:
                times.append(self._once(program, len(times) % sets, order))
            return statistics.median(times)
        captured, count = row
        device = self._device
        assert isinstance(device, SupportsTiming)  # or there were no row
        rows = max(_FEWEST, -(-launches // count))
        return statistics.median(device.timed_launch(captured, ()) / count for _ in range(rows))

    def _once(self, program: Program, number: int, order: Sequence[int] | None) -> float:
        device = self._device
        if isinstance(device, SupportsTiming):
            return device.timed_launch(program, self._arguments(number, order))
        started = time.perf_counter()
        device.memory_pool.sync_events([device.launch(program, self._arguments(number, order))])
        return time.perf_counter() - started

    def _arguments(self, number: int, order: Sequence[int] | None) -> list[Argument]:
        every: list[Argument] = [*self._sets[number], *self._numbers]
        return every if order is None else [every[place] for place in order]

    def _row(
        self, program: Program, seconds: float, order: Sequence[int] | None, *, in_turns: bool
    ) -> tuple[Program, int] | None:
        """Return a program of several launches, and how many; None if the device makes none that its clock can time."""
        device = self._device
        known = self._rows.get((program, in_turns))
        if known is not None or not isinstance(device, SupportsTiming) or not isinstance(device, SupportsCapture):
            return known
        sets = len(self._sets) if in_turns else 1
        count = min(_MOST_OF_A_ROW, max(sets, math.ceil(_ROW_S / max(seconds, 1e-7))))
        launches = [Launch(program, tuple(self._arguments(number % sets, order))) for number in range(count)]
        try:
            captured = device.capture(launches, 0)
        except DeviceLostError:
            raise
        except BackendError:
            return None
        device.timed_launch(captured, ())  # what is recorded is recorded now
        self._rows[program, in_turns] = captured, count
        return captured, count

    def forget(self, program: Program) -> None:
        """Release what was captured of a program."""
        for key in [key for key in self._rows if key[0] is program]:
            self._device.release(self._rows.pop(key)[0])

    def abandon(self) -> None:
        """Leave the buffers to a launch that does not come back: it may write to them still."""
        self._rows.clear()
        self._sets.clear()

    def close(self) -> None:
        """Free the buffers, and release what was captured."""
        for captured, _ in self._rows.values():
            self._device.release(captured)
        self._rows.clear()
        for buffer in (buffer for buffers in self._sets for buffer in buffers):
            self._device.memory_pool.deallocate(buffer)
        self._sets.clear()


def differs(found: Sequence[np.ndarray[Any, Any]], wanted: Sequence[np.ndarray[Any, Any]]) -> str:
    """Say how results differ by more than orders of sums explain; nothing if they do not."""
    for number, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        if np.array_equal(mine.view(np.uint8), right.view(np.uint8)):
            continue
        if mine.dtype.kind in "iub":
            wrong = mine != right
        else:
            bits = 8 * mine.dtype.itemsize
            if bits < 32:
                mine, right = mine.astype(np.float32), right.astype(np.float32)
            with np.errstate(all="ignore"):
                largest = np.abs(right).max(initial=0.0)
                if not np.isfinite(largest):
                    largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
                wrong = ~(np.abs(mine - right) <= _TOLERANCES[bits] * largest)
            if wrong.any():  # infinities and NaN, which are no numbers to compare, among them
                wrong &= ~((mine == right) | (np.isnan(mine) & np.isnan(right)))
        if wrong.any():
            at = int(np.argmax(wrong))
            return f"result {number} differs in {int(wrong.sum())} of {wrong.size}: {found[number][at]} for {right[at]}"
    return ""


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return memoryview(array.view(np.uint8))  # type: ignore[arg-type]  # arrays are buffers


def _share_of_nan(array: np.ndarray[Any, Any]) -> float:
    return float(np.isnan(array.astype(np.float64)).mean())


def _contents(
    nests: Sequence[Nest],
    params: Sequence[Param],
    values: Mapping[int, Scalar | np.ndarray[Any, Any]],
    generator: np.random.Generator,
    *,
    is_positive: bool,
) -> list[np.ndarray[Any, Any]]:
    """Return what the buffers hold."""
    has_places = any(_reads_places(nest) for nest in nests)
    found: list[np.ndarray[Any, Any]] = []
    for param in params:
        if param.by_value:
            continue
        known = values.get(param.number)
        if isinstance(known, np.ndarray):
            found.append(np.ascontiguousarray(known.ravel()))
        elif has_places and not param.dtype.is_float and not param.dtype.is_bool:
            found.append(np.zeros(param.length, param.dtype.numpy))
        else:
            found.append(drawn_values(param.length, param.dtype, generator, is_positive=is_positive))
    return found


def drawn_values(
    length: int, dtype: DType, generator: np.random.Generator, *, is_positive: bool
) -> np.ndarray[Any, Any]:
    """Return what buffers are filled with of which nothing is known."""
    if dtype.is_bool:
        return generator.integers(0, 2, length).astype(dtype.numpy)
    if not dtype.is_float:
        return generator.integers(1, 100, length).astype(dtype.numpy)
    drawn = generator.random(length, np.float32) + 0.5 if is_positive else generator.standard_normal(length, np.float32)
    return drawn.astype(dtype.numpy)


def _reads_places(nest: Nest) -> bool:
    """Whether what a nest reads decides where it reads or stores."""
    expressions = below(*(root for statement in nest.statements for root in roots_of(statement)))
    return any(isinstance(expr, Within | Opaque) for expr in expressions)
