"""Parts of tensors, one in each process.

    shard(x, mesh, {0: "data"})         10 rows in 4 processes: 3, 3, 3 and 1; 5 rows: 2, 2, 1 and 0
    unshard(part, mesh, {0: "data"}, shape=(10, 4))

Of n rows each of p processes has ``ceil(n / p)``, the last ones what is left, perhaps none: so PyTorch's
``fully_shard`` divides, too. With a border of zeros behind the last row, parts are of one shape, as messages must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from zyx import shape as shapes
from zyx.distributed.operations import all_gather
from zyx.errors import ArgumentError, ShapeError
from zyx.functions.joining import pad
from zyx.functions.operands import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.distributed.group import Group
    from zyx.distributed.mesh import Mesh
    from zyx.tensor.tensor import Tensor

__all__ = ["shard", "unshard"]

Axes: TypeAlias = "Mapping[int, str] | Sequence[str | None]"


def shard(x: Tensor, mesh: Mesh, axes: Axes) -> Tensor:
    """Return this process' part of `x`, which every process has; nothing is exchanged.

    Args:
        x: Of one shape in all processes, and of the same values, if the parts are to be those of one tensor.
        mesh: The processes.
        axes: Which axes of `x` are divided along which axes of the mesh, such as ``{0: "data"}``; or one for each axis
            of `x`, with None for those that are whole, ``("data", None)``. Along other axes of the mesh parts are the
            same.

    Returns:
        Places ``rank * n`` to ``(rank + 1) * n`` of each such axis, with n its length divided by the number of
        processes and rounded up: fewer in the last ones, perhaps none. Gradients at other places are 0.

    Raises:
        AxisError: `x` has no such axis.
        ArgumentError: An axis of the mesh for two axes of `x`, or more of them than `x` has.
        InvalidArgumentError: The mesh has no such axis.

    >>> mesh = zyx.distributed.Mesh({"data": -1})
    >>> zyx.distributed.shard(zyx.ones((5, 2)), mesh, {0: "data"}).shape
    (5, 2)
    """
    tensor = require(x, "shard")
    for axis, name in _named("shard", axes, len(tensor.shape)).items():
        tensor = cut(tensor, axis, mesh.group(name))
    return tensor


def unshard(x: Tensor, mesh: Mesh, axes: Axes, shape: Sequence[int] | None = None) -> Tensor:
    """Return the tensor that has the parts which all processes give: what `shard` divided.

    Args:
        x: This process' part.
        mesh: The processes.
        axes: As `shard` was given them.
        shape: Of the whole. None says that all parts are of one shape.

    Returns:
        The whole, in each process. Its gradient in each is the sum of those of all, at this part.

    Raises:
        AxisError, ArgumentError, InvalidArgumentError: As `shard` does.
        ShapeError: `x` is no part of something of that shape.
        CollectiveError: Parts differ in shape where no `shape` is given, or a process does not come.

    >>> mesh = zyx.distributed.Mesh({"data": -1})
    >>> zyx.distributed.unshard(zyx.ones((5, 2)), mesh, ("data", None), shape=(5, 2)).shape
    (5, 2)
    """
    tensor = require(x, "unshard")
    named = _named("unshard", axes, len(tensor.shape))
    lengths = [tensor.shape[axis] * (mesh.size(named[axis]) if axis in named else 1) for axis in range(tensor.ndim)]
    wanted = tuple(lengths) if shape is None else shapes.as_shape(shape)
    groups = {axis: mesh.group(name) for axis, name in named.items()}
    parts = [bounds(length, groups[axis]) if axis in groups else (0, length) for axis, length in enumerate(wanted)]
    if tensor.shape != tuple(stop - start for start, stop in parts):
        raise ShapeError(f"unshard: {tensor.shape} is no part of {wanted} along {named} of {mesh!r}")
    for axis, group in groups.items():
        tensor = joined(tensor, axis, group, wanted[axis])
    return tensor


def bounds(length: int, group: Group) -> tuple[int, int]:
    """Return where this process' part of an axis begins and ends.

    >>> from zyx.distributed.group import Group
    >>> [bounds(5, Group(rank, 4)) for rank in range(4)]
    [(0, 2), (2, 4), (4, 5), (5, 5)]
    """
    step = -(-length // group.size)
    return min(group.rank * step, length), min((group.rank + 1) * step, length)


def cut(x: Tensor, axis: int, group: Group) -> Tensor:
    """Return this process' part of `x` along an axis; of a group of one, `x`."""
    if group.size == 1:
        return x
    start, stop = bounds(x.shape[axis], group)
    return x[(*[slice(None)] * axis, slice(start, stop))]


def padded(x: Tensor, axis: int, group: Group, length: int) -> Tensor:
    """Return a part of an axis of `length` with a border of zeros, by which all parts are of one length."""
    missing = -(-length // group.size) - x.shape[axis]
    return pad(x, [(0, missing if each == axis else 0) for each in range(x.ndim)]) if missing else x


def joined(x: Tensor, axis: int, group: Group, length: int) -> Tensor:
    """Return the axis of `length` that the processes have the parts of."""
    if group.size == 1:
        return x
    whole = all_gather(padded(x, axis, group, length), axis, group)
    return whole[(*[slice(None)] * axis, slice(0, length))]


def _named(what: str, axes: Any, ndim: int) -> dict[int, str]:  # noqa: ANN401  # what users give
    """Return the axes of the mesh by those of the tensor."""
    if isinstance(axes, str):
        raise ArgumentError(f"{what}: axes are a dict of axes to names, or one name for each axis, not {axes!r}")
    listed = list(axes.items()) if isinstance(axes, Mapping) else list(enumerate(axes))
    named: dict[int, str] = {}
    for axis, name in listed:
        if name is None:
            continue
        place = shapes.normalize_axis(axis, ndim)
        if place in named or name in named.values():
            raise ArgumentError(f"{what}: {axes!r} divides an axis twice, or two axes along {name!r}")
        named[place] = name
    return named
