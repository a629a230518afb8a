"""A small Llama of random weights, as a GGUF file has it."""

from __future__ import annotations

import numpy as np
from vocabularies import of_bytes

from zyx import io

LAYERS, WIDTH, HEADS, KEYS, INNER = 2, 32, 4, 2, 64
#: Whoever asks, this puts the beginning of an answer at the end.
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}assistant:"
#: The form that most have: the beginning of an answer is put at the end if one is asked for.
ASKING = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def metadata(**more):
    return of_bytes() | {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEYS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.context_length": 600,
        "tokenizer.chat_template": TEMPLATE,
        **more,
    }


def tensors(seed=1):
    random = np.random.default_rng(seed)
    count = len(metadata()["tokenizer.ggml.tokens"])
    keys = WIDTH // HEADS * KEYS
    shapes = {"token_embd": (count, WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.{name}": shape
            for name, shape in {
                "attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (keys, WIDTH), "attn_v": (keys, WIDTH),
                "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,), "ffn_gate": (INNER, WIDTH),
                "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER),
            }.items()
        }  # fmt: skip
    return {
        f"{name}.weight": (random.standard_normal(shape) * 0.3 + (len(shape) == 1)).astype(np.float32)
        for name, shape in shapes.items()
    }


def save(path, *, tensors=tensors, **more):
    """Write the file."""
    io.save_gguf(path, tensors() if callable(tensors) else tensors, metadata(**more))
    return path
