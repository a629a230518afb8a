"""What reads tokens: a network, the keys and values of texts side by side, and what was compiled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

import zyx
from zyx_llm.generation.sampling import chosen
from zyx_llm.model import Cache
from zyx_llm.model.cache import SPARE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zyx.jit import Jit
    from zyx_llm.generation.sampling import Sampling
    from zyx_llm.model import Transformer

#: How many tokens are fed at a time; what is left is filled up to the next size. Each has one trace.
CHUNKS: Final = (1, 16, 64, SPARE)
#: The least size of a cache, which then grows by doubling.
LEAST: Final = 256

_Tensors: TypeAlias = "list[zyx.Tensor]"
#: Of tokens, where they stand and which is the last, where texts start, the number to draw by, what was seen, keys and
#: values.
Step: TypeAlias = (
    "Jit[[zyx.Tensor, zyx.Tensor, zyx.Tensor | None, zyx.Tensor | None, zyx.Tensor, _Tensors, _Tensors], zyx.Tensor]"
)
#: Of the same without numbers to draw by and what was seen: the likeliest token after each.
Check: TypeAlias = "Jit[[zyx.Tensor, zyx.Tensor, _Tensors, _Tensors], zyx.Tensor]"


def step_of(network: Transformer, sampling: Sampling) -> Step:
    """Return the traced function that appends tokens to texts and chooses the next ones; the seed does not matter."""

    @zyx.jit
    def step(
        tokens: zyx.Tensor,
        place: zyx.Tensor,
        starts: zyx.Tensor | None,
        number: zyx.Tensor | None,
        seen: zyx.Tensor,
        keys: list[zyx.Tensor],
        values: list[zyx.Tensor],
    ) -> zyx.Tensor:
        hidden = network.hidden(tokens, place[0], Cache.of(keys, values), starts)
        last = zyx.take(hidden, place[1].reshape((1,)), axis=1)[:, 0]
        return chosen(network.logits(last), seen, number, sampling)

    return step


def check_of(network: Transformer) -> Check:
    """Return the traced function that appends tokens to a text, and gives the likeliest one after each of them."""

    @zyx.jit
    def check(tokens: zyx.Tensor, place: zyx.Tensor, keys: list[zyx.Tensor], values: list[zyx.Tensor]) -> zyx.Tensor:
        return network.logits(network.hidden(tokens, place, Cache.of(keys, values))).argmax(-1)

    return check


class Reader:
    """Reads tokens of as many texts as there are rows, which end together and may start apart.

    Args:
        network: What reads them.
        step: What `step_of` gives.
        rows: Texts.
        most: The most tokens of one, before which the longest begins at place 0.
        dtype: Of keys and values.
        starts: For each row, at which place its text starts; None for 0.

    Attributes:
        cache: Keys and values; its `length` is how many places are taken.
        most: The most places.
        seen: bools ``(rows, vocabulary)``, which tokens are noted for the penalty.
    """

    def __init__(
        self,
        network: Transformer,
        step: Step,
        rows: int,
        most: int,
        dtype: zyx.DType,
        starts: NDArray[np.int32] | None = None,
    ) -> None:
        self.most = most
        self.cache = Cache(network.config, rows, min(LEAST, self._room), dtype, network.device)
        self._network = network
        self._step = step
        self._starts = None if starts is None else zyx.Tensor(starts, device=network.device).realize()
        self.forget()

    @property
    def _room(self) -> int:
        """The greatest size of the cache: a last chunk reaches over the end of texts."""
        return self.most + SPARE

    @property
    def traces(self) -> int:
        """How many times the network was traced: once for each size of chunk and of cache that was needed."""
        return len(self._step.traces)

    def read(self, tokens: NDArray[np.int32], number: NDArray[np.float32] | np.float32 | None) -> zyx.Tensor:
        """Append tokens ``(rows, n)``, n at least 1, for which there is room; return those that come next, ``(rows,)``.

        Args:
            tokens: Integers of the vocabulary.
            number: What is drawn by, for all or ``(rows, 1)``; None where nothing is drawn.
        """
        drawn = None if number is None else zyx.Tensor(number, device=self._network.device)
        first = 0
        while first < tokens.shape[1]:
            part = tokens[:, first : first + chunk(tokens.shape[1] - first)]
            place = np.array([self.cache.length, part.shape[1] - 1], np.int32)
            found = self._run(filled(part, chunk(part.shape[1])), place, drawn)
            self.cache.length += part.shape[1]
            first += part.shape[1]
        return found

    def checked(self, tokens: NDArray[np.int32], check: Check) -> zyx.Tensor:
        """Return the likeliest token after each of ``(rows, n)``; `cache.length` stays, so nothing is appended yet."""
        given, where = (zyx.Tensor(t, device=self._network.device) for t in (tokens, np.int32(self.cache.length)))
        return check(given, where, self.cache.keys, self.cache.values)

    def _run(self, tokens: NDArray[np.int32], place: NDArray[np.int32], number: zyx.Tensor | None) -> zyx.Tensor:
        given, where = (zyx.Tensor(each, device=self._network.device) for each in (tokens, place))
        return self._step(given, where, self._starts, number, self.seen, self.cache.keys, self.cache.values)

    def note(self, row: int, tokens: NDArray[np.int32]) -> None:
        """Note for the penalty that a row has tokens."""
        self.seen[row, zyx.Tensor(tokens, device=self._network.device)] = True
        self.seen.realize()

    def forget(self) -> None:
        """Forget what was noted for the penalty."""
        shape = (self.cache.keys[0].shape[0], self._network.config.vocabulary)
        self.seen = zyx.zeros(shape, dtype=zyx.bool, device=self._network.device).realize()

    def reserve(self, count: int, room: int) -> None:
        """Make room for `count` tokens in chunks, the last one filled up, and, within the context, for `room` more."""
        whole = count // CHUNKS[-1] * CHUNKS[-1]
        needed = whole + (chunk(count - whole) if count > whole else 0)
        wanted = min(self.cache.length + max(needed, count + room), self._room)
        size = self.cache.size
        while size < wanted:
            size *= 2
        self.cache.grow(min(size, self._room))


def chunk(count: int) -> int:
    """Return the size of the chunk that takes `count` tokens, or as many of them as any does."""
    return next((size for size in CHUNKS if size >= count), CHUNKS[-1])


def filled(tokens: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """Return ``(rows, size)``, tokens with zeros behind them."""
    if tokens.shape[1] == size:
        return tokens
    return np.pad(tokens, ((0, 0), (0, size - tokens.shape[1])))
