"""Tables of what a module consists of: its tensors, and its layers with what they give and take."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zyx.autograd.switches import no_grad
from zyx.errors import ArgumentError
from zyx.functions.operands import is_tensor
from zyx.nn.module import Module
from zyx.nn.parameter import Parameter
from zyx.plugins.describe import columns, html_table, size
from zyx.tensor.control import explain_plan
from zyx.tensor.tensor import Tensor
from zyx.tree import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(slots=True)
class LayerRow:
    """A module, as a row of a table.

    Attributes:
        name: In the module that the table is of; empty for that one itself.
        label: The part of it behind the name of the module that it is in.
        kind: Name of its class.
        depth: How many modules it is in.
        parameters: Elements of its own parameters, not those of its parts or of rows above.
        trained: Those of them that require gradients.
        nbytes: Bytes of its own parameters and buffers.
        outputs: Dtype and shape of each tensor that it gave at its last call; None if it was not called.
        output_bytes: Of these.
        calls: How often it was called.
        flops: Operations on floats in its kernels, at most, all calls together, of modules without parts; a
            transcendental function is one. None where that is not known.
    """

    name: str
    label: str
    kind: str
    depth: int
    parameters: int = 0
    trained: int = 0
    nbytes: int = 0
    outputs: list[tuple[str, tuple[int, ...]]] | None = None
    output_bytes: int = 0
    calls: int = 0
    flops: int | None = None


@dataclass(slots=True, repr=False)
class Summary:
    """What `summary` found: print it, or let a notebook show it.

    Attributes:
        layers: The module, and those in it.
        has_flops: Whether operations on floats were counted.
    """

    layers: list[LayerRow] = field(default_factory=list)
    has_flops: bool = False

    @property
    def parameters(self) -> int:
        """Elements of all parameters."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def trained(self) -> int:
        """Elements of the parameters that require gradients."""
        return sum(layer.trained for layer in self.layers)

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters and buffers."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def flops(self) -> int | None:
        """Operations on floats of all layers of which they are known; None if they were not counted."""
        return sum(layer.flops or 0 for layer in self.layers) if self.has_flops else None

    def table(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of text for each layer."""
        is_called = any(layer.calls for layer in self.layers)
        head = ["LAYER", *(["OUTPUT"] if is_called else []), "PARAMETERS", "BYTES"]
        head += ["OUTPUT BYTES"] if is_called else []
        rows = [(*head, *(["FLOP"] if self.has_flops else []))]
        for layer in self.layers:
            label = f"{layer.label}: {layer.kind}" if layer.name else layer.kind
            times = f", {layer.calls} calls" if layer.calls > 1 else ""
            given = " ".join(f"{dtype} {shape}" for dtype, shape in layer.outputs or ())
            cells = [f"{'  ' * layer.depth}{label}{times}", *([given or "-"] if is_called else [])]
            cells += [str(layer.parameters or ""), size(layer.nbytes) if layer.nbytes else ""]
            cells += [size(layer.output_bytes) if layer.outputs is not None else ""] if is_called else []
            cells += [str("" if layer.flops is None else layer.flops)] if self.has_flops else []
            rows.append(tuple(cells))
        return rows

    def totals(self) -> list[str]:
        """Return the lines below the table."""
        lines = [
            f"{self.parameters} parameters, {self.trained} of them trained; with buffers {size(self.nbytes)}",
        ]
        if self.flops is not None:
            lines.append(f"{self.flops} operations on floats, in kernels that compute a layer each")
        return lines

    def __str__(self) -> str:
        return "\n".join([*columns(self.table()), "", *self.totals()])

    __repr__ = __str__  # at a prompt it is looked at

    def _repr_html_(self) -> str:
        return html_table(self.table(), self.totals())


def summary(module: Module, *inputs: Any, flops: bool = False, **named: Any) -> Summary:  # noqa: ANN401  # as it takes
    """Return a table of the layers of a module: dtypes and shapes that they give, parameters, and the bytes of both.

    The module is called as outside of training, without gradients; modes are what they were afterwards. Since tensors
    are lazy, nothing is computed, unless the module reads values. Functions of `zyx.jit` that call it are traced anew.

    Args:
        module: The network, or a part of one.
        inputs: What it is called with; without any, there is no output in the table.
        flops: Whether to count operations on floats of each layer without parts: then values are computed layer by
            layer, and each is compiled by itself. They are what its kernels do on this device, lanes beyond the end of
            a row included; none are known of what a library computes.
        named: What it is called with by name.

    Returns:
        A `Summary`, to be printed or shown by a notebook; its ``layers`` are the rows.

    Raises:
        ArgumentError: `module` is no module; or `flops` is asked for without inputs.

    >>> network = zyx.nn.Sequential(zyx.nn.Linear(4, 8), zyx.nn.ReLU(), zyx.nn.Linear(8, 2))
    >>> zyx.nn.summary(network, zyx.zeros(3, 4))
    LAYER        OUTPUT          PARAMETERS  BYTES  OUTPUT BYTES
    Sequential   float32 (3, 2)                     24 B
      0: Linear  float32 (3, 8)  40          160 B  96 B
      1: ReLU    float32 (3, 8)                     96 B
      2: Linear  float32 (3, 2)  18          72 B   24 B
    <BLANKLINE>
    58 parameters, 58 of them trained; with buffers 232 B
    """
    if not isinstance(module, Module):
        raise ArgumentError(f"summary: a module is wanted, not {type(module).__name__}")
    if flops and not (inputs or named):
        raise ArgumentError("summary: operations are counted of a call; give what the module is called with")
    rows = _rows(module, {})
    found = Summary(has_flops=flops)
    if inputs or named:
        modes = [(part, part.__dict__.get("_training")) for part in module.modules()]
        with ExitStack() as stack:
            for part, mode in modes:
                stack.callback(_set_mode, part, mode)
                stack.enter_context(part.register_forward_hook(_Noting(rows[id(part)], flops=flops)))
                if flops:
                    stack.enter_context(part.register_forward_pre_hook(_computed_first, with_kwargs=True))
            module.eval()
            with no_grad():
                module(*inputs, **named)
    rows = _rows(module, rows)  # as they are now that lazy layers have their parameters
    _count(module, rows)
    found.layers = list(rows.values())
    return found


def _rows(module: Module, known: Mapping[int, LayerRow]) -> dict[int, LayerRow]:
    """Return a row for the module and each in it, by identity; that of `known` where it has one."""
    named = list(module.named_modules())
    names = {name for name, _ in named}
    rows = {}
    for name, part in named:
        cut = name.split(".") if name else []
        outer = [before for end in range(1, len(cut)) if (before := ".".join(cut[:end])) in names]
        label = name.removeprefix(f"{outer[-1]}.") if outer else name
        layer = LayerRow(name, label, type(part).__name__, len(outer) + bool(name))
        rows[id(part)] = known.get(id(part), layer)
    return rows


def _count(module: Module, rows: Mapping[int, LayerRow]) -> None:
    """Write down what tensors the modules have; what several share is of the first."""
    seen: set[int] = set()
    for part in module.modules():
        layer = rows[id(part)]
        for _, tensor in part.named_members():
            if isinstance(tensor, Tensor) and id(tensor) not in seen:
                seen.add(id(tensor))
                layer.nbytes += tensor.nbytes
                if isinstance(tensor, Parameter):
                    layer.parameters += tensor.size
                    layer.trained += tensor.size if tensor.requires_grad else 0


def _set_mode(module: Module, mode: bool | None) -> None:
    """Set the mode of one module alone, which is the class's if it had none of its own."""
    if mode is None:
        module.__dict__.pop("_training", None)
    else:
        module.__dict__["_training"] = mode


def _tensors(value: object) -> list[Tensor]:
    return [each for each in leaves(value) if is_tensor(each)]


def _computed_first(_: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compute what a layer takes, so that the plan of what it gives is its own."""
    for tensor in _tensors((args, kwargs)):
        tensor.realize()


class _Noting:
    """A hook that writes down what a module gave."""

    def __init__(self, layer: LayerRow, *, flops: bool) -> None:
        self._layer, self._flops = layer, flops

    def __call__(self, module: Module, _: tuple[Any, ...], result: object) -> None:
        layer, tensors = self._layer, _tensors(result)
        layer.calls += 1
        layer.outputs = [(str(tensor.dtype), tensor.shape) for tensor in tensors]
        layer.output_bytes = sum(tensor.nbytes for tensor in tensors)
        if self._flops and not module.children() and tensors:
            counted = _flops(explain_plan(*tensors)["steps"])
            layer.flops = None if counted is None else (layer.flops or 0) + counted


def _flops(steps: Sequence[dict[str, Any]]) -> int | None:
    """Return the arithmetic of the launches; None if a library has one of them."""
    launches = [step for step in steps if step["kind"] == "launch"]
    if any("counts" not in step for step in launches):
        return None
    counted: list[int] = [step["counts"]["flops"] for step in launches]
    return sum(counted)


def tensor_table(module: Module) -> str:
    """Return a table of HTML of all parameters and buffers of a module."""
    rows: list[tuple[str, ...]] = [("NAME", "WHAT", "SHAPE", "DTYPE", "DEVICE", "BYTES")]
    total, elements = 0, 0
    for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, tensor in named:
            what = kind if kind == "buffer" or tensor.requires_grad else "parameter, not trained"
            rows.append((name, what, f"{tensor.shape}", str(tensor.dtype), tensor.device, size(tensor.nbytes)))
            total += tensor.nbytes
            elements += tensor.size if kind == "parameter" else 0
    return html_table(rows, [f"{type(module).__name__}: {elements} parameters; with buffers {size(total)}"])
