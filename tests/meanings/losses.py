"""Losses of two tensors, each beside its formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meanings.formulas import sigmoid
from meanings.row import Into, Row, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.testing.values import Array

#: What is made of the losses of all elements.
HOW: Final[dict[str, Callable[..., Any]]] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
_PAIR: Final[dict[str, Any]] = {
    "operands": 2, "are_alike": True, "not_empty": True, "keywords": {"reduction": one_of(*HOW)},
}  # fmt: skip
_SHARE: Final = Into("zyx.sigmoid({})", sigmoid)
_INNER_SHARE: Final = Into("zyx.sigmoid(zyx.clip({}, -3.0, 3.0))", lambda x: sigmoid(np.clip(x, -3, 3)))
#: Logarithms of probabilities are not large: where both are one value its slopes cancel, as large as exp(y).
_LOGARITHM: Final = Into("zyx.clip({}, -6.0, 1.0)", lambda x: np.clip(x, -6, 1))


def reduced(each: Callable[..., Array]) -> Callable[..., Array]:
    """Return a loss of the losses of elements."""
    return lambda *given, reduction, **_: np.asarray(HOW[reduction](each(*given)))


def _huber(x: Array, y: Array, delta: float) -> Array:
    away = np.abs(x - y)
    return np.asarray(np.where(away <= delta, 0.5 * away**2, delta * (away - delta / 2)))


def _cross(p: Array, t: Array) -> Array:
    return np.asarray(-(t * np.log(p) + (1 - t) * np.log1p(-p)))


def _cross_lost(x: Array, y: Array) -> Array:
    """Return by how much a relative error of p, of logit `x`, moves `_cross`: p / (1 - p) is exp(x)."""
    t = sigmoid(y)
    return np.asarray(t + (1 - t) * np.exp(np.clip(x, -3, 3)))


PAIRS: Final = (
    Row("mse_loss", reduced(lambda x, y: (x - y) ** 2), **_PAIR),
    Row("l1_loss", reduced(lambda x, y: np.abs(x - y)), **_PAIR),
    Row("huber_loss", reduced(_huber), (0.75,), **_PAIR),
    Row("smooth_l1_loss", reduced(lambda x, y, beta: _huber(x, y, beta) / beta), (0.75,), **_PAIR),
    Row(
        "binary_cross_entropy_with_logits", reduced(lambda x, t: np.logaddexp(0, x) - x * t), into=(None, _SHARE),
        inner=reduced(lambda x, _: np.abs(x)), **_PAIR,
    ),
    Row("binary_cross_entropy", reduced(_cross), into=(_INNER_SHARE, _SHARE), inner=reduced(_cross_lost), **_PAIR),
    Row(
        "kl_div", reduced(lambda x, y: np.exp(y) * (y - x)), into=(None, _LOGARITHM),
        **_PAIR | {"keywords": {**_PAIR["keywords"], "log_target": True}},
    ),
)  # fmt: skip
