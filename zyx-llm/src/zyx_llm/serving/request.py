"""What a server asks of an engine, and what comes back: a request goes in, a ticket gives the tokens of its answer.

ticket = engine.submit(Request((1, 17, 4), limit=100))
for written in ticket:
    print(written.token)
print(ticket.reason)        # "stop", "length" or "cancelled"
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from zyx.errors import InvalidArgumentError, ZyxError
from zyx_llm.generation import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

#: Why an answer ended: at a token that ends it, at its limit or that of the context, or because it was cancelled.
Reason: TypeAlias = Literal["stop", "length", "cancelled"]


class ServerFullError(ZyxError, RuntimeError):
    """As many requests wait as may."""


class Constraint(Protocol):
    """Which tokens an answer may have; of one request, whose tokens it is told.

    An answer is over when only a token that ends it is allowed. It is used by the thread of the engine alone.
    """

    def allowed(self) -> NDArray[np.bool_]:
        """Return which tokens may come next, ``(vocabulary,)``; at least one."""
        ...

    def take(self, token: int) -> None:
        """Note that a token has come, one that was allowed."""
        ...


@dataclass(frozen=True)
class Request:
    """What is to be gone on from, and how.

    Attributes:
        tokens: Of the prompt, at least one.
        limit: The most tokens that are written, at least one.
        sampling: How they are chosen.
        constraint: Which of them may be chosen; None if all may.

    Raises:
        InvalidArgumentError: No tokens, or a limit of none.
    """

    tokens: tuple[int, ...]
    limit: int
    sampling: Sampling = field(default_factory=Sampling)
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        """Check what needs no network."""
        if not self.tokens:
            raise InvalidArgumentError("a network goes on from at least one token; the request has none")
        if self.limit < 1:
            raise InvalidArgumentError(f"at least 1 token is written; the limit is {self.limit}")


@dataclass(frozen=True, slots=True)
class Written:
    """A token of an answer.

    Attributes:
        token: Which.
        logprob: The logarithm of its probability, out of all tokens at temperature 1; None where it is not told.
    """

    token: int
    logprob: float | None


class Ticket(Protocol):
    """What a request gets: its answer, as it is written."""

    @property
    def reason(self) -> Reason | None:
        """Why the answer ended; None while it goes on, and if it failed."""
        ...

    def __iter__(self) -> Iterator[Written]:
        """Give the tokens of the answer, without the one that ends it; wait for the next.

        Raises:
            ZyxError: What made the request fail.
        """
        ...

    def cancel(self) -> None:
        """End the answer, soon; from any thread, at any time, any number of times."""
        ...


class Engine(Protocol):
    """What answers requests."""

    @property
    def most_requests(self) -> int:
        """How many requests it has at a time, those that wait with those that are answered."""
        ...

    def submit(self, request: Request) -> Ticket:
        """Put a request into the queue, from any thread.

        Raises:
            ShapeError: The prompt, or with its answer the text, is longer than the context or all pages.
            IndexRangeError: A token is none of the vocabulary.
            ServerFullError: As many wait as may, or the engine is closed.
        """
        ...

    def numbers(self) -> dict[str, float]:
        """Return what is counted, by name.

        "requests running" and "requests waiting", now; "requests done", "requests cancelled", "requests failed" and
        "requests put back", which have given up their pages to others and waited again; "tokens read", of prompts,
        "tokens shared", which were there already, and "tokens written"; "pages free" and "pages used", now; "seconds
        busy".
        """
        ...

    def close(self) -> None:
        """Cancel all requests, and end the thread; any number of times."""
        ...
