"""How a discrete Fourier transform is divided into small ones, and the powers of roots of unity that this takes.

    n = r[0] * r[1] * ... * r[-1]          a pass for each radix; pass i is of sub-transforms of n / (r[0] ... r[i - 1])
    n = rows * columns                     where that is longer than a group works on at once: `columns` transforms of
                                           length `rows`, factors, and `rows` transforms of length `columns`

The algorithm is Stockham's, which puts the results in order on the way: Van Loan, "Computational Frameworks for the
Fast Fourier Transform", SIAM 1992, sections 1.7 and 3.3 (the division in two). With ``m = n / (S r)`` and S the product
of the radices before, a pass makes of each x[t + S (p + m k)], k < r, the element [t + S (r p + k')] of its result,

    exp(-2 pi i p k' / (m r)) * sum over k of x[t + S (p + m k)] * exp(-2 pi i k k' / r)       t < S, p < m

A table is one vector of reals. For each part of the length (`rows`, then `columns`, if there are two), and each of its
passes, it has ``cos`` and ``sin`` of ``-2 pi k' k / r`` as ``(r, 2, r)`` and, if m > 1, those of ``-2 pi k' p / (m r)``
as ``(r, 2, m)``; then, if there are two parts, those of ``-2 pi k j / n`` as ``(rows, 2, columns)``.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from zyx.dtype import DType

#: The primes that lengths are products of.
PRIMES: Final = (2, 3, 5, 7, 11, 13)
#: The lengths of the small transforms, which are written out.
RADICES: Final = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#: Elements of the longest transform that a group does alone: in float32, twice that is half a second-level cache,
#: and one part of it is local memory that GPUs have.
LONGEST: Final = 1 << 13


@functools.lru_cache(maxsize=1024)
def is_smooth(size: int) -> bool:
    """Whether `size`, >= 1, is a product of `PRIMES`."""
    if size < 1:
        return False
    for prime in PRIMES:
        while size % prime == 0:
            size //= prime
    return size == 1


@functools.lru_cache(maxsize=1024)
def smooth_from(size: int) -> int:
    """Return the least product of 2, 3 and 5 that is at least `size`."""
    best = 1 << (size - 1).bit_length()
    fives = 1
    while fives < best:
        threes = fives
        while threes < best:
            best = min(best, threes << max(0, (-(-size // threes) - 1).bit_length()))
            threes *= 3
        fives *= 5
    return best


@functools.lru_cache(maxsize=1024)
def parts(size: int) -> tuple[int, ...]:
    """Return `size`, which is smooth, or the two factors that it is divided into: the lesser one first."""
    if size <= LONGEST:
        return (size,)
    rows = max(divisor for divisor in range(1, math.isqrt(size) + 1) if size % divisor == 0)
    return rows, size // rows


@functools.lru_cache(maxsize=1024)
def radices(size: int) -> tuple[int, ...]:
    """Return the radices of the passes of one part: the greatest first, few of them, the others of like sizes."""
    if size == 1:
        return ()
    first = max(radix for radix in RADICES if size % radix == 0)
    return first, *sorted(_few(size // first), reverse=True)


@functools.lru_cache(maxsize=4096)
def _few(size: int) -> tuple[int, ...]:
    """Return as few radices as there can be, and of these the ones with the least sum."""
    if size == 1:
        return ()
    found = [(radix, *_few(size // radix)) for radix in RADICES if size % radix == 0]
    return min(found, key=lambda several: (len(several), sum(several)))


class Pass(NamedTuple):
    """One pass over a part; see the module.

    Attributes:
        radix: r.
        rest: m.
        roots: Where the part of the table has the roots of the radix.
        factors: Where it has what results are multiplied by, if `rest` is more than 1.
    """

    radix: int
    rest: int
    roots: int
    factors: int

    @property
    def end(self) -> int:
        """Where the table goes on."""
        return self.factors + (2 * self.radix * self.rest if self.rest > 1 else 0)


@functools.lru_cache(maxsize=1024)
def passes(size: int) -> tuple[Pass, ...]:
    """Return the passes of one part, in order."""
    found: list[Pass] = []
    end, rest = 0, size
    for radix in radices(size):
        rest //= radix
        found.append(Pass(radix, rest, end, end + 2 * radix * radix))
        end = found[-1].end
    return tuple(found)


def offsets(size: int) -> tuple[int, ...]:
    """Return where the table of `size` has what belongs to each part, and behind these the factors between them."""
    ends = [0]
    for part in parts(size):
        ends.append(ends[-1] + max((each.end for each in passes(part)), default=0))
    return tuple(ends)


@functools.lru_cache(maxsize=1024)
def table_size(size: int) -> int:
    """Return the length of the table of `size`; 1 if that needs none."""
    return max(1, offsets(size)[-1] + (2 * size if len(parts(size)) > 1 else 0))


def table_of(size: int, dtype: DType) -> npt.NDArray[Any]:
    """Return the table of `size`, which is smooth: computed in float64 and rounded once."""
    pieces = []
    for part in parts(size):
        for radix, rest, _, _ in passes(part):
            pieces.append(_powers(radix, radix, radix))
            if rest > 1:
                pieces.append(_powers(radix, rest, radix * rest))
    if len(parts(size)) > 1:
        rows, columns = parts(size)
        pieces.append(_powers(rows, columns, size))
    return np.concatenate(pieces or [np.zeros(1)]).astype(dtype.numpy)


def _powers(rows: int, columns: int, size: int) -> npt.NDArray[np.float64]:
    """Return the powers ``i * j`` of ``exp(-2 pi i / size)``, ``(rows, 2, columns)``, as a vector."""
    roots = roots_of_unity(np.arange(rows)[:, None] * np.arange(columns), size)
    return np.stack((roots.real, roots.imag), 1).reshape(-1)


def roots_of_unity(turns: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.complex128]:
    """Return ``exp(-2 pi i turns / size)``, each part to the last bit or the one before.

    Turns are brought into the first eighth of the circle in integers, where angles are small and lose nothing.
    """
    eighths = 8 * (turns % size)
    octant, rest = eighths // size, eighths % size
    is_odd = octant % 2 == 1
    angle = (2 * np.pi / 8 / size) * np.where(is_odd, size - rest, rest)
    cosine, sine = np.cos(angle), np.sin(angle)
    first, second = np.where(is_odd, sine, cosine), np.where(is_odd, cosine, sine)  # within the quarter
    quarter = octant // 2
    real = np.choose(quarter, (first, -second, -first, second))
    imaginary = np.choose(quarter, (second, first, -second, -first))
    return real - 1j * imaginary
