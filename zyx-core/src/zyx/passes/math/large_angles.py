"""Reduction of large angles to an eighth of a circle, in integer arithmetic (Payne and Hanek, 1983).

``|x| = m * 2**e`` with an integer m of as many bits as the significand has. Multiples of four quarter turns do not
matter, so only those binary digits of 2 / pi count that weigh less than 4 after scaling by 2**e, and of them as many as
the result needs:

    window  = (2 / pi * 2**e) mod 4       to 3 words
    product = (m * window) mod 4          two bits of whole quarter turns, then the fraction, to 2 words

Two words are at least 30 bits more than any number of the format can lose to leading zeros. The digits are chosen by
the exponent through selects, for there are no tables in a kernel. All in all this is about a hundred operations, which
`zyx.passes.math.trigonometric` runs only where they are needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.values import F32, HALF_PI, KernelValue, mad, where

if TYPE_CHECKING:
    from zyx.passes.math.values import Format

# The first 1280 binary digits of 2 / pi.
TWO_OVER_PI: Final = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d"
)


def reduce_large(x: KernelValue, least: float, *, has_uint64: bool) -> tuple[KernelValue, KernelValue]:
    """Return ``(r, quadrant)`` such that ``x = (quadrant + 4 * i) * pi / 2 + r`` for some integer i, ``|r| <= pi / 4``.

    For finite ``|x| >= least``, a power of 2; for others the results mean nothing. `quadrant` is an unsigned integer of
    the size of `x` of which the low two bits count. r is off by about 1 ulp at most. `has_uint64` allows 64-bit
    integers for a float32.
    """
    f = x.format
    bits = abs(x).bits
    m = (bits & ((1 << f.mantissa) - 1)) | (1 << f.mantissa)
    least_exponent = int(math.log2(least))
    offset = (bits >> f.mantissa) - (least_exponent + f.bias)
    window = _window(offset, f, least_exponent)
    has_double_word = f is F32 and has_uint64
    lower, carry = _add(m * window[1], _multiply_high(m, window[2], has_double_word=has_double_word))
    upper = m * window[0] + _multiply_high(m, window[1], has_double_word=has_double_word) + carry

    width = f.unsigned.bits
    high = (upper << 2) | (lower >> (width - 2))
    # A fraction from 1/2 is a negative one of the next quadrant. Its magnitude is the complement, but for the last of
    # many bits.
    is_upper = (high >> (width - 1)).ne(0)
    flip = where(is_upper, (1 << width) - 1, m.like(0))
    quadrant = (upper >> (width - 2)) - flip
    magnitude = _to_radians(high ^ flip, (lower << 2) ^ flip, f)
    sign = (flip << (width - 1)) ^ (x.bits & f.sign_bit)
    return (magnitude.bits ^ sign).bitcast(f.dtype), where(x.lt(0.0), 0 - quadrant, quadrant)


def _window(offset: KernelValue, f: Format, least_exponent: int) -> list[KernelValue]:
    """Return three words of ``(2 / pi * 2**(offset + least_exponent - mantissa)) mod 4``; their first bit weighs 2."""
    width = f.unsigned.bits
    index_shift = width.bit_length() - 1
    steps = ((f.bias - least_exponent) >> index_shift).bit_length()
    needed = 4  # words that hold three at any bit boundary
    digits, digit_count = int(TWO_OVER_PI, 16), 4 * len(TWO_OVER_PI)
    words = []
    for number in range(needed + (1 << steps) - 1):
        end = least_exponent - f.mantissa - 2 + (number + 1) * width  # digits of 2 / pi up to the end of this word
        words.append(offset.like((digits >> (digit_count - end)) & ((1 << width) - 1)))

    index = offset >> index_shift
    for step in reversed(range(steps)):
        distance = 1 << step
        is_far = (index & distance).ne(0)
        words = [where(is_far, words[i + distance], words[i]) for i in range(needed + distance - 1)]
    shift = offset & (width - 1)
    rest = shift ^ (width - 1)  # and a shift by 1, so that none is by the whole width
    return [(words[i] << shift) | ((words[i + 1] >> 1) >> rest) for i in range(needed - 1)]


def _add(x: KernelValue, y: KernelValue) -> tuple[KernelValue, KernelValue]:
    """Return the sum of two unsigned words, and 1 if it overflowed, else 0."""
    total = x + y
    return total, where(total.lt(x), 1, x.like(0))


def _multiply_high(x: KernelValue, y: KernelValue, *, has_double_word: bool) -> KernelValue:
    """Return the upper word of the product of two unsigned words, by halves of words unless uint64 holds it."""
    if has_double_word:
        product = x.cast(dtypes.uint64) * y.cast(dtypes.uint64)
        return (product >> 32).cast(dtypes.uint32)
    half = x.builder.type_of(x.id).dtype.bits // 2
    mask = (1 << half) - 1
    x_low, x_high, y_low, y_high = x & mask, x >> half, y & mask, y >> half
    low_high, high_low = x_low * y_high, x_high * y_low
    carry = ((x_low * y_low) >> half) + (low_high & mask) + (high_low & mask)
    return x_high * y_high + (low_high >> half) + (high_low >> half) + (carry >> half)


def _to_radians(high: KernelValue, low: KernelValue, f: Format) -> KernelValue:
    """Return ``pi / 2 * (high + low / 2**width) / 2**width``, for `high` below half its range."""
    width = f.unsigned.bits
    rest = width - 1 - f.mantissa  # bits of `high` below the first part, which has no more than the significand holds
    first = (high >> rest).bitcast(f.signed).cast(f.dtype)
    second = ((high & ((1 << rest) - 1)) << f.mantissa) | (low >> (width - f.mantissa))
    half_pi, half_pi_low = HALF_PI[f.dtype]
    first_unit, second_unit = 2.0 ** (rest - width), 2.0 ** (1 - 2 * width + rest)
    small = mad(first, half_pi_low * first_unit, second.bitcast(f.signed).cast(f.dtype) * (half_pi * second_unit))
    return mad(first, half_pi * first_unit, small)
