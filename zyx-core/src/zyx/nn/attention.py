"""Attention with several heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.functions.choosing import where
from zyx.functions.joining import concat, pad
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.nn import initial
from zyx.nn.functional.attention import attend
from zyx.nn.functional.linear import linear
from zyx.nn.linear import Linear
from zyx.nn.module import Module, call
from zyx.tensor.creation import tri, zeros

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.nn.parameter import Parameter
    from zyx.tensor.tensor import Tensor


class MultiheadAttention(Module):
    """Several attentions side by side, each on its part of projected queries, keys and values.

    Vaswani et al., "Attention is all you need", 2017. Names and meanings are PyTorch's; in particular masks of bools
    tell here which keys are *not* seen. Weights begin by Glorot's uniform formula, biases as 0, those of `add_bias_kv`
    normally distributed with Glorot's deviation.

    Raises:
        ShapeError: The width does not fall into as many heads.

    >>> x = zyx.ones(2, 5, 8)
    >>> values, weights = zyx.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> values.shape
    (2, 5, 8)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Args:
            embed_dim: Width of queries and results, a multiple of `num_heads`.
            num_heads: Number of attentions.
            dropout: Probability with which a weight is dropped in training.
            bias: Whether the projections have biases.
            add_bias_kv: Whether one more key and value, which are trained, come after the others.
            add_zero_attn: Whether one more key and value of zeros come after the others.
            kdim: Width of keys; None is `embed_dim`.
            vdim: Width of values; None is `embed_dim`.
            batch_first: Whether shapes are ``(N, length, width)`` and not ``(length, N, width)``.
            dtype: Of the parameters.
            device: Where they lie.

        Raises:
            ShapeError: `embed_dim` is no multiple of `num_heads`.
        """
        embed_dim, num_heads = as_index(embed_dim, "embed_dim"), as_index(num_heads, "num_heads")
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"a width of {embed_dim} does not fall into {num_heads} heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.add_zero_attn, self.batch_first = add_zero_attn, batch_first
        key_width, value_width = (
            embed_dim if width is None else as_index(width, name) for name, width in (("kdim", kdim), ("vdim", vdim))
        )
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if key_width == value_width == embed_dim:
            self.in_proj_weight = initial.glorot((3 * embed_dim, embed_dim), dtype, device)
        else:
            self.q_proj_weight = initial.glorot((embed_dim, embed_dim), dtype, device)
            self.k_proj_weight = initial.glorot((embed_dim, key_width), dtype, device)
            self.v_proj_weight = initial.glorot((embed_dim, value_width), dtype, device)
        self.in_proj_bias = initial.constant(0.0, (3 * embed_dim,), dtype, device) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype, device)
        if bias:
            self.out_proj.bias = initial.constant(0.0, (embed_dim,), dtype, device)
        deviation = (2.0 / (1 + embed_dim)) ** 0.5
        shape = (1, 1, embed_dim)
        self.bias_k = initial.gaussian(deviation, shape, dtype, device) if add_bias_kv else None
        self.bias_v = initial.gaussian(deviation, shape, dtype, device) if add_bias_kv else None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the queries find, and with which weights.

        Args:
            query: ``(n_q, N, embed_dim)``, with `batch_first` ``(N, n_q, embed_dim)``, or ``(n_q, embed_dim)``.
            key: ``(n_k, N, kdim)``, or likewise.
            value: ``(n_k, N, vdim)``, or likewise.
            key_padding_mask: ``(N, n_k)``, or ``(n_k,)``. Bools tell which keys are not seen; floats are
                added to scores.
            need_weights: Whether the weights are returned, and not None.
            attn_mask: ``(n_q, n_k)`` or ``(N * heads, n_q, n_k)``. Bools tell which keys a query does not see; floats
                are added to scores.
            average_attn_weights: Whether weights are averaged over the heads.
            is_causal: Whether a query sees only keys up to its own place, the last query up to the last key.

        Returns:
            The result in the shape of `query`, and weights ``(N, n_q, n_k)``, or ``(N, heads, n_q, n_k)``, without N if
            the query is; n_k counts the keys that the layer adds.

        Raises:
            ShapeError: Sizes that do not fit.
        """
        ndim = require(query, "MultiheadAttention").node.ndim
        if ndim not in (2, 3) or {require(t, "MultiheadAttention").node.ndim for t in (key, value)} != {ndim}:
            shapes = ", ".join(str(t.node.shape) for t in (query, key, value))
            raise ShapeError(f"MultiheadAttention takes three tensors of rank 3, or 2, not {shapes}")
        q, k, v = self._projected(*(self._batch_first(t) for t in (query, key, value)))
        n_q, n_k = q.shape[1], k.shape[1]
        visible, added = self._masks(key_padding_mask, attn_mask, q.shape[0])
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (concat([t, b.expand(t.shape[0], 1, -1)], axis=1) for t, b in ((k, self.bias_k), (v, self.bias_v)))
        q, k, v = (self._heads(t) for t in (q, k, v))
        if self.add_zero_attn:
            nothing = zeros(*k.shape[:2], 1, k.shape[3], dtype=k.dtype, device=k.device)
            k, v = concat([k, nothing], axis=2), concat([v, nothing], axis=2)
        extra = k.shape[2] - n_k
        if is_causal and extra:  # the keys behind the last are seen by all
            upto = tri(n_q, n_k, n_k - n_q, dtype=bool, device=q.device)
            upto = upto.reshape((1, 1, n_q, n_k))
            visible = upto if visible is None else visible.logical_and(upto)
        mask = self._one_mask(visible, added, extra)
        dropout_p = self.dropout if self.dropout and self.training else 0.0
        found, weights = attend(q, k, v, mask, dropout_p, causal_lower_right=is_causal and not extra)
        result = found.permute_dims((0, 2, 1, 3)).reshape((q.shape[0], n_q, self.embed_dim))
        result = call(self.out_proj, result)
        if average_attn_weights:
            weights = weights.mean(axis=1)
        if ndim == 2:
            return result.squeeze(0), weights.squeeze(0) if need_weights else None
        return result if self.batch_first else result.swapaxes(0, 1), weights if need_weights else None

    def _batch_first(self, x: Tensor) -> Tensor:
        """Return `x` as ``(N, length, width)``."""
        if x.ndim == 2:
            return x.expand_dims(0)
        return x if self.batch_first else x.swapaxes(0, 1)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        width, bias = self.embed_dim, self.in_proj_bias
        if self.in_proj_weight is not None and query.node is key.node is value.node:
            together = linear(query, self.in_proj_weight, bias)
            return [together[..., i * width : (i + 1) * width] for i in range(3)]
        weights: list[Tensor | Parameter | None] = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if self.in_proj_weight is not None:
            weights = [self.in_proj_weight[i * width : (i + 1) * width] for i in range(3)]
        return [
            linear(x, weight, None if bias is None else bias[i * width : (i + 1) * width])
            for i, (x, weight) in enumerate(zip((query, key, value), weights, strict=True))
            if weight is not None
        ]

    def _heads(self, x: Tensor) -> Tensor:
        """Return ``(N, length, width)`` as ``(N, heads, length, width / heads)``."""
        n, length, width = x.shape
        return x.reshape((n, length, self.num_heads, width // self.num_heads)).permute_dims((0, 2, 1, 3))

    def _masks(
        self, key_padding_mask: Tensor | None, attn_mask: Tensor | None, batch: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return which keys are seen, as bools, and what is added to scores; each broadcasts to scores, or is None."""
        visible: Tensor | None = None
        added: Tensor | None = None
        for mask, is_padding in ((key_padding_mask, True), (attn_mask, False)):
            if mask is None:
                continue
            shape = mask.shape
            if is_padding:
                mask = mask.reshape((shape[0] if len(shape) == 2 else 1, 1, 1, shape[-1]))
            else:
                mask = mask.reshape((batch, self.num_heads, *shape[1:]) if len(shape) == 3 else (1, 1, *shape))
            if mask.dtype.is_bool:
                seen = mask.logical_not()
                visible = seen if visible is None else visible.logical_and(seen)
            else:
                added = mask if added is None else added + mask
        return visible, added

    @staticmethod
    def _one_mask(visible: Tensor | None, added: Tensor | None, extra: int) -> Tensor | None:
        """Return one mask of both, for keys to which `extra` were added that are seen."""
        if extra:
            visible = None if visible is None else pad(visible, [(0, 0)] * 3 + [(0, extra)], value=True)
            added = None if added is None else pad(added, [(0, 0)] * 3 + [(0, extra)])
        if visible is None or added is None:
            return added if visible is None else visible
        return where(visible, added, -float("inf"))
