"""`save` writes a function or a module as a network in an ONNX file.

    zyx.io.onnx.save(net, [x], "net.onnx", dynamic={"x": {0: "batch"}})

The function is run once on stand-ins for the example inputs (`zyx.io.onnx.export.recording`), and each node of its
graph is written as a few operators (`zyx.io.onnx.export.rules`). Weights are initialisers, by their names in the
module. What the function assigns to them, as a step of training does, are more outputs, "NAME.new"; such weights are
inputs as well, whose values in the file hold where none are given.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import set_external_data

from zyx.errors import ArgumentError, UnsupportedError
from zyx.graph.node import Node
from zyx.io.onnx.export.formulas import write_use
from zyx.io.onnx.export.lengths import Lengths
from zyx.io.onnx.export.naming import all_nodes, final_names, inputs_of, name_nodes, needed, renamed
from zyx.io.onnx.export.recording import arguments_of, record
from zyx.io.onnx.export.rules import write_graph
from zyx.io.onnx.export.sizes import dims_of
from zyx.io.onnx.export.writer import ExportState, GraphValue, GraphWriter
from zyx.io.onnx.values import number_of
from zyx.io.replacing import replacing
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from os import PathLike

    from zyx.io.onnx.export.recording import Recorded
    from zyx.io.onnx.export.sizes import Dims

#: A file with larger weights has them in a file of their own: a protobuf message has less than 2 GiB.
MOST_BYTES_INSIDE: Final = (1 << 31) - (1 << 24)
#: Weights that are smaller stay in the file: they are shapes and settings.
_LEAST_OUTSIDE: Final = 1024
#: Where weights begin there, so that readers may map them: multiples of a page.
_ALIGNMENT: Final = 4096
#: The version of the format that came with each version of the operators, newest first.
_FORMATS: Final = ((26, 13), (25, 12), (23, 11), (21, 10))


def save(
    function: Callable[..., Any],
    inputs: object,
    path: str | PathLike[str],
    *,
    dynamic: Mapping[str, Mapping[int, Any]] | None = None,
    most_bytes_inside: int = MOST_BYTES_INSIDE,
) -> onnx.ModelProto:
    """Write what `function` computes to a file, and return the network as the message that is in it.

    Args:
        function: A function of tensors, or a module, in the mode that it is in.
        inputs: Examples of its arguments: a list or tuple by position, a dict by name, or the one there is. Tensors and
            arrays, also in lists, tuples and dicts, are inputs of the network; numbers and texts are part of it.
        path: Where to write. Weights that are too many lie beside it, in the file of this name and ".data".
        dynamic: Of inputs, the names of axes whose lengths may differ between calls, as texts or `zyx.Dim`. Lengths
            are 2 or more.
        most_bytes_inside: How many bytes of weights the file itself holds at most.

    Raises:
        UnsupportedError: Something has no counterpart in ONNX; the text lists all of it. Or a length is dynamic, and
            the function depends on it.
        ArgumentError: `function` is no function, or two inputs have one name.
        DTypeError: An input or output is no tensor.
        DimError: `dynamic` names what is not there.
        TransferError: The file cannot be written.
    """
    if not callable(function):
        raise ArgumentError(f"onnx.save: function is a function or a module, not {type(function).__name__}")
    arguments = arguments_of(function, inputs)
    recorded = record(function, arguments, Lengths(dynamic, arguments.tensors))
    model = _model(recorded, getattr(function, "__name__", type(function).__name__))
    _write(model, Path(path), most_bytes_inside)
    return model


def _model(recorded: Recorded, name: str) -> onnx.ModelProto:
    given = {name: GraphValue(name, dims_of(leaf), leaf.dtype) for name, leaf in recorded.inputs.items()}
    shared = ExportState([(given[place[0]], place[1]) for place in recorded.lengths.values()])
    w = GraphWriter(shared)
    for label, leaf in recorded.inputs.items():
        w.set(leaf, given[label])
    for label, (leaf, _) in recorded.weights.items():
        w.set(leaf, GraphValue(label, dims_of(leaf), leaf.dtype))
    for use in recorded.uses:
        w.set(use.leaf, write_use(w, use))
    taken, wanted = {*recorded.inputs, *recorded.weights}, dict[str, Node]()
    for label, node in recorded.outputs.items():
        wanted[label if label not in taken else _free(f"{label}.out", {*taken, *wanted})] = node
    for label, node in recorded.assigned.items():
        wanted[_free(f"{label}.new", {*taken, *wanted})] = node
    write_graph(w, list(wanted.values()))
    own = {made for node in w.nodes for made in node.output}
    outputs = {label: _output(w, node, own) for label, node in wanted.items()}
    return _finished(w, recorded, outputs, name)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _output(w: GraphWriter, node: Node, own: set[str]) -> GraphValue:
    """Return the value of an output: one that a node gives, and that no other output is; `own` has those left."""
    value = w.value(node)
    if value.name in own:
        own.remove(value.name)
        return value
    return w.op("Identity", [value], value.dims, value.dtype)


def _finished(w: GraphWriter, recorded: Recorded, outputs: Mapping[str, GraphValue], name: str) -> onnx.ModelProto:
    nodes = needed(w.nodes, [value.name for value in outputs.values()])
    refused = [w.shared.refused[made] for node in all_nodes(nodes) for made in node.output if made in w.shared.refused]
    if refused:
        raise UnsupportedError("onnx.save: what cannot be written as ONNX:\n  " + "\n  ".join(refused))
    used = {label for node in nodes for label in inputs_of(node)}
    constants = {label: array for label, array in w.shared.constants.items() if label in used}
    names = final_names(nodes, constants, outputs, {*recorded.inputs, *recorded.weights})
    renamed(nodes, names)
    name_nodes(nodes)
    labels = [*recorded.lengths]
    states = [label for label in recorded.assigned if label in recorded.weights]
    infos = [
        _info(label, dims_of(leaf), number_of(leaf.dtype), labels)
        for label, leaf in [*recorded.inputs.items(), *((label, recorded.weights[label][0]) for label in states)]
    ]
    weights = {label: array for label, (_, array) in recorded.weights.items() if label in used or label in states}
    tensors = [numpy_helper.from_array(array, label) for label, array in weights.items()]
    tensors += [numpy_helper.from_array(array, names[label]) for label, array in constants.items()]
    results = [_info(label, value.dims, number_of(value.dtype), labels) for label, value in outputs.items()]
    graph = helper.make_graph(nodes, name, infos, results, tensors)
    opset = w.shared.opset
    version = next(version for since, version in _FORMATS if opset >= since)
    return helper.make_model(
        graph,
        producer_name="zyx",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=version,
    )


def _info(name: str, dims: Dims, number: int, labels: Sequence[str]) -> onnx.ValueInfoProto:
    """Return the description of an input or output; a size that is computed of lengths has no name."""
    sizes: list[int | str | None] = []
    for size in dims:
        if isinstance(size, int):
            sizes.append(size)
        else:
            ((product, factor),) = [*size.terms.items()][:1]
            is_length = size.terms == {product: 1} and len(product) == 1 and factor == 1
            sizes.append(labels[product[0]] if is_length else None)
    return helper.make_tensor_value_info(name, number, sizes)


def _write(model: onnx.ModelProto, path: Path, most_bytes_inside: int) -> None:
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > most_bytes_inside:
        place = f"{path.name}.data"
        with replacing(path.with_name(place)) as temporary, temporary.open("wb") as file:
            _move_outside(model, file, place)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString(deterministic=True))


def _move_outside(model: onnx.ModelProto, file: BinaryIO, place: str) -> None:
    """Write weights to `file`, and say in the message that they are in the file `place` beside it."""
    for tensor in model.graph.initializer:
        raw = tensor.raw_data
        if len(raw) >= _LEAST_OUTSIDE:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            set_external_data(tensor, place, offset=file.tell(), length=len(raw))
            tensor.ClearField("raw_data")
            file.write(raw)
