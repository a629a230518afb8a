"""The module of one kernel, while it is written: what the writers of operations share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.kernel.registers import register_arrays
from zyx.render.divisors import divisors
from zyx.render.fences import fenced_barriers
from zyx_backend_vulkan.render_code import Code, parts_of
from zyx_backend_vulkan.spirv_table import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.arithmetic.intervals import Range
    from zyx.kernel.data import Kernel, Type, ValueId
    from zyx_backend_vulkan.render_arrays import Array
    from zyx_backend_vulkan.render_numbers import Numbers
    from zyx_backend_vulkan.target import Target

#: The ids of a value: of vectors of four lanes, and of what is left; of scalars one.
Parts: TypeAlias = "tuple[int, ...]"


class Writer:
    """The module of one kernel.

    Attributes:
        m: The module.
        values: What each operation's result is.
        arrays: The arrays in memory, by the operations that define them.
        slots: The variables that the elements of register arrays are, of which no index varies.
        variables: The register arrays that have these.
        numbers: Where numbers, and addresses, lie.
        needed: What operations are to be divided by, beside what they give.
        quotients: These quotients, by operation and divisor.
        block: Label of the block being written.
        open: What ends the regions that are open: labels, by kind of region.
        local_bytes: Memory that a group shares.
        has_memory_model: Whether the module has Vulkan's memory model, which cooperative matrices come with.
        matrices: The cooperative matrices that values were made into, by block, value and use.
    """

    def __init__(self, kernel: Kernel, target: Target, numbers: Numbers) -> None:
        self.kernel = kernel
        self.ops = kernel.ops
        self.target = target
        self.m = Code(target)
        self.numbers = numbers
        self.values: list[Parts] = [()] * len(kernel.ops)
        self.arrays: dict[ValueId, Array] = {}
        self.slots: dict[tuple[ValueId, int], Parts] = {}
        self.variables = register_arrays(kernel)
        self.m.block_storage = "StorageBuffer" if numbers.is_buffer else "PushConstant"
        self.m.place_of_zero = len(numbers.types)
        self.needed: dict[ValueId, set[int]] = {}
        self.quotients: dict[tuple[ValueId, int], int] = {}
        self._positions: dict[str, int] = {}
        self.block = self.m.start
        self.open: list[tuple[int, ...]] = []
        self.local_bytes = 0
        self.has_memory_model = any(isinstance(op, k.Wmma) for op in kernel.ops)
        self.matrices: dict[tuple[int, ValueId, str], int] = {}

    @cached_property
    def multiples(self) -> Sequence[int]:
        """What each operation's result is known to be a multiple of."""
        return divisors(self.kernel)

    @cached_property
    def fenced(self) -> frozenset[ValueId]:
        """The barriers that pass something on in global memory."""
        return fenced_barriers(self.kernel) if any(isinstance(op, k.Barrier) for op in self.ops) else frozenset()

    @cached_property
    def buffers(self) -> list[ValueId]:
        """The arrays that a launch gives."""
        return [i for i, op in enumerate(self.ops) if isinstance(op, k.Define) and op.memory is k.Memory.GLOBAL]

    @cached_property
    def combined(self) -> set[ValueId]:
        """The arrays that values are combined into."""
        return {op.target for op in self.ops if isinstance(op, k.Atomic)}

    @cached_property
    def ranges(self) -> Sequence[Range | None]:
        """Where each operation's result is known to lie, if that is an integer."""
        return Bounds(self.ops).ranges

    def is_within(self, value: ValueId, end: int) -> bool:
        """Whether an integer is known to be from 0 to `end` - 1."""
        low, high = self.ranges[value] or (0, end)
        return low >= 0 and high < end

    def type_of(self, value: ValueId) -> Type:
        """Return the type of a value."""
        op = self.ops[value]
        assert isinstance(op, k.Value)
        return op.type

    def define_of(self, array: ValueId) -> k.Define:
        """Return the definition of an array."""
        op = self.ops[array]
        assert isinstance(op, k.Define)
        return op

    def position_of(self, builtin: str, axis: int) -> int:
        """Return a position in the grid, as a uint32."""
        m, word = self.m, dtypes.uint32
        vector = self._positions.get(builtin)
        if vector is None:
            type_ = m.of(word, 3)
            variable = m.variable("Input", type_)
            m.decorate(variable, "BuiltIn", NAMES["BuiltIn"][builtin])
            vector = self._positions[builtin] = m.first_value("Load", type_, variable)
        return m.value("CompositeExtract", m.of(word), vector, axis)

    # ---- lanes

    def scalar(self, value: ValueId, lane: int = 0) -> int:
        """Return a lane of a value, as a scalar; that of a scalar is itself."""
        return self.lane(self.values[value], self.type_of(value), lane)

    def lane(self, parts: Parts, type_: Type, lane: int) -> int:
        """Return a lane of the vectors that a value consists of."""
        if type_.lanes == 1:
            return parts[0]
        part, within = 0, lane
        for part, lanes in enumerate(parts_of(type_.lanes)):
            if within < lanes:
                if lanes == 1:
                    return parts[part]
                break
            within -= lanes
        return self.m.value("CompositeExtract", self.m.of(type_.dtype), parts[part], within)

    def joined(self, lanes: Sequence[int], type_: Type) -> Parts:
        """Return the vectors of a value whose lanes are scalars."""
        found, first = [], 0
        for count in parts_of(type_.lanes):
            items = lanes[first : first + count]
            first += count
            found.append(
                items[0] if count == 1 else self.m.value("CompositeConstruct", self.m.of(type_.dtype, count), *items)
            )
        return tuple(found)

    # ---- blocks

    def begin(self, label: int) -> None:
        """Begin a block."""
        self.m.label(label)
        self.block = label

    def branch(self, label: int) -> None:
        """End a block."""
        self.m.do("Branch", label)

    def begin_where(self, condition: int) -> int:
        """Begin a block that runs where a scalar condition holds; return the label of what comes behind."""
        inside, behind = self.m.new(), self.m.new()
        self.m.do("SelectionMerge", behind, 0)
        self.m.do("BranchConditional", condition, inside, behind)
        self.begin(inside)
        return behind

    def end_where(self, behind: int) -> None:
        """End it."""
        self.branch(behind)
        self.begin(behind)
