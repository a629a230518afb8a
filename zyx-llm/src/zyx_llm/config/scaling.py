"""What the turns of `Rope` are divided by, where a model was made for more places than it first saw."""

from __future__ import annotations

import math


def smoothed(base: float, width: int, factor: float, slow: float, fast: float, before: float) -> tuple[float, ...]:
    """Return the divisors of Llama 3.1: 1 for fast turns, `factor` for slow ones, and between them a mean of speeds.

    "The Llama 3 Herd of Models", 2024: how fast a pair is is told by how many of its turns fit into the places before.

    Args:
        base: Of `Rope`.
        width: Of `Rope`.
        factor: The greatest divisor.
        slow: Turns of pairs that are divided by it.
        fast: Turns of pairs that are left alone.
        before: The places that it first saw.
    """
    divisors: list[float] = []
    for pair in range(width // 2):
        turns = before * base ** (-2 * pair / width) / (2 * math.pi)
        share = min(max((turns - slow) / (fast - slow), 0.0), 1.0)
        divisors.append(1.0 / ((1.0 - share) / factor + share))
    return tuple(divisors)


def ramped(base: float, width: int, factor: float, fast: float, slow: float, before: float) -> tuple[float, ...]:
    """Return the divisors of YaRN: as `smoothed`, by a ramp over pairs. Peng et al., "YaRN", 2023, section 3.2.

    Args:
        base: Of `Rope`.
        width: Of `Rope`.
        factor: The greatest divisor.
        fast: Turns of the pair where the ramp begins.
        slow: Turns of the pair where it ends.
        before: The places that it first saw.
    """

    def pair_of(turns: float) -> float:
        return width * math.log(before / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = max(math.floor(pair_of(fast)), 0), min(math.ceil(pair_of(slow)), width - 1)
    length = max(last - first, 0.001)
    shares = [min(max((pair - first) / length, 0.0), 1.0) for pair in range(width // 2)]
    return tuple([1.0 / (share / factor + 1.0 - share) for share in shares])


def yarn_factor(factor: float, share: float = 1.0) -> float:
    """Return what YaRN multiplies sines and cosines by, so that scores grow with the places; section 3.4."""
    return 0.1 * share * math.log(factor) + 1.0 if factor > 1.0 else 1.0


def long_factor(factor: float, before: float) -> float:
    """Return what LongRoPE multiplies sines and cosines by. Ding et al., "LongRoPE", 2024."""
    return math.sqrt(1.0 + math.log(factor) / math.log(before)) if factor > 1.0 else 1.0
