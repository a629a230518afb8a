"""Processes in a grid whose axes have names.

    mesh = dist.Mesh({"data": 2, "model": 2})       "model" ->    0   1
                                            "data"                0   1     ranks 0 and 1
                                               |                  2   3     ranks 2 and 3

An operation along an axis is one of the group of processes that differ in their place on it alone: of rank 2 along
"model" that of ranks 2 and 3, along "data" that of ranks 0 and 2. The last axis is the one along which ranks are
neighbours: it is for what exchanges most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.distributed.group import Group, init
from zyx.errors import InvalidArgumentError
from zyx.integers import as_index

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Mesh"]


class Mesh:
    """The processes of a group in a grid; see the module. All of them make it, with the same axes.

    Attributes:
        axes: The sizes by the names of the axes, in their order.
        whole: The group of all its processes.

    Raises:
        InvalidArgumentError: Sizes whose product is not the number of processes, several that are -1, or no axis.
        CollectiveError: A process makes another mesh, or does not come.
        UnsupportedError: What carries the data knows only groups of all processes, and a smaller one is needed.

    >>> mesh = zyx.distributed.Mesh({"data": -1, "model": 1})
    >>> mesh.size("data"), mesh.rank("model"), mesh
    (1, 0, Mesh({'data': 1, 'model': 1}))
    """

    def __init__(self, axes: Mapping[str, int], group: Group | None = None) -> None:
        """Put the processes in row-major order.

        Args:
            axes: Sizes by name, each at least 1. One may be -1: what is left of the number of processes.
            group: The processes; None is all.
        """
        self.whole = init() if group is None else group
        self.axes = _sizes(axes, self.whole.size)
        if self.whole.engine is not None:
            self.whole.engine.agree(f"Mesh {self.axes}")
        ranks = np.arange(self.whole.size).reshape(tuple(self.axes.values()))
        place = [int(found[0]) for found in np.nonzero(ranks == self.whole.rank)]
        self._groups: dict[str, Group] = {}
        for number, name in enumerate(self.axes):
            line = ranks[tuple(slice(None) if other == number else at for other, at in enumerate(place))]
            self._groups[name] = self.whole.split(line.tolist())

    def group(self, axis: str) -> Group:
        """Return the group of the processes along `axis` that this one belongs to.

        Raises:
            InvalidArgumentError: There is no such axis.
        """
        if axis not in self._groups:
            raise InvalidArgumentError(f"{self!r} has no axis {axis!r}; there are {', '.join(map(repr, self.axes))}")
        return self._groups[axis]

    def rank(self, axis: str) -> int:
        """Return the place of this process along `axis`, from 0.

        Raises:
            InvalidArgumentError: There is no such axis.
        """
        return self.group(axis).rank

    def size(self, axis: str) -> int:
        """Return the number of processes along `axis`.

        Raises:
            InvalidArgumentError: There is no such axis.
        """
        return self.group(axis).size

    def __repr__(self) -> str:
        return f"Mesh({self.axes})"


def _sizes(axes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return the sizes, with what is left in place of -1."""
    sizes = {name: as_index(size, f"axis {name!r}") for name, size in axes.items()}
    known = math.prod(size for size in sizes.values() if size != -1)
    open_ones = [name for name, size in sizes.items() if size == -1]
    if open_ones and known > 0:
        sizes[open_ones[0]] = count // known
    if not sizes or len(open_ones) > 1 or min(sizes.values()) < 1 or math.prod(sizes.values()) != count:
        raise InvalidArgumentError(
            f"Mesh: {dict(axes)} is no grid of {count} {'process' if count == 1 else 'processes'}: the product of the "
            "sizes, each at least 1 and one of them perhaps -1, is their number"
        )
    return sizes
