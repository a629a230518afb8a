"""Activation functions, each beside its formula."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from meanings.formulas import erf, sigmoid, softplus
from meanings.row import Bits, Row

#: Klambauer and others, "Self-normalizing neural networks", 2017.
SELU_SCALE: Final = 1.0507009873554805
SELU_ALPHA: Final = 1.6732632423543772

#: Those that round.
ROUNDED: Final = (
    Row("leaky_relu", lambda x, slope: np.where(x > 0, x, slope * x), (0.125,)),
    Row("elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), (1.5,)),
    Row("celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), (1.5,)),
    Row("selu", lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))),
    Row("gelu", lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2.0))), inner=np.abs),  # 1 + erf(x) cancels
    Row(
        "gelu", lambda x, _: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), ("tanh",),
        inner=lambda x, _: np.abs(x),
    ),
    Row("quick_gelu", lambda x: x * sigmoid(1.702 * x), inner=np.abs),
    Row("sigmoid", sigmoid),
    Row("silu", lambda x: x * sigmoid(x)),
    Row("hardsigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    Row("hardswish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    Row("mish", lambda x: x * np.tanh(np.logaddexp(x, 0.0))),
    Row("softplus", softplus),
    Row("softplus", softplus, (2.0,)),
    Row("softplus", softplus, (0.5, 50.0)),
    Row("softsign", lambda x: x / (1 + np.abs(x))),
    Row("logsigmoid", lambda x: -np.logaddexp(-x, 0.0)),
)  # fmt: skip

#: Those whose bits are certain.
EXACT: Final = (
    Row("relu", lambda x: np.maximum(x, 0), bits=Bits.CERTAIN),
    Row("relu6", lambda x: np.clip(x, 0, 6), bits=Bits.CERTAIN),
    Row("hardtanh", np.clip, (-0.75, 1.5), bits=Bits.CERTAIN),
)
