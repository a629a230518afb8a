"""Comparisons and logic, element by element, with broadcasting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import logic
from zyx.functions.operands import is_tensor
from zyx.io.onnx.arithmetic import aligned
from zyx.io.onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value

_FUNCTIONS = {
    "Less": (logic.less, np.less),
    "LessOrEqual": (logic.less_equal, np.less_equal),
    "Greater": (logic.greater, np.greater),
    "GreaterOrEqual": (logic.greater_equal, np.greater_equal),
    "And": (logic.logical_and, np.logical_and),
    "Or": (logic.logical_or, np.logical_or),
    "Xor": (logic.logical_xor, np.logical_xor),
    "Equal": (logic.equal, np.equal),
}


def _comparison(ours: Callable[..., Value], theirs: Callable[..., Value]) -> Callable[..., Value]:
    def compute(node: NodeCall, x: Value, y: Value) -> Value:
        y = aligned(node, x, y)
        if is_tensor(x):
            return ours(x, y)
        return np.asarray(theirs(x, y)).astype(np.bool_)

    return compute


for _name, (_ours, _theirs) in _FUNCTIONS.items():
    operator(_name, folds=True, sizes=_name not in ("And", "Or", "Xor"))(_comparison(_ours, _theirs))


@operator("Not", folds=True)
def logical_not(_: NodeCall, x: Value) -> Value:
    """Negate truth values."""
    return logic.logical_not(x) if is_tensor(x) else np.logical_not(x)
