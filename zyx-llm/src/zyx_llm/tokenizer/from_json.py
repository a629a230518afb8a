"""The tokenizer of a folder as models are published: ``tokenizer.json`` and ``tokenizer_config.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenizers

from zyx.errors import FormatError
from zyx_llm.files import read_json
from zyx_llm.tokenizer.pieces import byte_level, sentence_piece, word_piece
from zyx_llm.tokenizer.tokenizer import Special, Tokenizer

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def tokenizer_of_folder(folder: str | os.PathLike[str]) -> Tokenizer:
    """Return the tokenizer of a folder.

    Raises:
        FormatError: A file is not well formed, or names tokens that are not there.
        TransferError: It cannot be read.
    """
    folder = Path(folder)
    # How texts are cut and filled up for a batch is no matter of their tokens.
    described = {**read_json(folder / "tokenizer.json"), "truncation": None, "padding": None}
    config = read_json(folder / "tokenizer_config.json", required=False)
    generation = read_json(folder / "generation_config.json", required=False)
    text = json.dumps(described)
    try:
        inner, plain = tokenizers.Tokenizer.from_str(text), tokenizers.Tokenizer.from_str(_without_special(described))
    except Exception as error:  # the border with `tokenizers`, which raises Exception itself
        raise FormatError(f"{folder / 'tokenizer.json'} is not understood: {error}") from error
    count = inner.get_vocab_size()
    written = [inner.id_to_token(number) or "" for number in range(count)]
    added = {each["id"]: each for each in described.get("added_tokens", [])}
    decoder = json.dumps(described.get("decoder"))
    of_piece = byte_level if '"ByteLevel"' in decoder else word_piece if '"WordPiece"' in decoder else sentence_piece
    pieces = [
        piece.encode(errors="replace") if number in added else of_piece(piece) for number, piece in enumerate(written)
    ]
    bos, eos = (
        _named(config, next((name for name in names if config.get(name)), names[0]), inner)
        for names in (("bos_token", "cls_token"), ("eos_token", "sep_token"))
    )
    ends = generation.get("eos_token_id", [])
    ends = {*(ends if isinstance(ends, list) else [ends])} | ({eos} if eos is not None else set())
    special = Special(
        bos,
        eos,
        frozenset(ends),
        frozenset(number for number, each in added.items() if each.get("special")),
        adds_bos=inner.encode("").ids[:1] == [bos] and bos is not None,
        adds_eos=inner.encode("").ids[-1:] == [eos] and eos is not None and eos != bos,
    )
    prefix = json.dumps([described.get("normalizer"), described.get("pre_tokenizer")])
    adds_space = of_piece is word_piece or (
        of_piece is sentence_piece and ('"Prepend"' in prefix or '"prepend_scheme": "first"' in prefix)
    )
    return Tokenizer(inner, plain, pieces, special, adds_space=adds_space)


def _without_special(described: Mapping[str, Any]) -> str:
    """Return the description of one that takes what is written like a special token for text."""
    kept = [each for each in described.get("added_tokens", []) if not each.get("special")]
    return json.dumps({**described, "added_tokens": kept, "post_processor": None})


def _named(config: Mapping[str, Any], name: str, inner: tokenizers.Tokenizer) -> int | None:
    """Return the number of the token that a key names, by its text or by an object that has it."""
    found = config.get(name)
    if isinstance(found, dict):
        found = found.get("content")
    if found is None:
        return None
    number: int | None = inner.token_to_id(found)
    if number is None:
        raise FormatError(f"tokenizer_config.json has {found!r:.80} for {name}, which is no token")
    return number
