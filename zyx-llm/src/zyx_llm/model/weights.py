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
blk.N.ffn_gate_inp               (experts, width); with the three below it in place of ffn_gate, ffn_up, ffn_down
blk.N.ffn_gate_exps, _up_exps    (experts, inner of one, width)
blk.N.ffn_down_exps              (experts, width, inner of one)
blk.N.ffn_gate_inp_shexp         (width,)
blk.N.ffn_gate_shexp, _up_shexp  (inner of the shared one, width)
blk.N.ffn_down_shexp             (width, inner of the shared one)
blk.N.post_ffw_norm              (width,)
output_norm                      (width,)
output                           (vocabulary, width); token_embd, if there is none
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import zyx
from zyx.errors import FormatError
from zyx.quantize import QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zyx_llm.config import Config, Experts

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
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
#: Gemma 2 and 3 have four norms in a layer, one of which is called what the second of two is called elsewhere.
_OF_LAYER_WITH_NORMS_AFTER: Final = {
    **_OF_LAYER,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
#: A tensor of one expert, by the names of Mixtral, of Qwen, and of GGUF files before all of a layer's were one tensor.
_OF_EXPERT: Final = re.compile(r"(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(w1|w2|w3|gate_proj|up_proj|down_proj)")
_OF_EXPERT_BEFORE: Final = re.compile(r"blk\.(\d+)\.ffn_(gate|up|down)\.(\d+)")
_EXPERTS: Final = {"w1": "gate", "w2": "down", "w3": "up"}

Weight: TypeAlias = "zyx.Tensor | QuantizedTensor"


def weight(
    tensor: Any,  # noqa: ANN401  # a tensor or a packed one
    dtype: zyx.DType | None,
    device: str | None = None,
    *,
    activations: str | None = None,
) -> Weight:
    """Return a tensor of a file as the network multiplies by it: the only place where this is decided.

    Args:
        tensor: A tensor, or numbers in blocks.
        dtype: Of the result. None leaves a matrix of blocks packed, aligned to what processors load, and makes float32
            of everything else.
        device: Where it is to lie.
        activations: What packed matrices are multiplied with. Rounded ones have the blocks of several rows together,
            where there is such a format and the device multiplies groups of bytes.
    """
    device = device or zyx.default_device()
    if isinstance(tensor, QuantizedTensor):
        if dtype is None and tensor.ndim >= 2:
            packed = tensor.to(device)
            if activations is not None and zyx.device_info(device).has_byte_products:
                packed = packed.interleaved()
            packed = packed.aligned()
            packed.data.realize()
            return packed
        tensor = tensor.dequantize()
    return zyx.asarray(tensor).astype(dtype or zyx.float32).to(device).realize()


def canonical_name(name: str, config: Config) -> str:
    """Return GGUF's name of a tensor of a safetensors file; the name itself if it is another one."""
    stem, _, ending = name.rpartition(".")
    if stem in _HUGGING:
        return f"{_HUGGING[stem]}.{ending}"
    names = _OF_LAYER_WITH_NORMS_AFTER if config.has_norms_after else _OF_LAYER
    if found := re.fullmatch(r"model\.layers\.(\d+)\.(.*)", stem):
        layer, rest = found[1], found[2].replace("block_sparse_moe.gate", "mlp.gate")
        if rest in names:
            return f"blk.{layer}.{names[rest]}.{ending}"
        if one := _OF_EXPERT.fullmatch(rest):
            kind = _EXPERTS.get(one[2], one[2].removesuffix("_proj"))
            return f"blk.{layer}.ffn_{kind}.{one[1]}.{ending}"
    return name


def stacked(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors with those of single experts, ``blk.N.ffn_gate.E.weight`` and so on, as one for each layer.

    Raises:
        FormatError: Experts of a layer differ, or one is missing between others.
    """
    found: dict[str, Any] = {}
    rows: dict[str, dict[int, Any]] = {}
    for name, tensor in tensors.items():
        if one := _OF_EXPERT_BEFORE.fullmatch(name.removesuffix(".weight")):
            rows.setdefault(f"blk.{one[1]}.ffn_{one[2]}_exps.weight", {})[int(one[3])] = tensor
        else:
            is_row = name.endswith("ffn_gate_inp_shexp.weight") and len(tensor.shape) == 2
            found[name] = tensor[0] if is_row else tensor
    for name, row in rows.items():
        parts = [row[number] for number in sorted(row)]
        kinds = {(each.shape, getattr(each, "format", None)) for each in parts}
        if sorted(row) != list(range(len(row))) or len(kinds) > 1:
            raise FormatError(f"the experts of {name} are {sorted(row)!r:.80} of {sorted(kinds, key=str)!r:.160}")
        if isinstance(parts[0], QuantizedTensor):
            found[name] = QuantizedTensor(zyx.stack([each.data for each in parts]), parts[0].format)
        else:
            found[name] = zyx.stack(parts)
    return found


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
        start = f"blk.{layer}.ffn"
        if config.experts is not None and f"{start}_down.weight" not in names:
            own |= _of_experts(config.experts, width)
        elif f"{start}_gate.weight" not in names and f"{start}_up.weight" in names:
            own |= {"ffn_up": (2 * inner, width), "ffn_down": (width, inner)}
        else:
            own |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        if config.has_head_norms:
            own |= {"attn_q_norm": (head,), "attn_k_norm": (head,)}
        if config.has_norms_after:
            own |= {"post_attention_norm": (width,), "post_ffw_norm": (width,)}
        for name, shape in own.items():
            shapes[f"blk.{layer}.{name}.weight"] = shape
            if f"blk.{layer}.{name}.bias" in names:
                shapes[f"blk.{layer}.{name}.bias"] = shape[:1]
    return shapes


def _of_experts(experts: Experts, width: int) -> dict[str, tuple[int, ...]]:
    count, inner, shared = experts.count, experts.inner, experts.shared_inner
    own: dict[str, tuple[int, ...]] = {
        "ffn_gate_inp": (count, width),
        "ffn_gate_exps": (count, inner, width),
        "ffn_up_exps": (count, inner, width),
        "ffn_down_exps": (count, width, inner),
    }
    if shared:
        own |= {"ffn_gate_inp_shexp": (width,), "ffn_gate_shexp": (shared, width), "ffn_up_shexp": (shared, width)}
        own["ffn_down_shexp"] = (width, shared)
    return own


def check_tensors(what: str, expected: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Any]) -> None:
    """Check that a model has all tensors it needs, and no others.

    Args:
        what: Its architecture.
        expected: The shapes of those that it needs.
        tensors: What there is.

    Raises:
        FormatError: Some are missing, of another shape, or of no known use; the text lists them.
    """
    faults = [f"{name} {shape} is missing" for name, shape in expected.items() if name not in tensors]
    faults += [
        f"{name} is {tuple(tensors[name].shape)}, not {shape}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    faults += [f"{name} {tuple(tensors[name].shape)} has no use" for name in tensors if name not in expected]
    if faults:
        more = f", and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise FormatError(f"the tensors are not those of {what}: {'; '.join(faults[:8])}{more}")
