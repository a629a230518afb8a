"""Texts to learn from, out of files.

    story.txt          one text
    talks.jsonl        a text or a talk in each line:
                           {"text": "Water boils at 100 degrees."}
                           {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}

A text begins and ends with the tokens that the model has for that. What looks like a special token in it is text. A
talk is what the chat template of the model makes of it, where such tokens are those tokens; of it, what the assistant
says counts in the loss (`zyx_llm.tuning.answers`), unless all is to be learned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError, InvalidArgumentError, TransferError
from zyx_llm.tuning.answers import answered
from zyx_llm.tuning.packing import Text

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from zyx_llm.language_model import LanguageModel

#: How names of files of JSON lines end.
ENDINGS: Final = (".jsonl", ".ndjson", ".json")
#: Bytes of a line. What is longer is rather a file of another kind, and would be held several times over.
LONGEST_LINE: Final = 8_000_000
#: What of a talk is learned: the turns of the assistant, or those of all.
LEARNED: Final = ("answers", "all")


def read_tokens(path: str | os.PathLike[str], model: LanguageModel, learn: str = "answers") -> list[Text]:
    """Return the tokens of each text in a file, which is read to its end.

    Args:
        path: JSON lines if its name ends with one of `ENDINGS`; otherwise a text in UTF-8.
        model: Whose tokens, and whose chat template.
        learn: Which tokens of a talk count, one of `LEARNED`. Of a text all do.

    Raises:
        InvalidArgumentError: Something else is to be learned.
        FormatError: The file has no text, or a line is none of those above, is empty, is longer than `LONGEST_LINE`, or
            is refused by tokenizer or template; or the template does not show where an answer begins and ends. The
            error says which line.
        TransferError: It cannot be read.
    """
    if learn not in LEARNED:
        raise InvalidArgumentError(f"what is learned of talks is {' or '.join(LEARNED)}, not {learn!r}")
    path = Path(path)
    try:
        if path.suffix.lower() in ENDINGS:
            found = [
                _of_line(line, f"{path}, line {number}", model, learn) for number, line in enumerate(_lines(path), 1)
            ]
        else:
            text = _text(path.read_bytes(), str(path))
            found = [_of_text(text, model)] if text.strip() else []
    except OSError as error:
        if isinstance(error, TransferError):
            raise
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error
    if not found:
        raise FormatError(f"{path} is empty: there is no text to learn from")
    return found


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise FormatError(
                    f"{path}, line {number} is longer than {LONGEST_LINE} bytes: JSON lines have one text or talk in "
                    "each line; cut it into several"
                )
            yield line


def _of_line(line: bytes, where: str, model: LanguageModel, learn: str) -> Text:
    text = _text(line, where)
    if not text.strip():
        raise FormatError(f"{where} is empty: JSON lines have an object in each line")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is no JSON: {error}: {text.strip()!r:.60}") from error
    known = {"text", "messages"} & found.keys() if isinstance(found, dict) else set()
    if len(known) != 1:
        raise FormatError(f'{where} has to be an object with either "text" or "messages", not {found!r:.60}')
    try:
        if "messages" in known:
            messages = _messages(found["messages"])
            if learn == "answers":
                return answered(messages, model)
            return Text(model.tokenizer.encode(model.talk(messages, asks=False)))
        if not isinstance(found["text"], str) or not found["text"]:
            raise FormatError(f'"text" is a text that is not empty, not {found["text"]!r:.60}')
        return _of_text(found["text"], model)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from error


def _messages(given: Any) -> list[dict[str, Any]]:  # noqa: ANN401  # what JSON has
    is_talk = isinstance(given, list) and given
    if not is_talk or not all(
        isinstance(each, dict) and isinstance(each.get("role"), str) and isinstance(each.get("content"), str)
        for each in given
    ):
        raise FormatError(f'"messages" are objects with the texts "role" and "content", not {given!r:.80}')
    messages: list[dict[str, Any]] = given
    return messages


def _of_text(text: str, model: LanguageModel) -> Text:
    tokens = model.tokenizer.encode(text, parse_special=False)
    end = model.tokenizer.special.eos
    return Text(tokens if end is None or tokens[-1:] == [end] else [*tokens, end])


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{where} is no text in UTF-8: {error.reason} at byte {error.start}") from error
