"""Requests that are answered side by side by one thread.

    turn    a new request is given pages, if there are enough
            prompts are read on, by a chunk of one or short ones of some
            every text whose prompt is read is gone on from by a token, all in one step

So a long prompt holds nobody up for longer than a chunk takes. Where pages run out in the middle, the text that came
last gives up its own, goes back to the front of the queue, and is read again later, with what it has written.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import numpy as np

import zyx
from zyx.errors import InvalidArgumentError, ShapeError
from zyx_llm.generation import Sampling, check_tokens
from zyx_llm.model import PAGE
from zyx_llm.serving.pages import Pages, keys_of, pages_for
from zyx_llm.serving.request import Request, ServerFullError, Written
from zyx_llm.serving.steps import LONG, SHORT, Steps, read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from zyx_llm.model import Transformer
    from zyx_llm.serving.request import Reason

_GREEDY: Final = Sampling()


class _Ticket:
    """The `zyx_llm.serving.request.Ticket` of an engine.

    Args:
        wake: Called when it is cancelled.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.reason: Reason | None = None
        self.is_cancelled = False
        self._news: SimpleQueue[Written | None] = SimpleQueue()  # None comes after the last
        self._is_read = False
        self._wake = wake
        self._failure: BaseException | None = None

    def push(self, written: Written) -> None:
        """Tell a token; by the engine."""
        self._news.put(written)

    def end(self, why: Reason | BaseException) -> None:
        """Tell why there are no more; by the engine."""
        if isinstance(why, BaseException):
            self._failure = why
        else:
            self.reason = why
        self._news.put(None)

    def __iter__(self) -> Iterator[Written]:
        """Give the tokens of the answer; see `zyx_llm.serving.request.Ticket`."""
        while not self._is_read:
            written = self._news.get()
            if written is not None:
                yield written
            else:
                self._is_read = True
        if self._failure is not None:
            raise self._failure

    def cancel(self) -> None:
        """End the answer, soon."""
        self.is_cancelled = True
        self._wake()


@dataclass(eq=False)
class _Text:
    """A request that is answered, or waits for that.

    Attributes:
        number: In the order in which requests came.
        places: The most that it takes: the last token that is written is not read any more.
        tokens: Of the prompt, and what was written.
        pages: What it has of the pool.
        read: How many of its tokens are there.
        written: How many were written.
        seen: Which tokens were there, ``(vocabulary,)``; None if there is no penalty.
    """

    number: int
    places: int
    request: Request
    ticket: _Ticket
    tokens: list[int]
    random: np.random.Generator
    seen: NDArray[np.bool_] | None
    pages: list[int] = field(default_factory=list)
    read: int = 0
    written: int = 0

    @property
    def is_written(self) -> bool:
        """Whether all but its last token are there, which was written: it is gone on from by a step."""
        return self.written > 0 and len(self.tokens) - self.read == 1


