"""The linear kernel IR: the contract between core and every backend.

A kernel is a list of operations in static single assignment form. An operation's position in the list is the name of
its result, ``%0``, ``%1`` and so on; operands are such positions, and lie before their use in the same or an enclosing
region.

    kernel  := operation*                      params (Define global, Variable) first, then other Defines, then the body
    region  := operation* inside Loop..EndLoop or If..EndIf; the regions nest
    value   := Const | Index | Loop | Load | Unary | Binary | Where | Cast | Bitcast | Mad
               | Vectorize | Devectorize | Shuffle | Swap | Wmma
    effect  := Store | Atomic | Barrier

Meaning. The body runs once for every point of the grid that its `Index` operations span: groups (scope `GROUP`) in any
order and at the same time, the threads of a group (scope `LOCAL`) at the same time, meeting at each `Barrier`. Every
value has a `Type`: a dtype and a number of lanes, 1 for scalars. Arithmetic works lane by lane, as pinned in
`zyx.ops`. Memory is addressed in elements. Three scopes of memory: global (the buffers given at launch), local (one
array a group), register (one array a thread; its elements may be vectors). Local and register memory starts with
undefined values. No two arrays overlap, except that params which are only read may. Nothing is known of buffers other
than what `Define` says.

An operation never changes after it was made.

`zyx.kernel.verify` has the rules, `zyx.kernel.run` the meaning in NumPy, `zyx.kernel.text` and `zyx.kernel.parse` the
text form.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType, Scalar
    from zyx.kernel import text
    from zyx.ops import BinaryOp, ReduceOp, UnaryOp
else:
    text = lazy_import("zyx.kernel.text", globals())

ValueId: TypeAlias = int

_INFINITIES: Final = (float("inf"), -float("inf"))


class Type(NamedTuple):
    """What a value is: `lanes` elements of `dtype`."""

    dtype: DType
    lanes: int = 1

    def __str__(self) -> str:
        return self.dtype.short if self.lanes == 1 else f"{self.dtype.short}x{self.lanes}"


class Memory(enum.Enum):
    """Where an array lies: a launch argument, one a group, or one a thread."""

    GLOBAL = "global"
    LOCAL = "local"
    REGISTER = "register"

    def __repr__(self) -> str:
        return f"Memory.{self.name}"


class Axis(enum.Enum):
    """What a grid axis counts: groups, or threads within a group."""

    GROUP = "group"
    LOCAL = "local"

    def __repr__(self) -> str:
        return f"Axis.{self.name}"


# The operations are not frozen: passes make them by the thousand, and a frozen one takes 0.6 us instead of 0.2.
@dataclass(slots=True, unsafe_hash=True)
class Define:
    """An array.

    Attributes:
        memory: Where it lies. Global ones are launch arguments, in order of appearance.
        dtype: Element type.
        length: Number of elements (not bytes).
        mutable: Whether `Store` and `Atomic` may write to it.
        lanes: For register memory, an element may be a vector of so many lanes.
        is_front: For global memory, whether a launch may give fewer elements, the first one at least. The kernel
            accesses others only as far as numbers of the launch say that they are there.
    """

    memory: Memory
    dtype: DType
    length: int
    mutable: bool = True
    lanes: int = 1
    is_front: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Variable:
    """A scalar launch argument, passed by value."""

    type: Type
    name: str


@dataclass(slots=True, eq=False)
class Const:
    """A literal in all lanes, representable in its dtype. Equality is of bits: 0.0 is not -0.0, and NaN is NaN."""

    value: Scalar
    type: Type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.type == other.type and self.key == other.key

    def __hash__(self) -> int:
        return hash((self.key, self.type))

    def __repr__(self) -> str:
        value = f"float({str(self.value)!r})" if self.value in _INFINITIES or self.value != self.value else self.value
        return f"Const(value={value}, type={self.type!r})"

    @property
    def key(self) -> Scalar | str:
        """What tells values of one type apart."""
        return self.value.hex() if isinstance(self.value, float) else self.value


@dataclass(slots=True, unsafe_hash=True)
class Index:
    """The position on a grid axis, 0 <= value < `size`.

    `number` is 0, 1 or 2; each (axis, number) appears once at most.
    """

    axis: Axis
    number: int
    size: int
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Loop:
    """Run the region up to the matching `EndLoop` for the values 0 to `size` - 1 in turn; the result is that value.

    Where there is an `end`, of the same type, values from it on are left out.
    """

    size: int
    type: Type
    end: ValueId | None = None


@dataclass(slots=True, unsafe_hash=True)
class EndLoop:
    """The end of the innermost open `Loop`."""


@dataclass(slots=True, unsafe_hash=True)
class If:
    """Run the region up to the matching `EndIf` where the scalar bool `condition` holds."""

    condition: ValueId


@dataclass(slots=True, unsafe_hash=True)
class EndIf:
    """The end of the innermost open `If`."""


@dataclass(slots=True, unsafe_hash=True)
class Barrier:
    """All threads of the group arrive before any goes on; their writes to local and global memory are then visible."""


@dataclass(slots=True, unsafe_hash=True)
class Load:
    """``source[index]``, or ``source[index : index + lanes]`` for a vector from global or local memory.

    `mask` is a bool of as many lanes; masked-off lanes are not read and give 0.
    """

    source: ValueId
    index: ValueId
    type: Type
    mask: ValueId | None = None


@dataclass(slots=True, unsafe_hash=True)
class Store:
    """Write `value` to ``target[index]``, or its lanes to ``target[index : index + lanes]``.

    `mask` is a bool of as many lanes; masked-off lanes are not written. `streaming` says that the lines will not be
    read soon and the address is a multiple of the vector's size: a hint.
    """

    target: ValueId
    index: ValueId
    value: ValueId
    mask: ValueId | None = None
    streaming: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Atomic:
    """Combine the scalar `value` into ``target[index]`` by `op` where `mask` holds, indivisibly, in any order."""

    op: ReduceOp
    target: ValueId
    index: ValueId
    value: ValueId
    mask: ValueId | None = None


@dataclass(slots=True, unsafe_hash=True)
class Unary:
    """`op` of `x`."""

    op: UnaryOp
    x: ValueId
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Binary:
    """`op` of `x` and `y`, which have one type; comparisons give bool."""

    op: BinaryOp
    x: ValueId
    y: ValueId
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Where:
    """`x` where `condition` holds, else `y`, lane by lane; the condition has as many lanes, or one."""

    condition: ValueId
    x: ValueId
    y: ValueId
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Cast:
    """`x` converted to the type's dtype."""

    x: ValueId
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Bitcast:
    """The bits of `x` read as another dtype of the same size, lane by lane."""

    x: ValueId
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Mad:
    """``x * y + z`` for floats, rounded once where the device can, else twice; for integers exact."""

    x: ValueId
    y: ValueId
    z: ValueId
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Vectorize:
    """A vector of scalars, one a lane; one scalar named for all lanes makes a broadcast."""

    items: tuple[ValueId, ...]
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Devectorize:
    """Lane number `lane` of `x`."""

    x: ValueId
    lane: int
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Shuffle:
    """Lanes picked from `x` (numbers below its lane count n) and `y` (n and above), which have one type."""

    x: ValueId
    y: ValueId
    lanes: tuple[int, ...]
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Swap:
    """What another thread has as `x`: the one whose number along local axis 0 differs by exclusive or with `distance`.

    So threads swap in pairs, within aligned groups of as many threads as the power of two above `distance`, which run
    in step (`DeviceInfo.subgroup_size`). Nothing is stored, and nobody waits. All threads of the group reach it
    together. Dtypes have 32 or 64 bits.
    """

    x: ValueId
    distance: int
    type: Type

    @property
    def threads(self) -> int:
        """The size of the groups of threads."""
        return 1 << self.distance.bit_length()


