"""Transforms of pairs of real and imaginary parts, of any length along any axis.

    a product of small primes    the node of the graph, see `zyx.graph.fourier`
    other lengths                Bluestein's: a convolution with a chirp, by transforms of a longer length
    real values                  a node too; of other lengths, n of them are n / 2 pairs, whose transform is taken apart

Everything here takes and gives terms ``(outer, n, inner, 2)``, the pairs last; real ones are ``(outer, n, inner)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zyx.fft.tables import tables_of
from zyx.functions.term import Term
from zyx.graph.fourier import halves_of, is_smooth, roots_of_unity, smooth_from, table_of
from zyx.ops import FourierKind
from zyx.schedule.fourier.composed import Composed

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

    def along(
        self,
        x: Term,
        axis: int,
        *,
        is_inverse: bool = False,
        scale: float = 1.0,
        kind: FourierKind = FourierKind.COMPLEX,
    ) -> Term:
        """Return a transform of numbers of any shape along an axis, whose length `is_transformed`; of one node."""
        size = x.shape[axis]
        if size == 1 and kind is FourierKind.COMPLEX:
            return x if scale == 1.0 else x * scale
        table = self._powers(2 * (size - 1) if kind is FourierKind.TO_REAL else size, kind)
        return Term(x.graph, x.graph.fourier(x.node, table, axis, is_inverse=is_inverse, scale=scale, kind=kind))

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

        An even number of them is taken as n / 2 pairs, whose transform is taken apart: see `zyx.graph.fourier`.
        """
        graph, (outer, size, inner) = values.graph, values.shape
        half = size // 2
        if size % 2:
            pairs = values.reshape((outer, size, inner, 1)).pad([(0, 0), (0, 0), (0, 0), (0, 1)])
            return self.transform(pairs, is_inverse=False, scale=scale).narrow(1, 0, half + 1)
        if is_smooth(half):
            table = self._powers(size, FourierKind.FROM_REAL)
            kind = FourierKind.FROM_REAL
            return Term(graph, graph.fourier(values.node, table, scale=scale, kind=kind, as_pairs=True))
        writer = self._halves(size)
        found = self.transform(Term(graph, writer.paired(values.node)), is_inverse=False, scale=scale)
        return Term(graph, writer.apart(found.node, 0))

    def to_real(self, pairs: Term, size: int, *, scale: float = 1.0) -> Term:
        """Return the `size` real values whose transform begins with ``(outer, size // 2 + 1, inner, 2)``, unscaled.

        The imaginary part of the first element counts as 0, and that of the last one if `size` is even. The steps are
        those of `from_real` from behind.
        """
        graph, (outer, _, inner, _) = pairs.graph, pairs.shape
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
        if is_smooth(half):
            table = self._powers(size, FourierKind.TO_REAL)
            return Term(graph, graph.fourier(pairs.node, table, scale=scale, kind=FourierKind.TO_REAL))
        writer = self._halves(size)
        together = Term(graph, writer.together(pairs.node, 0))
        return Term(graph, writer.unpaired(self.transform(together, is_inverse=True, scale=scale).node))

    def _halves(self, size: int) -> Composed:
        """Return what takes transforms of so many real numbers apart, and puts them together."""
        key = ("halves", size, self.dtype)
        table = tables_of(self.runtime).nodes(key, self.device, lambda: [halves_of(size).astype(self.dtype.numpy)])[0]
        return Composed(self.runtime.graph, table, is_inverse=False)

    @staticmethod
    def _real_part(pairs: Term) -> Term:
        return pairs.narrow(3, 0, 1)

    def _smooth(self, pairs: Term, *, is_inverse: bool, scale: float) -> Term:
        graph, table = pairs.graph, self._powers(pairs.shape[1])
        return Term(graph, graph.fourier(pairs.node, table, is_inverse=is_inverse, scale=scale))

    def _powers(self, size: int, kind: FourierKind = FourierKind.COMPLEX) -> Node:
        key = ("powers", size, self.dtype, kind is FourierKind.COMPLEX)
        return tables_of(self.runtime).nodes(key, self.device, lambda: [table_of(size, self.dtype, kind)])[0]

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


def _factors(values: Array) -> Array:
    """Return what pairs, and what pairs the other way round, are multiplied by to multiply them by complex `values`."""
    real, imaginary = values.real, values.imag
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
