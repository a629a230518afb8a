"""The network, as `zyx_llm.config.record` writes it down."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import zyx
from zyx.nn import functional as F  # as everybody calls it
from zyx_llm.model.experts import mixture, whole
from zyx_llm.model.rope import tables, turned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zyx_llm.config import Config
    from zyx_llm.model.cache import Cache, NoCache, PagedCache
    from zyx_llm.model.weights import Weight


class Transformer:
    """A network out of its weights.

    Args:
        config: What it is.
        weights: By the names of `zyx_llm.model.weights`.
        length: The most places that can be told.
        activations: What packed matrices are multiplied with, as `zyx.quantize.matmul` takes it.

    Attributes:
        config: What it is.
        device: Where the weights lie.
        length: The most places that can be told.
    """

    def __init__(
        self, config: Config, weights: Mapping[str, Weight], length: int, *, activations: str | None = None
    ) -> None:
        self.config = config
        self.length = length
        self._activations = activations
        self.device = weights["token_embd.weight"].device
        self._vectors = {name: t for name, t in weights.items() if isinstance(t, zyx.Tensor) and t.ndim < 2}
        self._matrices = {name: t for name, t in weights.items() if name not in self._vectors}
        self._tables = tables(config.rope, length, self.device)
        self._local = tables(config.local_rope, length, self.device) if config.local_rope else self._tables
        self._added: Mapping[str, Callable[[zyx.Tensor], zyx.Tensor]] = {}

    @property
    def weights(self) -> dict[str, Weight]:
        """The weights by name, as they are held."""
        return {**self._vectors, **self._matrices}

    def adapted(self, added: Mapping[str, Callable[[zyx.Tensor], zyx.Tensor]]) -> Transformer:
        """Return a network of the same weights that adds something to products with some of its matrices.

        Args:
            added: By the names of matrices without ".weight", such as blk.0.attn_q: what makes ``(..., out)`` of the
                ``(..., in)`` that the matrix is multiplied with. Experts of a mixture have no such place.
        """
        found = copy.copy(self)
        found._added = added
        return found

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as they are held; packed ones with their scales."""
        return sum(t.nbytes for t in (*self._vectors.values(), *self._matrices.values()))

    def hidden(
        self,
        tokens: zyx.Tensor,
        position: zyx.Tensor,
        cache: Cache | NoCache | PagedCache,
        starts: zyx.Tensor | None = None,
    ) -> zyx.Tensor:
        """Return what the network makes of tokens, before the head; their keys and values are put into the cache.

        Args:
            tokens: ``(rows, n)``, integers.
            position: The place of the first one, an integer, or that of each row, ``(rows,)``, in a `PagedCache`; there
                is room for all of them in the cache.
            cache: Of the tokens before; `NoCache` if there are none, and none are to follow.
            starts: At which place of the cache each row starts, ``(rows,)``; None for 0. What is before it is not seen.

        Returns:
            ``(rows, n, width)``.
        """
        config = self.config
        x = F.embedding(tokens, self._matrices["token_embd.weight"]).astype(zyx.float32) * config.embedding_scale
        places = zyx.arange(tokens.shape[1], dtype=zyx.int32, device=self.device) + position[..., None]
        masks = {window: self._mask(places, cache.size, window, starts) for window in {*config.windows}}
        # Of a row whose text is over, what comes is not looked at: only within the tables it has to be.
        turns = places if starts is None else places - starts[:, None, None]
        if starts is not None or places.ndim == 2:
            turns = (turns if starts is not None else turns[:, None]).clip(0, self.length - 1)
        for layer, window in enumerate(config.windows):
            added = self._attention(
                layer, self._norm(x, f"blk.{layer}.attn_norm"), places[..., 0], turns, masks[window], cache
            )
            if config.has_norms_after:
                added = self._norm(added, f"blk.{layer}.post_attention_norm")
            x = x + added
            added = self._inner(layer, self._norm(x, f"blk.{layer}.ffn_norm"))
            if config.has_norms_after:
                added = self._norm(added, f"blk.{layer}.post_ffw_norm")
            x = x + added
        return self._norm(x, "output_norm")

    def logits(self, hidden: zyx.Tensor) -> zyx.Tensor:
        """Return ``(..., vocabulary)`` for ``(..., width)``."""
        name = "output" if "output.weight" in self._matrices else "token_embd"
        found = self._linear(hidden, name)
        cap = self.config.logit_cap
        return found if cap is None else zyx.tanh(found / cap) * cap

    def _mask(self, places: zyx.Tensor, size: int, window: int | None, starts: zyx.Tensor | None) -> zyx.Tensor:
        """Return ``(n, size)``, of rows that start or stand apart ``(rows, 1, 1, n, size)``.

        It says which places of the cache a query at one of `places` sees.
        """
        all_places = zyx.arange(size, dtype=zyx.int32, device=self.device)
        behind = places[..., None] - all_places
        seen = behind >= 0
        if window is not None:
            seen = seen & (behind < window)
        if starts is None:
            return seen if seen.ndim == 2 else seen[:, None, None]
        # Before a row's start each place sees itself: what sees nothing would be no number, and so would all after it.
        return seen & ((all_places >= starts[:, None, None, None, None]) | (behind == 0))

    def _attention(
        self,
        layer: int,
        x: zyx.Tensor,
        first: zyx.Tensor,
        turns: zyx.Tensor,
        mask: zyx.Tensor,
        cache: Cache | NoCache | PagedCache,
    ) -> zyx.Tensor:
        config = self.config
        rows, n, _ = x.shape
        width, heads, key_heads = config.head_width, config.heads, config.key_heads
        q, k, v = self._queries_keys_values(layer, x)
        is_local = config.local_rope is not None and config.windows[layer] is not None
        rope = config.local_rope if is_local and config.local_rope else config.rope
        cosines, sines = (table[turns] for table in (self._local if is_local else self._tables))
        q, k, v = (y.reshape((rows, n, -1, width)) for y in (q, k, v))
        if config.has_head_norms:
            q, k = self._norm(q, f"blk.{layer}.attn_q_norm"), self._norm(k, f"blk.{layer}.attn_k_norm")
        q, k, v = (y.swapaxes(1, 2) for y in (q, k, v))
        q, k = turned(q, cosines, sines, rope), turned(k, cosines, sines, rope)
        keys, values = (y.astype(zyx.float32) for y in cache.put(layer, first, k, v))
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
        if f"{start}_qkv.weight" not in self._matrices:
            q, k, v = (self._linear(x, f"{start}_{name}") for name in "qkv")
            return q, k, v
        whole = self._linear(x, f"{start}_qkv")
        queries, keys = config.heads * config.head_width, config.key_heads * config.head_width
        return whole[..., :queries], whole[..., queries : queries + keys], whole[..., queries + keys :]

    def _inner(self, layer: int, x: zyx.Tensor) -> zyx.Tensor:
        """Return what the gated network of a layer, or its experts, make of tokens."""
        start, experts = f"blk.{layer}.ffn", self.config.experts
        if experts is None or f"{start}_gate_inp.weight" not in self._matrices:
            return self._gated(start, "", x)
        router = whole(self._matrices[f"{start}_gate_inp.weight"])
        gate, up, down = (self._matrices[f"{start}_{kind}_exps.weight"] for kind in ("gate", "up", "down"))
        y = mixture(x.reshape((-1, x.shape[-1])), router, (gate, up, down), experts, self._active).reshape(x.shape)
        if experts.shared_inner:
            share = F.sigmoid((x * self._vectors[f"{start}_gate_inp_shexp.weight"]).sum(-1, keepdims=True))
            y = y + share * self._gated(start, "_shexp", x)
        return y

    def _gated(self, start: str, ending: str, x: zyx.Tensor) -> zyx.Tensor:
        up = self._linear(x, f"{start}_up{ending}")
        if f"{start}_gate{ending}.weight" in self._matrices:
            gate = self._linear(x, f"{start}_gate{ending}")
        else:
            gate, up = up[..., : self.config.inner], up[..., self.config.inner :]
        return self._linear(self._active(gate) * up, f"{start}_down{ending}")

    def _active(self, x: zyx.Tensor) -> zyx.Tensor:
        return F.silu(x) if self.config.activation == "silu" else F.gelu(x, approximate="tanh")

    def _linear(self, x: zyx.Tensor, name: str) -> zyx.Tensor:
        matrix, bias = self._matrices[f"{name}.weight"], self._vectors.get(f"{name}.bias")
        bias = None if bias is None else bias.astype(x.dtype)
        if isinstance(matrix, zyx.Tensor):
            y = F.linear(x, matrix.astype(x.dtype), bias)
        else:
            y = F.linear(x, matrix, bias, activations=self._activations)
        return y + self._added[name](x) if name in self._added else y

    def _norm(self, x: zyx.Tensor, name: str) -> zyx.Tensor:
        scale = self._vectors[f"{name}.weight"].astype(x.dtype) + self.config.norm_offset
        return F.rms_norm(x, (x.shape[-1],), scale, self.config.epsilon)
