"""Attention: means of values, weighted by how well keys fit queries."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions.linalg import matmul
from zyx.functions.operands import require, term_of, wrap
from zyx.tensor.random import dropout

if TYPE_CHECKING:
    from zyx.functions.term import Term
    from zyx.tensor.tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_lower_right: bool = False,
) -> Tensor:
    """Return ``softmax(scale * query @ key.mT + mask) @ value``. Vaswani et al., "Attention is all you need", 2017.

    Args:
        query: ``(..., heads, n_q, width)``, or without heads.
        key: ``(..., heads, n_k, width)``.
        value: ``(..., heads, n_k, width_v)``.
        attn_mask: Broadcasts to ``(..., n_q, n_k)``. Bools tell which keys a query sees; floats are added to scores.
        dropout_p: Probability with which a weight is dropped, always: give 0 outside of training.
        is_causal: Whether a query sees only keys up to its own place: query i the keys up to i, so that the first query
            sees the first key alone. Of more or fewer keys than queries, that was aligned at the last ones until 0.2; a
            warning says so.
        scale: What the scores are multiplied by; None is ``1 / sqrt(width)``.
        enable_gqa: Whether `key` and `value` may have fewer heads, each for as many heads of `query` in a row.
        causal_lower_right: As `is_causal`, but the *last* query sees the last key, so that query i sees the keys up to
            ``i + n_k - n_q``: what decoding needs, where the keys of earlier places were kept and a few queries come at
            the end. For sequences of one length it is the same. (PyTorch has it as a mask of that name.)

    Returns:
        ``(..., heads, n_q, width_v)``. A query that sees no key at all gives 0.

    Raises:
        ShapeError: Sizes that do not fit.
        DTypeError: Not of floats, or a mask of integers.
        ArgumentError: Both `is_causal` and `causal_lower_right`.

    >>> q = zyx.ones(1, 2, 5, 8)
    >>> zyx.nn.functional.scaled_dot_product_attention(q, q, q).shape
    (1, 2, 5, 8)
    """
    if is_causal and causal_lower_right:
        raise ArgumentError("scaled_dot_product_attention: give is_causal or causal_lower_right, not both")
    if is_causal and query.node.shape[-2] != key.node.shape[-2]:
        warnings.warn(
            f"scaled_dot_product_attention: is_causal=True of {query.node.shape[-2]} queries and {key.node.shape[-2]} "
            "keys lets the first query see the first key, as PyTorch does; until zyx 0.2 the last saw the last: that "
            "is causal_lower_right=True",
            FutureWarning,
            stacklevel=3,  # the wrapper that takes habits is between
        )
    return attend(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_lower_right=causal_lower_right
    )[0]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_lower_right: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `scaled_dot_product_attention`, and the weights ``(..., n_q, n_k)`` that the values were summed with."""
    _check(query, key, value, enable_gqa=enable_gqa)
    groups = query.node.shape[-3] // key.node.shape[-3] if enable_gqa else 1
    if groups != 1:
        key, value = (_repeated(t, groups) for t in (key, value))
    scores = _scores(query, key, scale)
    behind = scores.shape[-1] - scores.shape[-2] if causal_lower_right else 0
    shares = _shares(scores, attn_mask, behind if is_causal or causal_lower_right else None)
    weights = wrap(shares.cast(query.node.dtype).node, query)
    if dropout_p:
        weights = dropout(weights, dropout_p, training=True)
    return matmul(weights, value), weights


def _check(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool) -> None:
    q, k, v = (require(t, "scaled_dot_product_attention").node for t in (query, key, value))
    if not q.dtype.is_float or k.dtype is not q.dtype or v.dtype is not q.dtype:
        raise DTypeError(
            f"scaled_dot_product_attention takes floats of one dtype, not {q.dtype}, {k.dtype} and {v.dtype}"
        )
    fits = min(q.ndim, k.ndim, v.ndim) >= 2 and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    if fits and enable_gqa:
        fits = min(q.ndim, k.ndim, v.ndim) >= 3 and k.shape[-3] == v.shape[-3] and k.shape[-3] > 0
        fits = fits and q.shape[-3] % k.shape[-3] == 0
    if not fits:
        raise ShapeError(
            f"scaled_dot_product_attention: queries {q.shape}, keys {k.shape} and values {v.shape} do not fit: "
            "(..., n_q, width), (..., n_k, width), (..., n_k, width_v)"
            + (", with heads a multiple of those of keys and values" if enable_gqa else "")
        )


def _repeated(x: Tensor, groups: int) -> Tensor:
    """Return each head `groups` times in a row."""
    *front, heads, length, width = x.node.shape
    term = term_of(x, "scaled_dot_product_attention").reshape((*front, heads, 1, length, width))
    repeated = term.expand((*front, heads, groups, length, width)).reshape((*front, heads * groups, length, width))
    return wrap(repeated.node, x)


def _scores(query: Tensor, key: Tensor, scale: float | None) -> Term:
    width = query.node.shape[-1]
    factor = 1.0 / math.sqrt(max(width, 1)) if scale is None else scale
    wide = dtypes.accumulator(query.node.dtype)
    return term_of(matmul(query, key.mT, dtype=wide), "scaled_dot_product_attention") * factor


def _shares(scores: Term, mask: Tensor | None, behind: int | None) -> Term:
    """Return the softmax of the scores that are seen along the last axis, and 0 where nothing is.

    Query i sees the keys up to ``i + behind``; all for None.
    """
    if mask is not None:
        given = term_of(mask, "scaled_dot_product_attention")
        if given.dtype.is_bool:
            scores = given.where(scores, -math.inf)
        elif given.dtype.is_float:
            scores = scores + given.cast(scores.dtype)
        else:
            raise DTypeError(f"scaled_dot_product_attention: a mask is of bools or floats, not {given.dtype}")
    last = len(scores.shape) - 1
    if behind is not None:
        scores = causal(scores, behind).where(scores, -math.inf)
    top = scores.max((last,)).detach()
    if mask is not None or (behind is not None and behind < 0):
        # Rows of nothing but minus infinities: infinity less infinity would be NaN, and 0 / 0 too.
        empty = top == -math.inf
        powers = (scores - empty.where(0.0, top)).exp()
        return powers / empty.where(1.0, powers.sum((last,)))
    powers = (scores - top).exp()
    return powers / powers.sum((last,))


def causal(scores: Term, behind: int) -> Term:
    """Tell which keys, along the last axis, are at most `behind` places after the query of the axis before."""
    last = len(scores.shape) - 1
    return scores.iota(last, dtypes.int32) <= scores.iota(last - 1, dtypes.int32) + behind
