"""Steps of a plan that the host does: inputs are copied to it, a function is called, results are copied back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zyx.errors import BackendError, locate
from zyx.runtime.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zyx.dtype import DType, Scalar
    from zyx.graph.host_call import HostCall
    from zyx.runtime.trace import Trace
    from zyx.shape import Shape

Array: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True, slots=True)
class ArraySlot:
    """Where an array of a call lies: the number of the buffer, and how to read it."""

    buffer: int
    shape: Shape
    dtype: DType


@dataclass(frozen=True, slots=True)
class HostStep:
    """Call `call` on what lies in `reads`, and store what it gives in `writes`, for `lines` of the program."""

    call: HostCall
    device: str
    reads: tuple[ArraySlot, ...]
    writes: tuple[ArraySlot, ...]
    lines: tuple[str, ...] = ()

    @property
    def bytes_moved(self) -> int:
        """Bytes that are copied to the host and back."""
        places = (*self.reads, *self.writes)
        return sum(int(np.prod(place.shape, dtype=np.int64)) * place.dtype.itemsize for place in places)

    @property
    def waits(self) -> bool:
        """Whether the runtime's lock is free while the function runs, so that others may do anything meanwhile."""
        return self.call.around is not None

    def run(self, buffers: Sequence[Buffer | Scalar], trace: Trace) -> None:
        """Do it on the buffers of a run; all of it is over when this returns.

        Raises:
            BackendError: A copy failed, or the work that the inputs come from.
            LinAlgError: The call found no result. Nothing is stored then.
        """
        started = time.perf_counter()
        results = self.call.run([_read(buffers[place.buffer], place) for place in self.reads])
        for place, result in zip(self.writes, results, strict=True):
            target = buffers[place.buffer]
            assert isinstance(target, Buffer)  # numbers are given, not made
            _write(np.ascontiguousarray(result, place.dtype.numpy), target)
        trace.called(self, time.perf_counter() - started, buffers)


def _read(buffer: Buffer | Scalar, place: ArraySlot) -> Array:
    """Return the values of a buffer, or the number that the plan is given in place of one."""
    if not isinstance(buffer, Buffer):
        return np.full(place.shape, buffer, place.dtype.numpy)
    array = np.empty(place.shape, place.dtype.numpy)
    if buffer.raw is not None and array.size:
        buffer.wait()
        try:
            buffer.pool.pool_to_host(buffer.raw, array.reshape(-1).view(np.uint8).data)
        except BackendError as error:
            locate(error, buffer.pool.name)
            raise
    return array


def _write(array: Array, buffer: Buffer) -> None:
    if buffer.raw is None or not array.size:
        return
    buffer.wait()
    try:
        buffer.pool.sync_events([buffer.pool.host_to_pool(array.reshape(-1).view(np.uint8).data, buffer.raw)])
    except BackendError as error:
        locate(error, buffer.pool.name)
        raise
