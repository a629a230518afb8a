"""What the metadata of a GGUF file say of a transformer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError
from zyx_llm.config.encoder import ENCODERS
from zyx_llm.config.reading import Reader
from zyx_llm.config.record import Config, Experts, Rope
from zyx_llm.config.scaling import long_factor, ramped, yarn_factor

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What is read; each layer of Gemma 3 but every sixth has a window, and every other one of Gemma 2.
ARCHITECTURES: Final = ("gemma2", "gemma3", "llama", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe")

#: Those whose pairs of `Rope` are neighbours: their queries and keys were put into that order when the file was made.
_INTERLEAVED: Final = {"llama"}


def config_of_metadata(metadata: Mapping[str, Any], divisors: Mapping[str, tuple[float, ...]] | None = None) -> Config:
    """Return what a file says, whose metadata are given; see `zyx.io.read_metadata`.

    Args:
        metadata: What the file says.
        divisors: Of the tensors that have some, without the ending of their names: rope_freqs, rope_factors_short
            and rope_factors_long.

    Raises:
        FormatError: An architecture that is not known, or a key that is missing or of another kind.
    """
    name = metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        hint = "; `zyx-llm embed` reads it" if name in ENCODERS else ""
        raise FormatError(f"the file is of architecture {name!r}; there are {', '.join(ARCHITECTURES)}{hint}")
    read = Reader(metadata, f"{name}.")
    width, heads = (read.integer(key) for key in ("embedding_length", "attention.head_count"))
    layers = read.layers("block_count")
    head_width = read.integer("attention.key_length", width // max(heads, 1))
    if read.integer("attention.value_length", head_width) != head_width:
        raise FormatError(f"values of another width than keys, {head_width}, are not read")
    is_gemma = name.startswith("gemma")
    rope = Rope(
        read.number("rope.freq_base", 10000.0),
        read.integer("rope.dimension_count", head_width),
        name in _INTERLEAVED,
    )
    context = read.integer("context_length")
    rope = _rope(read, metadata.get(f"{name}.rope.scaling.type"), rope, divisors or {}, context)
    window = read.integer("attention.sliding_window", 0) or None
    pattern = {"gemma2": 2, "gemma3": 6}.get(name)
    windows = tuple(window if not pattern or (layer + 1) % pattern else None for layer in range(layers))
    return Config(
        architecture=name,
        layers=layers,
        width=width,
        heads=heads,
        key_heads=read.integer("attention.head_count_kv", heads),
        head_width=head_width,
        inner=read.integer("feed_forward_length"),
        vocabulary=len(metadata.get("tokenizer.ggml.tokens", ())) or read.integer("vocab_size"),
        context=context,
        epsilon=read.number("attention.layer_norm_rms_epsilon"),
        rope=rope,
        local_rope=Rope(10000.0, rope.width) if name == "gemma3" else None,
        windows=windows,
        activation="gelu" if is_gemma else "silu",
        has_head_norms=name in {"qwen3", "qwen3moe", "gemma3"},
        has_norms_after=is_gemma,
        embedding_scale=math.sqrt(width) if is_gemma else 1.0,
        attention_scale=_attention_scale(name, layers, width, heads, head_width),
        score_cap=read.number("attn_logit_softcapping", 50.0) if name == "gemma2" else None,
        logit_cap=read.number("final_logit_softcapping", 30.0) if name == "gemma2" else None,
        experts=_experts(name, read),
    )


def _experts(name: str, read: Reader) -> Experts | None:
    """Return what experts there are; older files of Qwen say of their sizes what those of a token have together."""
    count = read.integer("expert_count", 0)
    if not count:
        return None
    if read.integer("expert_gating_func", 1) != 1:
        raise FormatError(
            f"the file has {read.integer('expert_gating_func')} for expert_gating_func; 1, softmax, is read"
        )
    used, inner = read.integer("expert_used_count"), read.integer("feed_forward_length")
    is_llama, has_shared = name == "llama", name == "qwen2moe"
    return Experts(
        count,
        used,
        read.integer("expert_feed_forward_length", inner if is_llama else inner // max(used, 1)),
        read.integer("expert_shared_feed_forward_length", inner) if has_shared else 0,
        is_normed=read.claim("expert_weights_norm", default=not has_shared),
        scale=read.number("expert_weights_scale", 1.0) or 1.0,
    )


def _attention_scale(name: str, layers: int, width: int, heads: int, head_width: int) -> float:
    """Return what scores are multiplied by; files do not say it of the largest Gemma 2 and 3, which differ."""
    is_other = (name, layers) in {("gemma2", 46), ("gemma3", 62)}
    return 1.0 / math.sqrt(width / heads if is_other else head_width)


def _rope(read: Reader, scaling: object, plain: Rope, tensors: Mapping[str, tuple[float, ...]], context: int) -> Rope:
    """Return how places are told, by keys and by the tensors that have divisors."""
    before = read.integer("rope.scaling.original_context_length", context)
    if "rope_freqs" in tensors:
        return replace(plain, divisors=tensors["rope_freqs"])
    if "rope_factors_short" in tensors and "rope_factors_long" in tensors:
        return replace(
            plain,
            divisors=tensors["rope_factors_short"],
            far_divisors=tensors["rope_factors_long"],
            near=before,
            factor=read.number("rope.scaling.attn_factor", long_factor(context / max(before, 1), before)),
        )
    match scaling:
        case None | "none":
            return plain
        case "linear":
            return replace(plain, divisors=(read.number("rope.scaling.factor"),) * (plain.width // 2))
        case "yarn":
            factor = read.number("rope.scaling.factor")
            return replace(
                plain,
                divisors=ramped(plain.base, plain.width, factor, 32.0, 1.0, before),
                factor=read.number("rope.scaling.attn_factor", 1.0) * yarn_factor(factor),
            )
        case _:
            raise FormatError(f"the file scales places by {scaling!r}, which is not read; none, linear and yarn are")
