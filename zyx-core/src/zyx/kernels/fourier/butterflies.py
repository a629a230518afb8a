"""Small transforms written out, on vectors of real and imaginary parts.

Lengths of two factors are divided by Cooley and Tukey's rule, an odd prime p takes ``((p - 1) / 2) ** 2`` products of
each kind: of the sums and of the differences of the elements that lie opposite each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import ValueId
    from zyx.kernels.code import Code

#: Real and imaginary part.
Pair: TypeAlias = "tuple[ValueId, ValueId]"


def add(code: Code, x: ValueId, y: ValueId) -> ValueId:
    """Return the sum."""
    return code.binary(BinaryOp.ADD, x, y)


def subtract(code: Code, x: ValueId, y: ValueId) -> ValueId:
    """Return the difference."""
    return code.binary(BinaryOp.SUB, x, y)


def multiply(code: Code, x: ValueId, y: ValueId) -> ValueId:
    """Return the product."""
    return code.binary(BinaryOp.MUL, x, y)


def times(code: Code, x: Pair, factor: Pair) -> Pair:
    """Return the complex product."""
    (a, b), (c, d) = x, factor
    real = subtract(code, multiply(code, a, c), multiply(code, b, d))
    return real, add(code, multiply(code, a, d), multiply(code, b, c))


def small_transform(code: Code, x: Sequence[Pair]) -> list[Pair]:
    """Return the transform of `x`, with a minus sign."""
    size = len(x)
    if size == 1:
        return list(x)
    if size == 2:
        (a, b), (c, d) = x
        return [(add(code, a, c), add(code, b, d)), (subtract(code, a, c), subtract(code, b, d))]
    if size == 4:
        return _of_four(code, x)
    divisor = 4 if size % 4 == 0 else next(prime for prime in (2, 3, 5, 7, 11, 13) if size % prime == 0)
    if divisor == size:
        return _of_prime(code, x)
    other = size // divisor
    columns = [small_transform(code, x[start::other]) for start in range(other)]
    found: list[Pair] = [x[0]] * size
    for k in range(divisor):
        row = [_turned(code, column[k], start * k, size) for start, column in enumerate(columns)]
        found[k::divisor] = small_transform(code, row)
    return found


def _of_four(code: Code, x: Sequence[Pair]) -> list[Pair]:
    even, odd = small_transform(code, (x[0], x[2])), small_transform(code, (x[1], x[3]))
    (a, b), (c, d) = even[0], odd[0]
    (e, f), (g, h) = even[1], odd[1]  # the second of odd times -i is (h, -g)
    return [
        (add(code, a, c), add(code, b, d)),
        (add(code, e, h), subtract(code, f, g)),
        (subtract(code, a, c), subtract(code, b, d)),
        (subtract(code, e, h), add(code, f, g)),
    ]


def _of_prime(code: Code, x: Sequence[Pair]) -> list[Pair]:
    size, half = len(x), len(x) // 2
    sums = [tuple(add(code, x[j][i], x[-j][i]) for i in (0, 1)) for j in range(1, half + 1)]
    differences = [tuple(subtract(code, x[j][i], x[-j][i]) for i in (0, 1)) for j in range(1, half + 1)]
    found: list[Pair] = [x[0]] * size
    first = list(x[0])
    for total in sums:
        first = [add(code, first[i], total[i]) for i in (0, 1)]
    found[0] = first[0], first[1]
    for k in range(1, half + 1):
        straight, crossed = list(x[0]), [-1, -1]
        for j in range(1, half + 1):
            angle = 2 * math.pi * (j * k % size) / size
            cosine, sine = code.like(math.cos(angle), x[0][0]), code.like(math.sin(angle), x[0][0])
            for i in (0, 1):
                straight[i] = add(code, straight[i], multiply(code, sums[j - 1][i], cosine))
                product = multiply(code, differences[j - 1][i], sine)
                crossed[i] = product if j == 1 else add(code, crossed[i], product)
        found[k] = add(code, straight[0], crossed[1]), subtract(code, straight[1], crossed[0])
        found[size - k] = subtract(code, straight[0], crossed[1]), add(code, straight[1], crossed[0])
    return found


def _turned(code: Code, x: Pair, turns: int, size: int) -> Pair:
    """Return `x` times ``exp(-2 pi i turns / size)``; quarters and eighths take fewer operations."""
    eighths, rest = divmod(8 * (turns % size), size)
    if rest:
        angle = 2 * math.pi * turns / size
        return times(code, x, (code.like(math.cos(angle), x[0]), code.like(-math.sin(angle), x[0])))
    real, imaginary = x
    if eighths % 2:
        root = code.like(math.sqrt(0.5), real)
        total, difference = add(code, real, imaginary), subtract(code, imaginary, real)
        real, imaginary = multiply(code, total, root), multiply(code, difference, root)
    for _ in range(eighths // 2):
        real, imaginary = imaginary, code.unary(UnaryOp.NEG, real)
    return real, imaginary


def combined(code: Code, x: Pair, y: Pair, factor: Pair) -> Pair:
    """Return ``x + y* + f (x - y*)``."""
    (a, b), (c, d) = x, y
    turned = times(code, (subtract(code, a, c), add(code, b, d)), factor)
    return add(code, add(code, a, c), turned[0]), add(code, subtract(code, b, d), turned[1])


def apart(code: Code, z: Pair, mirrored: Pair, root: Pair) -> Pair:
    """Return twice an element of the transform of real numbers, of those of pairs; see `zyx.graph.fourier`."""
    cosine, sine = root
    return combined(code, z, mirrored, (sine, code.unary(UnaryOp.NEG, cosine)))


def together(code: Code, x: Pair, mirrored: Pair, root: Pair, is_first: ValueId) -> Pair:
    """Return what `apart` takes, of elements; the first one and its mirror image have no imaginary parts."""
    cosine, sine = root
    real, other = ((pair[0], code.where(is_first, code.like(0.0, pair[1]), pair[1])) for pair in (x, mirrored))
    return combined(code, real, other, (sine, cosine))
