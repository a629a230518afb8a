"""What a GGUF file says about its tokens, checked.

tokenizer.ggml.model         gpt2: bytes that are merged; llama: SentencePiece, merged by scores; bert: WordPiece
tokenizer.ggml.pre           how texts are cut into words, for gpt2; see `zyx_llm.tokenizer.words`
tokenizer.ggml.tokens        texts
tokenizer.ggml.token_type    1 normal, 2 unknown, 3 control, 4 given by the user, 5 unused, 6 a byte
tokenizer.ggml.merges        pairs of texts, the first to be merged first
tokenizer.ggml.scores        numbers, the greatest to be merged first
tokenizer.ggml.*_token_id    which ones are special
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError
from zyx_llm.tokenizer.tokenizer import Special

if TYPE_CHECKING:
    from collections.abc import Mapping

_START: Final = "tokenizer.ggml."
#: What is read.
MODELS: Final = ("bert", "gpt2", "llama")
NORMAL: Final = 1
UNKNOWN: Final = 2
CONTROL: Final = 3
GIVEN: Final = 4
BYTE: Final = 6

#: Control tokens that end an answer in the chats of models which do not say so in a key.
_ENDS: Final = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>",
    "<|return|>", "<|call|>",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens, and how they are merged.

    Attributes:
        model: One of `MODELS`.
        rule: How texts are cut into words, or "".
        tokens: How they are written.
        kinds: What each is.
        merges: Pairs, for "gpt2".
        scores: One for each token, for "llama".
        adds_space: Whether a space is put before a text; None if the file does not say.
        adds_bos: Likewise, whether the token that begins a text is.
        adds_eos: Whether the one that ends it is put behind.
        special: Which ones are special; what is added is not decided there.
    """

    model: str
    rule: str
    tokens: list[str]
    kinds: list[int]
    merges: list[tuple[str, str]]
    scores: list[float]
    adds_space: bool | None
    adds_bos: bool | None
    adds_eos: bool
    special: Special


def vocabulary_of(metadata: Mapping[str, Any]) -> Vocabulary:
    """Return what the metadata of a GGUF file say.

    Raises:
        FormatError: No tokenizer, one of another kind, lists whose lengths differ, or numbers of tokens out of range.
    """
    model = metadata.get(f"{_START}model")
    if model not in MODELS:
        raise FormatError(f"the file has {model!r} for {_START}model; {', '.join(MODELS)} are read")
    tokens = _list(metadata, "tokens", str)
    if not tokens:
        raise FormatError(f"the file has no tokens in {_START}tokens")
    kinds = _list(metadata, "token_type", int) or [NORMAL] * len(tokens)
    scores = [float(score) for score in _list(metadata, "scores", (int, float))]
    for name, row in (("token_type", kinds), ("scores", scores)):
        if row and len(row) != len(tokens):
            raise FormatError(f"{_START}{name} has {len(row)} values for {len(tokens)} tokens")
    if model == "llama" and not scores:
        raise FormatError(f"the file has no {_START}scores, by which a tokenizer of kind llama merges")
    numbers = {name: _token(metadata, name, len(tokens)) for name in ("bos", "eos", "eot", "eom", "cls", "seperator")}
    control = frozenset(i for i, kind in enumerate(kinds) if kind in {UNKNOWN, CONTROL})
    ends = {number for name in ("eos", "eot", "eom") if (number := numbers[name]) is not None}
    ends |= {i for i in control if tokens[i] in _ENDS}
    # "seperator" is how the format spells it.
    bos, eos = (
        numbers[own] if model == "bert" and numbers[own] is not None else numbers[name]
        for own, name in (("cls", "bos"), ("seperator", "eos"))
    )
    return Vocabulary(
        model=model,
        rule=str(metadata.get(f"{_START}pre", "")),
        tokens=tokens,
        kinds=kinds,
        merges=_pairs(_list(metadata, "merges", str)) if model == "gpt2" else [],
        scores=scores,
        adds_space=_claim(metadata, "add_space_prefix"),
        adds_bos=_claim(metadata, "add_bos_token"),
        adds_eos=bool(_claim(metadata, "add_eos_token")),
        special=Special(bos, eos, frozenset(ends), control),
    )


def _list(metadata: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> list[Any]:
    found = metadata.get(_START + name, [])
    if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
        raise FormatError(f"the file has {found!r:.80} for {_START}{name}, which is a list of other things")
    return found


def _claim(metadata: Mapping[str, Any], name: str) -> bool | None:
    found = metadata.get(_START + name)
    if found is not None and not isinstance(found, bool):
        raise FormatError(f"the file has {found!r:.80} for {_START}{name}, which is a bool")
    return found


def _token(metadata: Mapping[str, Any], name: str, count: int) -> int | None:
    found = metadata.get(f"{_START}{name}_token_id")
    if found is None:
        return None
    if not isinstance(found, int) or not 0 <= found < count:
        raise FormatError(f"the file has {found!r:.80} for {_START}{name}_token_id, of {count} tokens")
    return found


def _pairs(lines: list[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        # A piece may begin with a space, and has none inside.
        left, space, right = line[:1] + line[1:].partition(" ")[0], *line[1:].partition(" ")[1:]
        if not space or not right:
            raise FormatError(f"merge {number} is {line!r:.80}, which is no pair")
        pairs.append((left, right))
    return pairs
