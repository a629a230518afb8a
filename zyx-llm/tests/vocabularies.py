"""Small vocabularies, as the metadata of GGUF files have them."""

from __future__ import annotations

from zyx_llm.tokenizer.pieces import _BYTES

CHARACTERS = sorted(_BYTES, key=_BYTES.__getitem__)


def of_bytes(rule="gpt-2", merges=("h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or"), **more):
    """Return a byte-level vocabulary: two special tokens, one of the user's, all bytes, and what is merged."""
    special = ["<|start|>", "<|im_end|>", "<given>"]
    merged = ["".join(pair.split(" ")) for pair in merges]
    tokens = [*special, *CHARACTERS, *merged]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": rule,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 4] + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        **{f"tokenizer.ggml.{name}": value for name, value in more.items()},
    }


def of_pieces(pieces=("▁", "h", "e", "l", "o", "he", "ll", "hell", "hello", "▁hello", "▁w", "w", "or"), **more):
    """Return a vocabulary of SentencePiece: the unknown token, begin, end, all bytes, and pieces of falling scores."""
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], *pieces]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces),
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(pieces))],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        **{f"tokenizer.ggml.{name}": value for name, value in more.items()},
    }
