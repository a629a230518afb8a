"""Texts of different lengths that are gone on from side by side, in one cache.

    prompts  a b c d      place   0 1 2 3  4 5
             e f                  a b c d  w x
                                  . . e f  y z        starts (0, 2)

All end at the same place, so that each step appends one column. What lies before a row's start is seen by nothing of
the row, and rotations count from there: a row is what it would be by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import InvalidArgumentError
from zyx_llm.generation.reader import Reader, step_of
from zyx_llm.generation.session import check_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import zyx
    from zyx_llm.generation.reader import Step
    from zyx_llm.generation.sampling import Sampling
    from zyx_llm.model import Transformer


def generate_all(
    network: Transformer,
    prompts: Sequence[Sequence[int]],
    limit: int,
    sampling: Sampling,
    *,
    step: Step | None = None,
    dtype: zyx.DType,
) -> Iterator[list[int | None]]:
    """Give what the network writes after each prompt, one token for each at a time, at most `limit` times.

    Args:
        network: What writes.
        prompts: Tokens, at least one of each.
        limit: The most tokens.
        sampling: How they are chosen; row i has the seed and i, so that equal prompts differ.
        step: What `step_of` gives for the two; None is one of its own.
        dtype: Of keys and values.

    Yields:
        For each prompt the next token, or None once its text fills the context.

    Raises:
        InvalidArgumentError: There are no prompts, or no tokens in one.
        IndexRangeError: One is none of the vocabulary.
        ShapeError: They are more than the context holds.
    """
    if not prompts:
        raise InvalidArgumentError("there are no prompts; at least one is gone on from")
    for prompt in prompts:
        check_tokens(network, prompt)
    lengths = np.array([len(prompt) for prompt in prompts], np.int32)
    longest = int(lengths.max())
    tokens = np.zeros((len(prompts), longest), np.int32)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = prompt
    step = step or step_of(network, sampling)
    reader = Reader(network, step, len(prompts), longest + limit, dtype, longest - lengths)
    reader.reserve(longest, limit)
    randoms = [np.random.default_rng(sampling.seed + row) for row in range(len(prompts))]
    fed: list[Sequence[int]] = [*prompts]
    for _ in range(limit):
        if sampling.repetition_penalty != 1.0:
            for row, each in enumerate(fed):
                reader.note(row, np.asarray(each, np.int32))
        numbers = None if sampling.is_greedy else np.array([[random.random()] for random in randoms], np.float32)
        found = reader.read(tokens, numbers).numpy()
        is_full = lengths > network.length
        if is_full.all():
            return
        yield [None if full else int(token) for full, token in zip(is_full, found, strict=True)]
        tokens, fed = found[:, None].astype(np.int32), [[int(token)] for token in found]
        lengths = lengths + 1
