"""Run a kernel with NumPy: what the operations of `zyx.kernel.data` mean, and the oracle of all tests.

All threads of many groups run in lockstep: a value is an array with a row for each thread (or one row, if it is the
same for all threads) and a column for each lane. Loops are Python loops; inside `If`, a mask says which threads take
part. As all threads of a group are in one piece, barriers have nothing to do. Arithmetic is that of `zyx.semantics`.

Memory that a kernel reads before anything was written there holds NaN, or a conspicuous integer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from zyx.errors import LaunchError
from zyx.kernel import data as k
from zyx.kernel.run_memory import Registers, Shared, undefined
from zyx.kernel.run_steps import RunState, run_region, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import Scalar
    from zyx.kernel.data import Kernel
    from zyx.semantics import Array

Argument: TypeAlias = "Array | Scalar | np.generic"

#: Elements of one value that are computed at a time, about: enough to hide NumPy's overhead, few enough for the cache.
CHUNK: Final = 1 << 16


def run(kernel: Kernel, buffers: Sequence[Argument]) -> None:
    """Run a verified kernel on `buffers`: for each param, in order, a 1-D array (changed in place) or a scalar.

    Raises:
        LaunchError: The arguments do not fit the params, or an access is out of bounds; what was stored before stays.
    """
    Executable(kernel)(buffers)


class Executable:
    """A kernel made ready to run many times."""

    def __init__(self, kernel: Kernel, chunk: int = CHUNK) -> None:
        self.kernel = kernel
        self._body = translate(kernel)
        self._shapes = dict(zip((k.Axis.GROUP, k.Axis.LOCAL), kernel.grid, strict=True))
        self._groups, self._threads = (math.prod(shape) for shape in self._shapes.values())
        lanes = max((op.type.lanes for op in kernel.ops if isinstance(op, k.Value)), default=1)
        self._groups_at_once = max(1, chunk // (self._threads * lanes))

    def __call__(self, buffers: Sequence[Argument]) -> None:
        """Run, as `run` does."""
        arguments = self._check(buffers)
        with np.errstate(all="ignore"):
            for first in range(0, self._groups, self._groups_at_once):
                count = min(self._groups_at_once, self._groups - first)
                run_region(self._body, self._machine(arguments, first, count), None)

    def _check(self, buffers: Sequence[Argument]) -> list[Array]:
        """Return the arguments as arrays, those of Variables with one row and one column."""
        params = self.kernel.params
        where = f"kernel {self.kernel.name}"
        if len(params) != len(buffers):
            raise LaunchError(f"{where} has {len(params)} params, but was given {len(buffers)} arguments")
        arguments: list[Array] = []
        for number, (param, buffer) in enumerate(zip(params, buffers, strict=True)):
            if isinstance(param, k.Variable):
                arguments.append(np.array(buffer, dtype=param.type.dtype.numpy).reshape(1, 1))
                continue
            if not isinstance(buffer, np.ndarray) or buffer.dtype != param.dtype.numpy or buffer.ndim != 1:
                given = f"{buffer.dtype}{list(buffer.shape)}" if isinstance(buffer, np.ndarray) else repr(buffer)
                raise LaunchError(f"{where}: param {number} is {param.dtype}[{param.length}], not {given}")
            if len(buffer) < (min(param.length, 1) if param.is_front else param.length):
                raise LaunchError(f"{where}: param {number} has {param.length} elements, the buffer {len(buffer)}")
            arguments.append(buffer)
        return arguments

    def _machine(self, arguments: list[Array], first: int, groups: int) -> RunState:
        """Return the state in which `groups` groups start, the first of them number `first`."""
        threads = self._threads
        machine = RunState(self.kernel, groups * threads)
        positions = {
            k.Axis.GROUP: _coordinates(np.arange(first, first + groups), self._shapes[k.Axis.GROUP]),
            k.Axis.LOCAL: _coordinates(np.arange(threads), self._shapes[k.Axis.LOCAL]),
        }
        remaining = iter(arguments)
        for number, op in enumerate(self.kernel.ops):
            match op:
                case k.Variable():
                    machine.values[number] = next(remaining)
                case k.Define(memory=k.Memory.GLOBAL):
                    array = next(remaining)
                    machine.arrays[number] = Shared(array, min(op.length, len(array)))  # fewer of a front
                case k.Define(memory=k.Memory.LOCAL):
                    array = np.full(groups * op.length, undefined(op.dtype))
                    starts = np.repeat(np.arange(groups), threads).reshape(-1, 1) * op.length if groups > 1 else None
                    machine.arrays[number] = Shared(array, op.length, starts)
                case k.Define(memory=k.Memory.REGISTER):
                    machine.arrays[number] = Registers(op)
                case k.Index(axis=axis, number=axis_number):
                    # One row where groups do not differ, since there is one; else a row for each thread.
                    position = positions[axis][axis_number].astype(op.type.dtype.numpy)
                    if groups > 1 and axis is k.Axis.GROUP:
                        position = position.repeat(threads)
                    elif groups > 1:
                        position = np.tile(position, groups)
                    machine.values[number] = position.reshape(-1, 1)
                case _:
                    pass
        return machine


def _coordinates(positions: Array, shape: Sequence[int]) -> list[Array]:
    """Return where positions lie along each axis: along axis 0 neighbouring threads differ, as a warp lies there."""
    coordinates = []
    for size in shape[:-1]:
        rest = positions // size
        coordinates.append(positions - rest * size)  # by half the time of a remainder
        positions = rest
    return [*coordinates, positions]
