"""Layers of which each process computes a part: what PyTorch and Megatron-LM call tensor parallelism.

    dist.parallelize(model, mesh, {"*.q_proj": "columns", "*.o_proj": "rows", "*.up": "columns", "*.down": "rows"})

    x   ->  columns of the weights of `up`   ->  a part of the features  ->  rows of those of `down`  ->  sum over all
    whole            no message                                                                          one all_reduce

By columns and rows of ``x @ W``, that is by output and by input features:

    Linear      "columns"     takes what is whole and gives this process' part of the output features
                "gathered"    the same, and puts the parts together: for the last layer of a network
                "rows"        takes a part of the input features and gives what is whole; the bias is added once
    Embedding   "columns"     looks up parts of rows and puts them together
                "rows"        has a part of the table, and adds up what the processes find

Shoeybi et al., "Megatron-LM", 2019: https://arxiv.org/abs/1909.08053. What lies between columns and rows sees a part
of the features: attention with ``x.reshape(n, length, -1, head_width)`` has a part of the heads then.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from zyx.distributed.conjugates import put_together, spread, summed
from zyx.distributed.layouts import divide, layout_of
from zyx.distributed.sharding import bounds
from zyx.errors import ArgumentError, DTypeError, InvalidArgumentError, ShapeError, StateError
from zyx.nn.embedding import Embedding
from zyx.nn.linear import Linear
from zyx.nn.module import Module
from zyx.nn.parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.distributed.group import Group
    from zyx.distributed.mesh import Mesh
    from zyx.tensor.tensor import Tensor

__all__ = ["parallelize"]


def parallelize(module: Module, mesh: Mesh, rules: Mapping[str, str], axis: str = "model") -> Module:
    """Divide layers in `module` among the processes along an axis of the mesh.

    The parameters of these layers stand for parts afterwards, ``in_features``, ``out_features`` and shapes are those of
    the parts, and calling them exchanges what is needed, also on the way back: each process takes the gradient of the
    same loss, and gets that of its parts. All other parameters have the gradients that they have in one process. Make
    optimisers afterwards, and call `fully_shard` afterwards, for other axes of the mesh.

    Args:
        module: Has the same values in all processes along `axis`, and is given the same there.
        mesh: The processes.
        rules: How layers are divided, see the module, by patterns of their names as `fnmatch` has them: ``*`` stands
            for any text. The first that fits counts.
        axis: Of the mesh.

    Returns:
        `module`.

    Raises:
        InvalidArgumentError: A pattern that fits no layer, or only such as earlier ones fit; or there is no such rule,
            or axis of the mesh.
        ArgumentError: A rule for something that is no Linear and no Embedding, or an Embedding with a `padding_idx` by
            rows.
        ShapeError: A number of features that the processes cannot divide equally.
        StateError: A layer was divided before, or shares a parameter with one outside of the rules.
        DTypeError: `module` is no module. After any of these nothing has changed.

    >>> mesh = zyx.distributed.Mesh({"model": -1})
    >>> net = zyx.nn.Sequential(zyx.nn.Linear(3, 8), zyx.nn.ReLU(), zyx.nn.Linear(8, 2))
    >>> _ = zyx.distributed.parallelize(net, mesh, {"0": "columns", "2": "rows"})
    >>> net(zyx.ones((1, 3))).shape
    (1, 2)
    """
    if not isinstance(module, Module):
        raise DTypeError(f"parallelize takes a module, not {type(module).__name__}")
    group = mesh.group(axis)
    layers = _chosen(module, rules)
    for name, layer, rule in layers:
        _check(name, layer, rule, group)
    _check_shared(module, layers)
    if group.size > 1:
        for _, layer, rule in layers:
            _divide(layer, rule, group)
    return module


def _chosen(module: Module, rules: Mapping[str, str]) -> list[tuple[str, Module, str]]:
    """Return the layers that rules fit, with their names and rules."""
    found = []
    unused = dict.fromkeys(rules)
    for name, layer in module.named_modules():
        pattern = next((pattern for pattern in rules if fnmatchcase(name, pattern)), None)
        if pattern is not None:
            unused.pop(pattern, None)
            found.append((name, layer, rules[pattern]))
    if unused:
        names = [name for name, layer in module.named_modules() if isinstance(layer, Linear | Embedding)]
        raise InvalidArgumentError(
            f"parallelize: {', '.join(map(repr, unused))} fits no layer that earlier patterns leave; there are "
            f"{', '.join(names) or 'none that can be divided'}"
        )
    return found


def _check(name: str, layer: Module, rule: str, group: Group) -> None:
    known = next((rules for kind, rules in _RULES.items() if isinstance(layer, kind)), None)
    if known is None or not isinstance(getattr(layer, "weight", None), Parameter):
        raise ArgumentError(
            f"parallelize: {name!r} is a {type(layer).__name__}; a Linear or an Embedding with parameters is divided"
        )
    if rule not in known:
        raise InvalidArgumentError(
            f"parallelize: the rule of {name!r} is {rule!r}; for a {type(layer).__name__} it is one of "
            f"{', '.join(map(repr, known))}"
        )
    if isinstance(layer, Embedding) and rule == "rows" and layer.padding_idx is not None:
        raise ArgumentError(f"parallelize: {name!r} has a padding_idx, which goes by columns only")
    assert isinstance(layer, Linear | Embedding)
    if layout_of(layer.weight).splits:
        raise StateError(f"parallelize: {name!r} is divided already; call parallelize once, and before fully_shard")
    length = layer.weight.shape[known[rule]]
    if length % group.size:
        raise ShapeError(
            f"parallelize: {name!r} has {length} features to divide by {rule}, which {group.size} processes cannot "
            "divide equally"
        )


def _check_shared(module: Module, layers: list[tuple[str, Module, str]]) -> None:
    """Refuse what would change a parameter under a layer that does not know of it."""
    chosen = {id(layer) for _, layer, _ in layers}
    owners: dict[int, tuple[str, int]] = {}
    for name, layer in module.named_modules():
        for own, member in layer.named_members():
            if not isinstance(member, Parameter):
                continue
            first, holder = owners.setdefault(id(member), (f"{name}.{own}", id(layer)))
            if holder != id(layer) and (holder in chosen or id(layer) in chosen):
                raise StateError(
                    f"parallelize: {first} and {name}.{own} are one parameter, which cannot be divided for one of them"
                )


#: The axis of the weights that each rule divides.
_RULES: Final[dict[type[Module], dict[str, int]]] = {
    Linear: {"columns": 0, "gathered": 0, "rows": 1},
    Embedding: {"columns": 1, "rows": 0},
}


def _divide(layer: Module, rule: str, group: Group) -> None:
    made: _Layer
    if isinstance(layer, Linear):
        divide(layer.weight, _RULES[Linear][rule], group)
        if rule == "rows":
            layer.in_features //= group.size
            made = _LinearByRows(group)
        else:
            made = _LinearByColumns(group, layer.out_features if rule == "gathered" else None)
            layer.out_features //= group.size
            if layer.bias is not None:
                divide(layer.bias, 0, group)
    else:
        assert isinstance(layer, Embedding)
        rows, width = layer.weight.shape
        divide(layer.weight, _RULES[Embedding][rule], group)
        made = _EmbeddingByRows(group, rows) if rule == "rows" else _EmbeddingByColumns(group, width)
    layer.register_forward_pre_hook(made.before)
    layer.register_forward_hook(made.after, always_call=True)


class _Layer:
    """What is done before and after a layer computes its part."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def before(self, layer: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args

    def after(self, layer: Module, args: tuple[Any, ...], result: Tensor | None) -> Tensor | None:
        """Return the result; of a layer that has raised it is None."""
        return result


