"""What clients send: the fields of OpenAI's interface that mean something here, and those that change no answer.

Any other field is refused: a client that sets one expects that it is kept to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec
import numpy as np

from zyx_llm.serving.http.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T", bound="Asked")

#: Who may have said something.
ROLES = ("system", "developer", "user", "assistant")
#: The most answers to one request.
MOST_ANSWERS = 16
#: What a schema may be called.
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody said."""

    role: str
    content: str | list[dict[str, Any]]  # parts, such as {"type": "text", "text": "hello"}
    name: str | None = None

    def check(self, where: str) -> None:
        """Refuse what is no text, and who is unknown.

        Args:
            where: Which message it is, for errors.
        """
        if self.role not in ROLES:
            message = f"{where} has the role {self.role!r}; there are {', '.join(ROLES)}"
            raise RefusedError(message, param=f"{where}.role")
        for place, part in enumerate([] if isinstance(self.content, str) else self.content):
            of_part = f"{where}.content[{place}]"
            if (kind := part.get("type")) != "text":
                message = f"{of_part} is of type {kind!r}; the model reads text alone: parts of type 'text'"
                raise RefusedError(message, param=of_part)
            if not isinstance(part.get("text"), str):
                raise RefusedError(f"{of_part} has no text, which is a string", param=f"{of_part}.text")
            for name in part.keys() - {"type", "text"}:
                raise RefusedError(f"{of_part} has an unknown field {name!r}", param=f"{of_part}.{name}")

    @property
    def text(self) -> str:
        """All of it."""
        return self.content if isinstance(self.content, str) else "".join(part["text"] for part in self.content)


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """How parts are sent."""

    include_usage: bool = False
    include_obfuscation: bool = False  # it hides how long parts are, which are sent in the clear on one machine


class Asked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What requests for answers have in common.

    Attributes:
        source: The field that prompts come in.
    """

    source: ClassVar[str]

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
        if self.seed is not None and not -(1 << 63) <= self.seed < 1 << 63:
            raise RefusedError(f"seed is an integer of 64 bits, not {self.seed}", param="seed")
        if not all(self.stops):
            raise RefusedError("a stop is a text that is not empty", param="stop")
        if self.stream_options is not None and not self.stream:
            raise RefusedError("stream_options are for requests with stream", param="stream_options")


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True):
    """A schema; answers are held to it whether or not that is strict."""

    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True):
    """Which form an answer has: "text", "json_object", "json_schema" or "grammar", which OpenAI has not."""

    type: str
    json_schema: JsonSchema | None = None
    grammar: str | None = None

    def check(self) -> None:
        """Refuse names that OpenAI refuses, and a form that the type has not."""
        if self.json_schema is not None and not _NAME.fullmatch(self.json_schema.name):
            message = f"the name of a schema is 1 to 64 of a-z, A-Z, 0-9, _ and -, not {self.json_schema.name!r}"
            raise RefusedError(message, param="response_format.json_schema.name")
        for name in ("json_schema", "grammar"):
            if getattr(self, name) is not None and self.type != name:
                message = f"{name} is for response_format of type {name!r}; this is of type {self.type!r}"
                raise RefusedError(message, param=f"response_format.{name}")


class Chat(Asked):
    """The body of ``/v1/chat/completions``."""

    source: ClassVar[str] = "messages"

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
            message.check(f"messages[{place}]")
        if self.response_format is not None:
            self.response_format.check()
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
            {"role": "system" if message.role == "developer" else message.role, "content": message.text}
            for message in self.messages
        ]


class Completion(Asked):
    """The body of ``/v1/completions``."""

    source: ClassVar[str] = "prompt"

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
        if self.response_format is not None:
            self.response_format.check()
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
        raise RefusedError(f"the body is not what is expected: {error}", param=_field_of(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(f"the body is no JSON: {error}") from error
    except RecursionError as error:
        raise RefusedError(
            "the body is nested deeper than is read: arrays and objects are in too many others"
        ) from error


def _field_of(message: str) -> str | None:
    """Return the field that msgspec complains of, such as ``response_format.json_schema.name``.

    Places in lists, which it does not tell, are left out with what they hold.
    """
    path = re.search(r" - at `\$\.?(.*)`$", message)
    field = re.search(r"(?:unknown|required) field `(.*?)`", message)
    names = [] if path is None else [path[1]]
    if field is not None:
        names.append(field[1])
    return ".".join(names).partition("[")[0] or None


def seed_of(seed: int, index: int) -> int:
    """Return what an answer of a request is drawn by.

    The first has the seed itself, so that it is that of the same model and seed anywhere. Others have numbers of 64
    bits that a hash makes of both, so that answers of seeds that lie side by side have nothing in common.

    Args:
        seed: Of 64 bits; negative ones are others than all that are not.
        index: Which answer, from 0.
    """
    unsigned = seed % (1 << 64)
    return int(np.random.SeedSequence([unsigned, index]).generate_state(1, np.uint64)[0]) if index else unsigned
