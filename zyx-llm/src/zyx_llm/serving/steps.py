"""What is run for many texts at once: a network over a pool of pages, traced for a few shapes that never change.

Rows are filled up to one of `ROWS`, tables to one of a few widths, and what is read of prompts to one of `READS`. Where
texts stand and which pages are theirs are values: a trace serves all lengths.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
from zyx_llm.generation import Sampling, chosen_of_rows, settings_of
from zyx_llm.model import PagedCache
from zyx_llm.serving.pages import pages_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zyx_llm.model import Transformer

#: How many texts are gone on from at a time; fewer are filled up to the next.
ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
#: How many tokens of prompts are read at a time where other texts are gone on from,
SHORT: Final = 64
#: and where none are.
LONG: Final = 256
#: For each of these, what may be read: tokens of so many texts, and of each of these.
READS: Final = {SHORT: ((1, 16), (1, 64), (4, 16)), LONG: ((1, 16), (1, 64), (1, 256), (4, 64), (16, 16))}
#: Places of the least table; each further one has four times as many. What fills up a table is read from one page, so
#: that it takes little time.
LEAST: Final = 128
#: How many of the greatest logits are looked at where all rows look at no more, which spares sorting all.
FEW: Final = 64
_GREEDY: Final = Sampling()


class Steps:
    """A network, a pool of pages, and what was traced for them.

    Args:
        network: What reads and writes.
        pages: How many the pool has, besides page 0.
        rows: The most texts at a time.
        dtype: Of keys and values.

    Raises:
        AllocationError: There is no room for the pool; the text says what would fit.

    Attributes:
        rows: How many rows a step has, rising.
        widths: How many pages a table has, rising.
    """

    def __init__(self, network: Transformer, pages: int, rows: int, dtype: zyx.DType) -> None:
        self._network = network
        self._keys, self._values = PagedCache.pool(network.config, pages + 1, dtype, network.device)
        self.rows = (*(count for count in ROWS if count < rows), rows)
        longest, widths = pages_for(network.length), [pages_for(LEAST)]
        while widths[-1] < longest:
            widths.append(4 * widths[-1])
        self.widths = (*widths[:-1], longest)

        @zyx.jit
        def forward(
            tokens: zyx.Tensor, places: zyx.Tensor, table: zyx.Tensor, keys: list[zyx.Tensor], values: list[zyx.Tensor]
        ) -> zyx.Tensor:
            first, counts = places[0], places[1]
            hidden = network.hidden(tokens, first, PagedCache(keys, values, table, counts))
            if tokens.shape[1] == 1:
                return network.logits(hidden[:, 0])
            last = (counts - 1).clip(0)[:, None, None]
            return network.logits(zyx.take_along_axis(hidden, last.expand((*last.shape[:2], hidden.shape[2])), 1)[:, 0])

        self._forward = forward
        self._choose = zyx.jit(chosen_of_rows)

    @property
    def traces(self) -> int:
        """How many times something was traced."""
        return len(self._forward.traces) + len(self._choose.traces)

    @property
    def pool_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(tensor.nbytes for tensor in (*self._keys, *self._values))

    def warm(self) -> None:
        """Trace and compile all that greedy texts need; drawn ones, and constraints, add some of the last step."""
        reads = {*READS[SHORT], *READS[LONG]}
        for width in self.widths:
            for rows, size in {*reads, *((rows, 1) for rows in self.rows)}:
                self.forward([[0] * size] * rows, [0] * rows, [[0] * width] * rows, (rows, size))
        vocabulary = self._network.config.vocabulary
        for rows, count in product({*self.rows, *(rows for rows, _ in reads)}, (1, FEW, 0)):
            sampling = Sampling(temperature=float(count != 1), top_k=count)
            self.choose(zyx.zeros((rows, vocabulary), device=self._network.device), [sampling] * rows, [0.0] * rows)

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        first: Sequence[int],
        pages: Sequence[Sequence[int]],
        shape: tuple[int, int] | None = None,
    ) -> zyx.Tensor:
        """Append tokens to texts; return the logits after the last of each, ``(rows, vocabulary)``, rows filled up.

        Args:
            tokens: At least one of each text.
            first: Where they come in each text.
            pages: Of each text, for all its places with these.
            shape: One of `READS` that holds the tokens; None if there is one of each text.
        """
        shape = shape or (next(size for size in self.rows if size >= len(tokens)), 1)
        width = next(size for size in self.widths if size >= max(map(len, pages)))
        given, places = np.zeros(shape, np.int32), np.zeros((2, shape[0]), np.int32)
        table = np.zeros((shape[0], width), np.int32)
        for row, (own, place, page) in enumerate(zip(tokens, first, pages, strict=True)):
            given[row, : len(own)], table[row, : len(page)] = own, page
            places[:, row] = place, len(own)
        return self._forward(self._given(given), self._given(places), self._given(table), self._keys, self._values)

    def choose(
        self,
        logits: zyx.Tensor,
        samplings: Sequence[Sampling],
        numbers: Sequence[float],
        allowed: Sequence[NDArray[np.bool_] | None] = (),
        seen: Sequence[NDArray[np.bool_] | None] = (),
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the next token of each text and its log-probability, both ``(texts,)``.

        Args:
            logits: Of `forward`.
            samplings: How the token of each text is chosen.
            numbers: What each is drawn by, from 0 to 1.
            allowed: Of each text, which tokens may come, ``(vocabulary,)``; None if all may.
            seen: Of each text, which tokens have come, ``(vocabulary,)``; None if it has no penalty.
        """
        rows, vocabulary = logits.shape
        settings = None
        has_penalty = any(each is not None for each in seen)
        if has_penalty or not all(each.is_greedy for each in samplings):
            settings = np.tile(np.array(settings_of(_GREEDY, 0.0, vocabulary), np.float32), (rows, 1))
            for row, (sampling, number) in enumerate(zip(samplings, numbers, strict=True)):
                settings[row] = settings_of(sampling, number, vocabulary)
        count = min(_looked_at(samplings), vocabulary) or vocabulary
        tokens, logprobs = self._choose(
            logits,
            self._given_or_none(_together(allowed, rows, vocabulary, True)),
            self._given_or_none(_together(seen, rows, vocabulary, False)),
            self._given_or_none(settings),
            count,
        )
        return tokens.numpy()[: len(samplings)], logprobs.numpy()[: len(samplings)]

    def _given(self, values: NDArray[Any]) -> zyx.Tensor:
        return zyx.Tensor(values, device=self._network.device)

    def _given_or_none(self, values: NDArray[Any] | None) -> zyx.Tensor | None:
        return None if values is None else self._given(values)


def read_shape(left: Sequence[int], most: int) -> tuple[int, int]:
    """Return of how many texts, at most, how many tokens are read: the shape of `READS` that reads most, or a smaller.

    Args:
        left: How many tokens each text has that are not read yet; those that come first are read first.
        most: `SHORT` or `LONG`.
    """
    return max(
        READS[most], key=lambda shape: (sum(min(shape[1], each) for each in left[: shape[0]]), -math.prod(shape))
    )


def _looked_at(samplings: Sequence[Sampling]) -> int:
    """Return how many of the greatest logits the rows look at: 1, `FEW`, or 0 for all."""
    if all(each.is_greedy for each in samplings):
        return 1
    return FEW if all(each.is_greedy or 0 < each.top_k <= FEW for each in samplings) else 0


def _together(
    masks: Sequence[NDArray[np.bool_] | None], rows: int, vocabulary: int, other: bool
) -> NDArray[np.bool_] | None:
    """Return the masks of texts as ``(rows, vocabulary)``, `other` where there is none; None if there are none."""
    if all(mask is None for mask in masks):
        return None
    found = np.full((rows, vocabulary), other)
    for row, mask in enumerate(masks):
        if mask is not None:
            found[row] = mask
    return found
