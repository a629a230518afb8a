"""Put saved values into tensors that are there: check everything, then take everything over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.errors import StateError
from zyx.functions.ingest import node_from_data
from zyx.functions.operands import is_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.graph import Node
    from zyx.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of the names.

    Attributes:
        loaded: Taken over.
        missing: Wanted, but not saved.
        unexpected: Saved, but not wanted.

    >>> layer = zyx.nn.Linear(2, 1)
    >>> layer.load_state_dict({"weight": zyx.ones(1, 2)}, strict=False).missing
    ('bias',)
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    @property
    def missing_keys(self) -> list[str]:
        """`missing`, as PyTorch calls it."""
        return list(self.missing)

    @property
    def unexpected_keys(self) -> list[str]:
        """`unexpected`, as PyTorch calls it."""
        return list(self.unexpected)


def load_into(
    targets: Mapping[str, Tensor], state: Mapping[str, object], what: str, *, strict: bool = True
) -> LoadReport:
    """Let each of `targets` stand for what `state` has under its name, in the target's dtype and place.

    Raises:
        StateError: Shapes differ, or with `strict`, names. Then nothing was changed.
    """
    loaded = [name for name in targets if name in state]
    missing = [name for name in targets if name not in state]
    unexpected = [name for name in state if name not in targets]
    problems = []
    if strict:
        problems += [f"{len(missing)} missing: {', '.join(missing)}"] if missing else []
        problems += [f"{len(unexpected)} unexpected: {', '.join(unexpected)}"] if unexpected else []
    nodes: dict[str, Node] = {}
    for name in loaded:
        nodes[name] = node = _node(state[name], targets[name])
        wanted = targets[name].node.shape
        if node.shape != wanted:
            problems.append(f"{name} is {node.shape} and should be {wanted}")
    if problems:
        advice = "; strict=False takes over what fits by name" if strict and (missing or unexpected) else ""
        raise StateError(f"saved values do not fit {what}: {'; '.join(problems)}{advice}")
    for name, node in nodes.items():
        targets[name].runtime.assign(targets[name], node)
    if nodes:
        tensors = [targets[name] for name in nodes]
        tensors[0].runtime.realize(tensors)
    return LoadReport(tuple(loaded), tuple(missing), tuple(unexpected))


def _node(value: object, target: Tensor) -> Node:
    """Return `value` in the dtype and place of `target`."""
    runtime, old = target.runtime, target.node
    node = value.node if is_tensor(value) else node_from_data(value, None, old.device, runtime)
    fitting = runtime.graph.to_device(runtime.graph.cast(node, old.dtype), old.device)
    return runtime.graph.alias(runtime.graph.detach(fitting))  # gradients at the target are none at the source
