"""Random numbers: even, normal, integers, choices, and dropout.

All words come from a `Generator`, the default one unless another is given. Floats in [0, 1) are whole multiples of
2**-24 (float32), 2**-53 (float64), 2**-11 (float16) or 2**-8 (bfloat16): 1 never comes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, ShapeError
from zyx.functions import take_habits
from zyx.functions.complex_numbers import joined
from zyx.functions.operands import is_tensor, require, term_of, wrap
from zyx.functions.sorting import places_in, sort_order
from zyx.functions.term import Term
from zyx.integers import as_index, is_several
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.tensor.generator import draw, owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, DTypeLike
    from zyx.shape import Shape
    from zyx.tensor.generator import Generator
    from zyx.tensor.tensor import Tensor

__all__ = [
    "bernoulli", "dropout", "multinomial", "normal", "rand", "rand_like", "randint", "randn", "randn_like",
    "randperm", "uniform",
]  # fmt: skip


def _float_dtype(dtype: DTypeLike, what: str) -> DType:
    target = as_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"{what} makes floating-point numbers, not {target}; see randint")
    return target


#: Arguments where bounds, or mean and deviation, stand in front of the shape.
_WITH_BOUNDS: Final = 3
_DIGITS: Final = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def _word(dtype: DType) -> DType:
    return dtypes.uint64 if dtype is dtypes.float64 else dtypes.uint32


def _unit(words: Term, dtype: DType, *, with_one: bool = False) -> Term:
    """Return words as floats in [0, 1), or in (0, 1] `with_one`."""
    digits = _DIGITS[dtype]
    high = words.binary(BinaryOp.SHR, words.dtype.bits - digits)
    if with_one:
        high = high + 1
    return high.cast(dtype) * 2.0**-digits


def rand(
    *shape: int | Sequence[int],
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return floats drawn evenly from [0, 1).

    Raises:
        DTypeError: Not a floating-point dtype.

    >>> zyx.rand(2, 3).shape
    (2, 3)
    """
    target = _float_dtype(dtype, "rand")
    (words,) = draw(shape_of(shape), _word(target), generator, device)
    return wrap(_unit(words, target).node, owner(generator))


def shape_of(given: tuple[int | Sequence[int], ...]) -> Shape:
    """Return the shape of ``f(2, 3)`` or ``f((2, 3))``."""
    if len(given) == 1 and is_several(given[0]):
        return shapes.as_shape(given[0])  # type: ignore[arg-type]  # integers, or the error says what it was given
    return shapes.as_shape(given)  # type: ignore[arg-type]  # integers, or the error says what it was given


