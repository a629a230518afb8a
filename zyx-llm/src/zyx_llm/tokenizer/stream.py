r"""Bytes that come a few at a time, as the characters that are whole.

b"caf", b"\xc3", b"\xa9 "     =>     "caf", "", "é "
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zyx_llm.tokenizer.tokenizer import Tokenizer


class Stream:
    """The text of tokens that come one by one. What it gave, put together, is what `Tokenizer.decode` gives.

    Bytes that no text has, in UTF-8, become U+FFFD.

    Args:
        tokenizer: Whose tokens they are.
        is_start: Whether the first one begins a text, so that a space which the tokenizer adds is left out.
    """

    def __init__(self, tokenizer: Tokenizer, *, is_start: bool = False) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._drops_space = is_start and tokenizer.adds_space

    def push(self, token: int) -> str:
        """Return what is complete with this token; "" in the middle of a character.

        Raises:
            IndexRangeError: There is no such token.
        """
        data = self._tokenizer.bytes_of(token)
        if self._drops_space and data:
            self._drops_space = False
            data = data.removeprefix(b" ")
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return what is left: U+FFFD for a character that was never complete, or ""."""
        return self._decoder.decode(b"", final=True)
