"""Loops over the places of an axis, as `Scan`: the body is a graph, what all steps read it takes from the one around.

A step of ours has a block of places. Sequences get an axis of steps in front of that of places; where places are left
over, the first step has some of another one as well, so they are taken by their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import helper

from zyx import dtype as dtypes
from zyx.graph.host_call import HostCall
from zyx.graph.loop import Loop
from zyx.io.onnx.export.elementwise import where
from zyx.io.onnx.export.movement import full_along, picked
from zyx.io.onnx.export.naming import needed
from zyx.io.onnx.export.sizes import dims_of
from zyx.io.onnx.export.writer import CannotWriteError, GraphValue, GraphWriter
from zyx.io.onnx.values import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from zyx.dtype import DType
    from zyx.graph import node as n
    from zyx.graph.loop import Lie
    from zyx.graph.node import Node
    from zyx.io.onnx.export.sizes import Dims

_FORWARD: Final = 0
_BACKWARD: Final = 1


def write_custom(
    w: GraphWriter, node: n.Custom, write_graph: Callable[[GraphWriter, Sequence[Node]], None]
) -> GraphValue:
    """Write an output of a loop; other kernels have no counterpart."""
    if isinstance(node.kernel, HostCall):
        raise CannotWriteError("it is computed by the host")
    if not isinstance(node.kernel, Loop):
        raise CannotWriteError("it is a kernel written by hand")
    key = (node.kernel, node.sources)
    if key not in w.loops:
        w.loops[key] = _write_loop(w, node.kernel, node.sources, write_graph)
    return w.loops[key][node.output]


def _write_loop(
    w: GraphWriter, loop: Loop, sources: Sequence[Node], write_graph: Callable[[GraphWriter, Sequence[Node]], None]
) -> list[GraphValue]:
    body = loop.body
    first, second = len(body.carries), len(body.carries) + len(body.slices)
    has_rest = loop.length % loop.block != 0
    steps = [*loop.steps]
    turned = loop.is_backward and not has_rest
    places = np.array([range(step.first, step.first + loop.block) for step in (steps[::-1] if turned else steps)])
    inner = GraphWriter(w.shared, w)
    carried = [_given(w, leaf.dtype, dims_of(leaf)) for leaf in body.carries]
    scanned, taken, axes = _sequences(w, inner, loop, sources[first:second], places)
    for leaf, value in zip(body.carries, carried, strict=True):
        inner.set(leaf, value)
    for leaf, source in zip(body.constants, sources[second:], strict=True):
        inner.set(leaf, w.lean(source))
    write_graph(inner, [*body.new, *body.rows])
    results = [inner.value(node) for node in body.new]
    results += [_turned(inner, inner.value(row), lie) for row, lie in zip(body.rows, body.row_lies, strict=True)]
    results = [inner.op("Identity", [value], value.dims, value.dtype) for value in results]
    graph = helper.make_graph(
        needed(inner.nodes, [value.name for value in results]),
        "step",
        [_info(value) for value in (*carried, *taken)],
        [_info(value) for value in results],
    )
    outputs: list[tuple[Dims, DType]] = [(value.dims, value.dtype) for value in results[:first]]
    for value, lie in zip(results[first:], body.row_lies, strict=True):
        outputs.append(((*value.dims[: lie.axis], len(steps), *value.dims[lie.axis :]), value.dtype))
    way = _BACKWARD if turned else _FORWARD
    made = w.several(
        "Scan",
        [*[w.value(source) for source in sources[:first]], *scanned],
        outputs,
        body=graph,
        num_scan_inputs=len(scanned),
        scan_input_axes=axes,
        scan_input_directions=[way] * len(scanned),
        scan_output_axes=[lie.axis for lie in body.row_lies],
        scan_output_directions=[way] * len(body.rows),
    )
    written = [_in_place(w, value, lie, places, loop) for value, lie in zip(made[first:], body.row_lies, strict=True)]
    return [*made[:first], *written]


def _sequences(
    w: GraphWriter, inner: GraphWriter, loop: Loop, sources: Sequence[Node], places: npt.NDArray[Any]
) -> tuple[list[GraphValue], list[GraphValue], list[int]]:
    """Return what is scanned, an axis of steps in front of that of places; what a step is given of it; and those axes.

    Of `sources`, and where places are left over, of which ones a step has for the first time. To `inner`, the body, it
    is said what its slices are.
    """
    body = loop.body
    steps = [*loop.steps]
    scanned: list[GraphValue] = []
    taken: list[GraphValue] = []
    axes: list[int] = []
    for leaf, source, lie in zip(body.slices, sources, body.slice_lies, strict=True):
        sequence = picked(w, full_along(w, source, (lie.axis,)), lie.axis, places)
        sequence = w.expand(sequence, _with_steps(dims_of(leaf), lie, len(steps)))
        element = _given(w, leaf.dtype, (*sequence.dims[: lie.axis], *sequence.dims[lie.axis + 1 :]))
        scanned.append(sequence)
        taken.append(element)
        axes.append(lie.axis)
        inner.set(leaf, _turned(inner, element, lie))
    if loop.length % loop.block and body.masked:
        kept = np.array([[place >= step.skipped for place in range(loop.block)] for step in steps])
        mask = _given(w, dtypes.bool_, (loop.block,))
        scanned.append(w.constant(kept, dtypes.bool_))
        taken.append(mask)
        axes.append(0)
        for leaf in body.slices:
            if leaf in body.masked:
                is_kept = inner.reshape(mask, (loop.block, *[1] * (leaf.ndim - 1)))
                inner.set(leaf, where(inner, is_kept, inner.lean(leaf), inner.scalar(0, leaf.dtype)))
    return scanned, taken, axes


def _given(w: GraphWriter, dtype: DType, dims: Dims) -> GraphValue:
    """Return what a step is given."""
    return GraphValue(w.shared.new_name(), dims, dtype)


def _info(value: GraphValue) -> Any:  # noqa: ANN401  # ONNX's description of a value
    dims = [size if isinstance(size, int) else None for size in value.dims]
    return helper.make_tensor_value_info(value.name, number_of(value.dtype), dims)


def _turned(w: GraphWriter, x: GraphValue, lie: Lie) -> GraphValue:
    """Return a block with its first two axes exchanged, where the sequence has them so."""
    return w.transpose(x, (1, 0, *range(2, len(x.dims)))) if lie.is_turned else x


def _with_steps(block: Dims, lie: Lie, steps: int) -> Dims:
    """Return the shape of a sequence with an axis of steps, from that of a block."""
    if lie.is_turned:
        block = (block[1], block[0], *block[2:])
    return (*block[: lie.axis], steps, *block[lie.axis :])


def _in_place(w: GraphWriter, x: GraphValue, lie: Lie, places: npt.NDArray[Any], loop: Loop) -> GraphValue:
    """Return rows as they lie in memory: of places that several steps have written, the last one stays."""
    number = np.zeros(loop.length, np.int64)
    number[places.ravel()] = np.arange(places.size)
    joined = w.reshape(x, (*x.dims[: lie.axis], places.size, *x.dims[lie.axis + 2 :]))
    return picked(w, joined, lie.axis, number)
