"""Branches and loops. Conditions are read, so what depends on values runs step by step; the rest is one loop node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.errors import FormatError, TraceError
from zyx.functions import joining, movement
from zyx.functions.operands import is_tensor
from zyx.io.onnx.evaluation import evaluate
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import device_dtype, numpy_dtype, to_host
from zyx.tensor.loops import scan as scan_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


def _body(node: NodeCall, graph: Any, values: Sequence[Value]) -> list[Value]:  # noqa: ANN401  # a message without types
    names = [value.name for value in graph.input]
    if len(names) < len(values):
        raise FormatError(f"a graph takes {len(names)} inputs, it is given {len(values)}")
    return evaluate(graph, node.scope.inside(dict(zip(names, values, strict=False))))


def holds(value: Value) -> bool:
    """Return a truth value of one element."""
    return bool(np.asarray(to_host(value)).reshape(-1)[0])


@operator("If", raw=True)
def branch(node: NodeCall, condition: Value) -> Value:
    """Compute one of two graphs."""
    return tuple(_body(node, node["then_branch"] if holds(condition) else node["else_branch"], ()))


def stacked(node: NodeCall, values: Sequence[Value], axis: int = 0) -> Value:
    """Return values of several steps as one, along a new axis."""
    if any(is_tensor(value) for value in values):
        return joining.stack([node.tensor(value) for value in values], axis)
    return np.stack(values, axis)


def _in_one(node: NodeCall, state: Sequence[Value], sequences: Sequence[Value]) -> list[Tensor] | None:
    """Return what the body gives for all places of sequences, rows along a first axis, by one loop node.

    None if it has to run step by step: it reads values, its state grows or changes its dtype, or there is none of
    tensors. Integers of the host are shapes and counts, and stay there.
    """
    values = [*state, *sequences]
    if not any(map(is_tensor, state)) or len(sequences[0]) < 2:
        return None
    for value in values:
        if not is_tensor(value) and (not isinstance(value, np.ndarray) or device_dtype(value.dtype) is None):
            return None
    if any(not is_tensor(value) and value.dtype.kind in "iub" for value in state):
        return None
    body, is_loop = node["body"], node.proto.op_type == "Loop"

    def step(before: Sequence[Tensor], slices: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        given = (slices[0], np.array(True), *before) if is_loop else (*before, *slices)
        results = _body(node, body, given)
        if is_loop and not holds(results.pop(0)):
            raise TraceError("a condition ends the loop")
        if any(not is_tensor(result) and not isinstance(result, np.ndarray) for result in results):
            raise TraceError("a sequence is no tensor")
        tensors = [node.tensor(result) for result in results]
        return tensors[: len(before)], tensors[len(before) :]

    try:
        new, rows = scan_tensors(step, [node.tensor(v) for v in state], [node.tensor(v) for v in sequences])
    except TraceError:
        return None
    return [*new, *rows]


@operator("Loop", raw=True)
def loop(node: NodeCall, count: Value = None, condition: Value = None, *carried: Value) -> Value:
    """Repeat a graph, a number of times and while a condition holds."""
    body = node["body"]
    most = None if count is None else int(np.asarray(to_host(count)).reshape(-1)[0])
    going = True if condition is None else holds(condition)
    state = list(carried)
    if going and most is not None and most <= node.scope.iterations:
        found = _in_one(node, state, [np.arange(most)])
        if found is not None:
            return tuple(found)
    scanned: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    step = 0
    while going and (most is None or step < most):
        if step >= node.scope.iterations:
            raise FormatError(f"a loop runs more than max_iterations={node.scope.iterations} times; see load")
        results = _body(node, body, (np.array(step, np.int64), np.array(True), *state))
        going = holds(results[0])
        state = results[1 : 1 + len(state)]
        for values, value in zip(scanned, results[1 + len(state) :], strict=True):
            values.append(value)
        step += 1
    outputs = body.output[1 + len(state) :]
    return (
        *state,
        *(
            stacked(node, values) if values else _nothing(output)
            for values, output in zip(scanned, outputs, strict=True)
        ),
    )


def _nothing(output: Any) -> Value:  # noqa: ANN401  # a message without types
    """Return no elements, of the dtype and shape that a graph declares for each step."""
    tensor = output.type.tensor_type
    return np.zeros((0, *(dim.dim_value for dim in tensor.shape.dim)), numpy_dtype(tensor.elem_type or 1, output.name))


@operator("Scan", raw=True)
def scan(node: NodeCall, *values: Value) -> Value:
    """Repeat a graph over slices of tensors."""
    if node.version < 9:
        return _batched_scan(node, *values)
    count = node["num_scan_inputs"]
    state, scanned = list(values[: len(values) - count]), values[len(values) - count :]
    inputs = _directions(node, "scan_input", count)
    outputs = _directions(node, "scan_output", len(node["body"].output) - len(state))
    return _scan(node, state, scanned, inputs, outputs)


def _directions(node: NodeCall, what: str, count: int) -> list[tuple[int, bool]]:
    """Return the axis of each, and whether it is walked backwards."""
    axes = node.get(f"{what}_axes") or [0] * count
    turned = node.get(f"{what}_directions") or [0] * count
    return list(zip(axes, map(bool, turned), strict=True))


def _slice(x: Value, axis: int, place: int) -> Value:
    return x[(slice(None),) * (axis % len(x.shape)) + (place,)]


def _turned(x: Value, axis: int, place: int, is_turned: bool) -> Value:
    """Return `x` with an axis moved to another place, and back to front if `is_turned`."""
    if not is_tensor(x):
        moved = np.moveaxis(x, axis, place)
        return np.flip(moved, place) if is_turned else moved
    moved = movement.moveaxis(x, axis, place)
    return movement.flip(moved, place) if is_turned else moved


def _scan(
    node: NodeCall,
    state: list[Value],
    scanned: Sequence[Value],
    inputs: Sequence[tuple[int, bool]],
    outputs: Sequence[tuple[int, bool]],
) -> tuple[Value, ...]:
    body = node["body"]
    lengths = {x.shape[axis] for x, (axis, _) in zip(scanned, inputs, strict=True)}
    if len(lengths) != 1:
        raise FormatError(f"Scan: the inputs have different lengths {sorted(lengths)}")
    (length,) = lengths
    whole = _in_one(
        node, state, [_turned(x, axis, 0, turned) for x, (axis, turned) in zip(scanned, inputs, strict=True)]
    )
    if whole is not None:
        rows = zip(whole[len(state) :], outputs, strict=True)
        return (*whole[: len(state)], *(_turned(row, 0, axis, turned) for row, (axis, turned) in rows))
    found: list[list[Value]] = [[] for _ in outputs]
    for step in range(length):
        slices = [
            _slice(x, axis, length - 1 - step if turned else step)
            for x, (axis, turned) in zip(scanned, inputs, strict=True)
        ]
        results = _body(node, body, (*state, *slices))
        state = results[: len(state)]
        for values, value in zip(found, results[len(state) :], strict=True):
            values.append(value)
    parts = []
    for values, (axis, turned), declared in zip(found, outputs, body.output[len(state) :], strict=True):
        parts.append(stacked(node, values[::-1] if turned else values, axis) if values else _nothing(declared))
    return (*state, *parts)


def _batched_scan(node: NodeCall, lengths: Value, *values: Value) -> Value:
    """Compute what `Scan` was in opset 8: each sample of a batch by itself."""
    if lengths is not None:
        raise FormatError("Scan of opset 8 with sequence_lens: sequences of different lengths are not computed")
    count = node["num_scan_inputs"]
    turned = [(0, bool(way)) for way in node.get("directions") or [0] * count]
    rows = []
    for sample in range(values[0].shape[0]):
        parts = [_slice(value, 0, sample) for value in values]
        state = parts[: len(parts) - count]
        outputs = [(0, False)] * (len(node["body"].output) - len(state))
        rows.append(_scan(node, list(state), parts[len(state) :], turned, outputs))
    return tuple(stacked(node, column) for column in zip(*rows, strict=True))


@operator("SequenceMap", raw=True)
def sequence_map(node: NodeCall, sequence: Value, *others: Value) -> Value:
    """Compute a graph for each element of a sequence."""
    rows = []
    for place, item in enumerate(sequence):
        rest = [other[place] if isinstance(other, list) else other for other in others]
        rows.append(_body(node, node["body"], (item, *rest)))
    count = len(node["body"].output)
    return tuple([row[number] for row in rows] for number in range(count))
