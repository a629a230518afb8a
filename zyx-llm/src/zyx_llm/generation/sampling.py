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
    top_p = sampling.top_p if sampling.top_p < 1.0 else None
    return _drawn(tokens, shares, number, top_p, sampling.min_p if sampling.min_p > 0.0 else None)


def chosen_of_rows(
    logits: zyx.Tensor,
    allowed: zyx.Tensor | None,
    seen: zyx.Tensor | None,
    settings: zyx.Tensor | None,
    count: int,
) -> tuple[zyx.Tensor, zyx.Tensor]:
    """Return the next tokens, ``(rows,)`` of int32, chosen in each row by settings of its own, and their log-probs.

    Args:
        logits: ``(rows, vocabulary)``.
        allowed: bools of that shape, which tokens may be chosen; None if all may.
        seen: bools of that shape, which tokens were there before; None if no row has a penalty.
        settings: What `settings_of` gives for each row, ``(rows, 6)``; None if the greatest is taken in all, without a
            penalty.
        count: How many of the greatest logits are looked at, at least the `top_k` of each row that has one; 1 takes the
            greatest.

    Returns:
        The tokens, and the logarithm of the probability that each has among all at temperature 1, without a penalty.
    """
    plain = logits
    if seen is not None and settings is not None:
        penalty = settings[:, 4:5]
        logits = zyx.where(seen, zyx.where(logits > 0, logits / penalty, logits * penalty), logits)
    if allowed is not None:
        logits = zyx.where(allowed, logits, float("-inf"))
    if count == 1 or settings is None:
        found = logits.argmax(-1).astype(zyx.int32)
    else:
        number, temperature, top_p, min_p, top_k = (settings[:, place : place + 1] for place in (0, 1, 2, 3, 5))
        scaled, tokens = zyx.topk(logits / temperature, count)
        shares = zyx.exp(scaled - scaled[..., :1])
        places = zyx.arange(count, dtype=zyx.float32, device=logits.device)
        shares = zyx.where(places < top_k, shares, 0.0)
        found = _drawn(tokens, shares, number, top_p, min_p)
    # The greatest first: exponentials of what is left are at most 1.
    greatest = plain.max(-1, keepdims=True)
    whole = zyx.log(zyx.exp(plain - greatest).sum(-1)) + greatest[:, 0]
    return found, zyx.take_along_axis(plain, found[:, None], -1)[:, 0] - whole


def settings_of(sampling: Sampling, number: float, vocabulary: int) -> tuple[float, ...]:
    """Return a row of settings for `chosen_of_rows`: number, temperature, top_p, min_p, repetition_penalty, top_k.

    One that takes the greatest draws by 0: the first of all is that.
    """
    if sampling.is_greedy:
        return (0.0, 1.0, 1.0, 0.0, sampling.repetition_penalty, 1.0)
    top_k = sampling.top_k or vocabulary
    return (number, sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty, top_k)


def _drawn(
    tokens: zyx.Tensor,
    shares: zyx.Tensor,
    number: zyx.Tensor,
    top_p: zyx.Tensor | float | None,
    min_p: zyx.Tensor | float | None,
) -> zyx.Tensor:
    """Return those of tokens ``(rows, count)``, in falling order of their shares, that a number draws, ``(rows,)``."""
    summed = shares.cumsum(-1)
    if top_p is not None:
        # What comes before a token has less than p of all, so that the first one always stays.
        shares = zyx.where(summed - shares < top_p * summed[..., -1:], shares, 0.0)
    if min_p is not None:
        shares = zyx.where(shares >= min_p, shares, 0.0)  # the greatest one is 1
    summed = shares.cumsum(-1)
    # Where rounding leaves no sum above the bound, the first token is taken.
    place = (summed > number * summed[..., -1:]).astype(zyx.int32).argmax(-1)
    return zyx.take_along_axis(tokens, place[..., None], -1)[..., 0].astype(zyx.int32)
