"""The class that turns texts into numbers of tokens and back, whatever file it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.errors import DTypeError, FormatError, IndexRangeError
from zyx_llm.tokenizer.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import tokenizers


@dataclass(frozen=True, slots=True)
class Special:
    """Tokens that mean something by themselves.

    Attributes:
        bos: Begins a text; None if there is none.
        eos: Ends one; None if there is none.
        ends: All that end an answer, `eos` among them.
        control: Those that are no text.
        adds_bos: Whether texts are given `bos`.
        adds_eos: Whether texts are given `eos`.
    """

    bos: int | None = None
    eos: int | None = None
    ends: frozenset[int] = frozenset()
    control: frozenset[int] = frozenset()
    adds_bos: bool = False
    adds_eos: bool = False


class Tokenizer:
    """Texts to tokens and back.

    Args:
        inner: Cuts a text in which special tokens are written out.
        plain: The same for one where what looks like a special token is text.
        pieces: The bytes of each token.
        special: Which of them are special.
        adds_space: Whether a space is put before a text, and is to be left out of what is decoded.

    Attributes:
        special: Which tokens are special.
        adds_space: Whether a space is put before a text.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        plain: tokenizers.Tokenizer,
        pieces: Sequence[bytes],
        special: Special,
        *,
        adds_space: bool = False,
    ) -> None:
        self._inner = inner
        self._plain = plain
        self._pieces = pieces
        self.special = special
        self.adds_space = adds_space

    def __len__(self) -> int:
        """Return how many tokens there are."""
        return len(self._pieces)

    def encode(self, text: str, *, parse_special: bool = True, add_special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: Any text that UTF-8 can hold.
            parse_special: Whether special tokens that are written out, such as ``<|im_end|>``, are those tokens. Give
                False for what somebody else wrote.
            add_special: Whether a text begins and ends with what the model wants there.

        Raises:
            DTypeError: It is no text.
            FormatError: It has half of a surrogate pair, or a character that the vocabulary cannot express.
        """
        return self.encode_places(text, parse_special=parse_special, add_special=add_special)[0]

    def encode_places(
        self, text: str, *, parse_special: bool = True, add_special: bool = True
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the tokens of a text, and from which character to before which one each stands for.

        Tokens that together are one character have the same place; what is put before or behind the text has an empty
        one at its beginning or end. Args and errors are those of `encode`.
        """
        if not isinstance(text, str):
            raise DTypeError(f"a tokenizer takes a text, not a {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FormatError(
                f"the text has {text[error.start]!r} at {error.start}, half of a surrogate pair, which is no character"
            ) from error
        inner = self._inner if parse_special else self._plain
        found = inner.encode(text, add_special_tokens=False)
        ids: list[int] = found.ids
        places: list[tuple[int, int]] = found.offsets
        if add_special and self.special.adds_bos and self.special.bos is not None:
            ids, places = [self.special.bos, *ids], [(0, 0), *places]
        if add_special and self.special.adds_eos and self.special.eos is not None:
            ids, places = [*ids, self.special.eos], [*places, (len(text), len(text))]
        return ids, places

    def bytes_of(self, token: int, *, keep_special: bool = False) -> bytes:
        """Return the bytes that a token stands for; none for special ones, unless they are kept.

        Raises:
            IndexRangeError: There is no such token.
        """
        if not 0 <= token < len(self._pieces):
            raise IndexRangeError(f"token {token} is out of range for a vocabulary of {len(self._pieces)}")
        if token in self.special.control and not keep_special:
            return b""
        return self._pieces[token]

    def decode(self, tokens: Iterable[int], *, keep_special: bool = False) -> str:
        """Return the text of tokens; U+FFFD stands for bytes that are no UTF-8.

        Args:
            tokens: Numbers of tokens.
            keep_special: Whether special tokens are written out; otherwise they are left out.

        Raises:
            IndexRangeError: One of them is none.
        """
        data = b"".join(self.bytes_of(token, keep_special=keep_special) for token in tokens)
        return (data.removeprefix(b" ") if self.adds_space else data).decode(errors="replace")

    def stream(self, *, is_start: bool = False) -> Stream:
        """Return what gives the text of tokens one by one; see `Stream`."""
        return Stream(self, is_start=is_start)

    def text_of(self, token: int | None) -> str:
        """Return how a token is written; "" for None.

        Raises:
            IndexRangeError: There is no such token.
        """
        return "" if token is None else self.bytes_of(token, keep_special=True).decode(errors="replace")
