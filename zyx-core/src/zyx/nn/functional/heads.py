"""Attention with several heads, with the weights as arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ArgumentError, ShapeError
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from zyx.nn import attention, linear
    from zyx.tensor.tensor import Tensor
else:
    attention = lazy_import("zyx.nn.attention", globals())
    linear = lazy_import("zyx.nn.linear", globals())


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what `zyx.nn.MultiheadAttention` of these weights gives; shapes are ``(length, N, width)``.

    Args:
        query: See `MultiheadAttention.forward`, as all that is not below.
        key: See `query`.
        value: See `query`.
        embed_dim_to_check: The width of queries.
        num_heads: See `MultiheadAttention`.
        in_proj_weight: ``(3 * width, width)``, of queries, keys and values.
        in_proj_bias: ``(3 * width,)``.
        bias_k: A key that comes behind the others, ``(1, 1, width)``.
        bias_v: A value, likewise.
        add_zero_attn: Whether a key and a value of zeros come behind them.
        dropout_p: Probability with which a weight is dropped in training.
        out_proj_weight: ``(width, width)``.
        out_proj_bias: ``(width,)``.
        training: Whether weights are dropped.
        key_padding_mask: See `query`.
        need_weights: See `query`.
        attn_mask: See `query`.
        use_separate_proj_weight: Whether the next three take the place of `in_proj_weight`.
        q_proj_weight: ``(width, width)``.
        k_proj_weight: ``(width, width of keys)``.
        v_proj_weight: ``(width, width of values)``.
        average_attn_weights: See `query`.
        is_causal: See `query`.

    Raises:
        ShapeError: Sizes that do not fit.
        ArgumentError: Weights that are missing.

    >>> x, w = zyx.ones(5, 2, 4), zyx.ones(12, 4)
    >>> y, weights = zyx.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, w, None, None, None, False, 0.0, zyx.eye(4), None
    ... )
    >>> y.shape, weights.shape
    ((5, 2, 4), (2, 5, 5))
    """
    embed_dim_to_check = as_index(embed_dim_to_check, "embed_dim_to_check")
    num_heads = as_index(num_heads, "num_heads")
    shape = require(query, "multi_head_attention_forward").node.shape
    if shape[-1] != embed_dim_to_check:
        raise ShapeError(f"multi_head_attention_forward: queries {shape} are not of width {embed_dim_to_check}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    if any(weight is None for weight in (separate if use_separate_proj_weight else (in_proj_weight,))):
        wanted = "q_proj_weight, k_proj_weight and v_proj_weight" if use_separate_proj_weight else "in_proj_weight"
        raise ArgumentError(f"multi_head_attention_forward: {wanted} must be given")
    layer = attention.MultiheadAttention.__new__(attention.MultiheadAttention)
    last = linear.Linear.__new__(linear.Linear)
    vars(last).update(weight=out_proj_weight, bias=out_proj_bias)
    q, k, v = separate if use_separate_proj_weight else (None, None, None)
    vars(layer).update(
        embed_dim=embed_dim_to_check, num_heads=num_heads, dropout=dropout_p, add_zero_attn=add_zero_attn,
        batch_first=False, in_proj_weight=None if use_separate_proj_weight else in_proj_weight, q_proj_weight=q,
        k_proj_weight=k, v_proj_weight=v, in_proj_bias=in_proj_bias, bias_k=bias_k, bias_v=bias_v, out_proj=last,
    )  # fmt: skip
    layer.train(training)
    return layer.forward(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
