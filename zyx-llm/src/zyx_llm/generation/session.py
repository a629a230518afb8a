"""Tokens in, the next token out: a network, the keys and values of what was said, and what was compiled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

import zyx
from zyx.errors import IndexRangeError, InvalidArgumentError, ShapeError
from zyx_llm.generation.sampling import Sampling, chosen
from zyx_llm.model import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from zyx.jit import Jit
    from zyx_llm.model import Transformer

#: How many tokens are fed at a time; what is left is filled up to the next size. Each has one trace.
CHUNKS: Final = (1, 16, 64, 256)
#: The least size of a cache, which then grows by doubling.
LEAST: Final = 256


_Tensors: TypeAlias = "list[zyx.Tensor]"
#: Of tokens, where they stand and which is the last, the number to draw by, what was seen, keys and values.
Step: TypeAlias = "Jit[[zyx.Tensor, zyx.Tensor, zyx.Tensor, zyx.Tensor, _Tensors, _Tensors], zyx.Tensor]"


def step_of(network: Transformer, sampling: Sampling) -> Step:
    """Return the traced function that appends tokens to a text and chooses the next one; the seed does not matter."""

    @zyx.jit
    def step(
        tokens: zyx.Tensor,
        place: zyx.Tensor,
        number: zyx.Tensor,
        seen: zyx.Tensor,
        keys: list[zyx.Tensor],
        values: list[zyx.Tensor],
    ) -> zyx.Tensor:
        hidden = network.hidden(tokens, place[0], Cache.of(keys, values))
        last = zyx.take(hidden, place[1].reshape((1,)), axis=1)[:, 0]
        return chosen(network.logits(last), seen, number, sampling)

    return step


class Session:
    """A text that grows.

    Args:
        network: What writes it.
        sampling: How tokens are chosen.
        step: What `step_of` gives for the two, to be shared with other sessions; None is one of its own.
        dtype: Of keys and values.

    Attributes:
        length: Tokens so far whose keys and values are there.
        tokens: All of them.
    """

    def __init__(
        self,
        network: Transformer,
        sampling: Sampling | None = None,
        *,
        step: Step | None = None,
        dtype: zyx.DType = zyx.float32,
    ) -> None:
        self.network = network
        self.sampling = sampling or Sampling()
        self.tokens: list[int] = []
        self._cache = Cache(network.config, 1, min(LEAST, _room(network.length)), dtype, network.device)
        self._random = np.random.default_rng(self.sampling.seed)
        vocabulary = network.config.vocabulary
        self._seen = zyx.zeros((1, vocabulary), dtype=zyx.bool, device=network.device).realize()
        self._step = step or step_of(network, self.sampling)

    @property
    def length(self) -> int:
        """How many tokens there are."""
        return self._cache.length

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(tensor.nbytes for tensor in (*self._cache.keys, *self._cache.values))

    @property
    def traces(self) -> int:
        """How many times the network was traced: once for each size of chunk and of cache that was needed."""
        return len(self._step.traces)

    def feed(self, tokens: Sequence[int], room: int = 0) -> zyx.Tensor:
        """Append tokens, and return the one that comes next, ``(1,)``, which is not appended.

        Args:
            tokens: At least one.
            room: How many more will come, as far as is known: memory is made for them at once.

        Raises:
            InvalidArgumentError: There are none.
            IndexRangeError: One is none of the vocabulary.
            ShapeError: They are more than the context holds.
        """
        self._check(tokens)
        self._reserve(len(tokens), room)
        self._note(tokens)
        given = np.asarray(tokens, np.int32)
        number = zyx.Tensor(np.float32(self._random.random()), device=self.network.device)
        first = 0
        while first < len(given):
            left = len(given) - first
            size = next((size for size in CHUNKS if size >= left), CHUNKS[-1])
            part = given[first : first + size]
            place = np.array([self._cache.length, len(part) - 1], np.int32)
            filled = np.pad(part, (0, size - len(part)))[None]
            found = self._run(zyx.Tensor(filled, device=self.network.device), place, number)
            self._cache.length += len(part)
            self.tokens += part.tolist()
            first += len(part)
        return found

    def _run(self, tokens: zyx.Tensor, place: NDArray[np.int32], number: zyx.Tensor) -> zyx.Tensor:
        where = zyx.Tensor(place, device=self.network.device)
        return self._step(tokens, where, number, self._seen, self._cache.keys, self._cache.values)

    def clear(self) -> None:
        """Forget all that was fed, and draw the same numbers again."""
        self.tokens.clear()
        self._cache.length = 0
        self._random = np.random.default_rng(self.sampling.seed)
        self._seen = zyx.zeros(self._seen.shape, dtype=zyx.bool, device=self.network.device).realize()

    def keep(self, tokens: Sequence[int]) -> Sequence[int]:
        """Forget all but what `tokens` begin with, and return the rest of them, at least the last one.

        Raises:
            InvalidArgumentError: There are none.
        """
        if not len(tokens):
            raise InvalidArgumentError("a network goes on from at least one token; there are none")
        common = 0
        for old, new in zip(self.tokens, tokens[:-1], strict=False):
            if old != new:
                break
            common += 1
        if common < len(self.tokens):
            del self.tokens[common:]
            self._seen = zyx.zeros(self._seen.shape, dtype=zyx.bool, device=self.network.device).realize()
            self._note(self.tokens)
        self._cache.length = common
        return tokens[common:]

    def _note(self, tokens: Sequence[int]) -> None:
        """Note for the penalty that tokens are there."""
        if self.sampling.repetition_penalty != 1.0 and tokens:
            self._seen[0, zyx.Tensor(np.array(tokens, np.int32), device=self.network.device)] = True
            self._seen.realize()

    def generate(self, tokens: Sequence[int], limit: int) -> Iterator[int]:
        """Append tokens and what the network writes; give that one by one, at most `limit`, and at most what has room.

        What was given last is not appended yet: it is with the next tokens, or the next `generate`.

        Raises:
            The errors of `feed`.
        """
        found = self.feed(tokens, limit)
        for _ in range(limit):
            token = int(found.item())
            yield token
            if self.length >= self.network.length:
                return
            found = self.feed([token])

    def _check(self, tokens: Sequence[int]) -> None:
        config = self.network.config
        if not len(tokens):
            raise InvalidArgumentError("a network goes on from at least one token; there are none")
        for place, token in enumerate(tokens):
            if not 0 <= token < config.vocabulary:
                raise IndexRangeError(
                    f"token {token}, at {place}, is out of range for a vocabulary of {config.vocabulary}"
                )
        if self.length + len(tokens) > self.network.length:
            before = f" after {self.length} others" if self.length else ""
            raise ShapeError(
                f"{len(tokens)} tokens{before} are more than the context of {self.network.length}; the file says "
                f"{config.context}"
            )

    def _reserve(self, count: int, room: int) -> None:
        """Make room for `count` tokens in chunks, the last one filled up, and, within the context, for `room` more."""
        wanted = self.length + count + max(CHUNKS[-1] if count > 1 else 0, room)
        size = self._cache.size
        while size < min(wanted, _room(self.network.length)):
            size *= 2
        self._cache.grow(min(size, _room(self.network.length)))


def _room(context: int) -> int:
    """Return the size of a cache for a context: a last chunk reaches over its end."""
    return context + CHUNKS[-1]