class _LinearByColumns(_Layer):
    def __init__(self, group: Group, whole: int | None) -> None:
        super().__init__(group)
        self._whole = whole

    def before(self, layer: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (spread(args[0], self.group), *args[1:])

    def after(self, layer: Module, args: tuple[Any, ...], result: Tensor | None) -> Tensor | None:
        if result is None or self._whole is None:
            return result
        return put_together(result, result.ndim - 1, self.group, self._whole)


class _LinearByRows(_Layer):
    """The bias is taken out of its place meanwhile: it belongs to the sum, not to each part."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._biases: list[Tensor | None] = []

    def before(self, layer: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self._biases.append(vars(layer)["bias"])
        vars(layer)["bias"] = None
        return args

    def after(self, layer: Module, args: tuple[Any, ...], result: Tensor | None) -> Tensor | None:
        bias = vars(layer)["bias"] = self._biases.pop()
        if result is None:
            return None
        total = summed(result, self.group)
        return total if bias is None else total + bias


class _EmbeddingByColumns(_Layer):
    def __init__(self, group: Group, width: int) -> None:
        super().__init__(group)
        self._width = width

    def after(self, layer: Module, args: tuple[Any, ...], result: Tensor | None) -> Tensor | None:
        return None if result is None else put_together(result, result.ndim - 1, self.group, self._width)


class _EmbeddingByRows(_Layer):
    def __init__(self, group: Group, rows: int) -> None:
        super().__init__(group)
        self._start, self._stop = bounds(rows, group)
        self._rows = rows
        self._is_mine: list[Tensor] = []

    def before(self, layer: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        indices = args[0]
        places = (indices < 0).where(indices + self._rows, indices)  # from the end, as in a whole table
        is_mine = (places >= self._start).logical_and(places < self._stop)
        self._is_mine.append(is_mine)
        return (is_mine.where(places - self._start, 0), *args[1:])

    def after(self, layer: Module, args: tuple[Any, ...], result: Tensor | None) -> Tensor | None:
        is_mine = self._is_mine.pop()
        if result is None:
            return None
        return summed(is_mine.expand_dims(-1).where(result, 0.0), self.group)
