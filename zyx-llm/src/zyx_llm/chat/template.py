"""Chat templates: programs of jinja2 that come with a model, and turn a talk into the text that it was trained on.

They come from a file that anybody may have written: they run in jinja2's sandbox, which has no attributes of objects
that begin with an underscore, and no names but those given here. A range is short, a result is, and so is what they
repeat.
"""

from __future__ import annotations

import datetime
import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from zyx.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Characters of a talk, and pieces that it is put together of.
LONGEST: Final = 1 << 24
MOST_PIECES: Final = 1 << 20
#: The greatest number that methods of texts are given.
WIDEST: Final = 1 << 16

#: Filters that make a text as long as they are told to.
_LONG_FILTERS: Final = ("center", "format", "indent", "wordwrap")
_LONG_NUMBER: Final = re.compile(r"[0-9]{5}")


class Template:
    """The template of a model.

    Args:
        source: Its text.
        bos: How the token that begins a text is written, or "".
        eos: How the one that ends it is.

    Raises:
        FormatError: It is no template; the text has the line.
    """

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        environment = _Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols"],
            undefined=jinja2.Undefined,
        )
        for name in _LONG_FILTERS:
            del environment.filters[name]
        environment.filters.update(tojson=_json, join=_joined, replace=_replaced)
        environment.globals.update(raise_exception=_refused, strftime_now=_now)
        self._given = {"bos_token": bos, "eos_token": eos}
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            raise FormatError(f"the chat template is none, in line {line}: {error}") from error
        except RecursionError as error:
            raise FormatError("the chat template is nested too deeply") from error

    def text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        asks: bool = True,
        **more: Any,  # noqa: ANN401  # what a template takes
    ) -> str:
        """Return a talk as one text.

        Args:
            messages: Each with "role", such as "user", and "content", a text.
            asks: Whether the beginning of an answer is put at the end.
            more: What else the template takes, such as ``tools``.

        Raises:
            FormatError: The template refuses them, fails, or does not come to an end.
        """
        given = {**self._given, "messages": list(messages), "add_generation_prompt": asks, **more}
        try:
            return "".join(_limited(self._template.generate(given)))
        except (FormatError, MemoryError):
            raise
        except Exception as error:  # the border with the template, which may raise anything
            raise FormatError(f"the chat template fails: {type(error).__name__}: {error}") from error


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, where what makes long texts out of short ones is limited as ranges are."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Concatenations().visit(super()._parse(source, name, filename))
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401  # the base's
        sides = (left, right)
        if operator == "+" and all(isinstance(side, str | list | tuple) for side in sides):
            _check_length(len(left) + len(right))
        if operator == "*" and any(isinstance(side, str | list | tuple) for side in sides):
            length = max(len(side) for side in sides if isinstance(side, str | list | tuple))
            _check_length(length * max((side for side in sides if isinstance(side, int)), default=0))
        if operator == "**" and any(isinstance(side, int | float) and abs(side) > 1024 for side in sides):
            raise FormatError(f"the chat template raises {left!r:.40} to the power {right!r:.40}; 1024 is allowed")
        if operator == "%" and isinstance(left, str):
            raise FormatError("the chat template formats by %, which is not allowed")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401  # the base's
        text = getattr(getattr(function, "__wrapped__", function), "__self__", None)  # the sandbox wraps `format`
        if isinstance(text, str):
            own = {name: value for name, value in named.items() if not name.startswith("_")}  # the others are jinja2's
            if function.__name__ == "replace":
                return _replaced(text, *given, **own)
            if function.__name__ == "join":
                return _joined(given[0] if given else (), text)
            widest = max((abs(each) for each in (*given, *own.values()) if isinstance(each, int)), default=0)
            is_long = function.__name__.startswith("format") and _LONG_NUMBER.search(text)
            if widest > WIDEST or is_long:
                raise FormatError(
                    f"the chat template calls {function.__name__} of a text with a number beyond {WIDEST}"
                )
        return super().call(context, function, *given, **named)


class _Concatenations(NodeTransformer):
    """Makes ``a ~ b`` the same as ``[a, b] | join``, which is limited."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # the base's
        parts = nodes.List([self.visit(each) for each in node.nodes], lineno=node.lineno)
        return nodes.Filter(parts, "join", [], [], None, None, lineno=node.lineno)


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise FormatError(f"the chat template makes a text or list of length {length}; {LONGEST} is allowed")


def _joined(values: Any, d: object = "", attribute: str | None = None) -> str:  # noqa: ANN401  # what a template has
    if attribute is not None:
        raise FormatError("the chat template joins attributes, which is not allowed")
    parts = [str(value) for value in values]
    _check_length(sum(map(len, parts)) + len(str(d)) * len(parts))
    return str(d).join(parts)


def _replaced(text: object, old: str, new: str, count: int = -1) -> str:
    whole = str(text)
    found = whole.count(old)
    _check_length(len(whole) + len(new) * (found if count is None or count < 0 else min(found, count)))
    return whole.replace(old, new, -1 if count is None else count)


def _limited(pieces: Iterator[str]) -> Iterator[str]:
    length = 0
    for count, piece in enumerate(pieces):
        length += len(piece)
        if length > LONGEST or count > MOST_PIECES:
            raise FormatError(
                f"the chat template does not come to an end: {count} pieces and {length} characters, "
                f"of {MOST_PIECES} and {LONGEST}"
            )
        yield piece


def _json(value: Any, indent: int | None = None, **_: Any) -> str:  # noqa: ANN401  # what a template has
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refused(message: object) -> NoReturn:
    raise FormatError(f"the chat template refuses the talk: {message}")


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(form)  # what the user's clock says
