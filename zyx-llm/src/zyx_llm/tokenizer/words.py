"""How texts are cut into words before bytes are merged, by the names that GGUF files have for it.

A file names the rule, `tokenizer.ggml.pre`, and does not hold it. The rules are regular expressions that one applies
after the other: what one matches is a word for itself, and so is what lies between. They are those of the models' own
tokenizers, as far as these names are common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SHORT: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_ENDS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _letters_and_digits(digits: str) -> str:
    """Return the rule that GPT-4 began: words with one sign before them, and lines by themselves."""
    return rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_ENDS}"


def _cases(digits: str, short: str) -> str:
    """Return the rule that cuts before a capital letter which follows small ones."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    words = f"{before}{upper}*{lower}+{short}|{before}{upper}+{lower}*{short}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_ENDS}"


@dataclass(frozen=True, slots=True)
class Words:
    """A rule.

    Attributes:
        patterns: Regular expressions, in order.
        whole_first: Whether a word that is a token stays one, whatever merges there are.
        adds_bos: Whether texts begin with the token for that where the file does not say.
    """

    patterns: tuple[str, ...]
    whole_first: bool = False
    adds_bos: bool = False


_GPT2_WORDS: Final = Words((_GPT2,))
_DIGIT_BY_DIGIT: Final = Words((r"\p{N}", _GPT2))
_LLAMA3: Final = Words((_letters_and_digits(r"\p{N}{1,3}"),), whole_first=True, adds_bos=True)
_QWEN2: Final = Words((_letters_and_digits(r"\p{N}"),))
_GPT4O: Final = Words((_cases(r"\p{N}{1,3}", f"{_SHORT}?"),))

#: Rules by the names that files have for them.
WORDS: Final[dict[str, Words]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "granite-docling", "mellum"), _GPT2_WORDS),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _DIGIT_BY_DIGIT
    ),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "lfm2"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), Words((_letters_and_digits(r"\p{N}{1,3}"),))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2"), _QWEN2),
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT4O),
    "tekken": Words((_cases(r"\p{N}", ""),), whole_first=True, adds_bos=True),
}
