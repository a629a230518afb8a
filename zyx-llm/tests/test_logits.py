"""Small random networks of each architecture, beside transformers: logits of a text, at once and token by token."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zyx
from zyx_llm.model import Cache, load_transformer

COMMON = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "pad_token_id": 0,
}
WINDOW = {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {
    "original_max_position_embeddings": 16,
    "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0] * 8,
        "long_factor": [1.0 + pair for pair in range(8)], "original_max_position_embeddings": 16,
    },
}  # fmt: skip
PLACES = {"full_attention": {"rope_type": "linear", "rope_theta": 300.0, "factor": 4.0}, "sliding_attention": {
    "rope_type": "default", "rope_theta": 50.0,
}}  # fmt: skip
#: Of six layers, the last one has no window.
SIX = {"num_hidden_layers": 6, "sliding_window": 5}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
SHARED = {"shared_expert_intermediate_size": 56, "mlp_only_layers": [1]}

#: Classes of transformers, and what is set besides `COMMON`.
NETWORKS = {
    "llama": ("LlamaForCausalLM", {}),
    "llama, tied, biases": (
        "LlamaForCausalLM", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}
    ),
    "llama 3.1": ("LlamaForCausalLM", {"rope_parameters": LLAMA3}),
    "qwen2": ("Qwen2ForCausalLM", {}),
    "qwen2, windows": ("Qwen2ForCausalLM", WINDOW),
    "qwen2, yarn": ("Qwen2ForCausalLM", {"rope_parameters": YARN}),
    "qwen3": ("Qwen3ForCausalLM", {}),
    "mistral": ("MistralForCausalLM", {"sliding_window": 5}),
    "mixtral": ("MixtralForCausalLM", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    "qwen2_moe, one layer dense": ("Qwen2MoeForCausalLM", {**EXPERTS, **SHARED}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**EXPERTS, "norm_topk_prob": True}),
    "gemma2": ("Gemma2ForCausalLM", {"sliding_window": 5, "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3ForCausalLM", {**SIX, "query_pre_attn_scalar": 24, "rope_parameters": PLACES}),
    "phi3": ("Phi3ForCausalLM", {"head_dim": None, "hidden_size": 64}),
    "phi3, far": ("Phi3ForCausalLM", {"head_dim": None, "hidden_size": 64, **LONG}),
}  # fmt: skip
TOKENS = np.random.default_rng(5).integers(1, 97, (2, 19))


def made(name, folder):
    """Save a network of transformers in a folder; return its logits."""
    transformers = pytest.importorskip("transformers", reason="transformers, which the logits are of, is not installed")
    torch = pytest.importorskip("torch", reason="PyTorch, which transformers runs on, is not installed")
    kind, more = NETWORKS[name]
    chosen = getattr(transformers, kind)
    torch.manual_seed(3)
    settings = {key: value for key, value in {**COMMON, **more}.items() if value is not None}
    model = chosen(chosen.config_class(**settings, attn_implementation="eager")).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape) * (0.3 if "norm" in key or "bias" in key else 0.2))
            if "norm" in key and not kind.startswith("Gemma"):
                parameter += 1.0
        expected = model(torch.tensor(TOKENS)).logits.numpy()
    model.save_pretrained(folder)
    return expected


@pytest.fixture(scope="module", params=NETWORKS)
def network(request, tmp_path_factory):
    """A network of transformers in a folder, and its logits."""
    folder = tmp_path_factory.mktemp("network")
    return folder, made(request.param, folder)


def logits(network, tokens, sizes):
    """Return what a network gives for tokens that are fed to it in parts of some sizes."""
    cache = Cache(network.config, len(tokens), 24, zyx.float32, network.device)
    found, first = [], 0
    for size in sizes:
        part = zyx.Tensor(tokens[:, first : first + size].astype(np.int32))
        hidden = network.hidden(part, zyx.Tensor(np.int32(first)), cache)
        found.append(network.logits(hidden).numpy())
        first += size
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("sizes", [(19,), (8, 8, 1, 1, 1)], ids=["at once", "in parts"])
def test_logits_are_those_of_transformers(network, sizes):
    folder, expected = network
    found = logits(load_transformer(folder), TOKENS, sizes)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_what_config_json_says_is_needed(network, tmp_path):
    folder, _ = network
    config = json.loads((folder / "config.json").read_text())
    assert load_transformer(folder, context=7).length == 7
    for change, message in (
        ({"model_type": "martian"}, "has 'martian' for model_type; there are .*llama.*qwen2"),
        ({"num_hidden_layers": None}, "does not say num_hidden_layers, which is an integer"),
        ({"num_attention_heads": "four"}, "has 'four' for num_attention_heads, which is an integer"),
    ):
        changed = tmp_path / "changed"
        changed.mkdir(exist_ok=True)
        (changed / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(zyx.errors.FormatError, match=message):
            load_transformer(changed)
