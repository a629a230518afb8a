"""The answer to a request, as the tokens come: text, why it ended, and what it took.

A ticket blocks until its next token, so one thread for each answer carries tokens to the event loop, which waits for
many. Whoever stops waiting cancels the ticket.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import TYPE_CHECKING, Any

from zyx_llm.generation import Stops

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from zyx_llm.serving.request import Ticket, Written
    from zyx_llm.tokenizer import Tokenizer


@dataclasses.dataclass(slots=True)
class Piece:
    """What came last.

    Attributes:
        text: What is certain to be part of the answer.
        tokens: Those since the piece before.
        reason: "stop" or "length" with the last piece, None with others.
    """

    text: str
    tokens: Sequence[Written]
    reason: str | None = None


async def pieces_of(ticket: Ticket, tokenizer: Tokenizer, stops: Sequence[str]) -> AsyncIterator[Piece]:
    """Give the answer of a ticket up to a stop, and cancel the ticket if nobody asks for more."""
    ends, stream = Stops(stops), tokenizer.stream()
    try:
        async for written in _carried(ticket):
            text = ends.push(stream.push(written.token))
            if ends.is_over:
                yield Piece(text, [written], "stop")
                return
            yield Piece(text, [written])
        yield Piece(ends.push(stream.finish()) + ends.finish(), [], "length" if ticket.reason == "length" else "stop")
    finally:
        ticket.cancel()


async def _carried(ticket: Ticket) -> AsyncIterator[Written]:
    """Give the tokens of a ticket; raise what made it fail."""
    loop = asyncio.get_running_loop()
    news: asyncio.Queue[Written | Exception | None] = asyncio.Queue()

    def tell(what: Written | Exception | None) -> None:
        if not loop.is_closed():  # it is where the server has stopped, and nobody listens
            loop.call_soon_threadsafe(news.put_nowait, what)

    def carry() -> None:
        try:
            for written in ticket:
                tell(written)
            tell(None)
        except Exception as error:  # noqa: BLE001  # whatever an engine or a constraint raises is told to the client
            tell(error)

    threading.Thread(target=carry, name="zyx-llm answer", daemon=True).start()
    while (what := await news.get()) is not None:
        if isinstance(what, Exception):
            raise what
        yield what


def logprobs_of(tokens: Sequence[Written], tokenizer: Tokenizer) -> dict[str, Any]:
    """Return what is said of the probabilities of tokens."""
    content = [
        {
            "token": tokenizer.text_of(written.token),
            "logprob": written.logprob,
            "bytes": [*tokenizer.bytes_of(written.token, keep_special=True)],
            "top_logprobs": [],
        }
        for written in tokens
    ]
    return {"content": content, "refusal": None}


def usage_of(prompt: int, written: int) -> dict[str, int]:
    """Return how many tokens a request took."""
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
