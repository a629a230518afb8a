"""What clients send: the fields of OpenAI's interface that mean something here, and those that change no answer.

Any other field is refused: a client that sets one expects that it is kept to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from zyx_llm.serving.http.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T", bound="Asked")

#: Who may have said something.
ROLES = ("system", "developer", "user", "assistant")
#: The most answers to one request.
MOST_ANSWERS = 16


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a message; there are texts only."""

    type: str
    text: str = ""


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody said."""

    role: str
    content: str | list[Part]
    name: str | None = None


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """How parts are sent."""

    include_usage: bool = False
    include_obfuscation: bool = False  # it hides how long parts are, which are sent in the clear on one machine


class Asked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What requests for answers have in common."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    # These three have one value that changes nothing.
    presence_penalty: float | None = 0
    frequency_penalty: float | None = 0
    logit_bias: dict[str, float] | None = None
    # They say who asks, and change no answer.
    user: str | None = None

    @property
    def stops(self) -> Sequence[str]:
        """The texts that end an answer."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def check(self) -> None:
        """Refuse values that are not kept to."""
        for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
            if getattr(self, name):
                raise RefusedError(f"{name} is not kept to here; leave it out", param=name)
        for name, least, most in (("temperature", 0.0, 100.0), ("top_p", 0.0, 1.0), ("n", 1, MOST_ANSWERS)):
            given = getattr(self, name)
            if given is not None and not least <= given <= most:
                raise RefusedError(f"{name} is from {least} to {most}, not {given}", param=name)
        if self.max_tokens is not None and self.max_tokens < 1:
            raise RefusedError(f"max_tokens is at least 1, not {self.max_tokens}", param="max_tokens")
        if not all(self.stops):
            raise RefusedError("a stop is a text that is not empty", param="stop")
        if self.stream_options is not None and not self.stream:
            raise RefusedError("stream_options are for requests with stream", param="stream_options")


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True):
    """Which form an answer has: "text", "json_object", "json_schema" or "grammar", which OpenAI has not."""

    type: str
    json_schema: dict[str, Any] | None = None
    grammar: str | None = None


class Chat(Asked):
    """The body of ``/v1/chat/completions``."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    metadata: dict[str, str] | None = None
    store: bool | None = False

    def check(self) -> None:
        """Refuse values that are not kept to."""
        super().check()
        if not self.messages:
            raise RefusedError("messages are at least one", param="messages")
        for place, message in enumerate(self.messages):
            where = f"messages[{place}]"
            if message.role not in ROLES:
                raise RefusedError(
                    f"{where} has the role {message.role!r}; there are {', '.join(ROLES)}", param=f"{where}.role"
                )
            others = [] if isinstance(message.content, str) else [p for p in message.content if p.type != "text"]
            if others:
                raise RefusedError(
                    f"{where} has a part of type {others[0].type!r}; the model reads parts of type 'text' alone",
                    param=f"{where}.content",
                )
        if self.top_logprobs:
            raise RefusedError("top_logprobs is 0 here: the token that was chosen has one", param="top_logprobs")
        if self.store:
            raise RefusedError("store is false here: nothing is kept", param="store")
        if self.max_completion_tokens is not None:
            if self.max_completion_tokens < 1:
                raise RefusedError("max_completion_tokens is at least 1", param="max_completion_tokens")
            self.max_tokens = self.max_completion_tokens

    def talk(self) -> list[dict[str, str]]:
        """Return the messages as templates take them."""
        return [
            {
                "role": "system" if message.role == "developer" else message.role,
                "content": message.content
                if isinstance(message.content, str)
                else "".join(part.text for part in message.content),
            }
            for message in self.messages
        ]


class Completion(Asked):
    """The body of ``/v1/completions``."""

    prompt: str | list[str | int | list[int]]
    response_format: ResponseFormat | None = None
    logprobs: int | None = None
    best_of: int | None = None
    echo: bool | None = False
    suffix: str | None = None

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """Each of them, as a text or as tokens."""
        given: Any = self.prompt
        return [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given

    def check(self) -> None:
        """Refuse values that are not kept to."""
        super().check()
        kinds = {type(each) for each in self.prompt}
        if not self.prompt or len(kinds) > 1 or not all(self.prompts):
            raise RefusedError("prompt is a text, tokens, or several of one of these; none is empty", param="prompt")
        for name, plain in (("logprobs", 0), ("best_of", 1), ("echo", False), ("suffix", "")):
            if (given := getattr(self, name)) not in (None, plain):
                raise RefusedError(f"{name} is not kept to here but as {plain!r}; it is {given!r}", param=name)


class Embeddings(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``/v1/embeddings``."""

    input: str | list[str]
    model: str | None = None
    encoding_format: str = "float"
    dimensions: int | None = None
    user: str | None = None


def read(body: bytes, kind: type[Any]) -> Any:  # noqa: ANN401  # an instance of `kind`
    """Return the body of a request.

    Raises:
        RefusedError: It is no JSON, or not of that form.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise RefusedError(f"the body is not what is expected: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(f"the body is no JSON: {error}") from error
    except RecursionError as error:
        raise RefusedError(
            "the body is nested deeper than is read: arrays and objects are in too many others"
        ) from error
