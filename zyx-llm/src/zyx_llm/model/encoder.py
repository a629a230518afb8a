"""The encoder, as `zyx_llm.config.encoder` writes it down."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import zyx
from zyx.nn import functional as F  # as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zyx_llm.config.encoder import EncoderConfig
    from zyx_llm.model.weights import Weight

_HUGGING: Final = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
_OF_LAYER: Final = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
#: Of what a file may have besides: heads for tasks, and the numbers of places.
_BESIDES: Final = re.compile(r"(bert\.)?(pooler\.|cls[._]|classifier\.|embeddings\.position_ids)")


def named_tensors(tensors: Mapping[str, Weight]) -> dict[str, Weight]:
    """Return the tensors of an encoder by the names of GGUF, and no others, whichever names a file has."""
    found: dict[str, Weight] = {}
    for name, tensor in tensors.items():
        if _BESIDES.match(name):
            continue
        stem, _, ending = name.removeprefix("bert.").rpartition(".")
        stem = _HUGGING.get(stem, stem)
        if (one := re.fullmatch(r"encoder\.layer\.(\d+)\.(.*)", stem)) and one[2] in _OF_LAYER:
            stem = f"blk.{one[1]}.{_OF_LAYER[one[2]]}"
        found[f"{stem}.{ending}"] = tensor
    return found


def encoder_shapes(config: EncoderConfig, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that an encoder has to have, whatever `names` there are."""
    del names
    width, inner = config.width, config.inner
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config.vocabulary, width),
        "position_embd.weight": (config.context, width),
        "token_types.weight": (config.types, width),
        "token_embd_norm.weight": (width,),
        "token_embd_norm.bias": (width,),
    }
    for layer in range(config.layers):
        for name, shape in {
            "attn_q": (width, width), "attn_k": (width, width), "attn_v": (width, width), "attn_output": (width, width),
            "attn_output_norm": (width,), "ffn_up": (inner, width), "ffn_down": (width, inner),
            "layer_output_norm": (width,),
        }.items():  # fmt: skip
            shapes |= {f"blk.{layer}.{name}.weight": shape, f"blk.{layer}.{name}.bias": shape[:1]}
    return shapes


class Encoder:
    """An encoder out of its weights.

    Args:
        config: What it is.
        weights: By the names of GGUF.

    Attributes:
        config: What it is.
        device: Where the weights lie.
        length: The most tokens of a text.
        pooling: "mean" or "cls".
    """

    def __init__(self, config: EncoderConfig, weights: Mapping[str, Weight]) -> None:
        self.config = config
        self.length = config.context
        self.pooling = config.pooling
        self.device = weights["token_embd.weight"].device
        self._weights = dict(weights)

    def hidden(self, tokens: zyx.Tensor, lengths: zyx.Tensor) -> zyx.Tensor:
        """Return what the network makes of tokens, ``(rows, n, width)``.

        Args:
            tokens: ``(rows, n)``, integers.
            lengths: ``(rows,)``, how many of them are of each text; no token sees what comes after.
        """
        n = tokens.shape[1]
        places = zyx.arange(n, dtype=zyx.int32, device=self.device)
        x = F.embedding(tokens, self._weights["token_embd.weight"]).astype(zyx.float32)
        x = x + F.embedding(places, self._weights["position_embd.weight"]).astype(zyx.float32)
        x = x + F.embedding(places * 0, self._weights["token_types.weight"]).astype(zyx.float32)
        x = self._norm(x, "token_embd_norm")
        mask = (places < lengths[:, None])[:, None, None]
        for layer in range(self.config.layers):
            start = f"blk.{layer}"
            x = self._norm(x + self._attention(start, x, mask), f"{start}.attn_output_norm")
            inner = self._linear(F.gelu(self._linear(x, f"{start}.ffn_up")), f"{start}.ffn_down")
            x = self._norm(x + inner, f"{start}.layer_output_norm")
        return x

    def _attention(self, start: str, x: zyx.Tensor, mask: zyx.Tensor) -> zyx.Tensor:
        rows, n, width = x.shape
        heads = self.config.heads
        q, k, v = (
            self._linear(x, f"{start}.attn_{name}").reshape((rows, n, heads, width // heads)).swapaxes(1, 2)
            for name in "qkv"
        )
        scores = (q * (1.0 / math.sqrt(width // heads))) @ k.mT
        summed = F.softmax(zyx.where(mask, scores, float("-inf")), -1) @ v
        return self._linear(summed.swapaxes(1, 2).reshape((rows, n, width)), f"{start}.attn_output")

    def _linear(self, x: zyx.Tensor, name: str) -> zyx.Tensor:
        matrix, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if isinstance(matrix, zyx.Tensor):
            matrix = matrix.astype(x.dtype)
        return F.linear(x, matrix, zyx.asarray(bias).astype(x.dtype))

    def _norm(self, x: zyx.Tensor, name: str) -> zyx.Tensor:
        scale, bias = (zyx.asarray(self._weights[f"{name}.{ending}"]) for ending in ("weight", "bias"))
        return F.layer_norm(x, (x.shape[-1],), scale, bias, self.config.epsilon)
