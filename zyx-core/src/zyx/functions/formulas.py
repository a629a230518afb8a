"""Formulas that several families of functions share, written in terms.

Each keeps NaN, infinities and the sign of zero as IEEE 754 and the C library do, and has finite gradients wherever the
function has: the side of a choice that is not taken is fed a harmless value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ShapeError
from zyx.functions.term import Term, signed_of
from zyx.graph import node as n
from zyx.ops import BinaryOp, ReduceOp, identity
from zyx.shape import as_float

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Elements of a block of which only the extreme is looked for at first, and how many blocks make up for the kernels
#: that find the place in one of them.
_BLOCK: Final = 512
_FEWEST_BLOCKS: Final = 8
#: The same where there are several rows: a group of a device with many threads reads each from memory once, anyway, as
#: long as a cache near it holds the row.
_FEWEST_OF_A_ROW: Final = 32


def sign_bit(x: Term) -> Term:
    """Tell where the sign is minus, of zeros and NaN too."""
    if x.dtype.is_float:
        return x.bitcast(signed_of(x.dtype)) < 0
    return x < 0


def copy_sign(x: Term, sign: Term) -> Term:
    """Return the float `x` with the sign of `sign`."""
    return (sign_bit(x) != sign_bit(sign)).where(-x, x)


def hypotenuse(x: Term, y: Term) -> Term:
    """Return ``sqrt(x**2 + y**2)`` without overflow, with gradient 0 at (0, 0); infinity beside NaN is infinity."""
    a, b = magnitude(x), magnitude(y)
    swap = a < b
    large, small = swap.where(b, a), swap.where(a, b)
    endless, zero = (a == math.inf) | (b == math.inf), large == 0
    ratio = endless.where(0.0, small) / (endless | zero).where(1.0, large)
    longest = (a == b).where((a + b) * 0.5, (a == math.inf).where(a, b))
    return endless.where(longest, zero.where(0.0, large) * (ratio * ratio + 1.0).sqrt())


def polar_angle(y: Term, x: Term) -> Term:
    """Return the angle, -pi to pi, of the point (x, y), of zeros and infinities as C; at (0, 0) with gradient 0."""
    height, width = magnitude(y), magnitude(x)
    steep = height > width
    large, small = steep.where(height, width), steep.where(width, height)
    both_infinite = (small == math.inf) & (large == math.inf)
    zero = (large == 0) & (small == 0)
    ratio = zero.where(0.0, both_infinite.where(1.0, small)) / (both_infinite | zero).where(1.0, large)
    angle = ratio.atan()
    angle = steep.where(math.pi / 2 - angle, angle)
    angle = sign_bit(x).where(math.pi - angle, angle)
    return odd(y, angle)


def is_finite(x: Term) -> Term:
    """Tell where a float is neither infinite nor NaN."""
    return x.abs() < math.inf


def count(x: Term, axes: Sequence[int]) -> int:
    """Return the number of elements along `axes`."""
    return math.prod(x.shape[axis] for axis in axes)


def mean(x: Term, axes: Sequence[int]) -> Term:
    """Return the mean along `axes`, which keep size 1."""
    return x.sum(axes) / as_float(count(x, axes))


def sigmoid(x: Term) -> Term:
    """Return ``1 / (1 + exp(-x))``, of which exp never overflows."""
    negative = x < 0
    power = negative.where(x, -x).exp()
    return negative.where(power, 1.0) / (power + 1.0)


def softplus(x: Term) -> Term:
    """Return ``log(1 + exp(x))``, of which exp never overflows."""
    negative = x < 0
    return negative.where(0.0, x) + negative.where(x, -x).exp().log1p()


def shifted_by_max(x: Term, axes: Sequence[int]) -> tuple[Term, Term]:
    """Return `x` less its maximum along `axes`, and that maximum, through which no gradient flows."""
    top = x.max(axes).detach()
    return x - top, top


def log_sum_exp(x: Term, axes: Sequence[int]) -> Term:
    """Return ``log(sum(exp(x)))`` along `axes`, which keep size 1; minus infinity where all of `x` is."""
    top = x.max(axes).detach()
    finite = is_finite(top).where(top, 0.0)  # infinity less infinity would be NaN
    return (x - finite).exp().sum(axes).log() + finite


def softmax(x: Term, axes: Sequence[int]) -> Term:
    """Return ``exp(x) / sum(exp(x))`` along `axes`."""
    shifted, _ = shifted_by_max(x, axes)
    powers = shifted.exp()
    return powers / powers.sum(axes)


def log_softmax(x: Term, axes: Sequence[int]) -> Term:
    """Return the logarithm of `softmax`, without taking one of it."""
    shifted, _ = shifted_by_max(x, axes)
    return shifted - shifted.exp().sum(axes).log()


def safe_sqrt(x: Term) -> Term:
    """Return the square root, with gradient 0 at 0."""
    zero = x == 0
    return zero.where(0.0, zero.where(1.0, x).sqrt())


def odd(x: Term, positive: Term) -> Term:
    """Return `positive`, which was computed of ``abs(x)``, with the sign of `x`."""
    return sign_bit(x).where(-positive, positive)


def magnitude(x: Term) -> Term:
    """Return ``abs(x)``, with gradient 1 or -1 at zeros as well."""
    return sign_bit(x).where(-x, x)


def power(x: Term, exponent: float) -> Term:
    """Return ``x ** exponent`` of `x` >= 0, with gradient 0 at 0."""
    zero = x == 0
    at_zero = 0.0 if exponent > 0 else math.inf
    return zero.where(at_zero, zero.where(1.0, x).binary(BinaryOp.POW, exponent))


# ---- places, windows


def first_place(term: Term, op: ReduceOp, axis: int) -> Term:
    """Return the first position of the extreme of `op` along `axis`, which keeps size 1; int32 where that is enough."""
    size = term.shape[axis]
    is_last = shapes.size_of(term.shape[axis + 1 :]) == 1
    fewest = _FEWEST_BLOCKS if shapes.size_of(term.shape[:axis]) == 1 else _FEWEST_OF_A_ROW
    if is_last and size >= fewest * _BLOCK and not _is_permuted(term.node):
        return _first_place_by_blocks(term, op, axis)
    return _first_place_of(term, term.reduce(op, (axis,)), axis)


def _first_place_of(term: Term, extreme: Term, axis: int) -> Term:
    """Return the first position of `extreme` along `axis`, or of NaN."""
    size = term.shape[axis]
    hit = term == extreme
    if term.dtype.is_float:
        hit = hit | term.is_nan()  # if there is a NaN, the extreme is NaN and equals nothing
    position = term.iota(axis, dtypes.int32 if size < 1 << 31 else dtypes.int64)
    return hit.where(position, size - 1).reduce(ReduceOp.MIN, (axis,))


def _first_place_by_blocks(term: Term, op: ReduceOp, axis: int) -> Term:
    """Return `first_place` along the last axis, read once: the first block with the extreme, and the place in it.

    What the last block is filled up with may be an extreme, too, but is behind one. Of elements that lie in another
    order in memory, blocks would be read piece by piece.
    """
    size, blocks = term.shape[axis], -(-term.shape[axis] // _BLOCK)
    rows = term.shape[:axis]
    widths = [(0, blocks * _BLOCK - size if i == axis else 0) for i in range(len(term.shape))]
    cut = term.pad(widths, identity(op, term.dtype)).reshape((*rows, blocks, _BLOCK))
    extremes = cut.reduce(op, (axis + 1,))
    block = first_place(extremes, op, axis)
    chosen = Term(term.graph, term.graph.gather(cut.node, block.expand((*rows, 1, _BLOCK)).node, axis))
    found = _first_place_of(chosen, extremes.reduce(op, (axis,)), axis + 1)
    dtype = dtypes.int32 if size < 1 << 31 else dtypes.int64
    return (block.cast(dtype) * _BLOCK + found.cast(dtype)).reshape((*rows, *(1 for _ in term.shape[axis:])))


def _is_permuted(node: n.Node) -> bool:
    """Whether the elements of a node lie in memory in another order, as far as that is easily seen."""
    while node.storage is None and len(node.sources) == 1 and not isinstance(node, n.Reduce):
        if isinstance(node, n.Permute):
            return True
        (node,) = node.sources
    return False


def slide_windows(term: Term, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Term:
    """Return ``(..., o1, .., ok, *size)``; see `windows`."""
    count = len(size)
    first = len(term.shape) - count
    if first < 0:
        raise ShapeError(f"windows over {count} axes do not fit shape {term.shape}")
    if any(extent < 1 for extent in size):
        raise ShapeError(f"a window has at least one element along each axis, not {tuple(size)}")
    result = term.reshape((*term.shape, *[1] * count)).expand((*term.shape, *size))
    for i, (extent, step, gap) in enumerate(zip(size, stride, dilation, strict=True)):
        if step < 1 or gap < 1:
            raise ShapeError(f"stride {tuple(stride)} and dilation {tuple(dilation)} must be at least 1")
        if extent == step == 1:
            continue
        places = max((term.shape[first + i] - gap * (extent - 1) - 1) // step + 1, 0)
        node = term.graph.slide(result.node, first + i, len(term.shape) + i, places, step, gap)
        result = Term(term.graph, node)
    return result
