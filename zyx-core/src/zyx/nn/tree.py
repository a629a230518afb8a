"""Find what a module has: the tensors and modules among its attributes, and in lists, tuples and dicts there.

    class Net(Module):
        layers = [Linear(2, 3), Linear(3, 1)]     -> "layers.0", "layers.1"
        scales = {"in": Parameter(..)}            -> "scales.in"

Members come in the order in which the attributes were set, and of dicts in their order. Other objects are not looked
into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.nn.parameter import Parameter
from zyx.tensor.tensor import Tensor
from zyx.tree import parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.nn.module import Module

Member: TypeAlias = "Tensor | Module"


def members(value: object, name: str, module_class: type[Module]) -> Iterator[tuple[str, Member]]:
    """Yield the members in `value`, itself or inside of it, with their names, of which the first part is `name`."""
    if isinstance(value, Tensor | module_class):
        yield name, value
    else:
        for key, item in parts(value) or ():
            yield from members(item, f"{name}.{key}", module_class)


def is_buffer(name: str, member: Member) -> bool:
    """Whether a member is saved though it is not trained: a tensor whose name does not begin with an underscore."""
    return isinstance(member, Tensor) and not isinstance(member, Parameter) and not name.startswith("_")
