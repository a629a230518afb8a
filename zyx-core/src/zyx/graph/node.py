"""The nodes of the lazy graph.

    Const       a scalar, repeated over a shape
    Iota        the coordinate along one axis
    Leaf        data in memory, or an input of a traced function
    Reshape     same elements in row-major order, other shape
    Expand      repeat axes of size 1
    Permute     reorder axes
    Pad         put a value around
    Shrink      cut a box out
    Flip        reverse axes
    Slide       out[.., o, .., k] = in[.., o * stride + k * dilation, .., k]: windows
    Unslide     the inverse of Slide; positions that no window touches are 0
    Unary       one operand, element by element
    Binary      two operands of one shape and dtype, element by element
    Where       choose between two operands by a third, without arithmetic
    Cast        convert values
    Bitcast     reinterpret bits, same size
    Reduce      combine along axes, which keep size 1
    Scan        running combination along one axis (inclusive)
    Gather      out[i] = data[i with i[axis] := index[i]]
    Scatter     out = base; out[i with i[axis] := index[i]] (op)= updates[i]
    RandomBits  counter-based random words
    Contiguous  the same values, in a buffer of their own
    ToDevice    the same values, elsewhere
    Alias       the same values, as a node of its own; gradients pass it or, if detached, end there
    Custom      one output of a kernel that a user wrote

A node never changes, except that `storage` is set once its values lie in memory; from then on whatever reads the node
reads that. `Graph` makes the nodes, equal ones only once, and checks them; do not call the constructors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx.ops import BinaryOp, ReduceOp, UnaryOp
    from zyx.shape import Shape


# Slotted but not frozen: a frozen one takes 0.4 us to make instead of 0.15, and a training step makes thousands.
@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Node:
    """What all nodes have.

    Attributes:
        shape: Sizes of the result.
        dtype: Element type of the result.
        device: Name of the device that holds or computes the result.
        sources: The nodes read, in order.
        depth: Length of the longest path to a node with storage.
        storage: The buffer with the values, once there is one; its type is the runtime's business.
    """

    shape: Shape
    dtype: DType
    device: str
    sources: tuple[Node, ...]
    depth: int = field(default=0, init=False)
    storage: object | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.dtype.short}{list(self.shape)} on {self.device}>"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def attributes(self) -> tuple[object, ...]:
        """What distinguishes the node from others of its class with the same sources, shape and dtype."""
        return ()


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Const(Node):
    """`value` everywhere."""

    value: Scalar

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.value.hex() if isinstance(self.value, float) else self.value,)  # 0.0 is not -0.0; NaN is NaN


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Iota(Node):
    """The coordinate along `axis`, as an integer type."""

    axis: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis,)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Leaf(Node):
    """Data in `storage`; without storage, an input that is bound when a traced function is called.

    Attributes:
        history_lost: Whether the values were computed from other nodes that are forgotten.
    """

    history_lost: bool = False


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Reshape(Node):
    """The same elements in row-major order under another shape."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Expand(Node):
    """Axes of size 1 repeated to the sizes of `shape`."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Permute(Node):
    """Axis i of the result is axis ``order[i]`` of the source."""

    order: tuple[int, ...]

    @property
    def attributes(self) -> tuple[object, ...]:
        return self.order


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Pad(Node):
    """``widths[i]`` = (before, after) more elements, each `value`, along axis i."""

    widths: tuple[tuple[int, int], ...]
    value: Scalar

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.widths, self.value.hex() if isinstance(self.value, float) else self.value)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Shrink(Node):
    """``bounds[i]`` = (start, stop) kept along axis i."""

    bounds: tuple[tuple[int, int], ...]

    @property
    def attributes(self) -> tuple[object, ...]:
        return self.bounds


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Flip(Node):
    """`axes` reversed."""

    axes: tuple[int, ...]

    @property
    def attributes(self) -> tuple[object, ...]:
        return self.axes


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Slide(Node):
    """Element (o, k) along (`axis`, `window`) is element (o * stride + k * dilation, k) of the source."""

    axis: int
    window: int
    stride: int
    dilation: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.window, self.stride, self.dilation)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Unslide(Node):
    """Element (o * stride + k * dilation, k) along (`axis`, `window`) is element (o, k) of the source; others are 0."""

    axis: int
    window: int
    stride: int
    dilation: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.window, self.stride, self.dilation)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Unary(Node):
    """`op` of each element."""

    op: UnaryOp

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op,)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Binary(Node):
    """`op` of each pair of elements."""

    op: BinaryOp

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op,)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Where(Node):
    """Sources (condition, x, y): x where the condition holds, else y."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Cast(Node):
    """Each value converted to `dtype`, by the rules of `zyx.ops`."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Bitcast(Node):
    """Each element's bits read as `dtype`, which has the same size."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Reduce(Node):
    """All elements along `axes` combined; these axes have size 1 in the result."""

    op: ReduceOp
    axes: tuple[int, ...]

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op, self.axes)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Scan(Node):
    """Element i along `axis` combines elements 0 to i of the source."""

    op: ReduceOp
    axis: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op, self.axis)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Gather(Node):
    """Sources (data, index): indexed reads along `axis`. Negative indices count from the end; outside reads give 0."""

    axis: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis,)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Scatter(Node):
    """Sources (base, index, updates): indexed writes along `axis`.

    Updates are applied in row-major order, replacing (`op` None) or combining. Negative indices count from the end;
    writes outside are dropped.
    """

    axis: int
    op: ReduceOp | None

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.op)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class RandomBits(Node):
    """Source (state): element i is word ``state counter + offset + i`` of the stream that the state's key names.

    The generator is Threefry-2x32 with 20 rounds, see `zyx.schedule.threefry`; `state` is uint32[4]: key, counter (low
    words first). A uint32 word is the exclusive or of the two words of the block, a uint64 word both of them.
    """

    offset: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.offset,)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Contiguous(Node):
    """The source's values in a dense buffer of their own."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class ToDevice(Node):
    """The source's values on `device`."""


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Alias(Node):
    """The source's values. To whatever computes it is the source; only gradients tell the two apart.

    Attributes:
        detached: Whether gradients end here. If not, the node equals no other one, not even an alias of the same
            source: a place of its own for gradients to be taken at.
    """

    detached: bool

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.detached,)


@dataclass(slots=True, eq=False, weakref_slot=True, repr=False)
class Custom(Node):
    """Output number `output` of `kernel`, a hand-written kernel that is given the sources."""

    kernel: object
    output: int

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.kernel, self.output)


Movement: TypeAlias = Reshape | Expand | Permute | Pad | Shrink | Flip | Slide | Unslide
Elementwise: TypeAlias = Unary | Binary | Where | Cast | Bitcast
