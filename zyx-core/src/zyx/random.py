"""Random numbers under the names of ``numpy.random``: of the default generator, or of one with a seed of its own.

    zyx.random.seed(0)
    x = zyx.random.normal(0.0, 1.0, (64, 2))
    rng = zyx.random.default_rng(7)
    y = rng.integers(0, 10, size=64)

The names and the arguments are NumPy's, the numbers are not: they are those of `zyx.Generator`, the same on all
devices. `zyx.rand`, `zyx.randn` and the like draw from the same stream. Floats are float32.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from zyx import shape as shapes
from zyx.dtype import float32, int64
from zyx.errors import ShapeError
from zyx.functions.choosing import clip
from zyx.functions.linalg import matmul
from zyx.functions.operands import require
from zyx.functions.selection import take
from zyx.integers import is_several
from zyx.linalg import cholesky
from zyx.tensor import random as words
from zyx.tensor.creation import asarray
from zyx.tensor.generator import Generator, manual_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor

__all__ = [
    "RandomNumbers", "choice", "default_rng", "exponential", "multivariate_normal", "normal", "permutation", "rand",
    "randint", "randn", "random", "random_sample", "seed", "shuffle", "standard_normal", "uniform",
]  # fmt: skip

SizeLike: TypeAlias = "int | Sequence[int] | None"
Moment: TypeAlias = "float | Tensor | Sequence[object]"


class RandomNumbers:
    """What draws random numbers, as NumPy's ``Generator`` does: see `default_rng`.

    Attributes:
        generator: Where random words come from; None is the default generator.

    >>> zyx.random.RandomNumbers(zyx.Generator(3)).random(4).shape
    (4,)
    """

    def __init__(self, generator: Generator | None = None) -> None:
        self.generator = generator

    def random(self, size: SizeLike = None, dtype: DTypeLike = float32) -> Tensor:
        """Return floats drawn evenly from [0, 1), in the shape `size`; without it, one number.

        Raises:
            ShapeError: A size below 0.

        >>> bool(zyx.random.random() < 1)
        True
        """
        return words.rand(_shape(size), dtype=dtype, generator=self.generator)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: SizeLike = None) -> Tensor:
        """Return floats drawn evenly from [`low`, `high`).

        Raises:
            ShapeError: `low` is not below `high`.

        >>> bool(zyx.random.uniform(2, 3, 5).floor().sum() == 10)
        True
        """
        return words.uniform(_shape(size), low=low, high=high, generator=self.generator)

    def normal(self, loc: Moment = 0.0, scale: Moment = 1.0, size: SizeLike = None) -> Tensor:
        """Return floats of the normal distribution around `loc`, with the standard deviation `scale`.

        Both may be tensors or lists, which broadcast; their shape is that of the result unless `size` gives it.

        Raises:
            ShapeError: `scale` is negative, or the shapes do not broadcast to `size`.

        >>> zyx.random.normal(0.0, 1.0, (2, 3)).shape
        (2, 3)
        """
        if isinstance(loc, float | int) and isinstance(scale, float | int):
            return words.normal(_shape(size), mean=float(loc), std=float(scale), generator=self.generator)
        mean, std = asarray(loc, float32), asarray(scale, float32)
        both = shapes.broadcast(mean.node.shape, std.node.shape)
        return self.standard_normal(both if size is None else size) * std + mean

    def standard_normal(self, size: SizeLike = None, dtype: DTypeLike = float32) -> Tensor:
        """Return floats of the normal distribution around 0 with the standard deviation 1.

        Raises:
            ShapeError: A size below 0.

        >>> zyx.random.standard_normal(3).shape
        (3,)
        """
        return words.randn(_shape(size), dtype=dtype, generator=self.generator)

    def exponential(self, scale: float = 1.0, size: SizeLike = None) -> Tensor:
        """Return floats of the exponential distribution, whose mean is `scale`: ``-scale * log(1 - u)``, u even.

        Raises:
            ShapeError: `scale` is negative.

        >>> bool(zyx.random.exponential(2.0, 5).min() >= 0)
        True
        """
        if scale < 0:
            raise ShapeError(f"exponential: scale is at least 0, not {scale}")
        return (1 - self.random(size)).log() * -scale

    def multivariate_normal(self, mean: Tensor, cov: Tensor, size: SizeLike = None) -> Tensor:
        """Return vectors of the normal distribution around `mean` with the covariances `cov`.

        Args:
            mean: ``(N,)``, or a list.
            cov: ``(N, N)``, symmetric and positive definite, or lists.
            size: How many vectors, in which shape.

        Returns:
            ``(*size, N)``.

        Raises:
            ShapeError: Other shapes.
            LinAlgError: When the values are read: `cov` is not positive definite.

        >>> zyx.random.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]], 4).shape
        (4, 2)
        """
        centre, spread = asarray(mean, float32), asarray(cov, float32)
        count = centre.node.shape[-1:]
        if centre.node.ndim != 1 or spread.node.shape != count * 2:
            raise ShapeError(
                f"multivariate_normal: mean is (N,) and cov (N, N), not {centre.node.shape} and {spread.node.shape}"
            )
        drawn = self.standard_normal((*_shape(size), *count))
        return matmul(cholesky(spread), drawn[..., None])[..., 0] + centre

    def integers(
        self, low: int, high: int | None = None, size: SizeLike = None, dtype: DTypeLike = int64, endpoint: bool = False
    ) -> Tensor:
        """Return integers drawn evenly from ``low .. high - 1``, or ``0 .. low - 1`` without `high`.

        With `endpoint` the greatest is one more.

        Raises:
            ShapeError: There are none.

        >>> zyx.random.default_rng(0).integers(3, 4, 2).tolist()
        [3, 3]
        """
        first, last = (0, low) if high is None else (low, high)
        end = last + 1 if endpoint else last
        return words.randint(first, end, _shape(size), dtype=dtype, generator=self.generator)

    def choice(
        self, a: int | Tensor | Sequence[object], size: SizeLike = None, replace: bool = True, p: Tensor | None = None
    ) -> Tensor:
        """Return elements of `a` along axis 0, drawn with the weights `p`, all alike without them.

        Args:
            a: A tensor or a list; a number is ``arange(a)``.
            size: How many, in which shape.
            replace: Whether an element may come twice.
            p: ``(len(a),)``, weights >= 0, whose sum need not be 1.

        Raises:
            ShapeError: Nothing to draw from, more than there are without `replace`, or `p` of another shape.

        >>> sorted(zyx.random.choice(3, 3, replace=False).tolist())
        [0, 1, 2]
        """
        items = None if isinstance(a, int) else asarray(a)
        total = a if isinstance(a, int) else len(asarray(a))
        shape = _shape(size)
        count = math.prod(shape)
        if total < 1 or (count > total and not replace):
            raise ShapeError(f"choice: {count} of {total} elements{'' if replace else ', none twice'}")
        if p is not None:
            weights = asarray(p, float32)
            if weights.node.shape != (total,):
                raise ShapeError(f"choice: p is of shape ({total},), one weight an element, not {weights.node.shape}")
            places = words.multinomial(weights, count, replacement=replace, generator=self.generator)
        elif replace:
            places = words.randint(0, total, (count,), generator=self.generator)
        else:
            places = words.randperm(total, generator=self.generator)[:count]
        places = places.reshape(shape)
        return places if items is None else take(items, clip(places, 0, total - 1), axis=0)

    def permutation(self, x: int | Tensor | Sequence[object]) -> Tensor:
        """Return the elements of `x` along axis 0 in random order; a number is ``arange(x)``.

        Raises:
            ShapeError: A number below 0, or a tensor without axes.

        >>> sorted(zyx.random.permutation(3).tolist())
        [0, 1, 2]
        """
        if isinstance(x, int):
            return words.randperm(x, generator=self.generator)
        items = asarray(x)
        return take(items, words.randperm(len(items), generator=self.generator), axis=0)

    def shuffle(self, x: Tensor) -> None:
        """Assign to `x` its own elements along axis 0 in random order.

        Raises:
            DTypeError: `x` is no tensor; `permutation` takes lists and arrays, too.

        >>> x = zyx.arange(3)
        >>> zyx.random.shuffle(x)
        >>> sorted(x.tolist())
        [0, 1, 2]
        """
        tensor = require(x, "shuffle")
        tensor.assign(self.permutation(tensor))

    # ---- NumPy's older names

    def rand(self, *shape: int) -> Tensor:
        """Return floats drawn evenly from [0, 1), in the shape that is given size by size.

        Raises:
            ShapeError: A size below 0.

        >>> zyx.random.rand(2, 3).shape
        (2, 3)
        """
        return self.random(shape)

    def randn(self, *shape: int) -> Tensor:
        """Return floats of the normal distribution, in the shape that is given size by size.

        Raises:
            ShapeError: A size below 0.

        >>> zyx.random.randn(2, 3).shape
        (2, 3)
        """
        return self.standard_normal(shape)

    def randint(self, low: int, high: int | None = None, size: SizeLike = None, dtype: DTypeLike = int64) -> Tensor:
        """Return integers; see `integers`.

        Raises:
            ShapeError: `low` is not below `high`, or a size is below 0.

        >>> zyx.random.randint(0, 5, (2, 3)).shape
        (2, 3)
        """
        return self.integers(low, high, size, dtype)


def _shape(size: SizeLike) -> tuple[int, ...]:
    """Return what NumPy's ``size`` means; None is one number."""
    return () if size is None else tuple(size) if is_several(size) else (size,)  # type: ignore[return-value]  # a number


def seed(seed: int) -> None:
    """Start the stream of the default generator at a seed; see `zyx.manual_seed`.

    Raises:
        IntegerError: `seed` is no integer.

    >>> zyx.random.seed(0)
    """
    manual_seed(seed)


def default_rng(seed: int | None = None) -> RandomNumbers:
    """Return what draws from a stream of its own: that of `seed`, or without one, of words of the default generator.

    Raises:
        IntegerError: `seed` is no integer.

    >>> a, b = (zyx.random.default_rng(5).random(3) for _ in range(2))
    >>> zyx.array_equal(a, b)
    True
    """
    start = int(words.randint(0, 2**31, ()).item()) if seed is None else seed
    return RandomNumbers(Generator(start))


_default = RandomNumbers()
choice = _default.choice
exponential = _default.exponential
multivariate_normal = _default.multivariate_normal
normal = _default.normal
permutation = _default.permutation
rand = _default.rand
randint = _default.randint
randn = _default.randn
random = random_sample = _default.random
shuffle = _default.shuffle
standard_normal = _default.standard_normal
uniform = _default.uniform
