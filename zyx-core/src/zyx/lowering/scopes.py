"""Write operations into nested regions, in any order of regions.

`ScopedBuilder` differs from `zyx.kernel.build.Builder` in that an operation may be appended to any region that is still
open: an operation that depends on outer loops only goes into the outer region, in front of the inner loop that is
being written. What was computed once is found again as long as its region is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Kernel, Op, Type, Value, ValueId
from zyx.kernel.rewrite import renumber

if TYPE_CHECKING:
    from collections.abc import Hashable

Region: TypeAlias = "list[ValueId | Region]"

#: Stands for the type of what has no value, such as an array; nobody asks for it.
_NONE: Final = Type(dtypes.bool_, 0)


class ScopedBuilder:
    """Regions under construction. Depth 0 is the body of the kernel; each `open` goes one deeper.

    Value numbers are provisional until `finish`.

    Attributes:
        depth: Depth of the innermost open region.
        type_of: Returns the type of a value.
        depth_of: Returns the depth of the region in which a value is known.
        find: Returns the value that was remembered under a key, if its region is still open, else None.
        floor: Depth of the innermost region that nothing is moved out of, such as a branch that few groups take.
        load_floor: The same for loads, such as those that a branch allows.
    """

    def __init__(self) -> None:
        self.ops: Final[list[Op]] = []
        self._depths: list[int] = []
        self._types: list[Type] = []
        self._arrays: list[ValueId] = []
        self._regions: list[Region] = [[]]
        self._openers: list[ValueId] = []
        self._found: dict[Hashable, ValueId] = {}
        self._keys: list[list[Hashable]] = [[]]
        self.depth = 0
        self.floor = 0
        self.load_floor = 0
        # Asked for at each operation, several times: without a call of Python.
        self.type_of: Final = self._types.__getitem__
        self.depth_of: Final = self._depths.__getitem__
        self.find: Final = self._found.get

    def _append(self, op: Op, depth: int) -> ValueId:
        self.ops.append(op)
        self._depths.append(depth)
        self._types.append(op.type if isinstance(op, Value) else _NONE)
        return len(self.ops) - 1

    def array(self, define: k.Define) -> ValueId:
        """Define an array."""
        return self.param(define)

    def param(self, op: k.Define | k.Variable) -> ValueId:
        """Define what a launch gives. Params come before all arrays."""
        value = self._append(op, 0)
        self._arrays.append(value)
        return value

    def add(self, op: Op, depth: int | None = None) -> ValueId:
        """Append `op` to the innermost region, or to the open region at `depth`, but to none outside of `floor`."""
        depth = self.depth if depth is None else max(depth, self.floor)
        if isinstance(op, k.Load):
            depth = max(depth, self.load_floor)
        value = self._append(op, depth)
        self._regions[depth].append(value)
        return value

    def remember(self, key: Hashable, value: ValueId) -> ValueId:
        """Remember `value` under `key` until the region in which it is known closes, or the branch of a case does.

        In another case the same key may stand for another value.
        """
        self._found[key] = value
        self._keys[max(self._depths[value], self.load_floor)].append(key)
        return value

    def open(self, op: k.Loop | k.If) -> ValueId:
        """Open a region and return the value of its operation."""
        value = self._append(op, self.depth + 1)
        self._openers.append(value)
        self._regions.append([])
        self._keys.append([])
        self.depth += 1
        return value

    def close(self) -> None:
        """Close the innermost region; it takes its place now, behind what went to outer regions meanwhile."""
        opener = self._openers.pop()
        region = self._regions.pop()
        self.depth -= 1
        for key in self._keys.pop():
            self._found.pop(key, None)
        self._regions[-1] += [opener, region]
        self.add(k.EndLoop() if isinstance(self.ops[opener], k.Loop) else k.EndIf())

    def finish(self, name: str) -> Kernel:
        """Return the kernel: arrays, then the body, numbered in order."""
        order: list[ValueId] = list(self._arrays)
        stack: list[tuple[Region, int]] = [(self._regions[0], 0)]
        while stack:
            region, position = stack.pop()
            while position < len(region):
                item = region[position]
                position += 1
                if isinstance(item, list):
                    stack.append((region, position))
                    region, position = item, 0
                else:
                    order.append(item)
        new = [0] * len(self.ops)
        for number, value in enumerate(order):
            new[value] = number
        ops = self.ops
        return Kernel(name, tuple([renumber(ops[value], new) for value in order]))
