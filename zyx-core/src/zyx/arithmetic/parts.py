"""How long the parts are that a range is cut into: all alike where that can be, and else nearly so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def divisor_among(size: int, lengths: Iterable[int]) -> int | None:
    """Return the first of some lengths that divides `size`, so that no part is shorter; None if none does."""
    return next((length for length in lengths if size % length == 0), None)


def even_length(size: int, most: int) -> int:
    """Return the length, at most `most`, of as few parts of `size` as there can be; the last is nearly as long."""
    return -(-size // -(-size // most))
