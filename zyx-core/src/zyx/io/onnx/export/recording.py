"""A function run once on stand-ins: its graph, and the names of what goes in and comes out.

inputs      the tensors among the example inputs, by the names of the function's parameters
weights     tensors that the function finds: parameters and buffers by their names in the module, others numbered
outputs     what it returns, then what it assigns to inputs and weights
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from zyx import tree
from zyx.errors import ArgumentError, DTypeError, UnsupportedError, ZyxError
from zyx.functions.operands import is_tensor
from zyx.graph.making import computed_leaf
from zyx.graph.node import Leaf
from zyx.graph.walk import topological
from zyx.io.onnx.export.lengths import FreeExtent
from zyx.jit.numbers import Numbers
from zyx.pairs import lower
from zyx.runtime.runtime import current
from zyx.runtime.tracing import Tracing
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zyx.graph.node import Node
    from zyx.io.onnx.export.lengths import Lengths
    from zyx.jit.numbers import Use

#: What is part of the function, and no input.
_SETTINGS: Final = (bool, int, float, str)
#: How often a function is traced for all lengths: one at which it is traced may be another size by chance.
_TURNS: Final = 2


@runtime_checkable
class HasParameters(Protocol):
    """A module, which knows the names of its tensors."""

    def named_parameters(self) -> Iterable[tuple[str, Any]]:
        """Yield names and parameters."""

    def named_buffers(self) -> Iterable[tuple[str, Any]]:
        """Yield names and other tensors."""


@dataclass
class Recorded:
    """What a function does.

    Attributes:
        inputs: Leaves by name.
        weights: Leaves by name, with their values.
        outputs: Nodes by name.
        assigned: The names of inputs and weights that get new values, with the nodes of these.
        uses: Leaves for numbers that follow lengths.
        lengths: The name of each length that a call gives, with the input and the axis where it is found.
        names: Of axes of inputs, by the input and the axis.
    """

    inputs: dict[str, Leaf]
    weights: dict[str, tuple[Leaf, npt.NDArray[Any]]] = field(default_factory=dict)
    outputs: dict[str, Node] = field(default_factory=dict)
    assigned: dict[str, Node] = field(default_factory=dict)
    uses: Sequence[Use] = ()
    lengths: dict[str, tuple[str, int]] = field(default_factory=dict)
    names: dict[tuple[str, int], str] = field(default_factory=dict)


@dataclass
class Arguments:
    """What a function is called with.

    Attributes:
        args: By position, tensors and settings in lists, tuples and dicts.
        kwargs: By name.
        tensors: The tensors among them by their names, in order.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: dict[str, Tensor]


def arguments_of(function: Callable[..., Any], inputs: object) -> Arguments:
    """Return the example inputs as arguments, arrays as tensors.

    Raises:
        DTypeError: An input is neither a tensor, nor an array, nor a setting.
        ArgumentError: Two have one name.
    """
    by_name: Mapping[str, Any] = inputs if isinstance(inputs, dict) else {}
    given = () if by_name or inputs == {} else tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    named = [*zip(_names(function, len(given)), given, strict=True), *by_name.items()]
    found: list[tuple[str, Tensor]] = []
    values = [_taken(value, name, found) for name, value in named]
    twice = [name for name, count in Counter(name for name, _ in found).items() if count > 1]
    if twice:
        raise ArgumentError(f"onnx.save: names of inputs are given twice: {', '.join(twice)}")
    kwargs = dict(zip(by_name, values[len(given) :], strict=True))
    return Arguments(tuple(values[: len(given)]), kwargs, dict(found))


def _names(function: Callable[..., Any], count: int) -> Iterator[str]:
    """Yield a name for each positional argument."""
    number = 0
    try:
        parameters = [*inspect.signature(getattr(function, "forward", function)).parameters.values()]
    except (TypeError, ValueError):  # a builtin has none
        parameters = []
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and number < count:
            yield parameter.name
            number += 1
    yield from (f"input_{place}" for place in range(number, count))


def _taken(value: Any, name: str, found: list[tuple[str, Tensor]]) -> Any:  # noqa: ANN401  # whatever functions take
    """Return an argument with tensors in place of arrays, and append these with their names."""
    if is_tensor(value) or isinstance(value, np.ndarray | np.generic):
        tensor = value if is_tensor(value) else Tensor(value)
        if tensor.dtype.is_complex:
            raise DTypeError(
                f"onnx.save: input {name!r} is {tensor.dtype}; give its two parts, as zyx.view_as_real does"
            )
        found.append((name, tensor))
        return tensor
    inside = tree.parts(value)
    if inside is None:
        if not isinstance(value, _SETTINGS):
            raise DTypeError(
                f"onnx.save: input {name!r} is of type {type(value).__name__}; inputs are tensors and arrays, also in "
                "lists, tuples and dicts, and numbers and texts, which become part of the network"
            )
        return value
    return tree.rebuilt(value, [_taken(part, f"{name}.{key}", found) for key, part in inside])


