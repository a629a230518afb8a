"""Transforms of pairs of real and imaginary parts, of any length along any axis.

    a product of small primes    the node of the graph, see `zyx.graph.fourier`
    other lengths                Bluestein's: a convolution with a chirp, by transforms of a longer length
    real values                  n of them are n / 2 pairs, whose transform is taken apart; see `Transformer.from_real`

Everything here takes and gives terms ``(outer, n, inner, 2)``, the pairs last; real ones are ``(outer, n, inner)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zyx.fft.tables import tables_of
from zyx.functions.term import Term
from zyx.graph.fourier import is_smooth, roots_of_unity, smooth_from, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zyx.dtype import DType
    from zyx.functions.operands import Array
    from zyx.graph import Node
    from zyx.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Transformer:
    """Makes the nodes of transforms of one dtype, float32 or float64, on one device."""

    runtime: Runtime
    device: str
    dtype: DType

    def transform(self, pairs: Term, *, is_inverse: bool, scale: float = 1.0) -> Term:
        """Return `scale` times the transform, or the unscaled inverse one, of ``(outer, n, inner, 2)`` along axis 1."""
        size = pairs.shape[1]
        if size == 1:
            return pairs if scale == 1.0 else pairs * scale
        if is_smooth(size):
            return self._smooth(pairs, is_inverse=is_inverse, scale=scale)
        return self._by_chirps(pairs, is_inverse=is_inverse, scale=scale)

    def along(self, x: Term, axis: int, *, is_inverse: bool, scale: float = 1.0) -> Term:
        """Return what `transform` does, of complex numbers of any shape, along an axis whose length is smooth."""
        size = x.shape[axis]
        if size == 1:
            return x if scale == 1.0 else x * scale
        return Term(x.graph, x.graph.fourier(x.node, self._powers(size), axis, is_inverse=is_inverse, scale=scale))

    def _by_chirps(self, pairs: Term, *, is_inverse: bool, scale: float) -> Term:
        """Return the transform as a convolution: Bluestein, "A linear filtering approach", IEEE Trans. AU-18 (1970).

        With c[j] = exp(-pi i j**2 / n), element k is c[k] times the sum over j of x[j] c[j] / c[k - j].
        """
        size = pairs.shape[1]
        longer = smooth_from(2 * size - 1)
        chirp = self._table(("chirp", size, is_inverse), lambda: _factors(_chirp(size, is_inverse=is_inverse)))
        spectrum = self._table(
            ("spectrum", size, is_inverse), lambda: _factors(_spectrum(size, longer, is_inverse=is_inverse))
        )
        turned = _times(pairs, chirp).pad([(0, 0), (0, longer - size), (0, 0), (0, 0)])
        product = _times(self._smooth(turned, is_inverse=False, scale=1.0), spectrum)
        back = self._smooth(product, is_inverse=True, scale=scale / longer)
        return _times(back.narrow(1, 0, size), chirp)

    def from_real(self, values: Term, *, scale: float = 1.0) -> Term:
        """Return the first ``n // 2 + 1`` elements of the transform of real ``(outer, n, inner)``, with a minus sign.

        An even number of them is taken as n / 2 pairs, whose transform Z is taken apart: with h = n / 2 and
        w = exp(-2 pi i / n), element k is ``(Z[k] + Z[h - k]*) / 2 - i w**k (Z[k] - Z[h - k]*) / 2``. Sorensen, Jones,
        Heideman, Burrus, "Real-valued fast Fourier transform algorithms", IEEE Trans. ASSP-35 (1987), section II.
        """
        outer, size, inner = values.shape
        half = size // 2
        if size % 2:
            pairs = values.reshape((outer, size, inner, 1)).pad([(0, 0), (0, 0), (0, 0), (0, 1)])
            return self.transform(pairs, is_inverse=False, scale=scale).narrow(1, 0, half + 1)
        if inner == 1:  # pairs lie side by side, where kernels read them
            pairs = values.reshape((outer, half, 1, 2))
        else:
            pairs = values.reshape((outer, half, 2, inner)).permute((0, 1, 3, 2))
        found = self.transform(pairs, is_inverse=False, scale=scale)
        table = self._table(("apart", size), lambda: _apart(size))
        around = found.pad([(0, 0), (0, 1), (0, 0), (0, 0)])  # once around: the first one is behind the last one, too
        around = around + found.narrow(1, 0, 1).pad([(0, 0), (half, 0), (0, 0), (0, 0)])
        return _combined(around, around.flip((1,)), table)

    def to_real(self, pairs: Term, size: int, *, scale: float = 1.0) -> Term:
        """Return the `size` real values whose transform begins with ``(outer, size // 2 + 1, inner, 2)``, unscaled.

        The imaginary part of the first element counts as 0, and that of the last one if `size` is even. The steps are
        those of `from_real` from behind.
        """
        outer, _, inner, _ = pairs.shape
        half = size // 2
        if size == 1:
            return self._real_part(pairs if scale == 1.0 else pairs * scale).reshape((outer, 1, inner))
        if size % 2:
            first = self._real_part(pairs.narrow(1, 0, 1)).pad([(0, 0), (0, size - 1), (0, 0), (0, 1)])
            others = pairs.narrow(1, 1, half + 1)
            sign = self._table("conjugate", lambda: np.array([[[1.0, -1.0]]]))[0]
            rest = others.pad([(0, 0), (1, half), (0, 0), (0, 0)])
            mirrored = (others.flip((1,)) * sign).pad([(0, 0), (half + 1, 0), (0, 0), (0, 0)])
            full = self.transform(first + rest + mirrored, is_inverse=True, scale=scale)
            return self._real_part(full).reshape((outer, size, inner))
        table = self._table(("together", size), lambda: _together(size))
        together = _combined(pairs.narrow(1, 0, half), pairs.flip((1,)).narrow(1, 0, half), table)
        found = self.transform(together, is_inverse=True, scale=scale)
        turned = found if inner == 1 else found.permute((0, 1, 3, 2))
        return turned.reshape((outer, size, inner))

    @staticmethod
    def _real_part(pairs: Term) -> Term:
        return pairs.narrow(3, 0, 1)

    def _smooth(self, pairs: Term, *, is_inverse: bool, scale: float) -> Term:
        graph, table = pairs.graph, self._powers(pairs.shape[1])
        return Term(graph, graph.fourier(pairs.node, table, is_inverse=is_inverse, scale=scale))

    def _powers(self, size: int) -> Node:
        key = ("powers", size, self.dtype)
        return tables_of(self.runtime).nodes(key, self.device, lambda: [table_of(size, self.dtype)])[0]

    def _table(self, key: Hashable, make: Callable[[], Array]) -> list[Term]:
        """Return the rows of a table ``(rows, n, 2)``, each ``(1, n, 1, 2)``: leaves, so that no nodes cut them out."""
        graph, numpy = self.runtime.graph, self.dtype.numpy

        def rows() -> list[Array]:
            return [row[None, :, None, :] for row in make().astype(numpy)]

        return [Term(graph, node) for node in tables_of(self.runtime).nodes((key, self.dtype), self.device, rows)]


def _times(pairs: Term, factors: Sequence[Term]) -> Term:
    """Return pairs times complex numbers, of which `factors` has the two rows of `_factors`."""
    straight, crossed = factors
    return pairs * straight + pairs.flip((3,)) * crossed


def _combined(x: Term, y: Term, table: Sequence[Term]) -> Term:
    """Return ``a x + b y*``, of which `table` has the rows of a and of b."""
    return _times(x, table[:2]) + _times(y, table[2:])


def _factors(values: Array, *, of_conjugates: bool = False) -> Array:
    """Return what pairs, and what pairs the other way round, are multiplied by to multiply them by complex `values`."""
    real, imaginary = values.real, values.imag
    if of_conjugates:
        return np.stack((np.stack((real, -real), -1), np.stack((imaginary, imaginary), -1)))
    return np.stack((np.stack((real, real), -1), np.stack((-imaginary, imaginary), -1)))


def _chirp(size: int, *, is_inverse: bool) -> Array:
    places = np.arange(size, dtype=np.int64)
    found = roots_of_unity(places * places % (2 * size), 2 * size)
    return found.conj() if is_inverse else found


def _spectrum(size: int, longer: int, *, is_inverse: bool) -> Array:
    """Return the transform of the conjugated chirp, which continues to both sides, over a circle of `longer`."""
    chirp = _chirp(size, is_inverse=not is_inverse)
    circle = np.zeros(longer, dtype=np.complex128)
    circle[:size] = chirp
    circle[longer - size + 1 :] = chirp[:0:-1]
    return np.fft.fft(circle)


def _apart(size: int) -> Array:
    """Return the table of `Transformer.from_real`."""
    turned = -0.5j * roots_of_unity(np.arange(size // 2 + 1, dtype=np.int64), size)
    return np.concatenate((_factors(0.5 + turned), _factors(0.5 - turned, of_conjugates=True)))


def _together(size: int) -> Array:
    """Return the table of `Transformer.to_real`; its first elements leave imaginary parts out."""
    turned = 1j * roots_of_unity(np.arange(size // 2, dtype=np.int64), size).conj()
    table = np.concatenate((_factors(1.0 + turned), _factors(1.0 - turned, of_conjugates=True)))
    table[:, 0] = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]
    return table
