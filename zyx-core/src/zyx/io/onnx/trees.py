"""Operators of classical models, in the domain ai.onnx.ml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.errors import FormatError
from zyx.functions import selection
from zyx.io.onnx.registry import operator
from zyx.io.onnx.texts import of_objects
from zyx.io.onnx.values import to_host

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

_DOMAIN = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=_DOMAIN)
def extract(_: NodeCall, x: Tensor, places: Tensor) -> Tensor:
    """Take places of the last axis."""
    taken = selection.take(x, places.reshape((-1,)), axis=-1)
    if x.ndim == 1:
        taken = taken.reshape((1, *taken.shape))
    return taken


@operator("Binarizer", domain=_DOMAIN)
def binarize(node: NodeCall, x: Tensor) -> Tensor:
    """Return 1 above a threshold, else 0."""
    above: Tensor = x > node["threshold"]
    return above.astype(x.dtype)


def _listed(node: NodeCall, what: str) -> tuple[list[Any], np.dtype[Any]] | None:
    """Return keys or values, whichever attribute has them, and their dtype."""
    for ending, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if node.get(f"{what}_{ending}"):
            return list(node[f"{what}_{ending}"]), np.dtype(dtype)
    tensor: Array | None = node.get(f"{what}_tensor")
    return None if tensor is None else (tensor.reshape(-1).tolist(), tensor.dtype)


@operator("LabelEncoder", domain=_DOMAIN, raw=True)
def encode(node: NodeCall, x: Value) -> Value:
    """Replace keys by values."""
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if keys is None or values is None:
        raise FormatError("LabelEncoder: keys or values are missing")
    dtype = values[1]
    if node.get("default_tensor") is not None:
        default = node["default_tensor"].reshape(-1)[0].item()
    else:
        default = node.get({"O": "default_string", "i": "default_int64"}.get(dtype.kind, "default_float"))
    table = dict(zip(keys[0], values[0], strict=True))
    nan = next((value for key, value in table.items() if key != key), default)  # noqa: PLR0124  # no number
    array = to_host(x)
    found = [nan if key != key else table.get(key, default) for key in array.reshape(-1).tolist()]  # noqa: PLR0124  # as above
    return of_objects(found, array.shape) if dtype.hasobject else np.array(found, dtype).reshape(array.shape)


#: Whether a number goes to the true branch, by the number of the mode.
_MODES = {0: np.less_equal, 1: np.less, 2: np.greater_equal, 3: np.greater, 4: np.equal, 5: np.not_equal}


@operator("TreeEnsemble", domain=_DOMAIN, raw=True)
def trees(node: NodeCall, x: Value) -> Value:
    """Return what the leaves of decision trees add up to, which is followed on the host."""
    array = to_host(x)
    targets = node["n_targets"]
    modes, splits, features = node["nodes_modes"], node["nodes_splits"], node["nodes_featureids"]
    true_ids, false_ids = node["nodes_truenodeids"], node["nodes_falsenodeids"]
    true_leafs, false_leafs = node["nodes_trueleafs"], node["nodes_falseleafs"]
    leaf_targets, leaf_weights = node["leaf_targetids"], node["leaf_weights"]
    aims = np.full((len(array), targets), {2: np.inf, 3: -np.inf}.get(node["aggregate_function"], 0.0), np.float64)
    missing = node.get("nodes_missing_value_tracks_true") or [0] * len(features)
    members = _memberships(node, modes)
    for row, numbers in enumerate(array):
        for root in node["tree_roots"]:
            leaf = _leaf(
                numbers,
                root,
                (modes, splits, features, missing, members),
                (true_ids, true_leafs),
                (false_ids, false_leafs),
            )
            target, weight = leaf_targets[leaf], float(leaf_weights[leaf])
            match node["aggregate_function"]:
                case 2:
                    aims[row, target] = min(aims[row, target], weight)
                case 3:
                    aims[row, target] = max(aims[row, target], weight)
                case _:
                    aims[row, target] += weight
    if node["aggregate_function"] == 0:
        aims /= len(node["tree_roots"])
    return _transformed(aims, node["post_transform"]).astype(array.dtype)


def _memberships(node: NodeCall, modes: Array) -> dict[int, set[float]]:
    """Return the sets that nodes ask for, by number of the node; in the list, NaN is between them."""
    listed = node.get("membership_values")
    found: dict[int, set[float]] = {}
    if listed is None:
        return found
    sets: list[set[float]] = [set()]
    for number in listed.reshape(-1).tolist():
        if number != number:  # noqa: PLR0124  # no number
            sets.append(set())
        else:
            sets[-1].add(number)
    for place, mode in enumerate(modes.reshape(-1).tolist()):
        if mode == 6:
            found[place] = sets[len(found)]
    return found


def _leaf(numbers: Array, root: int, what: tuple[Any, ...], on_true: tuple[Any, Any], on_false: tuple[Any, Any]) -> int:
    modes, splits, features, missing, members = what
    place = int(root)
    for _ in range(len(features) + 1):
        number = numbers[features[place]]
        if place in members:
            holds = float(number) in members[place]
        else:
            holds = bool(_MODES[int(modes[place])](number, splits[place]))
        if np.isnan(number) and missing[place]:
            holds = True
        ids, leaves = on_true if holds else on_false
        if leaves[place]:
            return int(ids[place])
        place = int(ids[place])
    raise FormatError("TreeEnsemble: a tree leads back to itself")


def _transformed(x: Array, number: int) -> Array:
    match number:
        case 1:
            shifted = np.exp(x - x.max(1, keepdims=True))
            return np.asarray(shifted / shifted.sum(1, keepdims=True))
        case 2:
            return np.asarray(1 / (1 + np.exp(-x)))
        case 0:
            return x
        case _:
            raise FormatError(f"TreeEnsemble: post_transform {number} is not computed; there are 0, 1 and 2")