def record(function: Callable[..., Any], arguments: Arguments, lengths: Lengths) -> Recorded:
    """Return what a function does with arguments.

    Raises:
        UnsupportedError: It depends on a length that is to be given with the call.
        DTypeError: It returns what is no tensor.
        TraceError: It does what cannot be traced, such as reading a value.
    """
    if not lengths.examples:
        return _record(function, arguments, lengths, None)
    limits: list[str] = []
    for turn in range(_TURNS):
        extent = FreeExtent(lengths.made_at(turn), Numbers(frozenset()), lengths)
        try:
            found = _record(function, arguments, lengths, extent)
        except ZyxError as error:
            error.add_note(f"while it was traced for dynamic lengths, at {extent.described()}")
            raise
        finally:
            limits.append(extent.limit())
            extent.is_traced = False
        if not limits[-1]:
            return found
    raise UnsupportedError(f"onnx.save: the function depends on a length that is to be dynamic: {limits[0]}")


def _record(
    function: Callable[..., Any], arguments: Arguments, lengths: Lengths, extent: FreeExtent | None
) -> Recorded:
    runtime = current()
    tracing = Tracing(runtime, None if extent is None else lengths.shapes(arguments.tensors, extent))
    with runtime.traced_by(tracing):
        args, kwargs = tree.map(
            lambda leaf: tracing.argument(leaf) if is_tensor(leaf) else leaf, (arguments.args, arguments.kwargs)
        )
        result = function(*args, **kwargs)
        outputs = {name: tensor.node for name, tensor in _outputs(result).items()}
        tracing.check_grads()
    inputs = dict(zip(arguments.tensors, [argument.leaf for argument in tracing.arguments], strict=True))
    recorded = Recorded(inputs, outputs=outputs)
    _take_weights(recorded, function, tracing)
    for name, argument in zip(arguments.tensors, tracing.arguments, strict=True):
        if argument.is_assigned:
            recorded.assigned[name] = argument.placeholder._node
    tracing.finish()
    _make_real(recorded)
    if extent is not None:
        recorded.uses = extent.numbers.uses
        for place, name in lengths.names.items():
            recorded.lengths.setdefault(name, place)
        recorded.names = dict(lengths.names)
    return recorded


def _outputs(result: object) -> dict[str, Tensor]:
    """Return what a function returned, by names: keys of dicts, numbers in lists and tuples."""
    found: dict[str, Tensor] = {}

    def look(value: object, name: str) -> None:
        inside = tree.parts(value)
        if inside is not None:
            for key, part in inside:
                look(part, _below(name, key))
        elif is_tensor(value):
            found[name or "output"] = value
        else:
            raise DTypeError(f"onnx.save: the function returns a {type(value).__name__}; outputs are tensors")

    look(result, "")
    return found


def _below(name: str, key: object) -> str:
    if isinstance(key, str):
        return f"{name}.{key}" if name else key
    return f"{name or 'output'}_{key}"


def _take_weights(recorded: Recorded, function: object, tracing: Tracing) -> None:
    """Note the tensors that were found outside, and what was assigned to them."""
    modules = [function, *tracing.watched.values()]
    names: dict[int, str] = {}
    for module in modules:
        if isinstance(module, HasParameters):
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                names.setdefault(id(tensor), name)
    taken = {*recorded.inputs}
    found = {number: handle for number, (handle, _) in tracing.captured.items()}
    found |= {number: handle for number, (handle, _) in tracing.assigned.items()}
    numbered = 0
    called: dict[int, str] = {}
    for number in found:
        base = names.get(number, f"tensor_{numbered}")
        numbered += number not in names
        name, count = base, 1
        while name in taken:
            name, count = f"{base}_{count}", count + 1
        taken.add(name)
        called[number] = name
    runtime = tracing._runtime
    with runtime.traced_by(None):
        for number, (handle, leaf) in tracing.captured.items():
            recorded.weights[called[number]] = leaf, Tensor.of(handle._node, runtime).numpy()
    for number, (_, node) in tracing.assigned.items():
        if number not in tracing.captured or tracing.captured[number][1] is not node:
            recorded.assigned[called[number]] = node
    for place, (leaf, buffer) in enumerate(tracing.constants):
        name = f"constant_{place}"
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        values = Tensor.of(computed_leaf(leaf, buffer), runtime)
        recorded.weights[name] = leaf, values.numpy()


def _make_real(recorded: Recorded) -> None:
    """Put pairs of real numbers in place of complex ones, which runtimes do not have."""
    wanted = [*recorded.outputs.values(), *recorded.assigned.values()]
    order = topological(wanted)
    if not any(node.dtype.is_complex for node in order):
        return
    outputs = [*recorded.outputs, *recorded.assigned]
    complex_ones = [name for name, node in zip(outputs, wanted, strict=True) if node.dtype.is_complex]
    if complex_ones:
        raise DTypeError(f"onnx.save: outputs are complex: {complex_ones}; return zyx.view_as_real(...) of them")
    leaves = [node for node in order if isinstance(node, Leaf)]
    lowered = lower(wanted, leaves)
    real = dict(zip(leaves, lowered.leaves, strict=True))
    new = iter(lowered.outputs)
    recorded.outputs = {name: next(new) for name in recorded.outputs}
    recorded.assigned = {name: next(new) for name in recorded.assigned}
    recorded.inputs = {name: real.get(leaf, leaf) for name, leaf in recorded.inputs.items()}  # type: ignore[misc]
    for name, (leaf, array) in recorded.weights.items():
        new_leaf = real.get(leaf, leaf)
        if new_leaf.shape != leaf.shape:
            array = np.ascontiguousarray(array)[..., None].view(leaf.dtype.part.numpy)
        recorded.weights[name] = new_leaf, array  # type: ignore[assignment]
