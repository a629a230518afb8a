"""What would fit, for whoever has too little memory: how much a model takes, and in what it takes less."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import zyx
from zyx.errors import AllocationError
from zyx.quantize import QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextmanager
def explained(device: str, advice: Callable[[int], str]) -> Iterator[None]:
    """Let an `AllocationError` of what is done say what `advice` makes of the bytes that were free before."""
    free = free_bytes(device)
    try:
        yield
    except AllocationError as error:
        if free is None:
            raise
        raise AllocationError(f"{error}; {advice(free)}") from error


def free_bytes(device: str) -> int | None:
    """Return how many bytes can still be allocated for a device; None if that is not known."""
    pool = _pool_of(device)
    return zyx.memory_stats()[pool].free_bytes if pool in zyx.memory_stats() else None


@cache
def _pool_of(device: str) -> str | None:
    """Return the name of the memory of a device, which is where a buffer for it comes to lie."""
    zyx.zeros((1,), device=device).realize()  # so that the pool is open
    before = zyx.memory_stats()
    held = zyx.zeros((1,), device=device).realize()
    after = zyx.memory_stats()
    found = [name for name, use in after.items() if name in before and use.live_buffers > before[name].live_buffers]
    del held
    return found[0] if len(found) == 1 else None


def size_text(nbytes: float) -> str:
    """Return a number of bytes for readers, such as 538 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.4g} {unit}"
    return f"{nbytes:.0f} bytes"


def smaller_weights(tensors: Mapping[str, Any], dtype: zyx.DType | None, free: int) -> str:
    """Return what weights take, and with which ``--dtype`` they fit into so many free bytes.

    Args:
        tensors: Of the file.
        dtype: That was chosen for matrices; None leaves blocks packed.
        free: Bytes.
    """
    packed = sum(each.nbytes for each in tensors.values() if isinstance(each, QuantizedTensor))
    in_blocks = sum(each.size for each in tensors.values() if isinstance(each, QuantizedTensor))
    matrices = sum(each.size for each in tensors.values() if len(each.shape) > 1) - in_blocks
    vectors = sum(each.size for each in tensors.values() if len(each.shape) < 2)
    numbers = matrices + in_blocks
    taken = {"float32": 4 * (numbers + vectors), "float16": 2 * numbers + 4 * vectors}
    if packed:
        taken["packed"] = packed + 4 * (matrices + vectors)
    own = "packed" if dtype is None and packed else "float32" if dtype is None else dtype.name
    needed = taken[own if own in taken else "float16"]
    fitting = [f"--dtype {name}, {size_text(nbytes)}," for name, nbytes in taken.items() if nbytes <= free]
    would = f"{' or '.join(fitting)} would do" if fitting else f"the least is {size_text(min(taken.values()))}"
    return f"the weights take {size_text(needed)} in {own} of {size_text(free)} that were free; {would}"


def smaller_cache(size: int, numbers: int, dtype: zyx.DType, spare: int, free: int) -> str:
    """Return what keys and values take, and which ``--context`` and ``--cache-dtype`` fit.

    Args:
        size: Places.
        numbers: Of one place, of all layers and texts.
        dtype: Of keys and values.
        spare: Places that a cache has besides those of the context.
        free: Bytes.
    """
    fitting = [
        f"--context {places} with --cache-dtype {other.name}"
        for other in dict.fromkeys((dtype, zyx.float16))
        if (places := free // (numbers * other.bits // 8) - spare) > 0
    ]
    would = f"{' or '.join(fitting)} would do" if fitting else "nothing less would do; free some memory"
    needed = size * numbers * dtype.bits // 8
    return (
        f"keys and values for {size} places take {size_text(needed)} in {dtype.name} of {size_text(free)} that were "
        f"free; {would}"
    )
