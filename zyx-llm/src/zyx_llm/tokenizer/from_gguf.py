"""The tokenizer that a GGUF file describes, built of parts of the package `tokenizers`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from zyx.errors import FormatError
from zyx_llm.tokenizer.pieces import INNER, SPACE, byte_level, sentence_piece
from zyx_llm.tokenizer.tokenizer import Tokenizer
from zyx_llm.tokenizer.vocabulary import BYTE, CONTROL, GIVEN, NORMAL, UNKNOWN, Vocabulary, vocabulary_of
from zyx_llm.tokenizer.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping


def tokenizer_of_metadata(metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a GGUF file, whose metadata are given; see `zyx.io.read_metadata`.

    Raises:
        FormatError: The file has none, or one of a kind that is not known; the text says which ones are.
    """
    vocabulary = vocabulary_of(metadata)
    if vocabulary.model == "gpt2":
        rule = WORDS.get(vocabulary.rule)
        if rule is None:
            raise FormatError(
                f"the file cuts words by the rule {vocabulary.rule!r} (tokenizer.ggml.pre), which is not known; "
                f"there are {', '.join(sorted(WORDS))}"
            )
        adds_bos, adds_space, of_piece = rule.adds_bos, False, byte_level
    elif vocabulary.model == "bert":
        adds_bos, adds_space, of_piece = True, True, sentence_piece
    else:
        adds_bos, adds_space, of_piece = True, vocabulary.adds_space is not False, sentence_piece
    said = vocabulary.adds_bos
    special = replace(
        vocabulary.special,
        adds_bos=adds_bos if said is None else said,
        adds_eos=vocabulary.adds_eos or vocabulary.model == "bert",
    )
    written = {UNKNOWN, CONTROL, GIVEN}
    pieces = [
        token.encode(errors="replace") if kind in written else of_piece(token)
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
    ]
    model = {"gpt2": _bytes_merged, "llama": _merged_by_scores, "bert": _word_pieces}[vocabulary.model](vocabulary)
    inner, plain = (_whole(vocabulary, model, kinds, adds_space=adds_space) for kinds in (written, {GIVEN}))
    return Tokenizer(inner, plain, pieces, special, adds_space=adds_space)


def _whole(vocabulary: Vocabulary, model: Any, kinds: set[int], *, adds_space: bool) -> tokenizers.Tokenizer:  # noqa: ANN401  # the package has no types
    """Return what merges by a model within words, and takes tokens of some kinds out of the text before."""
    found = tokenizers.Tokenizer(model)
    if vocabulary.model == "gpt2":
        cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in WORDS[vocabulary.rule].patterns]
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        found.pre_tokenizer = pre_tokenizers.Sequence([*cuts, as_bytes])
    elif vocabulary.model == "bert":
        # Files do not say whether capitals count: what reads them elsewhere makes them small, too, and drops accents.
        found.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
        found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        first = [normalizers.Prepend(SPACE)] if adds_space else []
        found.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", SPACE)])
    taken = [
        AddedToken(token, normalized=False, special=True)
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
        if kind in kinds and token
    ]
    found.add_special_tokens(taken)
    return found


def _bytes_merged(vocabulary: Vocabulary) -> Any:  # noqa: ANN401  # the package has no types
    numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
    for pair in vocabulary.merges:
        if missing := [piece for piece in (*pair, "".join(pair)) if piece not in numbers]:
            raise FormatError(f"merge {' '.join(pair)!r:.80} is of {missing[0]!r:.80}, which is no token")
    return models.BPE(numbers, vocabulary.merges, ignore_merges=WORDS[vocabulary.rule].whole_first)


def _word_pieces(vocabulary: Vocabulary) -> Any:  # noqa: ANN401  # the package has no types
    """Return the model that takes the longest piece first; a file has a space before those that begin a word."""
    numbers = {
        token.removeprefix(SPACE) if token.startswith(SPACE) or kind != NORMAL else f"{INNER}{token}": number
        for number, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
    }
    unknown = next((t for t, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == UNKNOWN), "[UNK]")
    if unknown not in numbers:
        raise FormatError(f"the file has no token {unknown}, which stands for words that are of no pieces")
    return models.WordPiece(numbers, unk_token=unknown, max_input_chars_per_word=100)


def _merged_by_scores(vocabulary: Vocabulary) -> Any:  # noqa: ANN401  # the package has no types
    """Return the model that merges the two neighbours first whose whole has the greatest score.

    Each way to make a token of two tokens is a merge; they are in the order of the scores.
    """
    numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
    taken = {UNKNOWN, CONTROL, BYTE}
    found: list[tuple[float, int, str, str]] = []
    for number, token in enumerate(vocabulary.tokens):
        if vocabulary.kinds[number] in taken:
            continue
        for at in range(1, len(token)):
            left, right = token[:at], token[at:]
            if left in numbers and right in numbers:
                found.append((-vocabulary.scores[number], number, left, right))
    found.sort(key=lambda each: each[:2])
    unknown = next((t for t, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == UNKNOWN), None)
    pairs = [(left, right) for _, _, left, right in found]
    return models.BPE(numbers, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True)
