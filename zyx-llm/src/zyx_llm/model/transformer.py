"""The network, as `zyx_llm.config.record` writes it down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zyx
from zyx.nn import functional as F  # as everybody calls it
from zyx_llm.model.rope import tables, turned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx_llm.config import Config
    from zyx_llm.model.cache import Cache


class Transformer:
    """A network out of its weights.

    Args:
        config: What it is.
        weights: By the names of `zyx_llm.model.weights`.
        length: The most places that can be told.

    Attributes:
        config: What it is.
        device: Where the weights lie.
        length: The most places that can be told.
    """

    def __init__(self, config: Config, weights: Mapping[str, zyx.Tensor], length: int) -> None:
        self.config = config
        self.length = length
        self.device = weights["token_embd.weight"].device
        self._weights = dict(weights)
        self._tables = tables(config.rope, length, self.device)
        self._local = tables(config.local_rope, length, self.device) if config.local_rope else self._tables

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights."""
        return sum(tensor.nbytes for tensor in self._weights.values())

    def hidden(self, tokens: zyx.Tensor, position: zyx.Tensor, cache: Cache) -> zyx.Tensor:
        """Return what the network makes of tokens, before the head; their keys and values are put into the cache.

        Args:
            tokens: ``(rows, n)``, integers.
            position: The place of the first one, an integer; there is room for all of them in the cache.
            cache: Of the tokens before.

        Returns:
            ``(rows, n, width)``.
        """
        config = self.config
        x = self._weights["token_embd.weight"][tokens].astype(zyx.float32) * config.embedding_scale
        places = zyx.arange(tokens.shape[1], dtype=zyx.int32, device=self.device) + position
        masks = {window: self._mask(places, cache.size, window) for window in {*config.windows}}
        for layer, window in enumerate(config.windows):
            added = self._attention(layer, self._norm(x, f"blk.{layer}.attn_norm"), places, masks[window], cache)
            if config.has_norms_after:
                added = self._norm(added, f"blk.{layer}.post_attention_norm")
            x = x + added
            added = self._gated(layer, self._norm(x, f"blk.{layer}.ffn_norm"))
            if config.has_norms_after:
                added = self._norm(added, f"blk.{layer}.post_ffw_norm")
            x = x + added
        return self._norm(x, "output_norm")

    def logits(self, hidden: zyx.Tensor) -> zyx.Tensor:
        """Return ``(..., vocabulary)`` for ``(..., width)``."""
        name = "output" if "output.weight" in self._weights else "token_embd"
        found = self._linear(hidden, name)
        cap = self.config.logit_cap
        return found if cap is None else zyx.tanh(found / cap) * cap

    def _mask(self, places: zyx.Tensor, size: int, window: int | None) -> zyx.Tensor:
        """Return ``(n, size)``: which places of the cache a query at one of `places` sees."""
        behind = places[:, None] - zyx.arange(size, dtype=zyx.int32, device=self.device)
        seen = behind >= 0
        return seen if window is None else seen & (behind < window)

    def _attention(self, layer: int, x: zyx.Tensor, places: zyx.Tensor, mask: zyx.Tensor, cache: Cache) -> zyx.Tensor:
        config = self.config
        rows, n, _ = x.shape
        width, heads, key_heads = config.head_width, config.heads, config.key_heads
        q, k, v = self._queries_keys_values(layer, x)
        is_local = config.local_rope is not None and config.windows[layer] is not None
        rope = config.local_rope if is_local and config.local_rope else config.rope
        cosines, sines = (table[places] for table in (self._local if is_local else self._tables))
        q, k, v = (y.reshape((rows, n, -1, width)) for y in (q, k, v))
        if config.has_head_norms:
            q, k = self._norm(q, f"blk.{layer}.attn_q_norm"), self._norm(k, f"blk.{layer}.attn_k_norm")
        q, k, v = (y.swapaxes(1, 2) for y in (q, k, v))
        q, k = turned(q, cosines, sines, rope), turned(k, cosines, sines, rope)
        first = places[0]
        cache.keys[layer][:, :, first : first + n] = k.astype(cache.keys[layer].dtype)
        cache.values[layer][:, :, first : first + n] = v.astype(cache.values[layer].dtype)
        keys, values = (y.astype(zyx.float32) for y in (cache.keys[layer], cache.values[layer]))
        # The heads that share keys are rows of one product.
        groups = heads // key_heads
        scores = (q.reshape((rows, key_heads, groups * n, width)) * config.attention_scale) @ keys.mT
        if config.score_cap is not None:
            scores = zyx.tanh(scores / config.score_cap) * config.score_cap
        scores = scores.reshape((rows, key_heads, groups, n, cache.size))
        shares = F.softmax(zyx.where(mask, scores, float("-inf")), -1)
        summed = shares.reshape((rows, key_heads, groups * n, cache.size)) @ values
        summed = summed.reshape((rows, heads, n, width)).swapaxes(1, 2).reshape((rows, n, heads * width))
        return self._linear(summed, f"blk.{layer}.attn_output")

    def _queries_keys_values(self, layer: int, x: zyx.Tensor) -> tuple[zyx.Tensor, zyx.Tensor, zyx.Tensor]:
        start, config = f"blk.{layer}.attn", self.config
        if f"{start}_qkv.weight" not in self._weights:
            q, k, v = (self._linear(x, f"{start}_{name}") for name in "qkv")
            return q, k, v
        whole = self._linear(x, f"{start}_qkv")
        queries, keys = config.heads * config.head_width, config.key_heads * config.head_width
        return whole[..., :queries], whole[..., queries : queries + keys], whole[..., queries + keys :]

    def _gated(self, layer: int, x: zyx.Tensor) -> zyx.Tensor:
        start = f"blk.{layer}.ffn"
        up = self._linear(x, f"{start}_up")
        if f"{start}_gate.weight" in self._weights:
            gate = self._linear(x, f"{start}_gate")
        else:
            gate, up = up[..., : self.config.inner], up[..., self.config.inner :]
        active = F.silu(gate) if self.config.activation == "silu" else F.gelu(gate, approximate="tanh")
        return self._linear(active * up, f"{start}_down")

    def _linear(self, x: zyx.Tensor, name: str) -> zyx.Tensor:
        bias = self._weights.get(f"{name}.bias")
        matrix = self._weights[f"{name}.weight"].astype(x.dtype)
        return F.linear(x, matrix, None if bias is None else bias.astype(x.dtype))

    def _norm(self, x: zyx.Tensor, name: str) -> zyx.Tensor:
        scale = self._weights[f"{name}.weight"].astype(x.dtype) + self.config.norm_offset
        return F.rms_norm(x, (x.shape[-1],), scale, self.config.epsilon)
