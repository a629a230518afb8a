"""The application: which address is answered how.

    /v1/models  /v1/chat/completions  /v1/completions  /v1/embeddings     what OpenAI's clients ask for
    /health  /metrics                                                     what those who look after it ask for
    /                                                                     a page to talk with the model

A body becomes requests of an engine; their tickets become one JSON value, or a stream of them.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
import time
import uuid
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from zyx.errors import IndexRangeError, ShapeError
from zyx_llm.generation import Sampling
from zyx_llm.serving.constraints import Grammars
from zyx_llm.serving.http.answers import Piece, logprobs_of, pieces_of, usage_of
from zyx_llm.serving.http.bodies import Asked, Chat, Completion, Embeddings, read, seed_of
from zyx_llm.serving.http.errors import RefusedError, response_of
from zyx_llm.serving.http.events import Events, while_there
from zyx_llm.serving.http.hosts import Hosts
from zyx_llm.serving.request import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from zyx_llm.language_model import LanguageModel
    from zyx_llm.serving.http.bodies import ResponseFormat
    from zyx_llm.serving.request import Constraint, Engine, Ticket, Written

#: The page has all that it needs in itself, and speaks to this server alone.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"
)


@dataclass(frozen=True)
class Limits:
    """What a server takes.

    Attributes:
        body_bytes: The largest body.
        embedded_texts: The most texts that one request has vectors made of.
    """

    body_bytes: int = 4 << 20
    embedded_texts: int = 256


@dataclass(slots=True)
class _Asked:
    """A request, and the tickets of its answers.

    Attributes:
        body: What the client sent.
        prompts: The tokens of each prompt.
        tickets: For each prompt, `body.n` in succession.
        is_chat: Whether answers are messages.
        with_logprobs: Whether probabilities are told.
    """

    body: Asked
    prompts: Sequence[Sequence[int]]
    tickets: Sequence[Ticket]
    is_chat: bool
    with_logprobs: bool


def app_of(
    model: LanguageModel,
    engine: Engine,
    name: str,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = ("127.0.0.1", "localhost", "[::1]"),
    limits: Limits | None = None,
) -> Starlette:
    """Return the application.

    Args:
        model: Its tokenizer, its template and what makes vectors.
        engine: What answers.
        name: What clients call the model.
        token: What clients have to show, as ``Authorization: Bearer TOKEN``; None if nobody has to.
        hosts: Names that the server is asked by, IPv6 addresses in brackets; others are refused, so that no page of
            another place, whose name was made to lead here, asks it. None takes all.
        limits: What it takes.
    """
    server = _Server(model, engine, name, token, limits or Limits())
    return Starlette(
        routes=[
            Route("/", server.page),
            Route("/health", server.health),
            Route("/metrics", server.guarded(server.metrics)),
            Route("/v1/models", server.guarded(server.models)),
            Route("/v1/models/{name:path}", server.guarded(server.model)),
            Route("/v1/chat/completions", server.guarded(server.chat), methods=["POST"]),
            Route("/v1/completions", server.guarded(server.complete), methods=["POST"]),
            Route("/v1/embeddings", server.guarded(server.embed), methods=["POST"]),
        ],
        middleware=[Middleware(Hosts, names=hosts)],
        exception_handlers={HTTPException: _refused, Exception: _refused},
    )


async def _refused(request: HttpRequest, error: Exception) -> Response:
    """Tell what no route has told."""
    if isinstance(error, HTTPException) and error.status_code in (404, 405):
        where = f"{request.method} {request.url.path}"
        what = (
            f"there is nothing at {where}; see /v1/models, /v1/chat/completions, /v1/completions and /v1/embeddings"
            if error.status_code == 404
            else f"{where} is not answered; methods: {(error.headers or {}).get('Allow', 'others')}"
        )
        error = HTTPException(error.status_code, what, error.headers)
    return response_of(error)


class _Server:
    def __init__(self, model: LanguageModel, engine: Engine, name: str, token: str | None, limits: Limits) -> None:
        self._model = model
        self._engine = engine
        self._name = name
        self._token = token
        self._limits = limits
        self._grammars: Grammars | None = None
        self._started = int(time.time())
        self._embedding = asyncio.Lock()

    def guarded(self, answer: Callable[[HttpRequest], Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
        """Return what answers those who show the token, and tells the others and whoever is refused why."""

        async def guarded(request: HttpRequest) -> Response:
            try:
                if self._token is not None:
                    shown = request.headers.get("authorization", "").removeprefix("Bearer ")
                    if not hmac.compare_digest(shown.encode(), self._token.encode()):
                        raise RefusedError("the token is missing, or another one", status=401, code="invalid_api_key")
                return await answer(request)
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it
            except Exception as error:  # noqa: BLE001  # whatever it is, the client is told, and the server goes on
                return response_of(error)

        return guarded

    async def page(self, request: HttpRequest) -> Response:
        """Return the page to talk with the model."""
        del request
        text = files("zyx_llm.serving.http").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"content-security-policy": _POLICY, "x-content-type-options": "nosniff"})

    async def health(self, request: HttpRequest) -> Response:
        """Say that the server is there."""
        del request
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: HttpRequest) -> Response:
        """Return what the engine counts, in the text format of Prometheus."""
        del request
        lines = []
        for name, value in self._engine.numbers().items():
            is_now = name.startswith("pages") or name in ("requests running", "requests waiting")
            written = f"zyx_llm_{name.replace(' ', '_')}" + ("" if is_now else "_total")
            lines += [f"# TYPE {written} {'gauge' if is_now else 'counter'}", f"{written} {value}"]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")

    async def models(self, request: HttpRequest) -> Response:
        """List the one model."""
        del request
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def model(self, request: HttpRequest) -> Response:
        """Describe the one model."""
        self._check_name(request.path_params["name"])
        return JSONResponse(self._described())

    def _described(self) -> Mapping[str, Any]:
        return {"id": self._name, "object": "model", "created": self._started, "owned_by": "zyx-llm"}

    def _check_name(self, name: str | None) -> None:
        if name is not None and name != self._name:
            message = f"there is no model {name!r}; this server has {self._name!r}"
            raise RefusedError(message, status=404, param="model", code="model_not_found")

    async def chat(self, request: HttpRequest) -> Response:
        """Answer a talk."""
        body: Chat = await self._body(request, Chat)
        prompt = self._model.tokenizer.encode(self._model.talk(body.talk()))
        return await self._answered(request, body, [prompt], body.response_format, with_logprobs=bool(body.logprobs))

    async def complete(self, request: HttpRequest) -> Response:
        """Go on from texts, or from tokens."""
        body: Completion = await self._body(request, Completion)
        prompts = [self._model.tokenizer.encode(each) if isinstance(each, str) else each for each in body.prompts]
        return await self._answered(request, body, prompts, body.response_format, with_logprobs=False)

    async def _body(self, request: HttpRequest, kind: type[Any]) -> Any:  # noqa: ANN401  # an instance of `kind`
        most = self._limits.body_bytes
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RefusedError("the body is JSON: its content-type is application/json", status=415)
        parts, length = [], 0
        async for part in request.stream():
            length += len(part)
            if length > most:
                raise RefusedError(f"the body has more than {most} bytes, which is what is read", status=413)
            parts.append(part)
        body = read(b"".join(parts), kind)
        self._check_name(body.model)
        if isinstance(body, Asked):
            body.check()
        return body

    async def _answered(
        self,
        request: HttpRequest,
        body: Asked,
        prompts: Sequence[Sequence[int]],
        form: ResponseFormat | None,
        *,
        with_logprobs: bool,
    ) -> Response:
        wanted = [prompt for prompt in prompts for _ in range(body.n or 1)]
        if len(wanted) > (most := self._engine.most_requests):
            raise RefusedError(
                f"{len(prompts)} prompts with n = {body.n or 1} are {len(wanted)} answers, and this server has {most} "
                "at a time, by --rows and --queue; ask for fewer in one request",
                param="n" if len(prompts) <= most else body.source,
            )
        seed = secrets.randbits(63) if body.seed is None else body.seed
        tickets: list[Ticket] = []
        try:
            for index, prompt in enumerate(wanted):
                constraint = await anyio.to_thread.run_sync(self._constraint, form)
                tickets.append(self._submit(body, prompt, seed_of(seed, index), constraint))
        except BaseException:
            for ticket in tickets:
                ticket.cancel()
            raise
        asked = _Asked(body, prompts, tickets, isinstance(body, Chat), with_logprobs)
        if body.stream:
            return Events(self._streamed(asked))
        return JSONResponse(await while_there(request.receive, self._whole(asked)))

    def _submit(self, body: Asked, prompt: Sequence[int], seed: int, constraint: Constraint | None) -> Ticket:
        """Ask the engine for an answer; what is wrong with the prompt is told of the field that it came in."""
        left = self._model.network.length - len(prompt) + 1  # the last token that is written is not read
        limit = body.max_tokens or max(left, 1)
        temperature = 1.0 if body.temperature is None else body.temperature
        top_p = body.top_p if body.top_p else 1.0 if body.top_p is None else 1e-9  # of none, the likeliest is left
        sampling = Sampling(temperature=temperature, top_p=top_p, seed=seed)
        try:
            return self._engine.submit(Request(tuple(prompt), limit, sampling, constraint))
        except (ShapeError, IndexRangeError) as error:
            raise _of_prompt(error, body.source) from error

    def _constraint(self, form: ResponseFormat | None) -> Constraint | None:
        if form is None or form.type == "text":
            return None
        if self._grammars is None:
            self._grammars = Grammars(self._model.tokenizer, self._model.network.config.vocabulary)
        match form.type:
            case "json_object":
                return self._grammars.of_schema(None)
            case "json_schema" if form.json_schema is not None:
                return self._grammars.of_schema(form.json_schema.schema)
            case "grammar" if form.grammar is not None:
                return self._grammars.of_grammar(form.grammar)
        raise RefusedError(
            f"response_format of type {form.type!r} is none that is known, or has no schema or grammar; there are "
            'text, json_object, json_schema with {"name", "schema"}, and grammar with a text in "grammar"',
            param="response_format",
        )

    async def _whole(self, asked: _Asked) -> Mapping[str, Any]:
        """Return all answers as one value."""

        async def gathered(ticket: Ticket) -> tuple[str, list[Written], str | None]:
            texts: list[str] = []
            tokens: list[Written] = []
            reason: str | None = None
            async for piece in pieces_of(ticket, self._model.tokenizer, asked.body.stops):
                texts.append(piece.text)
                tokens += piece.tokens
                reason = piece.reason
            return "".join(texts), tokens, reason

        try:
            found = await asyncio.gather(*map(gathered, asked.tickets))
        finally:
            for ticket in asked.tickets:
                ticket.cancel()
        choices = []
        for index, (text, tokens, reason) in enumerate(found):
            content = (
                {"message": {"role": "assistant", "content": text, "refusal": None}}
                if asked.is_chat
                else {"text": text}
            )
            told = logprobs_of(tokens, self._model.tokenizer) if asked.with_logprobs else None
            choices.append({"index": index, **content, "logprobs": told, "finish_reason": reason})
        usage = usage_of(sum(map(len, asked.prompts)), sum(len(tokens) for _, tokens, _ in found))
        kind = "chat.completion" if asked.is_chat else "text_completion"
        return {**self._head(asked, kind), "choices": choices, "usage": usage}

    def _head(self, asked: _Asked, kind: str) -> dict[str, Any]:
        name = "chatcmpl" if asked.is_chat else "cmpl"
        return {"id": f"{name}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": self._name}

    async def _streamed(self, asked: _Asked) -> AsyncIterator[Mapping[str, Any]]:
        """Give the answers as their pieces come, those of several side by side."""
        head = self._head(asked, "chat.completion.chunk" if asked.is_chat else "text_completion")
        with_usage = asked.body.stream_options is not None and asked.body.stream_options.include_usage
        nothing = {"usage": None} if with_usage else {}
        news: asyncio.Queue[tuple[int, Piece] | Exception] = asyncio.Queue()

        async def carry(index: int, ticket: Ticket) -> None:
            try:
                async for piece in pieces_of(ticket, self._model.tokenizer, asked.body.stops):
                    news.put_nowait((index, piece))
            except Exception as error:  # noqa: BLE001  # it is raised below
                news.put_nowait(error)

        carriers = [asyncio.ensure_future(carry(*each)) for each in enumerate(asked.tickets)]
        written, left = 0, len(carriers)
        try:
            if asked.is_chat:
                for index in range(left):
                    yield {**head, "choices": [_delta(index, {"role": "assistant", "content": ""})], **nothing}
            while left:
                found = await news.get()
                if isinstance(found, Exception):
                    raise found
                index, piece = found
                written += len(piece.tokens)
                left -= piece.reason is not None
                if piece.text or piece.reason is not None or asked.with_logprobs:
                    yield {**head, "choices": [self._choice(asked, index, piece)], **nothing}
            if with_usage:
                usage = usage_of(sum(map(len, asked.prompts)), written)
                yield {**head, "choices": [], "usage": usage}
        finally:
            for carrier in carriers:
                carrier.cancel()
            await asyncio.gather(*carriers, return_exceptions=True)
            for ticket in asked.tickets:
                ticket.cancel()

    def _choice(self, asked: _Asked, index: int, piece: Piece) -> Mapping[str, Any]:
        told = logprobs_of(piece.tokens, self._model.tokenizer) if asked.with_logprobs else None
        if asked.is_chat:
            content = {"content": piece.text} if piece.text else {}
            return {**_delta(index, content), "logprobs": told, "finish_reason": piece.reason}
        return {"index": index, "text": piece.text, "logprobs": told, "finish_reason": piece.reason}

    async def embed(self, request: HttpRequest) -> Response:
        """Return vectors of texts."""
        body: Embeddings = await self._body(request, Embeddings)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if not 1 <= len(texts) <= self._limits.embedded_texts:
            raise RefusedError(f"input is 1 to {self._limits.embedded_texts} texts, not {len(texts)}", param="input")
        width = self._model.network.config.width
        if body.dimensions not in (None, width):
            raise RefusedError(f"dimensions are {width} here, not {body.dimensions}", param="dimensions")
        if body.encoding_format not in ("float", "base64"):
            raise RefusedError("encoding_format is 'float' or 'base64'", param="encoding_format")
        count = sum(len(self._model.tokenizer.encode(text, parse_special=False)) for text in texts)
        async with self._embedding:  # one at a time: what is computed for them takes memory
            try:
                vectors = await anyio.to_thread.run_sync(self._model.embedder.embed, texts)
            except ShapeError as error:
                raise _of_prompt(error, "input") from error
        rows = (
            base64.b64encode(row.astype("<f4").tobytes()).decode() if body.encoding_format == "base64" else row.tolist()
            for row in vectors
        )
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse({"object": "list", "data": data, "model": self._name, "usage": usage})


def _of_prompt(error: ShapeError | IndexRangeError, field: str) -> RefusedError:
    code = "context_length_exceeded" if isinstance(error, ShapeError) else None
    return RefusedError(str(error), param=field, code=code)


def _delta(index: int, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"index": index, "delta": content, "logprobs": None, "finish_reason": None}
