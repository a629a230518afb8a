"""Texts to vectors, of which those of like texts point the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

import zyx
from zyx.errors import InvalidArgumentError, ShapeError
from zyx_llm.model import Encoder, NoCache, Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zyx_llm.tokenizer import Tokenizer

#: Tokens of a text are filled up to a multiple of this, so that a few traces serve all.
_STEP: Final = 32
#: The most texts at a time, filled up to a power of 2.
_ROWS: Final = 32


class Embedder:
    """Makes a vector of a text: of an encoder as its file says, and of a decoder the mean of what its tokens become.

    Args:
        network: What reads tokens.
        tokenizer: What cuts texts into them.

    Attributes:
        network: What reads tokens.
        tokenizer: What cuts texts into them.
    """

    def __init__(self, network: Encoder | Transformer, tokenizer: Tokenizer) -> None:
        self.network = network
        self.tokenizer = tokenizer

        @zyx.jit
        def rows(tokens: zyx.Tensor, lengths: zyx.Tensor) -> zyx.Tensor:
            return _pooled(network, tokens, lengths)

        self._rows = rows

    def embed(self, texts: Sequence[str], *, normalize: bool = True) -> NDArray[np.float32]:
        """Return the vectors of texts, ``(texts, width)`` of float32.

        Args:
            texts: Any number of them; each is read by itself.
            normalize: Whether vectors get the length 1, so that their products are the cosines between them.

        Raises:
            InvalidArgumentError: One text in place of several.
            ShapeError: One has more tokens than the network was made for, or none.
            The errors of `Tokenizer.encode`.
        """
        if isinstance(texts, str):
            raise InvalidArgumentError("embed takes a list of texts; put the text in one")
        rows = [self.tokenizer.encode(text, parse_special=False) for text in texts]
        for text, row in zip(texts, rows, strict=True):
            if not 1 <= len(row) <= self.network.length:
                raise ShapeError(f"{text!r:.40} has {len(row)} tokens, of which there are 1 to {self.network.length}")
        found = np.zeros((len(rows), self.network.config.width), np.float32)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        for first in range(0, len(order), _ROWS):
            part = order[first : first + _ROWS]
            found[part] = self._of_part([rows[row] for row in part])
        if normalize:
            found /= np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        return found

    def _of_part(self, rows: list[list[int]]) -> NDArray[np.float32]:
        longest = min(-(-max(map(len, rows)) // _STEP) * _STEP, self.network.length)
        count = 1 << (len(rows) - 1).bit_length()
        tokens, lengths = np.zeros((count, longest), np.int32), np.ones(count, np.int32)
        for number, row in enumerate(rows):
            tokens[number, : len(row)], lengths[number] = row, len(row)
        given = (zyx.Tensor(each, device=self.network.device) for each in (tokens, lengths))
        return self._rows(*given).numpy()[: len(rows)]


def _pooled(network: Encoder | Transformer, tokens: zyx.Tensor, lengths: zyx.Tensor) -> zyx.Tensor:
    """Return ``(rows, width)``, one vector of those of each text's tokens."""
    if isinstance(network, Encoder):
        hidden = network.hidden(tokens, lengths)
        if network.pooling == "cls":
            return hidden[:, 0]
    else:
        start = zyx.zeros((), dtype=zyx.int32, device=network.device)
        hidden = network.hidden(tokens, start, NoCache(tokens.shape[1]))
    is_text = zyx.arange(tokens.shape[1], dtype=zyx.int32, device=network.device) < lengths[:, None]
    summed = zyx.where(is_text[..., None], hidden, 0.0).sum(1)
    return summed / lengths.astype(zyx.float32)[:, None]
