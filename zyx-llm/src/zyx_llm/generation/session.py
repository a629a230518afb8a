"""Tokens in, the next token out: a network, the keys and values of what was said, and what was compiled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import zyx
from zyx.errors import IndexRangeError, InvalidArgumentError, ShapeError
from zyx_llm.generation.lookup import Lookup
from zyx_llm.generation.reader import Reader, check_of, filled, step_of
from zyx_llm.generation.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx_llm.generation.reader import Check, Step
    from zyx_llm.model import Transformer


class Session:
    """A text that grows.

    Args:
        network: What writes it.
        sampling: How tokens are chosen.
        step: What `step_of` gives for the two, to be shared with other sessions; None is one of its own.
        check: Likewise, what `check_of` gives.
        dtype: Of keys and values.

    Attributes:
        length: Tokens so far whose keys and values are there.
        tokens: All of them.
        steps: How many times the network was run by `generate` after the first tokens were read.
    """

    def __init__(
        self,
        network: Transformer,
        sampling: Sampling | None = None,
        *,
        step: Step | None = None,
        check: Check | None = None,
        dtype: zyx.DType = zyx.float32,
    ) -> None:
        self.network = network
        self.sampling = sampling or Sampling()
        self.tokens: list[int] = []
        self.steps = 0
        self._check_function = check or check_of(network)
        self._random = np.random.default_rng(self.sampling.seed)
        self._reader = Reader(network, step or step_of(network, self.sampling), 1, network.length, dtype)

    @property
    def length(self) -> int:
        """How many tokens there are."""
        return self._reader.cache.length

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(tensor.nbytes for tensor in (*self._reader.cache.keys, *self._reader.cache.values))

    @property
    def traces(self) -> int:
        """How many times the network was traced: once for each size of chunk and of cache that was needed."""
        return self._reader.traces

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
        check_tokens(self.network, tokens, self.length)
        self._reader.reserve(len(tokens), room)
        self._note(tokens)
        number = None if self.sampling.is_greedy else np.float32(self._random.random())
        found = self._reader.read(np.asarray([tokens], np.int32), number)
        self.tokens += map(int, tokens)
        return found

    def clear(self) -> None:
        """Forget all that was fed, and draw the same numbers again."""
        self.tokens.clear()
        self._reader.cache.length = 0
        self._random = np.random.default_rng(self.sampling.seed)
        self._reader.forget()

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
            self._reader.forget()
            self._note(self.tokens)
        self._reader.cache.length = common
        return tokens[common:]

    def _note(self, tokens: Sequence[int]) -> None:
        """Note for the penalty that tokens are there."""
        if self.sampling.repetition_penalty != 1.0 and tokens:
            self._reader.note(0, np.array(tokens, np.int32))

    def generate(self, tokens: Sequence[int], limit: int, *, draft: int = 0) -> Iterator[int]:
        """Append tokens and what the network writes; give that one by one, at most `limit`, and at most what has room.

        What was given last is not appended yet: it is with the next tokens, or the next `generate`.

        Args:
            tokens: At least one.
            limit: The most tokens that are given.
            draft: How many tokens are proposed at a time out of what was said before, and checked in one step; what is
                given is the same. See `zyx_llm.generation.lookup`.

        Raises:
            InvalidArgumentError: Fewer than 0 are to be proposed, or some where tokens are drawn, or have a penalty.
            The errors of `feed`.
        """
        if draft and (draft < 0 or not self.sampling.is_greedy or self.sampling.repetition_penalty != 1.0):
            raise InvalidArgumentError(
                f"draft={draft}: proposed tokens, at least 0, are checked by which one is the likeliest; leave "
                f"temperature at 0 and repetition_penalty at 1, not {self.sampling}"
            )
        following = [int(self.feed(tokens, limit).item())]
        lookup = Lookup(self.tokens) if draft else None
        for written in range(limit):
            token = following.pop(0)
            yield token
            if written + 1 == limit or self.length >= self.network.length:
                return
            if lookup is not None:
                lookup.push(token)
            if following:  # it was read when it was checked
                self._reader.cache.length += 1
                self.tokens.append(token)
                continue
            room = min(limit - written - 1, self.network.length - self.length - 1)
            proposed = [] if lookup is None else lookup.propose(min(draft, room))
            following = self._check(token, proposed, draft) if proposed else [int(self.feed([token]).item())]
            self.steps += 1

    def _check(self, token: int, proposed: list[int], most: int) -> list[int]:
        """Append a token; return those that come next: what was proposed, as far as it is the likeliest, and one more.

        The keys and values of what was proposed are there already; they are written over where it was wrong.
        """
        self._reader.reserve(most + 1, 0)
        given = filled(np.array([[token, *proposed]], np.int32), most + 1)
        found = [int(each) for each in self._reader.checked(given, self._check_function).numpy()[0]]
        right = 0
        while right < len(proposed) and found[right] == proposed[right]:
            right += 1
        self._reader.cache.length += 1
        self.tokens.append(token)
        return found[: right + 1]


def check_tokens(network: Transformer, tokens: Sequence[int], before: int = 0) -> None:
    """Check that a network can read tokens after so many others.

    Raises:
        InvalidArgumentError: There are none.
        IndexRangeError: One is none of the vocabulary.
        ShapeError: They are more than the context holds.
    """
    config = network.config
    if not len(tokens):
        raise InvalidArgumentError("a network goes on from at least one token; there are none")
    for place, token in enumerate(tokens):
        if not 0 <= token < config.vocabulary:
            raise IndexRangeError(f"token {token}, at {place}, is out of range for a vocabulary of {config.vocabulary}")
    if before + len(tokens) > network.length:
        others = f" after {before} others" if before else ""
        raise ShapeError(
            f"{len(tokens)} tokens{others} are more than the context of {network.length}; the file says "
            f"{config.context}"
        )