def uniform(
    *shape: Any,  # noqa: ANN401  # sizes, or low, high and shape
    low: float = 0.0,
    high: float = 1.0,
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return floats drawn evenly from [`low`, `high`).

    The result has the given shape. ``uniform(low, high, shape)`` is NumPy's order, where the shape is a tuple.

    Raises:
        ShapeError: `low` is not below `high`.
        DTypeError: Not a floating-point dtype.

    >>> x = zyx.uniform(100, low=2.0, high=3.0)
    >>> bool(((x >= 2) & (x < 3)).all())
    True
    """
    if len(shape) == _WITH_BOUNDS and isinstance(shape[-1], list | tuple):
        low, high, shape = (*shape[:-1], tuple(shape[-1]))
    target = _float_dtype(dtype, "uniform")
    bottom, top = float(target.to_scalar(low)), float(target.to_scalar(high))
    if not bottom < top:
        raise ShapeError(f"uniform: low {low} is not below high {high} in {target}")
    wide = dtypes.accumulator(target)
    (words,) = draw(shape_of(shape), _word(wide), generator, device)
    # Rounding may reach `high`; the greatest number below it takes its place.
    below = np.nextafter(np.asarray(top, dtype=target.numpy), np.asarray(bottom, dtype=target.numpy))
    values = (_unit(words, wide) * (top - bottom) + bottom).cast(target).minimum(float(below))
    return wrap(values.node, owner(generator))


def normal(
    *shape: Any,  # noqa: ANN401  # sizes, or mean, std and shape
    mean: float | Tensor = 0.0,
    std: float | Tensor = 1.0,
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return floats drawn from the normal distribution of `mean` and standard deviation `std`.

    Tensors in the place of sizes are `mean` and `std`, as in PyTorch: ``normal(means, deviations)``, of which one may
    be a number; the result has the shape that they broadcast to, and the dtype of the first.

    Of a complex dtype both parts are drawn, each with the variance ``std**2 / 2``, as PyTorch has it.

    Box and Muller, "A note on the generation of random normal deviates", 1958, in float64 for float64, else in
    float32; each number takes two words. The logarithm is of numbers in (0, 1].

    Raises:
        ShapeError: `std` is negative.
        DTypeError: Not a floating-point dtype.

    >>> zyx.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    if len(shape) == _WITH_BOUNDS and isinstance(shape[2], list | tuple):  # NumPy's and PyTorch's order
        mean, std, shape = shape[0], shape[1], tuple(shape[2])
    elif shape and isinstance(shape[0], float) and (is_tensor(shape[-1]) or is_tensor(std)):
        mean, shape, std = shape[0], (), (*shape[1:], std)[0]
    tensors = [value for value in shape[:2] if is_tensor(value) and value.node.dtype.is_float]
    if len(tensors) == 2 or any(value.node.ndim for value in tensors):
        mean, std, *rest = (*shape, std) if len(shape) == 1 else shape
        return _of_each(mean, std, rest[0] if rest else (), dtype, device, generator)
    if not isinstance(mean, float | int) or not isinstance(std, float | int):
        return _of_each(mean, std, shape_of(shape) if shape else (), dtype, device, generator)
    if std < 0:
        raise ShapeError(f"normal: std is at least 0, not {std}")
    if as_dtype(dtype).is_complex:
        part = as_dtype(dtype).part
        both = [
            term_of(normal(*shape, std=std / math.sqrt(2), dtype=part, device=device, generator=generator), "normal")
            for _ in range(2)
        ]
        return wrap((joined(*both) + mean if mean else joined(*both)).node, owner(generator))
    target = _float_dtype(dtype, "normal")
    wide = dtypes.accumulator(target)
    first, second = draw(shape_of(shape), _word(wide), generator, device, draws=2)
    radius = (_unit(first, wide, with_one=True).log() * -2.0).sqrt()
    values = radius * (_unit(second, wide) * (2 * math.pi)).unary(UnaryOp.COS)
    if std != 1.0:
        values = values * std
    if mean != 0.0:
        values = values + mean
    return wrap(values.cast(target).node, owner(generator))


def _of_each(
    mean: float | Tensor,
    std: float | Tensor,
    shape: int | Sequence[int],
    dtype: DTypeLike,
    device: str | None,
    generator: Generator | None,
) -> Tensor:
    """Return numbers drawn each with a mean and a deviation of its own."""
    tensors = [value for value in (mean, std) if is_tensor(value)]
    target = tensors[0].node.dtype if tensors else as_dtype(dtype)
    sizes = shapes.broadcast(*[value.node.shape for value in tensors], shapes.as_shape(shape))
    return (normal(sizes, dtype=target, device=device, generator=generator) * std + mean).astype(target)


def randn(
    *shape: int | Sequence[int],
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return floats drawn from the normal distribution of mean 0 and standard deviation 1; see `normal`.

    Raises:
        ShapeError: A negative size.
        DTypeError: Not a floating-point dtype.

    >>> zyx.randn(2, 3).shape
    (2, 3)
    """
    return normal(*shape, dtype=dtype, device=device, generator=generator)


def randint(
    low: int,
    high: int | Sequence[int] | None = None,
    shape: int | Sequence[int] = (),
    *,
    dtype: DTypeLike = dtypes.int64,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return integers drawn evenly from ``low .. high - 1``, or ``0 .. low - 1`` without `high`.

    In the place of `high` may stand the shape, as in ``randint(10, (2, 3))``.

    A number of values that is a power of two takes bits as they are. Of another number n, a 64-bit word is taken
    modulo n, so that some values are likelier than others by less than n / 2**64.

    Raises:
        ShapeError: The range is empty.
        DTypeError: Not an integer dtype, or one that does not hold the range.

    >>> zyx.randint(0, 10, (4,)).shape
    (4,)
    """
    if is_several(high):
        low, high, shape = 0, low, tuple(high)  # type: ignore[arg-type]  # it is several
    first = as_index(low, "low")
    bottom, top = (0, first) if high is None else (first, as_index(high, "high"))
    target = as_dtype(dtype)
    if not target.is_integer:
        raise DTypeError(f"randint makes integers, not {target}; see uniform")
    if bottom >= top:
        raise ShapeError(f"randint: there is no integer from {bottom} on below {top}")
    if bottom < target.min or top - 1 > target.max:
        raise DTypeError(f"randint: {bottom} .. {top - 1} does not fit {target} ({target.min} to {target.max})")
    count = top - bottom
    is_power = count & (count - 1) == 0
    word = dtypes.uint32 if is_power and count <= 1 << 32 else dtypes.uint64
    (words,) = draw(shapes.as_shape(shape), word, generator, device)
    words = words & (count - 1) if is_power else words.modulo(count)
    # Casts wrap, and so does the sum, modulo the size of the dtype: together they are right.
    return wrap((words.cast(target) + target.wrap(bottom)).node, owner(generator))


def bernoulli(x: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Return 1 with the probabilities `x`, else 0, in the shape and dtype of `x`.

    Raises:
        DTypeError: `x` is not of floats.

    >>> zyx.bernoulli(zyx.Tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    term = term_of(x, "bernoulli")
    if not term.dtype.is_float:
        raise DTypeError(f"probabilities are floats, not {term.dtype}")
    wide = dtypes.accumulator(term.dtype)
    (words,) = draw(term.shape, _word(wide), generator, term.node.device)
    hit = Term(term.graph, words.node)
    return wrap((_unit(hit, wide) < term.cast(wide)).cast(term.dtype).node, x)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """Return `x` with each element 0 with probability `p`, and the others times ``1 / (1 - p)``.

    Args:
        x: Any shape.
        p: 0 to 1.
        training: Whether to do so; else `x` is returned.
        generator: Where random words come from.

    Raises:
        ShapeError: `p` is not 0 to 1.
        DTypeError: `x` is not of floats.

    >>> zyx.dropout(zyx.ones(2), 0.5, training=False).tolist()
    [1.0, 1.0]
    """
    if not 0.0 <= p <= 1.0:
        raise ShapeError(f"dropout: p is 0 to 1, not {p}")
    term = term_of(x, "dropout")
    if not term.dtype.is_float:
        raise DTypeError(f"dropout takes floats, not {term.dtype}")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return wrap(term.like(0.0).node, x)
    (words,) = draw(term.shape, dtypes.uint32, generator, term.node.device)
    threshold = min(round(p * 2.0**32), (1 << 32) - 1)
    return wrap((words >= threshold).where(term * (1.0 / (1.0 - p)), 0.0).node, x)


def rand_like(
    x: Tensor, *, dtype: DTypeLike | None = None, device: str | None = None, generator: Generator | None = None
) -> Tensor:
    """Return `rand` in the shape, dtype and place of `x`.

    Raises:
        DTypeError: Not a floating-point dtype.

    >>> zyx.rand_like(zyx.zeros(2, 3)).shape
    (2, 3)
    """
    node = require(x, "rand_like").node
    return rand(
        node.shape, dtype=node.dtype if dtype is None else dtype, device=device or node.device, generator=generator
    )


def randn_like(
    x: Tensor, *, dtype: DTypeLike | None = None, device: str | None = None, generator: Generator | None = None
) -> Tensor:
    """Return `randn` in the shape, dtype and place of `x`.

    Raises:
        DTypeError: Not a floating-point dtype.

    >>> zyx.randn_like(zyx.zeros(2, 3)).shape
    (2, 3)
    """
    node = require(x, "randn_like").node
    return randn(
        node.shape, dtype=node.dtype if dtype is None else dtype, device=device or node.device, generator=generator
    )


def randperm(
    n: int, *, dtype: DTypeLike = dtypes.int64, device: str | None = None, generator: Generator | None = None
) -> Tensor:
    """Return the integers 0 .. `n` - 1 in random order: that in which random words are sorted.

    The result is a vector.

    Raises:
        ShapeError: `n` is negative.

    >>> sorted(zyx.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    n = shapes.as_size(n, "n")
    if n < 0:
        raise ShapeError(f"randperm: n is at least 0, not {n}")
    (words,) = draw((n,), dtypes.uint64, generator, device)
    like = owner(generator)
    return wrap(sort_order(words, 0, descending=False).cast(as_dtype(dtype)).node, like)


def multinomial(x: Tensor, num_samples: int, *, replacement: bool = True, generator: Generator | None = None) -> Tensor:
    """Return places drawn with the weights `x`, int64.

    Args:
        x: Weights >= 0, not all of them 0, ``(n,)`` or ``(rows, n)``.
        num_samples: How many places to draw for each row.
        replacement: Whether a place may come twice. If not, at most as many are drawn as there are; places of weight 0
            come last.
        generator: Where random words come from.

    Returns:
        ``(num_samples,)`` or ``(rows, num_samples)``.

    Raises:
        ShapeError: Another rank, or more samples than places without replacement.
        DTypeError: `x` is not of floats.

    >>> zyx.multinomial(zyx.Tensor([0.0, 1.0]), 3, replacement=True).tolist()
    [1, 1, 1]
    """
    term = term_of(x, "multinomial")
    if len(term.shape) not in (1, 2) or not shapes.size_of(term.shape):
        raise ShapeError(f"multinomial takes weights (n,) or (rows, n), not {term.shape}")
    if not term.dtype.is_float:
        raise DTypeError(f"weights are floats, not {term.dtype}")
    wide = dtypes.accumulator(term.dtype)
    rows = term.cast(wide).reshape((shapes.size_of(term.shape[:-1]), term.shape[-1]))
    count, places = rows.shape
    num_samples = shapes.as_size(num_samples, "num_samples")
    if not replacement:
        if num_samples > places:
            raise ShapeError(f"multinomial: {num_samples} samples of {places} places without replacement")
        return _without_replacement(x, rows, num_samples, generator)
    total = Term(term.graph, term.graph.scan(ReduceOp.SUM, rows.node, 1))
    (words,) = draw((count, num_samples), _word(wide), generator, term.node.device)
    mark = _unit(words, wide) * total.narrow(1, places - 1, places)
    found = places_in(total, mark, is_right=True).cast(dtypes.int64).minimum(places - 1)
    return wrap(found.reshape((*term.shape[:-1], num_samples)).node, x)


def _without_replacement(x: Tensor, rows: Term, num_samples: int, generator: Generator | None) -> Tensor:
    """Draw the places at which exponential clocks, as fast as their weights, ring first.

    Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    """
    (words,) = draw(rows.shape, _word(rows.dtype), generator, rows.node.device)
    bell = (rows > 0).where(-_unit(words, rows.dtype, with_one=True).log() / rows, math.inf)
    order = sort_order(bell, 1, descending=False, count=num_samples)
    return wrap(order.cast(dtypes.int64).reshape((*x.node.shape[:-1], num_samples)).node, x)


take_habits(globals(), __all__)
