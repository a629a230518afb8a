"""How a discrete Fourier transform is divided into small ones, and the powers of roots of unity that this takes.

    n = r[0] * r[1] * ... * r[-1]          a pass for each radix; pass i is of sub-transforms of n / (r[0] ... r[i - 1])
    n = rows * columns                     where that is longer than a group works on at once: `columns` transforms of
                                           length `rows`, factors, and `rows` transforms of length `columns`

The algorithm is Stockham's, which puts the results in order on the way: Van Loan, "Computational Frameworks for the
Fast Fourier Transform", SIAM 1992, sections 1.7 and 3.3 (the division in two). With ``m = n / (S r)`` and S the product
of the radices before, a pass makes of each x[t + S (p + m k)], k < r, the element [t + S (r p + k')] of its result,

    exp(-2 pi i p k' / (m r)) * sum over k of x[t + S (p + m k)] * exp(-2 pi i k k' / r)       t < S, p < m

Of n real numbers, n even, neighbours are taken as the parts of n / 2 complex ones, whose transform Z is taken apart:
with h = n / 2 and w = exp(-2 pi i / n), element k <= h is ``(Z[k] + Z[h - k]*) / 2 - i w**k (Z[k] - Z[h - k]*) / 2``,
Z[h] being Z[0]. The other way round, Z[k] / 2 is the same with ``+ i w**-k``, of the elements. Sorensen, Jones,
Heideman, Burrus, "Real-valued fast Fourier transform algorithms", IEEE Trans. ASSP-35 (1987), section II.

A table is one vector of reals. For each part of the length (`rows`, then `columns`, if there are two), and each of its
passes, it has ``cos`` and ``sin`` of ``-2 pi k' k / r`` as ``(r, 2, r)`` and, if m > 1, those of ``-2 pi k' p / (m r)``
as ``(r, 2, m)``; then, if there are two parts, those of ``-2 pi k j / n`` as ``(rows, 2, columns)``.
The table of n real numbers is that of n / 2, and then ``cos`` and ``sin`` of ``-2 pi k / n`` as ``(2, n / 2 + 1)``.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError
from zyx.ops import FourierKind

if TYPE_CHECKING:
    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx.graph import node as n
    from zyx.shape import Shape

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


def is_transformed(size: int, kind: FourierKind) -> bool:
    """Whether there are transforms of that kind and length."""
    return is_smooth(size) if kind is FourierKind.COMPLEX else size % 2 == 0 and is_smooth(size // 2)


def length_of(node: n.Fourier) -> int:
    """Return how many numbers are transformed, or come out if these are real ones."""
    return _length(node.sources[0].shape[node.axis], node.kind)


def _length(size: int, kind: FourierKind) -> int:
    return 2 * (size - 1) if kind is FourierKind.TO_REAL else size


def checked(x: n.Node, table: n.Node, axis: int, kind: FourierKind, *, as_pairs: bool) -> tuple[Shape, DType]:
    """Return shape and dtype of the transform of `x` along `axis`.

    Args:
        x: Complex, or of pairs ``(outer, n, inner, 2)``; for `FourierKind.FROM_REAL` real.
        table: That of the length.
        axis: Along which is transformed.
        kind: What is taken, and given.
        as_pairs: Whether the transform of real ``(outer, n, inner)`` is of pairs, and not complex.

    Raises:
        DTypeError: `x` is not complex, or of float32 or float64, or the table not of the type of the parts.
        ShapeError: Another shape, a length with prime factors above 13, or a table of another length.
    """
    from_real, to_real = kind is FourierKind.FROM_REAL, kind is FourierKind.TO_REAL
    part = x.dtype.part if x.dtype.is_complex else x.dtype
    if part not in (dtypes.float32, dtypes.float64) or table.dtype is not part or (from_real and x.dtype.is_complex):
        raise DTypeError(f"what is transformed is float32 or float64, as its table, not {x.dtype}, {table.dtype}")
    is_paired = as_pairs if from_real else not x.dtype.is_complex
    if is_paired and ((x.ndim, x.shape[3:]) != ((3, ()) if from_real else (4, (2,))) or axis != 1):
        wanted = "real numbers (outer, n, inner)" if from_real else "pairs (outer, n, inner, 2)"
        raise ShapeError(f"{wanted} are transformed along axis 1, not {axis} of {x.shape}")
    size = _length(x.shape[axis], kind)
    if not is_transformed(size, kind):
        twice = "" if kind is FourierKind.COMPLEX else "twice "
        raise ShapeError(f"lengths that are transformed are {twice}products of {PRIMES}, not {size}")
    if table.shape != (table_size(size, kind),):
        raise ShapeError(f"the table of {size} has shape ({table_size(size, kind)},), not {table.shape}")
    shape, dtype = x.shape, x.dtype
    if from_real:
        shape = (*shape[:axis], size // 2 + 1, *shape[axis + 1 :])
        shape, dtype = ((*shape, 2), dtype) if as_pairs else (shape, dtypes.complex_of(dtype))
    elif to_real:
        shape, dtype = (*shape[:axis], size, *shape[axis + 1 : 3 if is_paired else None]), part
    return shape, dtype


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
def table_size(size: int, kind: FourierKind = FourierKind.COMPLEX) -> int:
    """Return the length of the table of `size`; 1 if that needs none."""
    if kind is not FourierKind.COMPLEX:
        return table_size(size // 2) + 2 * (size // 2 + 1)
    return max(1, offsets(size)[-1] + (2 * size if len(parts(size)) > 1 else 0))


def table_of(size: int, dtype: DType, kind: FourierKind = FourierKind.COMPLEX) -> npt.NDArray[Any]:
    """Return the table of `size`, which `is_transformed`: computed in float64 and rounded once."""
    if kind is not FourierKind.COMPLEX:
        return np.concatenate((table_of(size // 2, dtype), halves_of(size).astype(dtype.numpy)))
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


def halves_of(size: int) -> npt.NDArray[np.float64]:
    """Return what the table of so many real numbers has behind that of half as many."""
    roots = roots_of_unity(np.arange(size // 2 + 1), size)
    return np.concatenate((roots.real, roots.imag))


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
