"""Transforms of any length along any axis, of terms that are complex or real.

a product of small primes    the node of the graph, see `zyx.graph.fourier`
other lengths                Bluestein's: a convolution with a chirp, by transforms of a longer length
real values                  a node too; of other even lengths, n of them are n / 2 pairs; of odd ones, complex
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.fft.tables import tables_of
from zyx.functions.complex_numbers import joined, parts
from zyx.functions.term import Term
from zyx.graph.fourier import is_smooth, is_transformed, roots_of_unity, smooth_from, table_of
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.functions.operands import Array
    from zyx.graph import Node
    from zyx.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class TransformBuilder:
    """Makes the nodes of transforms with parts of one dtype, float32 or float64, on one device."""

    runtime: Runtime
    device: str
    dtype: DType

    def transform(self, x: Term, axis: int, *, is_inverse: bool, scale: float = 1.0) -> Term:
        """Return `scale` times the transform, or the unscaled inverse one, of complex `x` along an axis."""
        size = x.shape[axis]
        if size == 1:
            return x if scale == 1.0 else x * scale
        if is_smooth(size):
            graph = x.graph
            return Term(graph, graph.fourier(x.node, self._powers(size), axis, is_inverse=is_inverse, scale=scale))
        return self._by_chirps(x, axis, is_inverse=is_inverse, scale=scale)

    def _by_chirps(self, x: Term, axis: int, *, is_inverse: bool, scale: float) -> Term:
        """Return the transform as a convolution: Bluestein, "A linear filtering approach", IEEE Trans. AU-18 (1970).

        With c[j] = exp(-pi i j**2 / n), element k is c[k] times the sum over j of x[j] c[j] / c[k - j].
        """
        size, ndim = x.shape[axis], len(x.shape)
        longer = smooth_from(2 * size - 1)
        chirp = self._factors("chirp", size, axis, ndim, lambda: _chirp(size, is_inverse=is_inverse), is_inverse)
        spectrum = self._factors(
            "spectrum", size, axis, ndim, lambda: _spectrum(size, longer, is_inverse=is_inverse), is_inverse
        )
        turned = _padded(x * chirp, axis, 0, longer - size)
        product = self.transform(turned, axis, is_inverse=False) * spectrum
        back = self.transform(product, axis, is_inverse=True, scale=scale / longer)
        return back.narrow(axis, 0, size) * chirp

    def from_real(self, x: Term, axis: int, *, scale: float = 1.0) -> Term:
        """Return the first ``n // 2 + 1`` elements of the transform of real `x` along an axis, with a minus sign.

        An even number of them is taken as n / 2 pairs, whose transform is taken apart: see `zyx.graph.fourier`.
        """
        graph, size, ndim = x.graph, x.shape[axis], len(x.shape)
        half, kind = size // 2, FourierKind.FROM_REAL
        if is_transformed(size, kind):
            return Term(graph, graph.fourier(x.node, self._powers(size, kind), axis, scale=scale, kind=kind))
        if size % 2:
            whole = x.cast(dtypes.complex_of(self.dtype))
            return self.transform(whole, axis, is_inverse=False, scale=scale).narrow(axis, 0, half + 1)
        pairs = x.reshape((*x.shape[:axis], half, 2, *x.shape[axis + 1 :]))
        shape = (*x.shape[:axis], half, *x.shape[axis + 1 :])
        first, second = (pairs.narrow(axis + 1, place, place + 1).reshape(shape) for place in range(2))
        found = self.transform(joined(first, second), axis, is_inverse=False, scale=0.5 * scale)
        around = _padded(found, axis, 0, 1) + _padded(found.narrow(axis, 0, 1), axis, half, 0)  # Z[h] is Z[0]
        factors = self._factors("apart", size, axis, ndim, lambda: -1j * _halves(size))
        return _combined(around, _conjugate(around.flip((axis,))), factors)

    def to_real(self, x: Term, axis: int, size: int, *, scale: float = 1.0) -> Term:
        """Return the `size` real values whose transform begins with ``size // 2 + 1`` complex ones, unscaled.

        The imaginary part of the first element counts as 0, and that of the last one if `size` is even. The steps are
        those of `from_real` from behind.
        """
        graph, ndim = x.graph, len(x.shape)
        half, kind = size // 2, FourierKind.TO_REAL
        if size > 1 and is_transformed(size, kind):
            return Term(graph, graph.fourier(x.node, self._powers(size, kind), axis, scale=scale, kind=kind))
        if size % 2:
            first = parts(x.narrow(axis, 0, 1))[0].cast(x.dtype)
            if size == 1:
                return parts(self.transform(first, axis, is_inverse=True, scale=scale))[0]
            others = x.narrow(axis, 1, half + 1)
            whole = _padded(first, axis, 0, size - 1) + _padded(others, axis, 1, half)
            whole = whole + _padded(_conjugate(others.flip((axis,))), axis, half + 1, 0)
            return parts(self.transform(whole, axis, is_inverse=True, scale=scale))[0]
        real, imaginary = parts(x)
        inside = self._factors("inside", size, axis, ndim, lambda: np.pad(np.ones(half - 1), 1))
        x = joined(real, imaginary * inside)
        mirrored = _conjugate(x.flip((axis,)))
        factors = self._factors("together", size, axis, ndim, lambda: 1j * _halves(size).conj())
        together = _combined(x, mirrored, factors).narrow(axis, 0, half)
        found = self.transform(together, axis, is_inverse=True, scale=scale)
        shape = found.shape
        pairs = [part.reshape((*shape[: axis + 1], 1, *shape[axis + 1 :])) for part in parts(found)]
        both = _padded(pairs[0], axis + 1, 0, 1) + _padded(pairs[1], axis + 1, 1, 0)
        return both.reshape((*shape[:axis], size, *shape[axis + 1 :]))

    def _powers(self, size: int, kind: FourierKind = FourierKind.COMPLEX) -> Node:
        key = ("powers", size, self.dtype, kind is FourierKind.COMPLEX)
        return tables_of(self.runtime).nodes(key, self.device, lambda: [table_of(size, self.dtype, kind)])[0]

    def _factors(
        self, what: str, size: int, axis: int, ndim: int, make: Callable[[], Array], is_inverse: bool = False
    ) -> Term:
        """Return numbers along an axis, a leaf that is kept under what and of which length they are."""
        key = (what, size, is_inverse, self.dtype)

        def narrow() -> list[Array]:
            values = make()
            dtype = dtypes.complex_of(self.dtype) if np.iscomplexobj(values) else self.dtype
            return [values.astype(dtype.numpy)]

        (node,) = tables_of(self.runtime).nodes(key, self.device, narrow)
        found = Term(self.runtime.graph, node)
        return found if axis == ndim - 1 else found.reshape((node.shape[0], *[1] * (ndim - 1 - axis)))


def _padded(x: Term, axis: int, before: int, after: int) -> Term:
    return x.pad([(before, after) if i == axis else (0, 0) for i in range(len(x.shape))])


def _conjugate(x: Term) -> Term:
    return Term(x.graph, x.graph.conjugate(x.node))


def _combined(x: Term, y: Term, factors: Term) -> Term:
    """Return ``x + y + factors (x - y)``."""
    return x + y + (x - y) * factors


def _halves(size: int) -> Array:
    """Return the powers of the root of unity that half of a transform of real numbers takes."""
    return roots_of_unity(np.arange(size // 2 + 1, dtype=np.int64), size)


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
