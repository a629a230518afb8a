"""Texts of any lengths as rows of one length, and which rows a step learns from.

    tokens of all texts      a b c | d e | f g h i
    rows of length 3         a b c d
                                   d e f g           each goes on with what the one before ended with, so that
                                         g h i .     every token but the first is told once; the rest is left out

A row may have several texts, and a text of it sees those before: what ends one tells the model that another begins.
Each token comes with whether it counts in the loss. A row of which none does teaches nothing, and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zyx.errors import FormatError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: What an element of `Rows` is: a token, and whether the loss counts how well it is told.
ROW: Final = np.dtype([("token", np.int32), ("counts", np.bool_)])
#: ``(rows, length + 1)``, of `ROW`.
Rows: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A text to learn from.

    Attributes:
        tokens: Numbers of tokens.
        counts: For each, whether the loss counts how well it is told; None is all.
    """

    tokens: Sequence[int]
    counts: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        if self.counts is not None and len(self.counts) != len(self.tokens):
            raise InvalidArgumentError(f"a text of {len(self.tokens)} tokens says of {len(self.counts)} what counts")

    @property
    def counted(self) -> int:
        """How many tokens count."""
        return len(self.tokens) if self.counts is None else sum(self.counts)


def packed(texts: Sequence[Text], length: int) -> Rows:
    """Return the tokens of texts as ``(rows, length + 1)``: of each row, what is read and, one further, what is told.

    Args:
        texts: Tokens, and which of them count.
        length: Tokens that are told in a row.

    Raises:
        InvalidArgumentError: A length below 1.
        FormatError: There are not enough tokens for one row, or none that is told counts.
    """
    if length < 1:
        raise InvalidArgumentError(f"sequences have a length of at least 1, not {length}")
    tokens = np.empty(sum(len(text.tokens) for text in texts), ROW)
    tokens["token"] = np.fromiter(chain.from_iterable(text.tokens for text in texts), np.int32)
    tokens["counts"] = np.fromiter(chain.from_iterable(map(_counts, texts)), np.bool_)
    count = (len(tokens) - 1) // length
    if count < 1:
        raise FormatError(
            f"there are {len(tokens)} tokens to learn from, and a sequence of {length} takes {length + 1}: give more "
            f"text, or a length of at most {max(len(tokens) - 1, 0)}"
        )
    starts = np.arange(count) * length
    rows: Rows = tokens[starts[:, None] + np.arange(length + 1)]
    rows = rows[rows["counts"][:, 1:].any(1)]
    if not len(rows):
        raise FormatError(
            f"none of {len(tokens)} tokens is one to learn: talks have no turn of the assistant in what fills "
            f"sequences of {length}; --learn all learns what all say"
        )
    return rows


def _counts(text: Text) -> Iterable[bool]:
    return repeat(True, len(text.tokens)) if text.counts is None else text.counts


def split(rows: Rows, share: float, seed: int = 0) -> tuple[Rows, Rows]:
    """Return the rows to learn from, and those to validate with.

    Args:
        rows: ``(n, ...)``.
        share: The part to validate with, 0 to below 1; unless it is 0, that is one row at least.
        seed: Which rows.

    Raises:
        InvalidArgumentError: Another share, or none is left to learn from.
    """
    if not 0.0 <= share < 1.0:
        raise InvalidArgumentError(f"the share to validate with is 0 to below 1, not {share}")
    count = max(1, round(len(rows) * share)) if share else 0
    if count >= len(rows):
        raise InvalidArgumentError(
            f"of {len(rows)} sequences none would be left to learn from: give more text, shorter sequences or 0 as the "
            "share to validate with"
        )
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows[np.sort(order[count:])], rows[np.sort(order[:count])]


def batch_of(rows: Rows, step: int, size: int, seed: int = 0) -> Rows:
    """Return the rows of a step, ``(size, ...)``: a function of its number, so that who resumes goes on with the same.

    All rows come once, in an order that `seed` gives, before any comes again.

    Args:
        rows: ``(n, ...)``.
        step: 0, 1, ...
        size: How many rows.
        seed: In which order.
    """
    chosen = range(step * size, (step + 1) * size)
    orders = {
        turn: np.random.default_rng((seed, turn)).permutation(len(rows))
        for turn in range(chosen.start // len(rows), chosen[-1] // len(rows) + 1)
    }
    found: Rows = rows[[orders[number // len(rows)][number % len(rows)] for number in chosen]]
    return found
