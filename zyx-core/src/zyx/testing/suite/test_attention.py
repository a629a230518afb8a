"""Attention of sizes that reach the kernel of its own that some devices have for it, and the edges of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import zyx
import zyx.nn.functional as F
from zyx import dtype as dtypes
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array

#: Of the norm of results: weights are rounded once, and results once.
_TOLERANCE: Final = {dtypes.float16: 1e-3, dtypes.bfloat16: 8e-3, dtypes.float32: 1e-5}


@pytest.mark.parametrize("dtype", _TOLERANCE, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize(
    ("shape", "mask"),
    [
        ((2, 130, 130, 64, 64), "behind"),
        ((3, 70, 200, 32, 24), "none"),
        ((1, 200, 130, 104, 128), "behind"),
        ((2, 65, 129, 16, 64), "keys"),
        ((2, 128, 64, 48, 16), "queries and keys"),
    ],
    ids=str,
)
def test_attention_is_that_of_float64(runtime: Runtime, shape: tuple[int, ...], mask: str, dtype: DType) -> None:
    heads, queries, keys, width, wide = shape
    rng = np.random.default_rng(sum(shape))
    with use(runtime):
        sizes = ((2, heads, queries, width), (2, heads, keys, width), (2, heads, keys, wide))
        q, k, v = (zyx.Tensor(rng.standard_normal(size).astype(np.float32)).astype(dtype) for size in sizes)
        seen: Array | None = None
        if mask == "keys":
            seen = rng.random((2, 1, 1, keys)) < 0.5
        elif mask == "queries and keys":
            seen = rng.random((heads, queries, keys)) < 0.2
            seen[0, : queries // 2] = False
        given = None if seen is None else zyx.Tensor(seen)
        result = F.scaled_dot_product_attention(q, k, v, given, causal_lower_right=mask == "behind")
        if mask == "behind":
            seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
        given_q, given_k, given_v = (x.numpy().astype(np.float64) for x in (q, k, v))
        wanted = _reference(given_q, given_k, given_v, seen)
        difference = np.linalg.norm(result.numpy().astype(np.float64) - wanted)
    assert difference <= _TOLERANCE[dtype] * np.linalg.norm(wanted)


def _reference(q: Array, k: Array, v: Array, seen: Array | None) -> Array:
    """Return attention in float64: 0 for a query that sees no key."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), 0.0, top))
    total = powers.sum(-1, keepdims=True)
    result: Array = powers / np.where(total == 0, 1.0, total) @ v
    return result
