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
    Unary, Binary  element by element: of one operand, of two of one shape and dtype
    Where       choose between two operands by a third, without arithmetic
    Cast        convert values
    Bitcast     reinterpret bits, same size
    Complex     the complex number of two reals
    Component   the real or the imaginary part of a complex number
    Reduce      combine along axes, which keep size 1
    Scan        running combination along one axis (inclusive)
    Gather      out[i] = data[i with i[axis] := index[i]]
    Scatter     out = base; out[i with i[axis] := index[i]] (op)= updates[i]
    Sort        the places along an axis that put unsigned integers in order
    Fourier     a discrete Fourier transform along one axis, of pairs of real and imaginary parts
    RandomBits  counter-based random words
    Contiguous  the same values, in a buffer of their own
    ToDevice    the same values, elsewhere
    Alias       the same values, as a node of its own; gradients pass it or, if detached, end there
    Custom      one output of a kernel written by hand, or of a function that the host calls

A node never changes, except that `storage` is set once its values lie in memory; from then on whatever reads the node
reads that. `Graph` makes the nodes, equal ones only once, and checks them; do not call the constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.graph.base import AliasRule, Sources
from zyx.graph.base import Node as Node  # noqa: PLC0414  # found here by all who have kinds of nodes

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx.ops import BinaryOp, FourierKind, ReduceOp, UnaryOp
    from zyx.shape import Shape


class Const(Node):
    """`value` everywhere."""

    __slots__ = ("value",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, value: Scalar) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sources = sources
        self.depth = 0
        self.storage = self.reader = None
        self.value = value

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.value.hex() if isinstance(self.value, float) else self.value,)  # 0.0 is not -0.0; NaN is NaN


class _AlongAxis(Node):
    """What kinds have in common that are known by an axis."""

    __slots__ = ("axis",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, axis: int) -> None:
        super().__init__(shape, dtype, device, sources)
        self.axis = axis

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis,)


class Iota(_AlongAxis):
    """The coordinate along `axis`, as an integer type."""

    __slots__ = ()


class Leaf(Node):
    """Data in `storage`; without storage, an input that is bound when a traced function is called.

    Attributes:
        history_lost: Whether the values were computed from other nodes that are forgotten.
        plans: What computes operations on leaves of this shape, dtype and device; the runtime's business, as `storage`.
        history: The node whose values these are, or why that is not kept; see `zyx.runtime.leaves`.
    """

    __slots__ = ("history", "history_lost", "plans")

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, history_lost: bool = False) -> None:
        self.shape = shape
        self.dtype, self.device = dtype, device
        self.sources = sources
        self.depth = 0
        self.storage = self.reader = None
        self.history_lost = history_lost
        self.plans: object | None = None
        self.history: Node | str | None = None


class Reshape(Node):
    """The same elements in row-major order under another shape."""

    __slots__ = ()


class Expand(Node):
    """Axes of size 1 repeated to the sizes of `shape`."""

    __slots__ = ()


class Permute(Node):
    """Axis i of the result is axis ``order[i]`` of the source."""

    __slots__ = ("order",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, order: tuple[int, ...]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sources = sources
        self.depth = 0
        self.storage = self.reader = None
        self.order = order

    @property
    def attributes(self) -> tuple[object, ...]:
        return self.order


class Pad(Node):
    """``widths[i]`` = (before, after) more elements, each `value`, along axis i."""

    __slots__ = ("value", "widths")

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        device: str,
        sources: Sources,
        widths: tuple[tuple[int, int], ...],
        value: Scalar,
    ) -> None:
        super().__init__(shape, dtype, device, sources)
        self.widths = widths
        self.value = value

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.widths, self.value.hex() if isinstance(self.value, float) else self.value)


class Shrink(Node):
    """``bounds[i]`` = (start, stop) kept along axis i."""

    __slots__ = ("bounds",)

    def __init__(
        self, shape: Shape, dtype: DType, device: str, sources: Sources, bounds: tuple[tuple[int, int], ...]
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sources = sources
        self.depth = 0
        self.storage = self.reader = None
        self.bounds = bounds

    @property
    def attributes(self) -> tuple[object, ...]:
        return self.bounds


class Flip(Node):
    """`axes` reversed."""

    __slots__ = ("axes",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, axes: tuple[int, ...]) -> None:
        super().__init__(shape, dtype, device, sources)
        self.axes = axes

    @property
    def attributes(self) -> tuple[object, ...]:
        return self.axes


class _Window(Node):
    """What `Slide` and its inverse have in common: windows along an axis of the source or of the result."""

    __slots__ = ("axis", "dilation", "stride", "window")

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        device: str,
        sources: Sources,
        axis: int,
        window: int,
        stride: int,
        dilation: int,
    ) -> None:
        super().__init__(shape, dtype, device, sources)
        self.axis = axis
        self.window = window
        self.stride = stride
        self.dilation = dilation

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.window, self.stride, self.dilation)


class Slide(_Window):
    """Element (o, k) along (`axis`, `window`) is element (o * stride + k * dilation, k) of the source."""

    __slots__ = ()


class Unslide(_Window):
    """Element (o * stride + k * dilation, k) along (`axis`, `window`) is element (o, k) of the source; others are 0."""

    __slots__ = ()


class _Elementwise(Node):
    """What operations on each element have in common; their constructor calls no other, as most nodes are these."""

    __slots__ = ("op",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, op: UnaryOp | BinaryOp) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sources = sources
        self.depth = 0
        self.storage = self.reader = None
        self.op = op

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op,)


class Unary(_Elementwise):
    """`op` of each element."""

    __slots__ = ()
    op: UnaryOp


