"""Sequences, which are lists, and optionals, which may be None."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import joining
from zyx.functions.operands import is_tensor
from zyx.io.onnx.control import stacked
from zyx.io.onnx.movement import cut
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import to_host

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value


def _number(value: Value) -> int:
    return int(np.asarray(to_host(value)).reshape(-1)[0])


@operator("SequenceEmpty", raw=True)
def empty(_: NodeCall) -> Value:
    """Return a sequence of nothing."""
    return []


@operator("SequenceConstruct", raw=True)
def construct(_: NodeCall, *values: Value) -> Value:
    """Return a sequence."""
    return list(values)


@operator("SequenceAt", raw=True)
def at(_: NodeCall, sequence: Value, place: Value) -> Value:
    """Return one of a sequence; negative places count from its end."""
    return sequence[_number(place)]


@operator("SequenceLength", raw=True)
def length(_: NodeCall, sequence: Value) -> Value:
    """Return how many there are."""
    return np.array(len(sequence), np.int64)


@operator("SequenceInsert", raw=True)
def insert(_: NodeCall, sequence: Value, value: Value, place: Value = None) -> Value:
    """Return a sequence with one more, at the end by default."""
    longer = list(sequence)
    longer.insert(len(longer) if place is None else _number(place), value)
    return longer


@operator("SequenceErase", raw=True)
def erase(_: NodeCall, sequence: Value, place: Value = None) -> Value:
    """Return a sequence with one less, the last by default."""
    shorter = list(sequence)
    del shorter[-1 if place is None else _number(place)]
    return shorter


@operator("SplitToSequence", raw=True)
def split_to_sequence(node: NodeCall, x: Value, sizes: Value = None) -> Value:
    """Cut along an axis: into slices of one, or of given sizes."""
    axis = node["axis"] % len(x.shape)
    total = x.shape[axis]
    if sizes is None:
        parts = [cut(x, {axis: slice(place, place + 1)}) for place in range(total)]
        if node["keepdims"]:
            return parts
        return [part.reshape((*x.shape[:axis], *x.shape[axis + 1 :])) for part in parts]
    given = np.asarray(to_host(sizes))
    if given.ndim == 0:
        each = int(given)
        ends = [*range(each, total, each), total]
    else:
        ends = [int(end) for end in np.cumsum(given)]
    return [cut(x, {axis: slice(begin, end)}) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


@operator("ConcatFromSequence", raw=True)
def concat_from_sequence(node: NodeCall, sequence: Value) -> Value:
    """Join the elements of a sequence, along an axis or a new one."""
    if node["new_axis"]:
        return stacked(node, sequence, node["axis"])
    if any(is_tensor(value) for value in sequence):
        return joining.concat([node.tensor(value) for value in sequence], node["axis"])
    return np.concatenate(sequence, node["axis"])


@operator("Optional", raw=True)
def optional(_: NodeCall, value: Value = None) -> Value:
    """Return an optional of a value, or without one."""
    return value


@operator("OptionalHasElement", raw=True)
def has_element(_: NodeCall, value: Value = None) -> Value:
    """Return whether there is a value."""
    return np.array(value is not None)


@operator("OptionalGetElement", raw=True)
def get_element(_: NodeCall, value: Value) -> Value:
    """Return the value."""
    return value
