"""Powers of two next to a number: threads of a group, and lanes of a vector, are as many."""

from __future__ import annotations


def next_power(number: int) -> int:
    """Return the least power of two that is not less than `number`; 1 of what is less than 1."""
    return 1 << (max(number, 1) - 1).bit_length()


def previous_power(number: int) -> int:
    """Return the greatest power of two that is not greater than `number`; 1 of what is less than 1."""
    return 1 << (max(number, 1).bit_length() - 1)
