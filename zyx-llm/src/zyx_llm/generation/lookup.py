"""Tokens that may come next, since they came before after the same ones. Saxena, "Prompt lookup decoding", 2023.

    the cat sat on the mat. the cat     =>   sat on the mat

Texts that quote what they go on from, as summaries, translations of code and corrections do, repeat much of it. What is
proposed costs no network; one step checks all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How many tokens have to be the same, the most first. A single one is followed by something else too often.
_SIZES: Final = (3, 2)


class Lookup:
    """Finds what followed the last tokens where they came before.

    Args:
        tokens: What there is so far.
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        for token in tokens:
            self.push(token)

    def push(self, token: int) -> None:
        """Append a token."""
        here = len(self._tokens)
        for size in _SIZES:
            if here >= size:
                self._after[*self._tokens[-size:]] = here
        self._tokens.append(token)

    def propose(self, count: int) -> list[int]:
        """Return at most `count` tokens that followed the last time, none if the last ones are new."""
        for size in _SIZES:
            at = self._after.get((*self._tokens[-size:],))
            if at is not None:
                return self._tokens[at : at + max(count, 0)]
        return []
