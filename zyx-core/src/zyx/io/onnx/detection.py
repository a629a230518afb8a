"""Boxes: the best ones that do not overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.io.onnx.registry import operator

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value


def _corners(boxes: Array, from_centre: bool) -> Array:
    """Return boxes ``(n, 4)`` as two opposite corners, the lower one first."""
    if from_centre:
        centre, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([centre - half, centre + half], 1)
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1)


def _overlap(box: Array, others: Array) -> Array:
    """Return the intersection over the union of a box with others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    share: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return share


@operator("NonMaxSuppression", reads=(0, 1, 2, 3, 4))
def suppress(
    node: NodeCall,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
) -> Value:
    """Return batch, class and box of the best, on the host: how many there are depends on the values."""
    limit = 0 if most is None else int(most.reshape(-1)[0])
    threshold = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    found: list[tuple[int, int, int]] = []
    for batch in range(boxes.shape[0]):
        corners = _corners(boxes[batch], bool(node["center_point_box"]))
        for kind in range(scores.shape[1]):
            of_kind = scores[batch, kind]
            order = np.argsort(-of_kind, kind="stable")
            if least is not None:
                order = order[of_kind[order] > float(least.reshape(-1)[0])]
            taken = 0
            while order.size and taken < limit:
                best, order = order[0], order[1:]
                found.append((batch, kind, int(best)))
                taken += 1
                order = order[_overlap(corners[best], corners[order]) <= threshold]
    return np.array(found, np.int64).reshape((-1, 3))
