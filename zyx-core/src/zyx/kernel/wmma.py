"""Which elements of its matrices each thread of a warp holds for `Wmma`, and the multiplication itself.

The layout is that of PTX's ``mma.sync.m16n8k8`` and ``m16n8k16`` for 16-bit floats, and of ``m16n8k4`` and ``m16n8k8``
for float32 (PTX ISA, section 9.7.15). A register of 32 bits has ``p`` elements: 2 or 1. With ``group = thread // 4``
and ``place = thread % 4``, element `e` of a thread's vector, which is in register ``r = e // p``, is

    a (16 x k)   row    group + 8 * (r % 2)                column  p * place + e % p + 4 * p * (r // 2)
    b (k x 8)    row    p * place + e % p + 4 * p * r      column  group
    c, d (16 x 8)  row  group + 8 * (e // 2)               column  2 * place + e % 2

Factors of float32 take part with 11 significant bits, as numbers of the format TF32: the instruction leaves the lowest
13 bits out, so the emitters round them before, to the nearest number, of two as near to the larger one (``cvt.rna``).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from zyx.semantics import Array

WARP: Final = 32
#: The dimensions (m, n, k) that there are, by the bits of an element of a factor.
DIMENSIONS: Final = {16: ((16, 8, 8), (16, 8, 16)), 32: ((16, 8, 4), (16, 8, 8))}
#: Bits of a float32 number that TF32 does not have.
_LEFT_OUT: Final = 13


def fragment_lanes(dims: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return how many elements of a, of b, and of c one thread holds."""
    m, n, k = dims
    return m * k // WARP, k * n // WARP, m * n // WARP


@functools.cache
def fragment_positions(dims: tuple[int, int, int], matrix: str, bits: int = 16) -> tuple[Array, Array]:
    """Return the row and the column of each element of `matrix` ("a", "b" or "c"): two arrays [thread, element].

    `bits` are those of an element of a factor.
    """
    count = dict(zip("abc", fragment_lanes(dims), strict=True))[matrix]
    thread, element = np.arange(WARP)[:, None], np.arange(count)[None, :]
    group, place = thread // 4, thread % 4
    together = WARP // bits
    register, column = element // together, together * place + element % together
    if matrix == "a":
        return group + register % 2 * 8, column + register // 2 * 4 * together
    if matrix == "b":
        return column + register * 4 * together, group + element * 0
    return group + element // 2 * 8, 2 * place + element % 2


def to_tf32(values: Array) -> Array:
    """Return float32 numbers with 11 significant bits: the nearest ones, of two as near the larger. NaN stays NaN."""
    half = np.uint32(1 << _LEFT_OUT - 1)
    mask = np.uint32(0xFFFFFFFF >> _LEFT_OUT << _LEFT_OUT)
    numbers = values.astype(np.float32)
    rounded = (numbers.view(np.uint32) + half & mask).view(np.float32)
    result: Array = np.where(np.isnan(numbers), numbers, rounded)
    return result


def multiply_fragments(dims: tuple[int, int, int], a: Array, b: Array, c: Array) -> Array:
    """Return ``a @ b + c`` for each warp.

    `a`, `b` and `c` have a row for each thread, as many as a multiple of 32, with the elements that it holds. The
    products are summed in float64; the result is float32, of the shape of `c`. Factors of float32 are rounded to TF32.
    """
    m, n, k = dims
    bits = 8 * a.dtype.itemsize
    if bits == 32:  # float32
        a, b = to_tf32(a), to_tf32(b)
    left, right = np.zeros((len(a) // WARP, m, k)), np.zeros((len(b) // WARP, k, n))
    for matrix, fragments, name in ((left, a, "a"), (right, b, "b")):
        rows, columns = fragment_positions(dims, name, bits)
        matrix[:, rows, columns] = fragments.reshape(-1, *rows.shape).astype(np.float64)
    rows, columns = fragment_positions(dims, "c")
    result: Array = (left @ right)[:, rows, columns].reshape(c.shape) + c
    return result.astype(np.float32)