class BatchEngine:
    """The `zyx_llm.serving.request.Engine` of a network.

    Args:
        network: What reads and writes.
        ends: Tokens that end an answer.
        pages: How many pages of `PAGE` places the pool of keys and values has; None is enough for half of the rows
            to have texts that fill the context, and at least one.
        rows: The most texts that are gone on from at a time.
        waiting: The most requests that wait for a row.
        dtype: Of keys and values.

    Raises:
        InvalidArgumentError: No pages, no rows, or none may wait.
        AllocationError: There is no room for the pool; the text says what would fit.
    """

    def __init__(
        self,
        network: Transformer,
        ends: Collection[int],
        *,
        pages: int | None = None,
        rows: int = 32,
        waiting: int = 256,
        dtype: zyx.DType = zyx.float32,
    ) -> None:
        pages = pages_for(network.length) * max(rows // 2, 1) if pages is None else pages
        for name, count in (("pages", pages), ("rows", rows), ("waiting", waiting)):
            if count < 1:
                raise InvalidArgumentError(f"{name} is at least 1, not {count}")
        self.network = network
        self.steps = Steps(network, pages, rows, dtype)
        self._ends = frozenset(ends)
        self._rows = rows
        self._most_waiting = waiting
        self._pages = Pages(pages)
        self._changed = threading.Condition()  # of all below, which other threads look at
        self._waiting: deque[_Text] = deque()
        self._running: list[_Text] = []
        self._is_closed = False
        self._came = 0
        self._counts = dict.fromkeys(("done", "cancelled", "failed", "put back"), 0)
        self._tokens = {"read": 0, "shared": 0, "written": 0}
        self._busy_s = 0.0
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="zyx-llm engine", daemon=True
        )
        self._thread.start()

    @property
    def most_requests(self) -> int:
        """How many requests it has at a time: on the rows, and waiting."""
        return self._rows + self._most_waiting

    def submit(self, request: Request) -> _Ticket:
        """Put a request into the queue; see `zyx_llm.serving.request.Engine`."""
        check_tokens(self.network, request.tokens)
        places = min(len(request.tokens) + request.limit - 1, self.network.length)
        if pages_for(places) > self._pages.count:
            raise ShapeError(
                f"a prompt of {len(request.tokens)} tokens and an answer of {request.limit} take {pages_for(places)} "
                f"pages of {PAGE}; there are {self._pages.count}: ask for a shorter answer, or give the engine more"
            )
        seen = None
        if request.sampling.repetition_penalty != 1.0:
            seen = np.zeros(self.network.config.vocabulary, np.bool_)
            seen[[*request.tokens]] = True
        ticket = _Ticket(self._wake)
        random = np.random.default_rng(request.sampling.seed)
        with self._changed:
            if self._is_closed:
                raise ServerFullError("the engine is closed: it takes no requests")
            # Rows that are free take some of those that wait as soon as the thread comes to it.
            waiting = len(self._waiting) - (self._rows - len(self._running))
            if waiting >= self._most_waiting:
                raise ServerFullError(f"{waiting} requests wait, of at most {self._most_waiting}: try again later")
            self._came += 1
            self._waiting.append(_Text(self._came, places, request, ticket, [*request.tokens], random, seen))
            self._changed.notify_all()
        return ticket

    def numbers(self) -> dict[str, float]:
        """Return what is counted; see `zyx_llm.serving.request.Engine`."""
        with self._changed:
            return {
                "requests running": len(self._running),
                "requests waiting": len(self._waiting),
                **{f"requests {name}": count for name, count in self._counts.items()},
                **{f"tokens {name}": count for name, count in self._tokens.items()},
                "pages free": self._pages.free,
                "pages used": self._pages.used,
                "seconds busy": self._busy_s,
            }

    def close(self) -> None:
        """Cancel all requests, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        """Take turns until the engine is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._running or self._waiting)
                if self._is_closed:
                    for text in (*self._running, *self._waiting):
                        text.ticket.is_cancelled = True
                self._drop_cancelled()
                if self._is_closed:
                    return
                self._admit()
            started = time.perf_counter()
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001  # of any backend: those that it met are told, and others go on
                self._fail([*self._running], error)
            with self._changed:
                self._busy_s += time.perf_counter() - started

    def _drop_cancelled(self) -> None:
        for text in [each for each in (*self._running, *self._waiting) if each.ticket.is_cancelled]:
            if text not in self._running:
                self._waiting.remove(text)
            self._end(text, "cancelled")

    def _end(self, text: _Text, why: Reason | BaseException) -> None:
        """Give up the pages of a text, and tell its ticket why."""
        with self._changed:
            self._leave(text)
            name = "failed" if isinstance(why, BaseException) else "cancelled" if why == "cancelled" else "done"
            self._counts[name] += 1
        text.ticket.end(why)

    def _leave(self, text: _Text) -> None:
        if text in self._running:
            self._running.remove(text)
        self._pages.release(text.pages)
        text.pages, text.read = [], 0

    def _fail(self, texts: list[_Text], error: BaseException) -> None:
        for text in texts:
            self._end(text, error)

    def _admit(self) -> None:
        """Give pages to those that wait, in their order, as long as there are enough for all their tokens and one."""
        while self._waiting and len(self._running) < self._rows:
            text = self._waiting[0]
            # The last token is always read: it is what the answer begins with.
            text.pages = self._pages.shared(keys_of(text.tokens[:-1]))
            wanted = pages_for(min(len(text.tokens) + 1, text.places))
            more = self._pages.take(wanted - len(text.pages))
            if more is None:
                self._pages.release(text.pages)
                text.pages = []
                return
            text.read = len(text.pages) * PAGE
            self._tokens["shared"] += text.read
            text.pages += more
            self._running.append(self._waiting.popleft())

    def _turn(self) -> None:
        """Read a chunk of a prompt, and write a token of all texts whose prompts are read."""
        ready = [text for text in self._running if text.is_written]
        reading = [text for text in self._running if not text.is_written]
        if reading:
            self._read(reading, SHORT if ready else LONG)
        self._write([text for text in ready if self._has_room(text)])

    def _read(self, texts: list[_Text], most: int) -> None:
        """Read some of the tokens of the first of these texts."""
        rows, size = read_shape([len(text.tokens) - text.read for text in texts], most)
        texts = texts[:rows]
        tokens = [text.tokens[text.read : text.read + size] for text in texts]
        logits = self.steps.forward(
            tokens, [text.read for text in texts], [text.pages for text in texts], (rows, size)
        ).realize()
        with self._changed:
            for text, part in zip(texts, tokens, strict=True):
                text.read += len(part)
                whole = text.read // PAGE
                self._tokens["read"] += len(part)
                self._pages.name(text.pages[:whole], keys_of(text.tokens[: whole * PAGE]))
        self._choose([text if text.read == len(text.tokens) else None for text in texts], logits)

    def _has_room(self, text: _Text) -> bool:
        """Return whether a text has a page for its next token, which those that came later make free for it."""
        while text in self._running and text.read == len(text.pages) * PAGE:
            with self._changed:
                if (more := self._pages.take(1)) is not None:
                    text.pages += more
                    continue
                last = max(self._running, key=lambda each: each.number)
                self._leave(last)
                self._counts["put back"] += 1
                self._waiting.appendleft(last)
        return text in self._running

    def _write(self, texts: list[_Text]) -> None:
        texts = [text for text in texts if text in self._running]
        if not texts:
            return
        logits = self.steps.forward(
            [text.tokens[-1:] for text in texts], [text.read for text in texts], [text.pages for text in texts]
        )
        for text in texts:
            text.read += 1
        self._choose(texts, logits)

    def _choose(self, rows: Sequence[_Text | None], logits: zyx.Tensor) -> None:
        """Choose the next token of texts, one for each row of logits, and tell their tickets; None has no next yet."""
        texts = [text for text in rows if text is not None]
        if not texts:
            return
        allowed = [None if text is None else self._allowed(text) for text in rows]
        samplings = [_GREEDY if text is None else text.request.sampling for text in rows]
        numbers = [0.0 if text is None or text.request.sampling.is_greedy else text.random.random() for text in rows]
        seen = [None if text is None else text.seen for text in rows]
        tokens, logprobs = self.steps.choose(logits, samplings, numbers, allowed, seen)
        for text, token, logprob in zip(rows, tokens.tolist(), logprobs.tolist(), strict=True):
            if text is not None and text in self._running:
                self._push(text, token, logprob)

    def _allowed(self, text: _Text) -> NDArray[np.bool_] | None:
        """Return which tokens a constraint allows; a text whose constraint fails ends with that error."""
        constraint = text.request.constraint
        if constraint is None:
            return None
        try:
            found = constraint.allowed()
            if found.shape != (self.network.config.vocabulary,) or not found.any():
                raise ShapeError(
                    f"a constraint allows {int(found.sum())} tokens out of {found.shape}; it is to allow at least one "
                    f"of a vocabulary of {self.network.config.vocabulary}, an end token where the answer is over"
                )
        except Exception as error:  # noqa: BLE001  # somebody else's code, which is to hurt its own request alone
            self._end(text, error)
            return None
        return found

    def _push(self, text: _Text, token: int, logprob: float) -> None:
        if token in self._ends:
            self._end(text, "stop")
            return
        text.tokens.append(token)
        text.written += 1
        if text.seen is not None:
            text.seen[token] = True
        with self._changed:
            self._tokens["written"] += 1
        text.ticket.push(Written(token, logprob))
        try:
            if text.request.constraint is not None:
                text.request.constraint.take(token)
        except Exception as error:  # noqa: BLE001  # somebody else's code, which is to hurt its own request alone
            self._end(text, error)
            return
        if text.written == text.request.limit or text.read >= self.network.length:
            self._end(text, "length")