@dataclass(slots=True, unsafe_hash=True)
class Wmma:
    """A matrix multiply-accumulate of a warp of 32 threads: ``d = a @ b + c`` for m x k, k x n and m x n fragments.

    Every thread of the warp (threads are numbered along local axis 0) holds a part of each matrix as a vector; which
    part is that of the `mma.sync` instruction of the same dimensions in NVIDIA's PTX manual (9.7.15), row-major a,
    column-major b. `a` and `b` are f16 or bf16, with dimensions (16, 8, 8) and (16, 8, 16); or f32, of which 11
    significant bits take part (TF32), with (16, 8, 4) and (16, 8, 8). `c` and the result are f32. All 32 threads reach
    it together.
    """

    dims: tuple[int, int, int]
    a: ValueId
    b: ValueId
    c: ValueId
    type: Type


Op: TypeAlias = (
    Define | Variable | Const | Index | Loop | EndLoop | If | EndIf | Barrier | Load | Store | Atomic | Unary | Binary
    | Where | Cast | Bitcast | Mad | Vectorize | Devectorize | Shuffle | Swap | Wmma
)  # fmt: skip

Value: TypeAlias = (
    Variable
    | Const
    | Index
    | Loop
    | Load
    | Unary
    | Binary
    | Where
    | Cast
    | Bitcast
    | Mad
    | Vectorize
    | Devectorize
    | Shuffle
    | Swap
    | Wmma
)
Pure: TypeAlias = Const | Unary | Binary | Where | Cast | Bitcast | Mad | Vectorize | Devectorize | Shuffle


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel; equal operations make equal kernels, whatever the name.

    Attributes:
        name: Letters, digits and underscores, for people: it appears in traces and generated source.
        ops: The operations.
    """

    name: str
    ops: tuple[Op, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self.ops == other.ops

    def __hash__(self) -> int:
        return hash(self.ops)

    @property
    def params(self) -> list[Define | Variable]:
        """The launch arguments, in order."""
        return [
            op for op in self.ops if isinstance(op, Variable) or (isinstance(op, Define) and op.memory is Memory.GLOBAL)
        ]

    @property
    def grid(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of the group axes and of the local axes, by axis number; axes that no `Index` names have size 1."""
        sizes: dict[tuple[Axis, int], int] = {(op.axis, op.number): op.size for op in self.ops if isinstance(op, Index)}

        def along(axis: Axis) -> tuple[int, ...]:
            count = max((number + 1 for kind, number in sizes if kind is axis), default=0)
            return tuple(sizes.get((axis, number), 1) for number in range(count))

        return along(Axis.GROUP), along(Axis.LOCAL)

    def __repr__(self) -> str:
        lines = "".join(f"    {op!r},\n" for op in self.ops)
        return f"Kernel({self.name!r}, (\n{lines}))"

    def __str__(self) -> str:
        return text.print_kernel(self)


