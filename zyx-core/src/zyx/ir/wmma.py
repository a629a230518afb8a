"""Which elements of its matrices each thread of a warp holds for `Wmma`, and the multiplication itself.

The layout is that of PTX's ``mma.sync.m16n8k8`` and ``m16n8k16`` for 16-bit floats (PTX ISA, section 9.7.15). With
``group = thread // 4`` and ``pair = thread % 4 * 2``, element `e` of a thread's vector is

    a (16 x k)   row    group + 8 * (e // 2 % 2)        column  pair + e % 2 + 8 * (e // 4)
    b (k x 8)    row    pair + e % 2 + 8 * (e // 2)     column  group
    c, d (16 x 8)  row  group + 8 * (e // 2)            column  pair + e % 2
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from zyx.semantics import Array

WARP: Final = 32
#: The dimensions (m, n, k) that there are.
DIMENSIONS: Final = ((16, 8, 8), (16, 8, 16))


def fragment_lanes(dims: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return how many elements of a, of b, and of c one thread holds."""
    m, n, k = dims
    return m * k // WARP, k * n // WARP, m * n // WARP


@functools.cache
def fragment_positions(dims: tuple[int, int, int], matrix: str) -> tuple[Array, Array]:
    """Return the row and the column of each element of `matrix` ("a", "b" or "c"): two arrays [thread, element]."""
    count = dict(zip("abc", fragment_lanes(dims), strict=True))[matrix]
    thread, element = np.arange(WARP)[:, None], np.arange(count)[None, :]
    group, pair = thread // 4, thread % 4 * 2
    if matrix == "a":
        return group + element // 2 % 2 * 8, pair + element % 2 + element // 4 * 8
    if matrix == "b":
        return pair + element % 2 + element // 2 * 8, group + element * 0
    return group + element // 2 * 8, pair + element % 2


def multiply_fragments(dims: tuple[int, int, int], a: Array, b: Array, c: Array) -> Array:
    """Return ``a @ b + c`` for each warp.

    `a`, `b` and `c` have a row for each thread, as many as a multiple of 32, with the elements that it holds. The
    products are summed in float64; the result is float32, of the shape of `c`.
    """
    m, n, k = dims
    left, right = np.zeros((len(a) // WARP, m, k)), np.zeros((len(b) // WARP, k, n))
    for matrix, fragments, name in ((left, a, "a"), (right, b, "b")):
        rows, columns = fragment_positions(dims, name)
        matrix[:, rows, columns] = fragments.reshape(-1, *rows.shape).astype(np.float64)
    rows, columns = fragment_positions(dims, "c")
    result: Array = (left @ right)[:, rows, columns].reshape(c.shape) + c
    return result.astype(np.float32)
