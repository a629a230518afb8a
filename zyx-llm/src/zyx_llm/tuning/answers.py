"""Which tokens of a talk the assistant wrote, by the chat template itself.

    first message, asking     user: Hi<|im_end|>assistant:
    first two messages        user: Hi<|im_end|>assistant: Ho<|im_end|>
                                                          ^^^^^^^^^^^^^

What the second has beyond the first is the answer, as the model is asked for it later. It ends with the last token in
there that ends an answer, if there is one: nobody reads on behind that. Templates whose text of the first messages is
not how the text of all begins, such as those that leave out what was thought in earlier turns, do not show this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError
from zyx_llm.tuning.packing import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx_llm.language_model import LanguageModel

#: Who answers.
ROLE: Final = "assistant"


def answered(messages: Sequence[Mapping[str, Any]], model: LanguageModel) -> Text:
    """Return the tokens of a talk, of which those count that the assistant wrote.

    A token that is partly the template's counts if its last character is the assistant's.

    Args:
        messages: Each with "role" and "content", a text.
        model: Whose tokens, and whose chat template.

    Raises:
        FormatError: The template refuses the talk, or does not show where an answer begins and ends.
        The errors of `Tokenizer.encode`.
    """
    talk = model.talk(messages, asks=False)
    tokens, places = model.tokenizer.encode_places(talk)
    counts = [False] * len(tokens)
    for number, message in enumerate(messages):
        if message["role"] == ROLE:
            begin, end = _place(messages, number, talk, model)
            chosen = [place for place, (_, last) in enumerate(places) if begin < last <= end]
            ends = [place for place in chosen if tokens[place] in model.tokenizer.special.ends]
            for place in chosen:
                counts[place] = not ends or place <= ends[-1]
    return Text(tokens, counts)


def _place(messages: Sequence[Mapping[str, Any]], number: int, talk: str, model: LanguageModel) -> tuple[int, int]:
    """Return the first character of an answer in a talk, and that behind it."""
    try:
        before = model.talk(messages[:number], asks=True)
        after = model.talk(messages[: number + 1], asks=False)
    except FormatError as error:
        raise FormatError(
            f"where message {number + 1}, an answer, begins and ends is not shown by the chat template, which takes "
            f"the talk but not its first messages alone ({error}); --learn all learns what all say"
        ) from error
    if not (talk.startswith(after) and after.startswith(before)):
        raise FormatError(
            f"where message {number + 1}, an answer, begins and ends is not shown by the chat template: the text of "
            "the first messages is not how the text of all begins; --learn all learns what all say"
        )
    return len(before), len(after)
