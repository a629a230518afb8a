"""Mixtures of experts: each token goes through those few of the gated networks that a router chooses for it.

p = softmax(x @ router);  of the `used` greatest, p / their sum if shares are normed, times a scale
y = sum over them of p * ((activation(x @ gate) * (x @ up)) @ down)

Shazeer et al., "Outrageously large neural networks", 2017; Jiang et al., "Mixtral of experts", 2024. Which kernels run
depends on the number of tokens alone, and never on what the router chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zyx
from zyx import quantize
from zyx.nn import functional as F  # as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx_llm.config import Experts
    from zyx_llm.model.weights import Weight


def mixture(
    x: zyx.Tensor,
    router: zyx.Tensor,
    matrices: tuple[Weight, Weight, Weight],
    experts: Experts,
    activation: Callable[[zyx.Tensor], zyx.Tensor],
) -> zyx.Tensor:
    """Return what the experts make of tokens, ``(tokens, width)``.

    Args:
        x: ``(tokens, width)``.
        router: ``(count, width)``.
        matrices: gate and up ``(count, inner, width)``, down ``(count, width, inner)``.
        experts: How many there are, and how many a token goes through.
        activation: Of gates.
    """
    shares, places = zyx.topk(F.softmax(F.linear(x, router.astype(x.dtype)), -1), experts.used)
    if experts.is_normed:
        shares = shares / shares.sum(-1, keepdims=True)
    shares = shares * experts.scale
    if x.shape[0] * experts.used <= experts.count:
        # Fewer matrices are read than there are, each by the tokens that have it.
        gate, up, down = (_rows(matrix, places).astype(x.dtype) for matrix in matrices)
        own = x[:, None, None]
        hidden = activation((gate * own).sum(-1)) * (up * own).sum(-1)
        return ((down * hidden[:, :, None]).sum(-1) * shares[..., None]).sum(1)
    # Most matrices have some token: all tokens go through all of them, with a share of 0 where they were not chosen.
    gate, up, down = (whole(matrix).astype(x.dtype) for matrix in matrices)
    chosen = places[..., None] == zyx.arange(experts.count, dtype=places.dtype, device=x.device)
    by_expert = zyx.where(chosen, shares[..., None], 0.0).sum(1).T[..., None]
    hidden = activation(x @ gate.mT) * (x @ up.mT) * by_expert
    return (hidden @ down.mT).sum(0)


def _rows(matrix: Weight, places: zyx.Tensor) -> zyx.Tensor:
    if isinstance(matrix, quantize.QuantizedTensor):
        return quantize.take(matrix, places)
    return zyx.take(matrix, places, axis=0)


def whole(matrix: Weight) -> zyx.Tensor:
    """Return a matrix, or those of all experts, as numbers."""
    return matrix.dequantize() if isinstance(matrix, quantize.QuantizedTensor) else matrix
