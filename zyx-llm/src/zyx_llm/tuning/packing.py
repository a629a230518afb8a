"""Texts of any lengths as rows of one length, and which rows a step learns from.

    tokens of all texts      a b c | d e | f g h i
    rows of length 3         a b c d
                                   d e f g           each goes on with what the one before ended with, so that
                                         g h i .     every token but the first is told once; the rest is left out

A row may have several texts, and a text of it sees those before: what ends one tells the model that another begins.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zyx.errors import FormatError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

Rows: TypeAlias = NDArray[np.int32]


def packed(texts: Sequence[Sequence[int]], length: int) -> Rows:
    """Return the tokens of texts as ``(rows, length + 1)``: of each row, what is read and, one further, what is told.

    Args:
        texts: The tokens of each.
        length: Tokens that are told in a row.

    Raises:
        InvalidArgumentError: A length below 1.
        FormatError: There are not enough tokens for one row.
    """
    if length < 1:
        raise InvalidArgumentError(f"sequences have a length of at least 1, not {length}")
    tokens = np.fromiter(chain.from_iterable(texts), np.int32)
    count = (len(tokens) - 1) // length
    if count < 1:
        raise FormatError(
            f"there are {len(tokens)} tokens to learn from, and a sequence of {length} takes {length + 1}: give more "
            f"text, or a length of at most {max(len(tokens) - 1, 0)}"
        )
    starts = np.arange(count) * length
    rows: Rows = tokens[starts[:, None] + np.arange(length + 1)]
    return rows


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