class Binary(_Elementwise):
    """`op` of each pair of elements."""

    __slots__ = ()
    op: BinaryOp


class Where(Node):
    """Sources (condition, x, y): x where the condition holds, else y."""

    __slots__ = ()


class Cast(Node):
    """Each value converted to `dtype`, by the rules of `zyx.ops`."""

    __slots__ = ()


class Bitcast(Node):
    """Each element's bits read as `dtype`, which has the same size."""

    __slots__ = ()


class Complex(Node):
    """Sources (real, imaginary), of the type that is `DType.part` of this one's; it lies in memory as NumPy has it."""

    __slots__ = ()


class Component(Node):
    """The real part, or with `is_imaginary` the imaginary part, of each complex element."""

    __slots__ = ("is_imaginary",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, is_imaginary: bool) -> None:
        super().__init__(shape, dtype, device, sources)
        self.is_imaginary = is_imaginary

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.is_imaginary,)


class Reduce(Node):
    """All elements along `axes` combined; these axes have size 1 in the result."""

    __slots__ = ("axes", "op")

    def __init__(
        self, shape: Shape, dtype: DType, device: str, sources: Sources, op: ReduceOp, axes: tuple[int, ...]
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sources = sources
        self.depth = 0
        self.storage = self.reader = None
        self.op = op
        self.axes = axes

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op, self.axes)


class Scan(Node):
    """Element i along `axis` combines elements 0 to i of the source."""

    __slots__ = ("axis", "op")

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, op: ReduceOp, axis: int) -> None:
        super().__init__(shape, dtype, device, sources)
        self.op = op
        self.axis = axis

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.op, self.axis)


class Gather(_AlongAxis):
    """Sources (data, index): indexed reads along `axis`. Negative indices count from the end; outside reads give 0."""

    __slots__ = ()


class Scatter(Node):
    """Sources (base, index, updates): indexed writes along `axis`.

    Updates are applied in row-major order, replacing (`op` None) or combining. Negative indices count from the end;
    writes outside are dropped.
    """

    __slots__ = ("axis", "op")

    def __init__(
        self, shape: Shape, dtype: DType, device: str, sources: Sources, axis: int, op: ReduceOp | None
    ) -> None:
        super().__init__(shape, dtype, device, sources)
        self.axis = axis
        self.op = op

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.op)


class Sort(Node):
    """The first places, int32, in the stable order along `axis` of a source of uint32 or uint64 below ``2**bits``."""

    __slots__ = ("axis", "bits")

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, axis: int, bits: int) -> None:
        super().__init__(shape, dtype, device, sources)
        self.axis = axis
        self.bits = bits

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.bits)


class Fourier(Node):
    """Sources (x, table): `scale` times the discrete Fourier transform of x along an axis, which is of a `kind`.

    Complex numbers are complex; or pairs, ``(outer, n, inner, 2)`` along axis 1, beside real ``(outer, n, inner)``:
    that is what schedules know. Element k is the sum over j of x[j] times ``exp(2 pi i j k / n)``, or of its conjugate
    unless it `is_inverse`. The table has powers of roots of unity in the order of `zyx.graph.fourier`; what it holds is
    no argument of the transform, and is given since a graph has no arrays.
    """

    __slots__ = ("axis", "is_inverse", "kind", "scale")

    def __init__(
        self, shape: Shape, dtype: DType, device: str, sources: Sources,
        axis: int, is_inverse: bool, scale: float, kind: FourierKind,
    ) -> None:  # fmt: skip
        super().__init__(shape, dtype, device, sources)
        self.axis, self.is_inverse, self.scale, self.kind = axis, is_inverse, scale, kind

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.axis, self.is_inverse, self.scale.hex(), self.kind)


class RandomBits(Node):
    """Source (state): element i is word ``state counter + offset + i`` of the stream that the state's key names.

    The generator is Threefry-2x32 with 20 rounds, see `zyx.fusion.threefry`; `state` is uint32[4]: key, counter (low
    words first). A uint32 word is the exclusive or of the two words of the block, a uint64 word both of them.
    """

    __slots__ = ("offset",)

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, offset: int) -> None:
        super().__init__(shape, dtype, device, sources)
        self.offset = offset

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.offset,)


class Contiguous(Node):
    """The source's values in a dense buffer of their own."""

    __slots__ = ()


class ToDevice(Node):
    """The source's values on `device`."""

    __slots__ = ()


class Alias(Node):
    """The source's values. To whatever computes it is the source; only gradients tell the two apart.

    Attributes:
        detached: Whether gradients end here. If not, it equals no other, and has gradients of its own.
        rule, watch: Where gradients go instead of to the source, and who is told of them (`zyx.autograd.watching`).
    """

    __slots__ = ("detached", "rule", "watch")

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, detached: bool) -> None:
        super().__init__(shape, dtype, device, sources)
        self.detached = detached
        self.rule: AliasRule | None = None
        self.watch: object = None

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.detached,)


class Custom(Node):
    """Output number `output` of `kernel`, which is given the sources: one written by hand, or a `HostCall`."""

    __slots__ = ("kernel", "output")

    def __init__(self, shape: Shape, dtype: DType, device: str, sources: Sources, kernel: object, output: int) -> None:
        super().__init__(shape, dtype, device, sources)
        self.kernel = kernel
        self.output = output

    @property
    def attributes(self) -> tuple[object, ...]:
        return (self.kernel, self.output)


Movement: TypeAlias = Reshape | Expand | Permute | Pad | Shrink | Flip | Slide | Unslide
Elementwise: TypeAlias = Unary | Binary | Where | Cast | Bitcast
