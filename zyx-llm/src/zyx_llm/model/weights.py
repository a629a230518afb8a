"""The tensors of a model, by the names that GGUF has for them.

token_embd                       (vocabulary, width)
blk.N.attn_norm                  (width,)
blk.N.attn_q, attn_k, attn_v     (heads * head_width, width), and biases; or attn_qkv, one below the other
blk.N.attn_q_norm, attn_k_norm   (head_width,)
blk.N.attn_output                (width, heads * head_width)
blk.N.post_attention_norm        (width,)
blk.N.ffn_norm                   (width,)
blk.N.ffn_gate, ffn_up           (inner, width); or ffn_up alone, both one below the other
blk.N.ffn_down                   (width, inner)
blk.N.post_ffw_norm              (width,)
output_norm                      (width,)
output                           (vocabulary, width); token_embd, if there is none
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import zyx
from zyx.errors import FormatError
from zyx.quantize import QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zyx_llm.config import Config

_HUGGING: Final = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_OF_LAYER: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
#: Gemma 2 and 3 have four norms in a layer, one of which is called what the second of two is called elsewhere.
_OF_LAYER_WITH_NORMS_AFTER: Final = {
    **_OF_LAYER,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def weight(tensor: Any, dtype: zyx.DType, device: str | None = None) -> zyx.Tensor:  # noqa: ANN401  # a tensor or a packed one
    """Return a tensor of a file as the network multiplies by it: the only place where this is decided.

    Args:
        tensor: A tensor, or numbers in blocks.
        dtype: Of the result.
        device: Where it is to lie.
    """
    whole = tensor.dequantize() if isinstance(tensor, QuantizedTensor) else zyx.asarray(tensor)
    return whole.astype(dtype).to(device or zyx.default_device()).realize()


def canonical_name(name: str, config: Config) -> str:
    """Return GGUF's name of a tensor of a safetensors file; the name itself if it is another one."""
    stem, _, ending = name.rpartition(".")
    if stem in _HUGGING:
        return f"{_HUGGING[stem]}.{ending}"
    names = _OF_LAYER_WITH_NORMS_AFTER if config.has_norms_after else _OF_LAYER
    if (found := re.fullmatch(r"model\.layers\.(\d+)\.(.*)", stem)) and found[2] in names:
        return f"blk.{found[1]}.{names[found[2]]}.{ending}"
    return name


def expected_shapes(config: Config, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that a file with `names` has to have."""
    names = {*names}
    width, inner, head = config.width, config.inner, config.head_width
    queries, keys = config.heads * head, config.key_heads * head
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config.vocabulary, width),
        "output_norm.weight": (width,),
    }
    if "output.weight" in names:
        shapes["output.weight"] = (config.vocabulary, width)
    for layer in range(config.layers):
        own: dict[str, tuple[int, ...]] = {"attn_norm": (width,), "ffn_norm": (width,)}
        if f"blk.{layer}.attn_qkv.weight" in names:
            own["attn_qkv"] = (queries + 2 * keys, width)
        else:
            own |= {"attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width)}
        own["attn_output"] = (width, queries)
        if f"blk.{layer}.ffn_gate.weight" not in names and f"blk.{layer}.ffn_up.weight" in names:
            own["ffn_up"] = (2 * inner, width)
        else:
            own |= {"ffn_gate": (inner, width), "ffn_up": (inner, width)}
        own["ffn_down"] = (width, inner)
        if config.has_head_norms:
            own |= {"attn_q_norm": (head,), "attn_k_norm": (head,)}
        if config.has_norms_after:
            own |= {"post_attention_norm": (width,), "post_ffw_norm": (width,)}
        for name, shape in own.items():
            shapes[f"blk.{layer}.{name}.weight"] = shape
            if f"blk.{layer}.{name}.bias" in names:
                shapes[f"blk.{layer}.{name}.bias"] = shape[:1]
    return shapes


def check_tensors(config: Config, tensors: Mapping[str, Any]) -> None:
    """Check that a model has all tensors it needs, and no others.

    Raises:
        FormatError: Some are missing, of another shape, or of no known use; the text lists them.
    """
    expected = expected_shapes(config, tensors)
    faults = [f"{name} {shape} is missing" for name, shape in expected.items() if name not in tensors]
    faults += [
        f"{name} is {tuple(tensors[name].shape)}, not {shape}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    faults += [f"{name} {tuple(tensors[name].shape)} has no use" for name in tensors if name not in expected]
    if faults:
        more = f", and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise FormatError(f"the tensors are not those of {config.architecture}: {'; '.join(faults[:8])}{more}")
