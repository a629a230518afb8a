"""What a ``config.json`` says of a transformer, as models are published beside safetensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError
from zyx_llm.config.encoder import ENCODERS
from zyx_llm.config.reading import Reader
from zyx_llm.config.record import Config, Experts, Rope
from zyx_llm.config.scaling import long_factor, ramped, smoothed, yarn_factor

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How places are scaled, besides not at all.
SCALINGS: Final = ("linear", "llama3", "yarn", "longrope")
#: What is read.
MODELS: Final = (
    "gemma2", "gemma3_text", "llama", "mistral", "mixtral", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
)  # fmt: skip

_ACTIVATIONS: Final = {"silu": "silu", "gelu_pytorch_tanh": "gelu"}


def config_of_json(values: Mapping[str, Any]) -> Config:
    """Return what the object of a ``config.json`` says.

    Raises:
        FormatError: A model that is not known, or a key that is missing or of another kind.
    """
    name = values.get("model_type")
    if name not in MODELS:
        hint = "; `zyx-llm embed` reads it" if name in ENCODERS else ""
        raise FormatError(f"config.json has {name!r} for model_type; there are {', '.join(MODELS)}{hint}")
    read = Reader(values)
    width, heads = (read.integer(key) for key in ("hidden_size", "num_attention_heads"))
    layers = read.layers("num_hidden_layers")
    head_width = read.integer("head_dim", width // max(heads, 1))
    is_gemma = name.startswith("gemma")
    activation = values.get("hidden_activation") or values.get("hidden_act", "silu")
    if activation not in _ACTIVATIONS:
        raise FormatError(f"config.json has the activation {activation!r}; there are {', '.join(_ACTIVATIONS)}")
    full, local = _ropes(values, head_width)
    return Config(
        architecture=name,
        layers=layers,
        width=width,
        heads=heads,
        key_heads=read.integer("num_key_value_heads", heads),
        head_width=head_width,
        inner=read.integer("intermediate_size"),
        vocabulary=read.integer("vocab_size"),
        context=read.integer("max_position_embeddings"),
        epsilon=read.number("rms_norm_eps", 1e-6),
        rope=full,
        local_rope=local,
        windows=_windows(name, values, layers),
        activation=_ACTIVATIONS[activation],
        norm_offset=1.0 if is_gemma else 0.0,
        has_head_norms=name in {"qwen3", "qwen3_moe", "gemma3_text"},
        has_norms_after=is_gemma,
        embedding_scale=math.sqrt(width) if is_gemma else 1.0,
        attention_scale=1.0 / math.sqrt(read.number("query_pre_attn_scalar", head_width) if is_gemma else head_width),
        score_cap=_cap(read, "attn_logit_softcapping") if is_gemma else None,
        logit_cap=_cap(read, "final_logit_softcapping") if is_gemma else None,
        experts=_experts(name, read),
    )


def _experts(name: str, read: Reader) -> Experts | None:
    match name:
        case "mixtral":
            inner, shared, is_normed = read.integer("intermediate_size"), 0, True
        case "qwen2_moe" | "qwen3_moe":
            inner, is_normed = read.integer("moe_intermediate_size"), read.claim("norm_topk_prob", default=False)
            shared = read.integer("shared_expert_intermediate_size") if name == "qwen2_moe" else 0
        case _:
            return None
    count = read.integer("num_experts" if read.has("num_experts") else "num_local_experts")
    return Experts(count, read.integer("num_experts_per_tok"), inner, shared, is_normed)


def _cap(read: Reader, name: str) -> float | None:
    return read.number(name) if read.has(name) else None


def _windows(name: str, values: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    window = values.get("sliding_window")
    if not window or values.get("use_sliding_window") is False:
        return (None,) * layers
    kinds = values.get("layer_types")
    if kinds is None:
        pattern = {"gemma2": 2, "gemma3_text": values.get("sliding_window_pattern", 6)}.get(name)
        return tuple(window if not pattern or (layer + 1) % pattern else None for layer in range(layers))
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise FormatError(f"config.json has {kinds!r:.80} for layer_types, of {layers} layers")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _ropes(values: Mapping[str, Any], head_width: int) -> tuple[Rope, Rope | None]:
    """Return how places are told in layers that see all, and in those with a window, where that differs."""
    said = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(said, dict):
        raise FormatError(f"config.json has {said!r:.80} for rope_parameters, which is an object")
    if "full_attention" in said:
        full, local = (_rope(values, said[kind], head_width) for kind in ("full_attention", "sliding_attention"))
        return full, None if local == full else local
    full = _rope(values, said, head_width)
    if "rope_local_base_freq" in values:
        return full, Rope(float(values["rope_local_base_freq"]), full.width)
    return full, None


def _rope(values: Mapping[str, Any], said: Mapping[str, Any], head_width: int) -> Rope:
    read = Reader({**values, **said})
    base = read.number("rope_theta", 10000.0)
    width = int(head_width * read.number("partial_rotary_factor", 1.0))
    kind = said.get("rope_type", said.get("type", "default"))
    plain = Rope(base, width)
    match kind:
        case "default":
            return plain
        case "linear":
            return replace(plain, divisors=(read.number("factor"),) * (width // 2))
        case "llama3":
            factor, slow, fast = (read.number(name) for name in ("factor", "low_freq_factor", "high_freq_factor"))
            before = read.number("original_max_position_embeddings")
            return replace(plain, divisors=smoothed(base, width, factor, slow, fast, before))
        case "yarn":
            return _yarn(read, plain)
        case "longrope":
            return _long(read, plain)
        case _:
            raise FormatError(f"config.json scales places by {kind!r}, which is not read; {', '.join(SCALINGS)} are")


def _yarn(read: Reader, plain: Rope) -> Rope:
    factor = read.number("factor")
    before = read.number("original_max_position_embeddings", read.number("max_position_embeddings"))
    fast, slow = read.number("beta_fast", 32.0), read.number("beta_slow", 1.0)
    grown = yarn_factor(factor)
    if read.has("mscale") and read.has("mscale_all_dim"):
        grown = yarn_factor(factor, read.number("mscale")) / yarn_factor(factor, read.number("mscale_all_dim"))
    return replace(
        plain,
        divisors=ramped(plain.base, plain.width, factor, fast, slow, before),
        factor=read.number("attention_factor", grown),
    )


def _long(read: Reader, plain: Rope) -> Rope:
    most = read.number("max_position_embeddings")
    before = read.number("original_max_position_embeddings", most)
    return replace(
        plain,
        divisors=read.numbers("short_factor"),
        far_divisors=read.numbers("long_factor"),
        near=int(before),
        factor=read.number("attention_factor", long_factor(most / before, before)),
    )