def operands(op: Op) -> tuple[ValueId, ...]:
    """Return the values that `op` reads, arrays included."""
    return OPERANDS[type(op)](op)


def _none(op: Op) -> tuple[ValueId, ...]:
    return ()


def _x(op: Unary | Cast | Bitcast | Devectorize | Swap) -> tuple[ValueId, ...]:
    return (op.x,)


def _load(op: Load) -> tuple[ValueId, ...]:
    return (op.source, op.index) if op.mask is None else (op.source, op.index, op.mask)


def _store(op: Store | Atomic) -> tuple[ValueId, ...]:
    return (op.target, op.index, op.value) if op.mask is None else (op.target, op.index, op.value, op.mask)


#: For what looks at every operation of a kernel: a call less, or two, than `operands` makes.
OPERANDS: Final[dict[type[Op], Callable[[Any], tuple[ValueId, ...]]]] = {
    Define: _none,
    Variable: _none,
    Const: _none,
    Index: _none,
    Loop: lambda op: () if op.end is None else (op.end,),
    EndLoop: _none,
    If: lambda op: (op.condition,),
    EndIf: _none,
    Barrier: _none,
    Load: _load,
    Store: _store,
    Atomic: _store,
    Unary: _x,
    Binary: attrgetter("x", "y"),
    Where: attrgetter("condition", "x", "y"),
    Cast: _x,
    Bitcast: _x,
    Mad: attrgetter("x", "y", "z"),
    Vectorize: attrgetter("items"),
    Devectorize: _x,
    Shuffle: attrgetter("x", "y"),
    Swap: _x,
    Wmma: attrgetter("a", "b", "c"),
}
