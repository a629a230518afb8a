"""Which token comes next, out of the logits of all: chosen on the device, so that one number is read a token.

    logits -> divided or multiplied where a token was there before   (repetition penalty)
           -> divided by the temperature -> the k greatest -> of these, the fewest that have p of the probability
           -> of these, those that have at least m of the greatest probability -> one of them, by a number in [0, 1)

Tokens are looked at in falling order of their logits; the one is drawn at which the sum of what comes before it and its
own first exceeds the number times the whole. So it depends on the number alone, and is the same on every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import zyx
from zyx.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen.

    Attributes:
        temperature: What logits are divided by; 0 takes the greatest always.
        top_k: How many of the greatest logits are looked at; 0 is all.
        top_p: Which part of the probability is looked at, more than 0 and at most 1. Holtzman et al., "The curious case
            of neural text degeneration", 2020.
        min_p: Which part of the greatest probability a token has to have, 0 to 1. Nguyen et al., "Turning up the heat",
            2024.
        repetition_penalty: Logits of tokens that were there before are divided by it, or multiplied if they are
            negative; 1 leaves them. Keskar et al., "CTRL", 2019.
        seed: Of the numbers that tokens are drawn by.

    Raises:
        InvalidArgumentError: A value out of its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, is_right, wanted in (
            ("temperature", 0.0 <= self.temperature < float("inf"), "at least 0"),
            ("top_k", self.top_k >= 0, "at least 0, which is all"),
            ("top_p", 0.0 < self.top_p <= 1.0, "more than 0 and at most 1"),
            ("min_p", 0.0 <= self.min_p <= 1.0, "from 0 to 1"),
            ("repetition_penalty", 0.0 < self.repetition_penalty < float("inf"), "more than 0"),
            ("seed", self.seed >= 0, "at least 0"),
        ):
            if not is_right:
                raise InvalidArgumentError(f"{name} is {wanted}, not {getattr(self, name)}")

    @property
    def is_greedy(self) -> bool:
        """Whether the greatest logit is always taken."""
        return self.temperature == 0.0 or self.top_k == 1


def chosen(logits: zyx.Tensor, seen: zyx.Tensor | None, number: zyx.Tensor | None, sampling: Sampling) -> zyx.Tensor:
    """Return the next tokens, ``(rows,)`` of int32.

    Args:
        logits: ``(rows, vocabulary)``.
        seen: bools of that shape, which tokens were there before; None if there is no penalty.
        number: Between 0 and 1, what is drawn by; ``()`` or ``(rows, 1)``. None where the greatest is taken.
        sampling: How.
    """
    if seen is not None and sampling.repetition_penalty != 1.0:
        penalty = sampling.repetition_penalty
        logits = zyx.where(seen, zyx.where(logits > 0, logits / penalty, logits * penalty), logits)
    if sampling.is_greedy:
        return logits.argmax(-1).astype(zyx.int32)
    assert number is not None
    count = logits.shape[-1] if sampling.top_k == 0 else min(sampling.top_k, logits.shape[-1])
    scaled, tokens = zyx.topk(logits / sampling.temperature, count)
    shares = zyx.exp(scaled - scaled[..., :1])
    summed = shares.cumsum(-1)
    if sampling.top_p < 1.0:
        # What comes before a token has less than p of all, so that the first one always stays.
        shares = zyx.where(summed - shares < sampling.top_p * summed[..., -1:], shares, 0.0)
    if sampling.min_p > 0.0:
        shares = zyx.where(shares >= sampling.min_p, shares, 0.0)  # the greatest one is 1
    summed = shares.cumsum(-1)
    # Where rounding leaves no sum above the bound, the first token is taken.
    place = (summed > number * summed[..., -1:]).astype(zyx.int32).argmax(-1)
    return zyx.take_along_axis(tokens, place[..., None], -1)[..., 0].astype(zyx.int32)
