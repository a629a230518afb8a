"""Networks of transformers as GGUF files have them: what is turned, renamed and added to when such a file is made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx import io, quantize
from zyx_llm.config import config_of_json
from zyx_llm.model import load_transformer
from zyx_llm.model.weights import canonical_name, stacked

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_logits import NETWORKS, PLACES, SIX, TOKENS, logits, made

ARCHITECTURES = {
    "mistral": "llama", "gemma3_text": "gemma3", "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"
}  # fmt: skip
#: What GGUF has no keys for, but knows by the name of the architecture.
KNOWN = {
    "gemma2": {**SIX, "query_pre_attn_scalar": 16},
    "gemma3": {
        **SIX,
        "query_pre_attn_scalar": 16,
        "rope_parameters": {**PLACES, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
    },
}


def neighbours(matrix, heads):
    """Return rows in the order in which the numbers that are turned together are neighbours, head by head."""
    return matrix.reshape(heads, 2, -1, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def write(folder, path):
    """Write the network in a folder as a GGUF file."""
    said = json.loads((folder / "config.json").read_text())
    config = config_of_json(said)
    name = ARCHITECTURES.get(config.architecture, config.architecture)
    named = {canonical_name(key, config): t for key, t in zyx.load(folder / "model.safetensors").items()}
    # Of Mixtral, older files have each expert by itself, as safetensors do.
    tensors = {key: t.numpy() for key, t in (named if config.architecture == "mixtral" else stacked(named)).items()}
    for key, value in tensors.items():
        if name == "llama" and (".attn_q." in key or ".attn_k." in key):
            tensors[key] = neighbours(value, config.heads if "_q." in key else config.key_heads)
        if name.startswith("gemma") and "norm" in key:
            tensors[key] = value + 1.0
    metadata = {
        "general.architecture": name,
        f"{name}.block_count": config.layers,
        f"{name}.embedding_length": config.width,
        f"{name}.feed_forward_length": config.inner,
        f"{name}.attention.head_count": config.heads,
        f"{name}.attention.head_count_kv": config.key_heads,
        f"{name}.attention.key_length": config.head_width,
        f"{name}.attention.value_length": config.head_width,
        f"{name}.attention.layer_norm_rms_epsilon": config.epsilon,
        f"{name}.rope.dimension_count": config.rope.width,
        f"{name}.rope.freq_base": config.rope.base,
        f"{name}.context_length": config.context,
        f"{name}.vocab_size": config.vocabulary,
    }
    if experts := config.experts:
        metadata |= {f"{name}.expert_count": experts.count, f"{name}.expert_used_count": experts.used}
        metadata[f"{name}.expert_feed_forward_length"] = experts.inner
        if experts.shared_inner:
            metadata[f"{name}.expert_shared_feed_forward_length"] = experts.shared_inner
    if config.rope.divisors and name == "llama":
        tensors["rope_freqs.weight"] = np.array(config.rope.divisors, np.float32)
    elif config.rope.far_divisors:
        tensors["rope_factors_short.weight"] = np.array(config.rope.divisors, np.float32)
        tensors["rope_factors_long.weight"] = np.array(config.rope.far_divisors, np.float32)
        metadata[f"{name}.rope.scaling.original_context_length"] = config.rope.near
    elif config.rope.factor != 1.0:
        metadata |= {f"{name}.rope.scaling.type": "yarn", f"{name}.rope.scaling.factor": 4.0}
        metadata[f"{name}.rope.scaling.original_context_length"] = 16
    elif config.rope.divisors:
        metadata |= {f"{name}.rope.scaling.type": "linear", f"{name}.rope.scaling.factor": config.rope.divisors[0]}
    if any(config.windows):
        metadata[f"{name}.attention.sliding_window"] = max(filter(None, config.windows))
    io.save_gguf(path, tensors, metadata)
    return config


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "qwen2, windows"])
def test_logits_are_those_of_transformers(name, tmp_path, monkeypatch):
    if name in KNOWN:
        monkeypatch.setitem(NETWORKS, name, (NETWORKS[name][0], KNOWN[name]))
    expected = made(name, tmp_path)
    write(tmp_path, tmp_path / "model.gguf")
    found = logits(load_transformer(tmp_path / "model.gguf"), TOKENS, (19,))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_blocks_are_read_as_the_numbers_they_stand_for(tmp_path):
    tensors = {
        name: quantize.quantize(zyx.Tensor(t), "Q8_0") if t.ndim == 2 else t for name, t in networks.tensors().items()
    }
    whole = {
        name: t.dequantize().numpy() if isinstance(t, quantize.QuantizedTensor) else t for name, t in tensors.items()
    }
    tokens = TOKENS[:, :8]
    found = [
        logits(load_transformer(networks.save(tmp_path / f"{name}.gguf", tensors=each)), tokens, (8,))
        for name, each in (("blocks", tensors), ("whole", whole))
    ]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)
