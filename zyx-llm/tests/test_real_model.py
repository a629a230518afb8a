"""SmolLM2-135M-Instruct, beside the same network written down in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import io, quantize
from zyx.runtime.runtime import current
from zyx_llm import load
from zyx_llm.model import Cache

TEXT = (
    "A tensor library computes with arrays of numbers. Its users write down what they want, and it finds out how it is "
    "done quickly on the machine at hand: which loops there are, which of them run side by side, and what is kept. "
    "Some machines have one core, some have thousands, and all of them should give the same answer."
)


@pytest.fixture(scope="module")
def model(smollm2):
    return load(smollm2, context=512)


def by_numpy(path, tokens):
    """Return the logits of all places, float32, of a Llama whose pairs that are turned are neighbours."""
    said = io.read_metadata(path)
    w = {
        name: (t.dequantize() if isinstance(t, quantize.QuantizedTensor) else t).numpy()
        for name, t in io.load_gguf(path, packed=True).items()
    }
    layers, heads, key_heads, base, epsilon = (
        said[f"llama.{key}"]
        for key in (
            "block_count", "attention.head_count", "attention.head_count_kv", "rope.freq_base",
            "attention.layer_norm_rms_epsilon",
        )
    )  # fmt: skip
    n, width = len(tokens), said["llama.embedding_length"] // heads
    angles = np.arange(n)[:, None] * base ** (-np.arange(0, width, 2) / width)
    turns = np.exp(1j * angles).astype(np.complex64)[:, None]
    behind = np.triu(np.full((n, n), -np.inf, np.float32), 1)

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * w[f"{weight}.weight"]

    def turned(x):
        return (np.ascontiguousarray(x).view(np.complex64) * turns).view(np.float32)

    x = w["token_embd.weight"][tokens]
    for layer in range(layers):
        at = f"blk.{layer}"
        h = norm(x, f"{at}.attn_norm")
        q, k, v = ((h @ w[f"{at}.attn_{name}.weight"].T).reshape(n, -1, width) for name in "qkv")
        q, k = turned(q), np.repeat(turned(k), heads // key_heads, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.float32(np.sqrt(width)) + behind
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        summed = np.einsum("hij,jhd->ihd", shares, np.repeat(v, heads // key_heads, 1)).reshape(n, -1)
        x = x + summed @ w[f"{at}.attn_output.weight"].T
        h = norm(x, f"{at}.ffn_norm")
        gate = h @ w[f"{at}.ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[f"{at}.ffn_up.weight"].T)) @ w[f"{at}.ffn_down.weight"].T
    return norm(x, "output_norm") @ w["token_embd.weight"].T


def test_logits_are_those_of_numpy(model, smollm2):
    tokens = model.tokenizer.encode(TEXT)[:64]
    assert len(tokens) == 64
    expected = by_numpy(smollm2, tokens)
    cache = Cache(model.network.config, 1, 64, zyx.float32, model.network.device)
    given = zyx.Tensor(np.array([tokens], np.int32))
    found = model.network.logits(model.network.hidden(given, zyx.Tensor(np.int32(0)), cache))[0].numpy()
    assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)

    def perplexity(logits):
        shares = logits - logits.max(-1, keepdims=True)
        shares = shares - np.log(np.exp(shares).sum(-1, keepdims=True))
        return np.exp(-shares[np.arange(63), tokens[1:]].mean())

    assert abs(perplexity(found) / perplexity(expected) - 1) < 1e-4


def test_a_question_is_answered(model):
    prompt = model.talk([{"role": "user", "content": "What is the capital of France?"}])
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert "".join(model.answer(prompt, limit=20)) == "The capital of France is Paris."


def test_nothing_is_compiled_after_the_second_of_three_hundred_tokens(model):
    session, compiler = model.session(), current().compiler
    counts = [
        (session.traces, compiler.compiled) for _ in session.generate(model.tokenizer.encode("Once upon a time"), 300)
    ]
    assert len(counts) == 300
    assert counts[1:] == [counts[1]] * 299
